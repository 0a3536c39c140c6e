//! From an empty directory to a governed, recorded, explained call, as the README tells it.

use crate::support::Stage;

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_newcomer_gets_to_a_governed_recorded_explained_call() {
    let stage = Stage::bare();
    stage.write("notes.txt", "buy milk\n");

    let init = stage.haft(&["init"]).ok();
    insta::assert_snapshot!("init", stage.normal(&init));

    // A read is allowed.
    let read = stage.haft(&["call", "read", "notes.txt"]);
    assert!(read.stdout.contains("buy milk"), "{}", read.all());
    assert_eq!(read.code, 0);

    // A command asks, and nobody is there.
    let denied = stage.haft(&["call", "bash", "touch made"]);
    assert!(!stage.exists("made"));
    insta::assert_snapshot!("denied_without_a_person", stage.normal(&denied.fails(3)));

    // Both are on record.
    let log = stage.haft(&["log"]).ok();
    insta::assert_snapshot!("log", stage.normal(&log));

    // And explained.
    let explained = stage.haft(&["explain", "last"]).ok();
    insta::assert_snapshot!("explain_denied", stage.normal(&explained));

    // What the hint says is true: with that line the command runs.
    let config = stage
        .read("haft.toml")
        .replace("\nallow = []", "\nallow = [\"bash(touch made)\"]");
    stage.write("haft.toml", config);
    let changed = stage.haft(&["call", "bash", "touch made"]).fails(7);
    assert!(
        changed.contains("hint: read it, then run `haft trust`"),
        "{changed}"
    );
    stage.haft(&["trust"]).ok();
    stage.haft(&["call", "bash", "touch made"]).ok();
    assert!(stage.exists("made"));
    let explained = stage.haft(&["explain"]).ok();
    insta::assert_snapshot!("explain_allowed", stage.normal(&explained));
    let verified = stage.haft(&["log", "verify"]).ok();
    assert!(verified.starts_with("intact: "), "{verified}");
}
