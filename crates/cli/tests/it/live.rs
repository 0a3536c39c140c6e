//! What is seen of a call while it runs. The commands wait for a file that a test makes only once it
//! has seen their first line, so what is asserted came before the end.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, ChildStdout},
};

use serde_json::{Value, json};

use crate::{
    mcp::Agent,
    support::{Stage, eventually, wait},
};

/// Commands run without asking and without a sandbox.
const CONFIG: &str = "[policy]\nallow = [\"bash\"]\n[tools.bash]\nsandbox = \"off\"\n";

/// Prints a line, waits for the file `go`, and prints another to standard error.
const COMMAND: &str = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo last >&2";

fn start(stage: &Stage, args: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let mut child = stage.command(args).spawn().unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn line(from: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

fn event(from: &mut BufReader<ChildStdout>) -> Value {
    serde_json::from_str(&line(from)).unwrap()
}

#[test]
fn a_pipe_gets_the_first_line_before_the_call_ends() {
    let stage = Stage::with_config(CONFIG);
    let (mut child, mut stdout) = start(&stage, &["call", "bash", COMMAND]);
    assert_eq!(line(&mut stdout), "first\n");
    stage.write("go", "");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "last\n", "nothing is printed twice");
    assert!(wait(&mut child).success());
}

/// What a pipe gets of long output does not depend on how fast it is read.
#[test]
fn long_output_is_the_same_in_a_pipe_as_in_the_result() {
    let stage = Stage::with_config(CONFIG);
    let call = stage.haft(&["call", "bash", "seq 1 100000"]).ok();
    let lines: Vec<&str> = call.lines().collect();
    assert_eq!((lines[0], *lines.last().unwrap()), ("1", "100000"));
    let gap = lines.iter().position(|line| line.contains("left out …]"));
    let gap = gap.expect("the middle is left out");
    assert!(lines[gap - 1].contains("read_output"), "{}", lines[gap - 1]);
    let printed: usize = call.len();
    assert!(printed < 50_000, "{printed}");
    let counts = |line: &&&str| line.parse::<u32>().is_ok();
    let head = lines.iter().take(gap).filter(counts).count();
    assert!(head > 4_000, "{head}");
}

#[test]
fn json_lines_have_every_event_as_it_happens() {
    let stage = Stage::with_config(CONFIG);
    let (mut child, mut stdout) = start(&stage, &["call", "bash", COMMAND, "--jsonl"]);
    let first = loop {
        let event = event(&mut stdout);
        assert_ne!(event["event"], "settled", "it waits for the file");
        if event["event"] == "output" {
            break event;
        }
    };
    assert_eq!(
        (&first["stream"], &first["text"]),
        (&json!("stdout"), &json!("first\n"))
    );
    stage.write("go", "");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let rest: Vec<Value> = rest
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = rest.last().unwrap();
    assert_eq!(
        (&last["event"], &last["outcome"]),
        (&json!("settled"), &json!("succeeded"))
    );
    let structured = &last["structured"];
    assert_eq!(structured["stdout"], "first\n");
    assert_eq!(structured["stderr"], "last\n");
    assert_eq!(structured["exit_code"], 0);
    assert!(structured["duration_ms"].is_u64(), "{structured}");
    assert!(wait(&mut child).success());
}

#[test]
fn json_lines_have_matches_and_files_as_they_are_found() {
    let stage = Stage::with_config(CONFIG);
    stage.write("src/a.rs", "// needle\n");
    for (tool, pattern, item) in [
        (
            "grep",
            "needle",
            json!({"path": "src/a.rs", "line": 1, "text": "// needle"}),
        ),
        ("find", "*.rs", json!({"path": "src/a.rs", "kind": "file"})),
    ] {
        let printed = stage.haft(&["call", tool, pattern, "--jsonl"]).ok();
        let events: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let at = |kind: &str| events.iter().position(|event| event["event"] == kind);
        let found = at("item").expect("an item");
        assert_eq!(
            (&events[found]["number"], &events[found]["item"]),
            (&json!(1), &item)
        );
        assert!(Some(found) < at("run_ended"), "{events:?}");
        assert_eq!(at("settled"), Some(events.len() - 1));
    }
}

/// The search is in the middle of a long file when its first match is read here: the rest of the file is
/// taken away, and with it the last match, which a search that had ended would have told.
#[test]
fn a_match_is_told_while_the_search_is_in_the_middle_of_a_file() {
    // Every line is a candidate that takes the engine long to refuse.
    const PATTERN: &str = "needle|[ab]*a[ab]{250}[cd]";
    const LINES: usize = 60_000;
    let stage = Stage::with_config(CONFIG);
    let (mut text, mut random) = ("needle\n".to_owned(), 1_u32);
    for _ in 0..LINES {
        for _ in 0..200 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push(if random >> 31 == 0 { 'a' } else { 'b' });
        }
        text.push_str("c\n");
    }
    text.push_str("last needle\n");
    stage.write("long.txt", &text);
    let pattern = format!("pattern={PATTERN}");
    let (mut child, mut stdout) = start(&stage, &["call", "grep", &pattern, "--jsonl"]);
    loop {
        let event = event(&mut stdout);
        assert_ne!(event["event"], "settled", "it has read all of the file");
        if event["event"] == "item" {
            assert_eq!(event["item"]["line"], 1, "{event}");
            break;
        }
    }
    stage.write("long.txt", "");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    let rest: Vec<Value> = rest
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!rest.iter().any(|event| event["event"] == "item"));
    let last = rest.last().unwrap();
    assert_eq!(
        (&last["event"], &last["outcome"]),
        (&json!("settled"), &json!("succeeded"))
    );
    assert_eq!(last["structured"]["results"], 1, "{last}");
    assert!(wait(&mut child).success());
}

