//! Finds where hunks belong in a text and turns them into replacements.
//!
//! Every hunk is matched against the original text, after the one before it. Context lines keep
//! the bytes the text has, whatever the patch spelled.

use super::{FinalNewline, Hunk, HunkLine};
use crate::text::{
    encoding::{Replacement, line_end},
    tolerant::plain_character,
};

/// A hunk that fits nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NotPlaced {
    /// The line of the patch the hunk starts at.
    pub(crate) patch_line: usize,
    /// What it looked for.
    pub(crate) wanted: String,
}

/// The replacements a list of hunks amounts to, sorted and without overlaps.
pub(crate) fn place(text: &str, hunks: &[Hunk]) -> Result<Vec<Replacement>, NotPlaced> {
    let lines = Lines::new(text);
    let mut cursor = 0;
    let mut replacements = Vec::new();
    for hunk in hunks {
        let old = hunk.old_lines();
        let not_placed = |wanted: String| NotPlaced {
            patch_line: hunk.patch_line,
            wanted,
        };
        let mut anchored = None;
        for anchor in &hunk.anchors {
            let at = lines
                .find_anchor(anchor, anchored.map_or(cursor, |at: usize| at + 1))
                .ok_or_else(|| not_placed(anchor.clone()))?;
            anchored = Some(at);
        }
        let start = if old.is_empty() {
            lines.insertion_point(hunk, anchored, cursor)
        } else {
            let from = anchored.unwrap_or(cursor);
            lines
                .find(&old, from, hunk)
                .ok_or_else(|| not_placed(old.join("\n")))?
        };
        lines.replace(hunk, start, &mut replacements);
        cursor = start + old.len();
    }
    Ok(replacements)
}

struct Lines<'t> {
    text: &'t str,
    content: Vec<&'t str>,
    /// Where each line starts, and where the text ends.
    starts: Vec<usize>,
    ending: &'static str,
}

/// How much two lines may differ and still be the same line, strictest first.
const LIKENESS: [fn(&str, &str) -> bool; 4] = [
    |one, other| one == other,
    |one, other| one.trim_end() == other.trim_end(),
    |one, other| one.trim() == other.trim(),
    |one, other| plain(one).eq(plain(other)),
];

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let mut starts = vec![0];
        let mut content = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            at += line.len();
            starts.push(at);
            content.push(line.trim_end_matches('\n').trim_end_matches('\r'));
        }
        Self {
            text,
            content,
            starts,
            ending: line_end(text),
        }
    }

    fn find_anchor(&self, anchor: &str, from: usize) -> Option<usize> {
        let wanted = anchor.trim();
        let position = |fits: &dyn Fn(&str) -> bool| {
            let rest = self.content.get(from..)?;
            rest.iter().position(|line| fits(line)).map(|at| from + at)
        };
        position(&|line| line == anchor)
            .or_else(|| position(&|line| line.trim() == wanted))
            .or_else(|| position(&|line| line.contains(wanted)))
    }

    /// Where the old lines stand, at or after `from`: nearest to the line the patch names, or at
    /// the end where it says so, else the first place.
    fn find(&self, old: &[&str], from: usize, hunk: &Hunk) -> Option<usize> {
        let last = self.content.len().checked_sub(old.len())?;
        LIKENESS.iter().find_map(|alike| {
            let fits = |start: &usize| {
                self.content
                    .get(*start..)
                    .is_some_and(|rest| rest.iter().zip(old).all(|(line, old)| alike(line, old)))
            };
            let mut places = (from..=last).filter(fits);
            if hunk.at_end {
                places.next_back()
            } else if let Some(at_line) = hunk.at_line {
                places.min_by_key(|start| start.abs_diff(at_line.saturating_sub(1)))
            } else {
                places.next()
            }
        })
    }

    /// Where lines go that stand next to nothing: after the anchor, after the named line, or at
    /// the end.
    fn insertion_point(&self, hunk: &Hunk, anchored: Option<usize>, cursor: usize) -> usize {
        let end = self.content.len();
        match (anchored, hunk.at_line) {
            (Some(anchor), _) => anchor + 1,
            (None, Some(after_line)) => after_line.clamp(cursor, end.max(cursor)),
            (None, None) => end,
        }
    }

    /// Adds one replacement for each run of removed and added lines.
    fn replace(&self, hunk: &Hunk, start: usize, replacements: &mut Vec<Replacement>) {
        let mut at = start;
        let mut run: Option<(usize, Vec<&str>)> = None;
        for line in &hunk.lines {
            match line {
                HunkLine::Keep(_) => {
                    if let Some((from, added)) = run.take() {
                        replacements.push(self.replacement(from, at, &added, hunk));
                    }
                    at += 1;
                }
                HunkLine::Remove(_) => {
                    run.get_or_insert_with(|| (at, Vec::new()));
                    at += 1;
                }
                HunkLine::Add(text) => {
                    run.get_or_insert_with(|| (at, Vec::new())).1.push(text);
                }
            }
        }
        if let Some((from, added)) = run {
            replacements.push(self.replacement(from, at, &added, hunk));
        }
    }

    fn replacement(&self, from: usize, to: usize, added: &[&str], hunk: &Hunk) -> Replacement {
        let start_of = |line: usize| self.starts.get(line).copied().unwrap_or(self.text.len());
        let range = start_of(from)..start_of(to);
        let mut text = String::new();
        for line in added {
            text.push_str(line.trim_end_matches('\r'));
            text.push_str(self.ending);
        }
        if range.end == self.text.len() && !text.is_empty() {
            let had_newline = self.text.is_empty() || self.text.ends_with('\n');
            let keeps_newline = match hunk.final_newline {
                FinalNewline::AsBefore => had_newline,
                FinalNewline::Present => true,
                FinalNewline::Absent => false,
            };
            if !keeps_newline {
                text.truncate(text.len() - self.ending.len());
            }
            if range.is_empty() && !had_newline {
                text.insert_str(0, self.ending);
            }
        }
        Replacement {
            range,
            text: text.into(),
        }
    }
}

