//! Shows a change as a unified diff: in full for a person who decides about it, or capped so that
//! one large edit does not flood the model.

use std::fmt::Write as _;

use similar::{DiffOp, DiffTag, group_diff_ops, udiff::UnifiedHunkHeader};

use super::{
    display::{one_line, start_of},
    lines::compare,
};

/// The most bytes of diff shown to a model for one file.
pub(crate) const MAX_DIFF_BYTES: usize = 24 * 1024;

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;

/// A change as a diff, and its size in lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unified {
    /// The whole unified diff; empty if nothing changes.
    pub(crate) text: String,
    /// Lines added.
    pub(crate) added: u64,
    /// Lines removed.
    pub(crate) removed: u64,
}

/// One side of a diff.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DiffSide<'a> {
    /// The path, or `None` if there is no file.
    pub(crate) path: Option<&'a str>,
    /// The text.
    pub(crate) text: &'a str,
}

/// Renders the change from one text to another. Only a newline ends a line, so that the program
/// that applies the diff sees the same lines.
pub(crate) fn unified(old: DiffSide<'_>, new: DiffSide<'_>) -> Unified {
    let before: Vec<&str> = old.text.split_inclusive('\n').collect();
    let after: Vec<&str> = new.text.split_inclusive('\n').collect();
    let ops = compare(&before, &after);
    let mut diff = Unified::default();
    for hunk in group_diff_ops(ops, CONTEXT_LINES) {
        if diff.text.is_empty() {
            // Writing to a `String` cannot fail.
            let _ = writeln!(diff.text, "--- {}", heading("a", old.path));
            let _ = writeln!(diff.text, "+++ {}", heading("b", new.path));
        }
        let _ = writeln!(diff.text, "{}", UnifiedHunkHeader::new(&hunk));
        for op in &hunk {
            diff.push(op, &before, &after);
        }
    }
    diff
}

/// Cuts a diff to what a model is shown.
pub(crate) fn capped(whole: &str) -> String {
    let mut text = start_of(whole, MAX_DIFF_BYTES).to_owned();
    let left_out = whole.len() - text.len();
    if left_out > 0 {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "\n[diff cut: {left_out} more bytes]");
    }
    text
}

impl Unified {
    fn push(&mut self, op: &DiffOp, before: &[&str], after: &[&str]) {
        let (tag, old, new) = op.as_tag_tuple();
        let old = before.get(old).unwrap_or_default();
        let new = after.get(new).unwrap_or_default();
        if tag == DiffTag::Equal {
            self.lines(' ', old);
            return;
        }
        self.lines('-', old);
        self.lines('+', new);
        self.removed += old.len() as u64;
        self.added += new.len() as u64;
    }

    fn lines(&mut self, sign: char, lines: &[&str]) {
        for line in lines {
            self.text.push(sign);
            self.text.push_str(line);
            if !line.ends_with('\n') {
                self.text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
}

fn heading(side: &str, path: Option<&str>) -> String {
    match path {
        Some(path) => format!("{side}/{}", one_line(path)),
        None => "/dev/null".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side<'a>(path: &'a str, text: &'a str) -> DiffSide<'a> {
        DiffSide {
            path: Some(path),
            text,
        }
    }

    #[test]
    fn a_change_is_shown_with_its_context() {
        let shown = unified(side("x", "a\nb\nc\n"), side("x", "a\nB\nc\n"));
        assert_eq!(
            shown.text,
            "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
        );
        assert_eq!((shown.added, shown.removed), (1, 1));
    }

    #[test]
    fn a_final_line_without_its_newline_is_told() {
        let shown = unified(side("x", "a\r\nb\r"), side("x", "a\r\nb\r\n"));
        assert_eq!(
            shown.text,
            "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n\\ No newline at end of file\n+b\r\n"
        );
    }

    #[test]
    fn a_long_diff_is_whole_and_a_model_is_told_what_was_cut() {
        let long = "line\n".repeat(20_000);
        let shown = unified(side("x", ""), side("x", &long));
        assert_eq!(shown.added, 20_000);
        assert_eq!(shown.text.matches("+line\n").count(), 20_000);
        let capped = capped(&shown.text);
        assert!(capped.len() < MAX_DIFF_BYTES + 100);
        assert!(capped.contains("[diff cut: "));
    }
}