#[test]
fn a_running_call_shows_how_far_it_has_got() {
    let stage = Stage::with_config(CONFIG);
    let command = COMMAND.replace("first", "first token=abcdefghijklmnop");
    let (mut child, mut stdout) = start(&stage, &["call", "bash", &command]);
    assert_eq!(line(&mut stdout), "first token=abcdefghijklmnop\n");
    let shown = eventually("the call has noted its progress", || {
        let shown = stage.haft(&["show", "last"]).stdout;
        shown.contains("so far: ").then_some(shown)
    });
    let told = "so far: first token=[redacted], at most ";
    assert!(shown.contains(told), "{shown}");
    stage.write("go", "");
    assert!(wait(&mut child).success());
    let shown = stage.haft(&["show", "last"]).ok();
    assert!(!shown.contains("so far"), "{shown}");
}

/// A client shows the message to its person: the latest line, harmless, without secrets, with the
/// time that is left. The result is the model's own and has the line as it was.
#[test]
fn an_mcp_client_is_told_the_latest_line_before_the_call_ends() {
    let stage = Stage::with_config(CONFIG);
    let wait_for = |file: &str| format!("while [ ! -e {file} ]; do sleep 0.02; done");
    let command = format!(
        "echo token=abcdefghijklmnop; {}; echo first; {}",
        wait_for("one"),
        wait_for("two")
    );
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let parameters = json!({
        "name": "bash",
        "arguments": {"command": command},
        "_meta": {"progressToken": "p"},
    });
    let id = agent.start_request("tools/call", &parameters);
    let mut told = |text: &str| {
        let heard = agent.until(|message| {
            assert_ne!(message["id"], json!(id), "it waits for the files");
            message["method"] == "notifications/progress"
        });
        let message = heard["params"]["message"].as_str().unwrap().to_owned();
        assert!(message.starts_with(text), "{message}");
        assert!(message.ends_with(" s left)"), "{message}");
    };
    told("token=[redacted] (at most ");
    stage.write("one", "");
    told("first (at most ");
    stage.write("two", "");
    let answer = agent.answer(id);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "token=abcdefghijklmnop\nfirst\n");
    agent.close();
}
