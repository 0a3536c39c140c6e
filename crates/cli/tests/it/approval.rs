//! Asking a person in a real terminal, and saying truthfully when there is none.

use serde_json::json;

use crate::support::Stage;

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_person_sees_the_whole_plan_and_says_yes() {
    let stage = Stage::new();
    let mut terminal = stage.terminal(&["call", "bash", "touch made"]);
    let question = terminal.until("[y/N]");
    for part in [
        "bash  ",
        "touch made",
        "cli · main · ",
        "in a sandbox; no network",
        "asked because ",
        "no rule allows running `touch made` (preset careful)",
        "y allow once · a always… · n deny · r deny and say why · d details",
    ] {
        assert!(question.contains(part), "{part:?} is missing in {question}");
    }
    // What only an auditor needs is behind a key.
    for part in ["sha256", "\"command\"", "haft.toml"] {
        assert!(!question.contains(part), "{part:?} in {question}");
    }
    terminal.types("d\n");
    let details = terminal.until_times("[y/N]", 2);
    for part in [
        "builtin/bash",
        "t2: a sandbox of namespaces, Landlock and seccomp; no network",
        "agent cli for ada in session main (main)",
        "sha256 ",
        "add \"bash(touch made)\" to `allow` under [policy] in haft.toml",
    ] {
        assert!(details.contains(part), "{part:?} is missing in {details}");
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
#[ignore = "ci: needs bubblewrap"]
fn a_person_sees_what_confines_a_call_and_what_does_not() {
    for (config, shown) in [
        (
            "[tools.bash]\nsandbox = \"off\"\n",
            "without a sandbox: it can do whatever you can",
        ),
        (
            "[tools.bash]\nsandbox = \"basic\"\n",
            "in a sandbox; no network",
        ),
        (
            "[sandbox.network]\nallow = [\"docs.rs\"]\ndeny = [\"x.docs.rs\"]\n",
            "of the network docs.rs, but not x.docs.rs",
        ),
    ] {
        let stage = Stage::with_config(&format!("[policy]\n{config}"));
        let mut terminal = stage.terminal(&["call", "bash", "touch made"]);
        let question = terminal.until("[y/N]");
        assert!(
            question.contains(shown),
            "{shown:?} is missing in {question}"
        );
        terminal.types("n\n");
        terminal.end();
    }
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
#[ignore = "ci: needs bubblewrap"]
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
        question.contains("⟨ESC⟩[2J⟨ESC⟩[1;1Hharmless⟨CR⟩x ⟨U+202E⟩txet⟨U+200B⟩⟨U+009B⟩31m"),
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

#[test]
#[ignore = "ci: needs bubblewrap"]
fn ap_08_a_command_cannot_draw_a_question() {
    let stage = Stage::new();
    let fake = "read  README.md\nasked because nothing\ny allow once · a always… · n deny [y/N] ";
    let command = format!("touch made #\n\n{fake}\n''\n\"\"\n{fake}");
    let mut terminal = stage.terminal(&[
        "call",
        "bash",
        "--json",
        &json!({"command": command}).to_string(),
    ]);
    // The script may draw the words, but not the whole of the prompt at the end.
    let mut screen = terminal.until("d details [y/N]");
    let colours = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    screen = colours.replace_all(&screen, "").into_owned();
    let lines: Vec<&str> = screen.lines().collect();
    let starting = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!(starting("asked because"), 1, "{screen}");
    assert_eq!(starting("y allow once"), 1, "{screen}");
    assert_eq!(starting("read  "), 0, "{screen}");
    // Every line of the script stands behind a margin of ours.
    assert_eq!(starting("  │ asked because nothing"), 2, "{screen}");
    let script = lines
        .iter()
        .position(|line| line.starts_with("bash  a script of 10 lines"));
    let script = script.unwrap_or_else(|| panic!("{screen}"));
    let rest = lines.iter().skip(script + 1);
    let after_who = rest.copied().find(|line| !line.starts_with("by  "));
    assert_eq!(after_who, Some("  │ touch made #"), "{screen}");
    terminal.types("n\n");
    assert_eq!(terminal.end().0, 3);
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn ap_09_a_line_end_and_its_escape_look_different() {
    let stage = Stage::new();
    let shown = |command: &str| {
        let mut terminal = stage.terminal(&[
            "call",
            "bash",
            "--json",
            &json!({"command": command}).to_string(),
        ]);
        let question = terminal.until("[y/N]");
        terminal.types("n\n");
        assert_eq!(terminal.end().0, 3);
        let colours = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
        let question = colours.replace_all(&question, "").into_owned();
        let heart = question.split("bash  ").nth(1).unwrap();
        heart.split("command ").next().unwrap().to_owned()
    };
    let (two_lines, one_line) = (shown("touch a\nb"), shown(r"touch a\nb"));
    assert!(one_line.starts_with(r"touch a\nb"), "{one_line}");
    assert!(two_lines.contains("a script of 2 lines"), "{two_lines}");
    assert!(two_lines.contains("│ touch a\r\n"), "{two_lines}");
    assert!(two_lines.contains("│ b\r\n"), "{two_lines}");
}

#[test]
fn ap_13_what_is_typed_ahead_answers_no_question_that_was_not_there() {
    const CALLS: usize = 3;
    const TYPED: usize = 8;
    // A reader that runs ahead wins the race only now and then.
    for _ in 0..8 {
        let stage = Stage::new();
        let calls: String = (0..CALLS)
            .map(|number| {
                let input = json!({"path": format!("made-{number}"), "content": "x"});
                json!({"tool": "write", "arguments": input}).to_string() + "\n"
            })
            .collect();
        stage.write("calls.jsonl", calls);
        let mut terminal = stage.terminal(&["batch", "calls.jsonl"]);
        terminal.until("[y/N]");
        terminal.types(&"y\n".repeat(TYPED));
        for asked in 2..=CALLS {
            terminal.until_times("[y/N]", asked);
            terminal.types("n\n");
        }
        let (_, screen) = terminal.end();
        let made = (0..CALLS)
            .filter(|number| stage.exists(&format!("made-{number}")))
            .count();
        assert_eq!(made, 1, "{screen}");
    }
}

#[test]
fn a_no_with_a_reason_reaches_the_agent() {
    let stage = Stage::new();
    let mut terminal = stage.terminal(&["call", "write", "path=made", "content=x"]);
    terminal.until("[y/N]");
    terminal.types("what?\n");
    terminal.until("Please answer y, a, n, r or d.");
    terminal.types("r\n");
    terminal.until("Why not?");
    terminal.types("another time\n");
    let (code, screen) = terminal.end();
    assert_eq!(code, 3, "{screen}");
    assert!(screen.contains("ada refused: another time"), "{screen}");
    assert!(!stage.exists("made"));
}
