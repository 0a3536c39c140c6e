//! Questions answered by command: from another process, once, for the plan that was shown.

use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Stage, eventually, wait};

/// A call that waits for an answer, and its question.
struct Waiting {
    call: Child,
    id: String,
    digest: String,
}

impl Waiting {
    fn new(stage: &Stage, path: &str) -> Self {
        let path_word = format!("path={path}");
        let args = [
            "call",
            "write",
            &path_word,
            "content=x",
            "--ask",
            "elsewhere",
        ];
        let call = stage.command(&args).stdin(Stdio::null()).spawn().unwrap();
        let question = eventually("the question is on record", || {
            open(stage)
                .into_iter()
                .find(|question| question["summary"].as_str().unwrap().contains(path))
        });
        let text = |name: &str| question[name].as_str().unwrap().to_owned();
        Self {
            call,
            id: text("question"),
            digest: text("digest"),
        }
    }

    fn end(mut self) -> (i32, String) {
        let code = wait(&mut self.call).code().unwrap();
        let ended = self.call.wait_with_output().unwrap();
        (code, String::from_utf8(ended.stderr).unwrap())
    }
}

fn open(stage: &Stage) -> Vec<Value> {
    let listed = stage.haft(&["approvals", "--jsonl"]).ok();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    listed.lines().map(line).collect()
}

#[test]
fn a_yes_needs_the_digest_of_what_was_shown() {
    let stage = Stage::new();
    let waiting = Waiting::new(&stage, "made.txt");
    let (id, digest) = (waiting.id.clone(), waiting.digest.clone());
    let listed = stage.haft(&["approvals"]).ok();
    assert!(
        listed.contains(&id[..13]) && listed.contains("cli  write writes made.txt"),
        "{listed}"
    );
    // Without a person the question is shown, and the way to answer it is named.
    let shown = stage.haft(&["approve", &id]).fails(2);
    assert!(shown.contains("  +x"), "{shown}");
    assert!(shown.contains(&digest), "{shown}");
    assert!(
        shown.contains(&format!("--yes --digest {}", &digest[..12])),
        "{shown}"
    );
    stage.haft(&["approve", &id, "--yes"]).fails(2);
    stage
        .haft(&["approve", &id, "--yes", "--digest", "ab"])
        .fails(2);
    let other = stage.haft(&["approve", &id, "--yes", "--digest", &"0".repeat(64)]);
    assert!(other.fails(11).contains("a different plan"));
    assert!(!stage.exists("made.txt"));
    // The beginning of the id will do.
    stage
        .haft(&["approve", &id[..20], "--yes", "--digest", &digest[..12]])
        .ok();
    assert_eq!(waiting.end().0, 0);
    assert!(stage.exists("made.txt"));
    // Only the first answer counts.
    let late = stage.haft(&["deny", &id]).fails(11);
    assert!(late.contains("already"), "{late}");
    let late = stage
        .haft(&["approve", &id, "--yes", "--digest", &digest])
        .fails(11);
    assert!(late.contains("already"), "{late}");
    assert!(open(&stage).is_empty());
}

#[test]
fn a_no_tells_the_agent_why() {
    let stage = Stage::new();
    let waiting = Waiting::new(&stage, "made.txt");
    let refused = stage.haft(&["deny", &waiting.id, "--reason", "not on a Sunday", "--json"]);
    let answered: Value = serde_json::from_str(&refused.ok()).unwrap();
    assert_eq!(answered["state"], "refused");
    let (code, told) = waiting.end();
    assert_eq!(code, 3, "{told}");
    assert!(told.contains("ada refused: not on a Sunday"), "{told}");
    assert!(!stage.exists("made.txt"));
}

#[test]
fn several_questions_are_told_apart() {
    let stage = Stage::new();
    let first = Waiting::new(&stage, "first.txt");
    let second = Waiting::new(&stage, "second.txt");
    assert_eq!(open(&stage).len(), 2);
    let several = stage.haft(&["deny", &first.id[..4]]).fails(10);
    assert!(several.contains("the beginning of 2 ids"), "{several}");
    let none = stage.haft(&["deny", "ffffffff"]).fails(10);
    assert!(none.contains("`haft approvals` lists"), "{none}");
    let none = stage.haft(&["deny", "00000000-0000-7000-8000-000000000000"]);
    none.fails(10);
    stage.haft(&["deny", &first.id]).ok();
    stage.haft(&["deny", &second.id]).ok();
    assert_eq!(first.end().0, 3);
    assert_eq!(second.end().0, 3);
}

#[test]
fn who_is_asked_is_chosen() {
    let stage = Stage::new();
    let none = stage.haft(&["call", "write", "path=a", "content=x", "--ask", "here"]);
    assert!(none.fails(2).contains("needs a person at a terminal"));
    let mut terminal = stage.terminal(&["call", "write", "path=a", "content=x", "--ask", "never"]);
    terminal.until("nobody to ask");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
    assert!(!screen.contains("[y/N]"), "{screen}");
    assert!(open(&stage).is_empty(), "no question is left behind");
    let none = stage.haft(&["approvals", "--watch"]).fails(2);
    assert!(none.contains("needs a terminal"), "{none}");
}

#[test]
fn ap_06_what_a_call_runs_answers_no_question() {
    let haft = env!("CARGO_BIN_EXE_haft");
    let stage =
        Stage::with_config("[policy]\nallow = [\"bash\"]\n\n[tools.bash]\nsandbox = \"off\"\n");
    let data = stage.home.join(".local/share/haft");
    for (command, why) in [
        (
            format!("{haft} approve 0 --data-dir {}", data.display()),
            "started by a call",
        ),
        // Without the mark there are still its parents.
        (
            format!("env -i HOME={} {haft} deny 0; true", stage.home.display()),
            "one of its parents is Haft",
        ),
        (
            format!(
                "env -i HOME={} {haft} approvals --watch; true",
                stage.home.display()
            ),
            "one of its parents is Haft",
        ),
    ] {
        let ran = stage.haft(&["call", "bash", &command]);
        assert!(ran.all().contains(why), "{}", ran.all());
        assert!(
            ran.all()
                .contains("answering, granting and trusting are not allowed from within a call"),
            "{}",
            ran.all()
        );
    }
}
