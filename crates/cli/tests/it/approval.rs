//! Asking a person in a real terminal, and saying truthfully when there is none.

use serde_json::json;

use crate::support::Stage;

#[test]
fn a_person_sees_the_whole_plan_and_says_yes() {
    let stage = Stage::new();
    let mut terminal = stage.terminal(&["call", "bash", "touch made"]);
    let question = terminal.until("[y/N]");
    for part in [
        "Haft asks you about a call",
        "builtin/bash",
        "touch made",
        "host: no sandbox; it can do whatever you can",
        "agent cli for ada in session main (main)",
        "preset `careful` asks",
        "sha256 ",
        "add \"bash(touch made)\" to `allow` under [policy] in haft.toml",
    ] {
        assert!(question.contains(part), "{part:?} is missing in {question}");
    }
    assert!(!stage.exists("made"));
    terminal.types("y\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(stage.exists("made"));
    let explained = stage.json(&["explain", "--json"]);
    assert_eq!(explained["decision"]["verdict"], "ask");
    assert_eq!(explained["approval"]["answer"], "approved");
    assert_eq!(explained["approval"]["by"], "ada");
}

#[test]
fn no_and_silence_are_no() {
    let stage = Stage::new();
    for answer in ["n\n", "\n"] {
        let mut terminal = stage.terminal(&["call", "write", "path=made", "content=x"]);
        terminal.until("[y/N]");
        terminal.types(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, 3, "{screen}");
        assert!(!stage.exists("made"));
    }
    let explained = stage.json(&["explain", "--json"]);
    assert_eq!(explained["approval"]["answer"], "refused");
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let stage = Stage::new();
    let mut terminal = stage.terminal(&["call", "write", "path=made", "content=x"]);
    terminal.types("y\n");
    terminal.until("[y/N]");
    // Had the early `y` counted, the file would be written and this `n` would come too late.
    terminal.types("n\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
    assert!(!stage.exists("made"));
}

#[test]
fn ctrl_c_at_the_question_stops_the_call() {
    let stage = Stage::new();
    let mut terminal = stage.terminal(&["call", "write", "path=made", "content=x"]);
    terminal.until("[y/N]");
    terminal.types("\u{3}");
    let (code, screen) = terminal.end();
    assert_eq!(code, 5, "{screen}");
    assert!(!stage.exists("made"));
    assert_eq!(stage.json(&["show", "--json"])["outcome"], "cancelled");
}

#[test]
fn hostile_input_cannot_dress_up_the_question() {
    let stage = Stage::new();
    let command = "echo \u{1b}[2J\u{1b}[1;1Hharmless\rx \u{202e}txet\u{200b}\u{9b}31m";
    let mut terminal = stage.terminal(&[
        "call",
        "bash",
        "--json",
        &json!({"command": command}).to_string(),
    ]);
    let question = terminal.until("[y/N]");
    for character in ['\u{202e}', '\u{200b}', '\u{9b}'] {
        assert!(
            !question.contains(character),
            "{character:?} reached the terminal"
        );
    }
    assert!(!question.contains("\u{1b}[2J"));
    assert!(
        question.contains("\\x1b[2J\\x1b[1;1Hharmless\\rx \\u{202e}txet\\u{200b}\\x9b31m"),
        "{question}"
    );
    terminal.types("n\n");
    assert_eq!(terminal.end().0, 3);
}

#[test]
fn without_a_person_the_denial_says_what_would_allow_it() {
    let stage = Stage::new();
    let denied = stage.haft(&["call", "edit", "path=a.txt", "old_string=x", "new_string=y"]);
    let error = denied.fails(3);
    assert!(error.contains("there is nobody to ask"), "{error}");
    assert!(
        error.contains(
            "add \"edit(a.txt)\" to `allow` under [policy] in haft.toml, then run `haft trust`"
        ),
        "{error}"
    );
    // What no allow line can change is not promised.
    let denied = stage.haft(&["call", "write", "path=.git/hooks/post-commit", "content=x"]);
    let error = denied.fails(3);
    assert!(!error.contains("to `allow`"), "{error}");
}
