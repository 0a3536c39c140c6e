//! Fuzzes the parsers with hostile and truncated patches: an accepted patch has one meaning, and is
//! placed where it says and nowhere else.

use haft_testkit::{Fuzz, ParseOutcome};
use tokio_util::sync::CancellationToken;

use super::{FilePatch, Hunk, HunkLine, MAX_FILES, parse, place};
use crate::text::{encoding::Replacement, heavy::Stop};

const PATCHES: [&str; 10] = [
    "*** Begin Patch\n*** Update File: a.rs\n@@ fn two() {\n-    old();\n+    new();\n*** End Patch\n",
    "*** Begin Patch\n*** Add File: b.md\n+# New\n+\n+text\n*** Delete File: c.txt\n*** End Patch",
    "*** Begin Patch\n*** Update File: a.rs\n*** Move to: d/e.rs\n fn one() {\n-    old();\n }\n*** End Patch\n",
    "*** Begin Patch\n*** Update File: a.rs\n@@ fn one\n@@ fn two\n-    old();\n+    new();\n }\n*** End of File\n*** End Patch\n",
    "*** Begin Patch\n*** Update File: a.rs\n+// end\n\n*** Update File: f.rs\n fn one() {\n+    // more\n*** End Patch\n",
    "--- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,3 @@\n fn one() {\n-    old();\n+    new();\n }\n",
    "--- a/a.rs\n+++ b/a.rs\n@@ -5,2 +5,3 @@ fn two() {\n     old();\n }\n+// end\n\\ No newline at end of file\n",
    "diff --git a/x b/y\nrename from x\nrename to y\n--- a/x\n+++ b/y\n@@ -1 +1 @@\n-fn one() {\n+fn three() {\n",
    "--- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+one\n+two\n--- a/old\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-fn one() {\n-    old();\n",
    "--- a.rs\t2026-01-01\n+++ a.rs\t2026-01-02\n@@ -4 +4,2 @@\n fn two() {\n+    // here\n@@ -6 +7 @@\n-}\n+} // two\n",
];

/// The texts patched: plain, with CRLF, without a final newline, and empty.
const TEXTS: [&str; 4] = [
    "fn one() {\n    old();\n}\nfn two() {\n    old();\n}\n",
    "fn one() {\r\n    old();\r\n}\r\nfn two() {\r\n    old();\r\n}\r\n",
    "fn one() {\n\told();  \n}\n\n\nfn two() {\n    old();\n}",
    "",
];

const WORDS: [&str; 36] = [
    "*** Begin Patch\n",
    "*** End Patch\n",
    "*** End Patch",
    "*** Add File: ",
    "*** Update File: ",
    "*** Delete File: ",
    "*** Move to: ",
    "*** End of File\n",
    "@@\n",
    "@@ fn two() {\n",
    "@@ -1,2 +1,3 @@\n",
    "@@ -0,0 +1 @@\n",
    "@@ -6 +6 @@\n",
    "--- a/a.rs\n",
    "+++ b/a.rs\n",
    "--- /dev/null\n",
    "+++ /dev/null\n",
    "diff --git a/x b/x\n",
    "rename from x\n",
    "rename to y\n",
    "\\ No newline at end of file\n",
    "\n",
    "\r\n",
    " fn one() {\n",
    "-    old();\n",
    "+    new();\n",
    " }\n",
    "+\n",
    "-\n",
    " \n",
    "+",
    "-",
    " ",
    "../x",
    "/etc/passwd",
    "\t",
];

#[test]
fn a_patch_envelope_says_one_thing_and_is_placed_where_it_says() {
    Fuzz::seeds(PATCHES)
        .words(WORDS)
        .inputs(2_500)
        .run(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            let files = match parse(&text) {
                Ok(files) => files,
                Err(error) => {
                    let lines = text.lines().count();
                    assert!((1..=lines + 1).contains(&error.line), "{error}, of {lines}");
                    return ParseOutcome::Refused;
                }
            };
            assert!(!files.is_empty() && files.len() <= MAX_FILES);
            let envelope = text
                .lines()
                .any(|line| line.trim_end() == "*** Begin Patch");
            for file in &files {
                named_in(&text, file);
                if let FilePatch::Update { hunks, .. } | FilePatch::Delete { hunks, .. } = file {
                    for text in TEXTS {
                        check_places(text, hunks);
                    }
                }
            }
            if envelope {
                refused_if_cut(&text);
                // A line that ends in a carriage return cannot be told apart from its line ending.
                if !text.contains('\r') {
                    let again =
                        parse(&written(&files)).expect("a patch that was read can be written");
                    assert_eq!(without_lines(again), without_lines(files));
                }
            }
            ParseOutcome::Taken
        });
}