/// A line without blanks at its ends, with single blanks inside and plain quotes and dashes.
fn plain(line: &str) -> impl Iterator<Item = char> {
    let words = line.split_whitespace();
    words.flat_map(|word| std::iter::once(' ').chain(word.chars().map(plain_character)))
}

#[cfg(test)]
mod tests {
    use super::super::{FilePatch, parse};
    use super::*;

    fn apply(text: &str, patch: &str) -> Result<String, NotPlaced> {
        let files = parse(patch).unwrap();
        let Some(FilePatch::Update { hunks, .. }) = files.first() else {
            panic!("not an update");
        };
        let mut result = text.to_owned();
        for replacement in place(text, hunks)?.into_iter().rev() {
            result.replace_range(replacement.range, &replacement.text);
        }
        Ok(result)
    }

    fn check(text: &str, hunk: &str, expect: &str) {
        let patch = format!("*** Begin Patch\n*** Update File: x\n{hunk}\n*** End Patch");
        assert_eq!(apply(text, &patch).as_deref(), Ok(expect));
    }

    #[test]
    fn anchors_choose_the_place() {
        check(
            "fn a() {\n  x\n}\nfn b() {\n  x\n}\n",
            "@@ fn b() {\n-  x\n+  y",
            "fn a() {\n  x\n}\nfn b() {\n  y\n}\n",
        );
    }

    #[test]
    fn context_keeps_the_bytes_of_the_file() {
        check(
            "\tone \u{201c}q\u{201d}  \n\ttwo\n",
            "@@\n one \"q\"\n-two\n+\tzwei",
            "\tone \u{201c}q\u{201d}  \n\tzwei\n",
        );
    }

    #[test]
    fn line_ends_and_the_final_newline_are_kept() {
        check("a\r\nb\r\n", "-b\n+c\n+d", "a\r\nc\r\nd\r\n");
        check("a\nb", "-b\n+c", "a\nc");
        check("a", " a\n+b", "a\nb");
        check("", "+a", "a\n");
        check("a\n", "@@\n+b", "a\nb\n");
    }

    #[test]
    fn what_does_not_fit_says_which_hunk() {
        let patch = "*** Begin Patch\n*** Update File: x\n@@\n-zzz\n+b\n*** End Patch";
        assert_eq!(
            apply("a\n", patch),
            Err(NotPlaced {
                patch_line: 4,
                wanted: "zzz".into()
            })
        );
    }

    proptest::proptest! {
        /// Applying the diff of two texts to the first gives the second.
        #[test]
        fn applying_a_diff_gives_the_other_text(
            before in "([a-c]{0,2}\n){0,12}[a-c]{0,2}",
            after in "([a-c]{0,2}\n){0,12}[a-c]{0,2}",
        ) {
            let diff = similar::TextDiff::from_lines(&before, &after)
                .unified_diff()
                .header("a/x", "b/x")
                .to_string();
            if before != after {
                proptest::prop_assert_eq!(apply(&before, &diff), Ok(after), "{}", diff);
            }
        }
    }
}
