//! The watch screen in a real terminal, from a call that asks to the decision.

use crate::{
    support::{Stage, eventually},
    tmux::{Tmux, Window},
};

/// A call that waits in one window, and the watch screen that shows it in another.
fn waiting<'s>(stage: &'s Stage, content: &str) -> (Tmux<'s>, Window, Window) {
    let mut tmux = Tmux::new(stage);
    let content = format!("content={content}");
    let call = [
        "call",
        "write",
        "path=made.txt",
        &content,
        "--ask",
        "elsewhere",
    ];
    let call = tmux.haft(&call);
    tmux.until(call, "haft approve");
    let watch = tmux.haft(&["approvals", "--watch"]);
    tmux.until(watch, "1 question is waiting");
    (tmux, call, watch)
}

/// Presses y, which shows what has not been seen yet until all of it has, and then answers.
fn allow(tmux: &Tmux<'_>, watch: Window) {
    eventually("the answer is taken", || {
        tmux.press(watch, &["y"]);
        // A yes counts only after the question has stood for a moment.
        std::thread::sleep(std::time::Duration::from_millis(350));
        tmux.screen(watch).contains("approved:").then_some(())
    });
}

#[test]
#[ignore = "ci: needs tmux"]
fn a_question_is_seen_looked_at_and_allowed() {
    let stage = Stage::new();
    let (tmux, call, watch) = waiting(&stage, "hello");
    let list = tmux.until(watch, "made.txt");
    assert!(list.contains("cli  write writes made.txt"), "{list}");
    tmux.press(watch, &["Enter"]);
    // A screen may be caught while it is being drawn, so the last line is waited for.
    let question = tmux.until(watch, "asked because no rule allows");
    assert!(
        question.contains("Haft asks you about a call"),
        "{question}"
    );
    assert!(
        question.contains("write  made.txt (new file)"),
        "{question}"
    );
    assert!(question.contains("  +hello"), "{question}");
    assert!(!question.contains("sha256"), "{question}");
    tmux.press(watch, &["d"]);
    tmux.until(watch, "sha256");
    tmux.press(watch, &["d"]);
    assert!(!stage.exists("made.txt"));
    allow(&tmux, watch);
    assert_eq!(tmux.ended(call), 0, "{}", tmux.screen(call));
    assert_eq!(stage.read("made.txt"), "hello");
    tmux.until(watch, "no questions are waiting");
    tmux.press(watch, &["q"]);
    assert_eq!(tmux.ended(watch), 0);
    assert_eq!(tmux.about(watch, "alternate_on"), "0");
    let explained = stage.json(&["explain", "--json"]);
    assert_eq!(explained["approval"]["answer"], "approved");
    assert_eq!(explained["approval"]["by"], "ada");
}

#[test]
#[ignore = "ci: needs tmux"]
fn a_question_is_refused_with_a_reason() {
    let stage = Stage::new();
    let (tmux, call, watch) = waiting(&stage, "hello");
    tmux.press(watch, &["Enter"]);
    tmux.until(watch, "Haft asks you about a call");
    tmux.press(watch, &["r"]);
    tmux.until(watch, "Why not?");
    tmux.types(watch, "use notes.txt instead?");
    tmux.until(watch, "Why not? use notes.txt instead?");
    tmux.press(watch, &["Enter"]);
    tmux.until(watch, "refused:");
    assert_eq!(tmux.ended(call), 3, "{}", tmux.screen(call));
    assert!(!stage.exists("made.txt"));
    let told = tmux.screen(call);
    assert!(
        told.contains("ada refused: use notes.txt instead?"),
        "{told}"
    );
}

#[test]
#[ignore = "ci: needs tmux"]
fn ap_08_a_long_question_is_scrolled_to_its_end_before_it_is_allowed() {
    let stage = Stage::new();
    let lines: Vec<String> = (0..60).map(|line| format!("line {line}")).collect();
    let (tmux, call, watch) = waiting(&stage, &lines.join("\n"));
    tmux.press(watch, &["Enter"]);
    tmux.until(watch, "not all seen");
    tmux.press(watch, &["y"]);
    tmux.until(watch, "have not seen all of it yet");
    assert!(tmux.runs(call));
    tmux.press(watch, &["G"]);
    tmux.until(watch, "+line 59");
    allow(&tmux, watch);
    assert_eq!(tmux.ended(call), 0, "{}", tmux.screen(call));
}

