//! Reads the tree and fails on names that a search cannot find and on phrases no native speaker
//! would write. A type is a noun that says what it is: eleven types called `Place` are found by
//! nobody.
//!
//! It must not judge grammar; it only keeps what was once mended from coming back. Read next:
//! `CONTRIBUTING.md`, "Words".

use crate::tidy::{report, rust_files, strip_tests, tree};

/// What no type is called by itself. With a noun beside it, most of them are fine: `HeldLocks`.
const REFUSED_TYPES: &str = "
    About Absences After Against Aside Asked Asking Asks At Bare Beat Before Begins
    Belongings Beside Both Busy Carried Changing Counted Covers Creating Decided Described
    Desk Done Door Drawn Dressed Ended Ends Entered Feeding Fetched Fits Fitting Followed
    Found Full Garbled Gathered Given Grip Ground Guarded Handed Happened Heard Hears Held
    Hold Hooked House Housekeeping How Into Judged Keep Keeping Kept Knows Known Lapsed
    Lasting Lead Leading Left Letters Life Listed Listening Live Loaded Look Looker Lost
    Luggage Make Maker Marked May Missed Missing Named Need News Next Noted Nothing Noticed
    Now Offered Offers On Ongoing Open Opened Opening Parked Past Peeked Pinned Place Places
    Planned Posted Prepared Present Printed Quiet Ran Reach Reaches Reading Ready Reaped
    Received Refused Remains Remembered Repeated Resolved Rest Room Said Seen Served Serving
    Shared Shown Shows Sorted Sought Stand Standing Started Starting Stayed Staying Stock
    Stopped Stored Stray Subscribed Supervised Taken Takes Then To Told Touched Touching
    Travelling Tried Turned Unopened Unplaced Unplanned Unread Unseen Unshown Used Uses
    Usual Validated Vetted Visited Voice Waited Waiting Waits Wanted Watched Way Went What
    Who Whose Why Wired Wish Worked Writing Written
";

/// What no source file is called.
const REFUSED_FILES: &str = "
    after ago agree asking attend beside conduct desk dress hear lead life look luggage past
    remembered standing whose wish
";

/// Phrases of the dialect that this house once wrote in, and what to write instead. In lower case.
const REFUSED_PHRASES: &[(&str, &str)] = &[
    ("whence", "say where it comes from"),
    ("to be had", "available"),
    ("otherwise than", "differently from"),
    ("by whose word", "say who decides"),
    ("for want of", "because there is no"),
];

#[test]
fn types_have_names_that_a_search_finds() {
    let mut problems = Vec::new();
    for file in rust_files().filter(|file| file.path.contains("/src/")) {
        for (index, line) in strip_tests(&file.text).lines().enumerate() {
            if let Some(name) = declared_type(line).filter(|name| listed(REFUSED_TYPES, name)) {
                problems.push(format!("{} (about line {}): {name}", file.path, index + 1));
            }
        }
    }
    report(&problems, "Call the type by a noun that says what it is.");
}

#[test]
fn source_files_have_names_that_a_search_finds() {
    let problems: Vec<String> = rust_files()
        .map(|file| file.path)
        .filter(|path| path.contains("/src/"))
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or_default();
            listed(REFUSED_FILES, name.trim_end_matches(".rs"))
        })
        .collect();
    report(&problems, "Call the file by the noun it is about.");
}

#[test]
fn nothing_is_written_in_the_old_dialect() {
    let own = "testkit/tests/it/vocabulary.rs";
    let mut problems = Vec::new();
    for file in tree().into_iter().filter(|file| !file.path.ends_with(own)) {
        for (index, line) in file.text.lines().enumerate() {
            let line = line.to_lowercase();
            for (phrase, instead) in REFUSED_PHRASES {
                if line.contains(phrase) {
                    let at = format!("{}:{}", file.path, index + 1);
                    problems.push(format!("{at}: `{phrase}`: {instead}"));
                }
            }
        }
    }
    report(&problems, "Subject, verb, object, in the reader's words.");
}

fn listed(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|one| one == name)
}

/// The name of the type that a line declares.
fn declared_type(line: &str) -> Option<&str> {
    let mut words = line
        .split_whitespace()
        .skip_while(|word| word.starts_with("pub"));
    let kind = words.next()?;
    if !["struct", "enum", "trait", "type", "union"].contains(&kind) {
        return None;
    }
    let name = words.next()?;
    name.split(|letter: char| !letter.is_alphanumeric()).next()
}

/// The checks above are only worth what their reader is worth.
#[test]
fn the_reader_of_declarations_reads_right() {
    assert_eq!(
        declared_type("pub(crate) struct Place<'a> {"),
        Some("Place")
    );
    assert_eq!(declared_type("    type Reach;"), Some("Reach"));
    assert_eq!(declared_type("enum Found {"), Some("Found"));
    assert_eq!(declared_type("/// struct Place is gone"), None);
    assert_eq!(declared_type("let place = Place;"), None);
}