/// File names come from the patch; none is made up.
fn named_in(text: &str, file: &FilePatch) {
    let names = match file {
        FilePatch::Add { path, .. } | FilePatch::Delete { path, .. } => vec![path],
        FilePatch::Update { path, move_to, .. } => move_to.iter().chain([path]).collect(),
    };
    for name in names {
        assert!(text.contains(name.as_str()), "{name:?}");
    }
}

/// An envelope without its last line is not a smaller patch; it is refused.
fn refused_if_cut(text: &str) {
    let begin = text.find("*** Begin Patch").expect("the beginning");
    let end = text[begin..].find("*** End Patch").expect("the end");
    // Text before the envelope is ignored, and may be a patch in the other form on its own.
    for (at, _) in text[begin..begin + end].match_indices('\n') {
        assert!(parse(&text[..=begin + at]).is_err(), "cut at {at}");
    }
}

/// Writes the files as an envelope.
fn written(files: &[FilePatch]) -> String {
    let mut lines = vec!["*** Begin Patch".to_owned()];
    for file in files {
        match file {
            FilePatch::Add { path, content } => {
                lines.push(format!("*** Add File: {path}"));
                lines.extend(content.lines().map(|line| format!("+{line}")));
            }
            FilePatch::Delete { path, .. } => lines.push(format!("*** Delete File: {path}")),
            FilePatch::Update {
                path,
                move_to,
                hunks,
            } => {
                lines.push(format!("*** Update File: {path}"));
                lines.extend(move_to.iter().map(|to| format!("*** Move to: {to}")));
                for hunk in hunks {
                    lines.push("@@".to_owned());
                    lines.extend(hunk.anchors.iter().map(|anchor| format!("@@ {anchor}")));
                    lines.extend(hunk.lines.iter().map(written_line));
                    lines.extend(hunk.at_end.then(|| "*** End of File".to_owned()));
                }
            }
        }
    }
    lines.push("*** End Patch".to_owned());
    lines.join("\n")
}

fn written_line(line: &HunkLine) -> String {
    match line {
        HunkLine::Keep(text) => format!(" {text}"),
        HunkLine::Remove(text) => format!("-{text}"),
        HunkLine::Add(text) => format!("+{text}"),
    }
}

fn without_lines(mut files: Vec<FilePatch>) -> Vec<FilePatch> {
    for file in &mut files {
        if let FilePatch::Update { hunks, .. } = file {
            for hunk in hunks {
                hunk.patch_line = 0;
            }
        }
    }
    files
}

/// The removed and added text is what the hunks say, except for blanks and odd letters; in order,
/// and nothing twice.
fn check_places(text: &str, hunks: &[Hunk]) {
    let stop = Stop::with(&CancellationToken::new());
    let Ok(replacements) = place(text, hunks, &stop) else {
        return;
    };
    let mut after = 0;
    for Replacement { range, .. } in &replacements {
        assert!(
            after <= range.start && range.start <= range.end,
            "{replacements:?}"
        );
        assert!(text.get(range.clone()).is_some(), "{replacements:?}");
        after = range.end;
    }
    let letters =
        |text: &str| -> String { text.chars().filter(char::is_ascii_alphanumeric).collect() };
    let said = |wanted: fn(&HunkLine) -> Option<&String>| -> String {
        let lines = hunks.iter().flat_map(|hunk| &hunk.lines);
        lines.filter_map(wanted).map(|line| letters(line)).collect()
    };
    let taken: String = replacements
        .iter()
        .map(|replacement| letters(&text[replacement.range.clone()]))
        .collect();
    assert_eq!(taken, said(removed), "what goes from {text:?}");
    let come: String = replacements.iter().map(|one| letters(&one.text)).collect();
    assert_eq!(come, said(added), "what comes into {text:?}");
}

fn removed(line: &HunkLine) -> Option<&String> {
    match line {
        HunkLine::Remove(text) => Some(text),
        HunkLine::Keep(_) | HunkLine::Add(_) => None,
    }
}

fn added(line: &HunkLine) -> Option<&String> {
    match line {
        HunkLine::Add(text) => Some(text),
        HunkLine::Keep(_) | HunkLine::Remove(_) => None,
    }
}
