//! AU-09: hostile output never reaches a terminal as it is, and reaches a program exactly.

use serde_json::Value;

use crate::support::Stage;

/// Every byte once, after a first line, as Latin-1 in UTF-8 and with text that lies about itself.
fn hostile() -> String {
    let mut text = String::from("first\n");
    text.extend((1..=255_u8).filter(|byte| *byte != b'\r').map(char::from));
    text.push_str("\u{202e}rtl\u{2066}\u{200b}\u{feff}\n");
    text
}

pub(crate) fn assert_harmless(bytes: &[u8]) {
    let text = String::from_utf8(bytes.to_vec()).expect("UTF-8");
    // What the program itself sends: colours, and what the spinner needs to redraw its line.
    let ours = regex::Regex::new("\u{1b}\\[[0-9;]*[mKGJ]|\u{1b}\\[\\?25[hl]|\u{1b}\\[[0-9]*[A-D]")
        .unwrap();
    let text = ours.replace_all(&text, "");
    for c in text.chars() {
        let kept = matches!(c, '\n' | '\r' | '\t');
        assert!(kept || !c.is_control(), "{c:?} reached the terminal");
        assert!(
            !matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}' | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'),
            "{c:?} reached the terminal"
        );
    }
}

#[test]
fn au_09_a_terminal_is_shown_escapes_and_a_program_gets_the_text() {
    let stage = Stage::new();
    stage.write("hostile.txt", hostile());
    stage.write("\u{1b}[31mname\u{202e}.txt", "x");
    for args in [
        &["call", "read", "hostile.txt"][..],
        &["call", "list", "path=."],
        &["call", "read", "\u{1b}]0;title\u{7}"],
        &["log"],
        &["show", "last"],
        &["explain", "last"],
        &["show", "last", "--json"],
        &["call", "\u{1b}[2Jx", "\u{9b}y=z"],
    ] {
        let mut terminal = stage.terminal(args);
        terminal.until("\n");
        let (_, screen) = terminal.end();
        assert_harmless(screen.as_bytes());
    }
    let ran = stage.haft(&["call", "read", "hostile.txt", "--json"]).ok();
    let value: Value = serde_json::from_str(&ran).unwrap();
    let text = value["content"][0]["text"].as_str().unwrap();
    assert!(text.contains('\u{202e}'), "a program gets the exact text");
    assert!(
        ran.is_ascii() || !ran.contains('\u{9b}'),
        "spelt so that it is harmless anywhere"
    );
}

#[test]
fn colours_are_for_terminals_and_only_if_wanted() {
    let stage = Stage::new();
    stage.haft(&["call", "list", "path=."]).ok();
    assert!(!stage.haft(&["log"]).ok().contains('\u{1b}'));
    let (_, screen) = stage.terminal(&["log"]).end();
    assert!(screen.contains("\u{1b}["), "{screen:?}");
    let (_, screen) = stage.terminal(&["log", "--color", "never"]).end();
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn long_work_shows_that_it_goes_on_and_leaves_nothing_behind() {
    let stage =
        Stage::with_config("[policy]\nallow = [\"bash(echo working; sleep 1.5; echo done)\"]\n");
    let mut terminal = stage.terminal(&["call", "bash", "echo working; sleep 1.5; echo done"]);
    let before = terminal.until("working");
    assert!(!before.contains("done"), "shown while it runs");
    let (code, screen) = terminal.end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("done"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    use std::io::{BufRead as _, BufReader};
    let stage = Stage::new();
    stage.write("big.txt", "line\n".repeat(20_000));
    let mut child = stage
        .command(&["call", "read", "big.txt", "limit=2000"])
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let ended = crate::support::wait(&mut child);
    assert_eq!(ended.code(), Some(0));
}