#[test]
#[ignore = "ci: needs tmux"]
fn the_screen_follows_its_size_and_is_given_back_when_it_is_told_to_end() {
    let stage = Stage::new();
    let (mut tmux, call, watch) = waiting(&stage, "hello");
    tmux.press(watch, &["Enter"]);
    tmux.until(watch, "write  made.txt (new file)");
    for (columns, rows) in [("60", "15"), ("40", "10"), ("120", "40")] {
        tmux.tmux(&["resize-window", "-t", ":1", "-x", columns, "-y", rows]);
        eventually("the keys are on the last line", || {
            let screen = tmux.screen(watch);
            let height: usize = rows.parse().unwrap();
            let last = screen.lines().nth(height - 1)?.to_owned();
            last.starts_with("y allow once").then_some(())
        });
    }
    let colour = regex::Regex::new("\u{1b}\\[[0-9;]*(38;5;[0-9]+|3[0-7])m").unwrap();
    assert!(
        colour.is_match(&tmux.coloured(watch)),
        "{}",
        tmux.coloured(watch)
    );
    let plain = tmux.run(&["NO_COLOR=1"], &["approvals", "--watch"]);
    tmux.until(plain, "1 question is waiting");
    tmux.press(plain, &["Enter"]);
    tmux.until(plain, "  +hello");
    assert!(
        !colour.is_match(&tmux.coloured(plain)),
        "{}",
        tmux.coloured(plain)
    );
    let process = tmux.process(watch);
    assert_eq!(tmux.about(watch, "alternate_on"), "1");
    let ended = std::process::Command::new("kill")
        .args(["-TERM", &process])
        .status();
    assert!(ended.unwrap().success());
    tmux.ended(watch);
    assert_eq!(tmux.about(watch, "alternate_on"), "0");
    // Leaving is no answer.
    assert!(tmux.runs(call));
}

#[test]
#[ignore = "ci: needs tmux"]
fn a_question_at_a_terminal_can_be_answered_elsewhere() {
    let stage = Stage::new();
    let mut tmux = Tmux::new(&stage);
    let call = tmux.haft(&["call", "write", "path=made.txt", "content=x"]);
    tmux.until(call, "[y/N]");
    let question = stage.json(&["approvals", "--jsonl"]);
    let id = question["question"].as_str().unwrap();
    let digest = question["digest"].as_str().unwrap();
    stage
        .haft(&["approve", id, "--yes", "--digest", &digest[..12]])
        .ok();
    assert_eq!(tmux.ended(call), 0, "{}", tmux.screen(call));
    let told = tmux.screen(call);
    assert!(told.contains("no longer asked here"), "{told}");
    assert!(stage.exists("made.txt"));
}

#[test]
#[ignore = "ci: needs tmux"]
fn another_terminal_shows_the_question_before_it_takes_a_yes() {
    let stage = Stage::new();
    let mut tmux = Tmux::new(&stage);
    let call = [
        "call",
        "write",
        "path=made.txt",
        "content=x",
        "--ask",
        "elsewhere",
    ];
    let call = tmux.haft(&call);
    tmux.until(call, "haft approve");
    let id = stage.json(&["approvals", "--jsonl"])["question"].clone();
    let id = id.as_str().unwrap();
    let answering = tmux.haft(&["approve", id]);
    let question = tmux.until(answering, "Allow this one call? [y/N]");
    assert!(question.contains("  +x"), "{question}");
    tmux.press(answering, &["Enter"]);
    tmux.until(answering, "left open");
    assert_eq!(tmux.ended(answering), 11);
    let answering = tmux.haft(&["approve", id]);
    tmux.until(answering, "Allow this one call? [y/N]");
    tmux.press(answering, &["y", "Enter"]);
    tmux.until(answering, "approved");
    assert_eq!(tmux.ended(answering), 0);
    assert_eq!(tmux.ended(call), 0, "{}", tmux.screen(call));
}

/// What an agent asks is on the same screen, and no key that answers an approval answers it.
#[test]
#[ignore = "ci: needs tmux"]
fn a_question_of_an_agent_is_answered_on_the_watch_screen() {
    let stage = Stage::with_config(
        "[policy]\npreset = \"careful\"\nallow = [\"clarify\"]\n[tools.clarify]\ntype = \"clarify\"\n",
    );
    let mut tmux = Tmux::new(&stage);
    let input = r#"{"question": "Which colour?", "options": ["red", "blue"], "allow_other": true}"#;
    let asking = ["call", "clarify", input, "--ask", "elsewhere"];
    let first = tmux.haft(&asking);
    let watch = tmux.haft(&["approvals", "--watch"]);
    tmux.until(watch, "asks you: Which colour?");
    tmux.press(watch, &["Enter"]);
    let shown = tmux.until(watch, "2  blue");
    assert!(shown.contains("it allows nothing"), "{shown}");
    tmux.press(watch, &["y"]);
    tmux.until(watch, "this is not an approval");
    assert!(tmux.runs(first));
    eventually("the number counts", || {
        // It does only after the question has stood for a moment.
        tmux.press(watch, &["2"]);
        let screen = tmux.screen(watch);
        screen.contains("no questions are waiting").then_some(())
    });
    assert_eq!(tmux.ended(first), 0, "{}", tmux.screen(first));
    assert!(
        tmux.screen(first).contains("blue"),
        "{}",
        tmux.screen(first)
    );

    let second = tmux.haft(&asking);
    tmux.until(watch, "asks you: Which colour?");
    tmux.press(watch, &["Enter"]);
    tmux.until(watch, "2  blue");
    tmux.press(watch, &["Enter"]);
    tmux.until(watch, "Answer: ");
    tmux.types(watch, "yes, but green");
    tmux.until(watch, "Answer: yes, but green");
    tmux.press(watch, &["Enter"]);
    assert_eq!(tmux.ended(second), 0, "{}", tmux.screen(second));
    let said = tmux.screen(second);
    assert!(said.contains("yes, but green"), "{said}");
    assert_eq!(
        stage.json(&["grants", "list", "--json"]),
        serde_json::json!([])
    );
}
