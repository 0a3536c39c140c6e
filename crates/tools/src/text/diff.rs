//! Shows a change as a unified diff, capped so that one large edit does not flood the model.

use std::time::Duration;

use similar::TextDiff;

use super::display::{one_line, start_of};

/// The most bytes of diff shown for one file.
pub(crate) const MAX_DIFF_BYTES: usize = 24 * 1024;

/// How long a good diff is looked for before a coarser one is taken.
const DIFF_TIME: Duration = Duration::from_millis(300);

/// Lines of context around a change.
const CONTEXT_LINES: usize = 3;

/// A change as a diff, and its size in lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShownDiff {
    /// The unified diff, cut at [`MAX_DIFF_BYTES`].
    pub(crate) text: String,
    /// Lines added.
    pub(crate) added: u64,
    /// Lines removed.
    pub(crate) removed: u64,
}

/// What a diff compares: a name (`None` for a file that is not there) and its text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Side<'a> {
    /// The path, or `None` where there is no file.
    pub(crate) path: Option<&'a str>,
    /// The text.
    pub(crate) text: &'a str,
}

/// Renders the change from one text to another.
pub(crate) fn unified(old: Side<'_>, new: Side<'_>) -> ShownDiff {
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_lines(old.text, new.text);
    let (mut added, mut removed) = (0, 0);
    for op in diff.ops() {
        let (tag, before, after) = op.as_tag_tuple();
        if tag != similar::DiffTag::Equal {
            removed += before.len() as u64;
            added += after.len() as u64;
        }
    }
    let whole = diff
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(&heading("a", old.path), &heading("b", new.path))
        .to_string();
    let mut text = start_of(&whole, MAX_DIFF_BYTES).to_owned();
    if text.len() < whole.len() {
        let left_out = whole.len() - text.len();
        text.push_str("\n[diff cut: ");
        text.push_str(&left_out.to_string());
        text.push_str(" more bytes]\n");
    }
    ShownDiff {
        text,
        added,
        removed,
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

    fn side<'a>(path: &'a str, text: &'a str) -> Side<'a> {
        Side {
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
    fn a_long_diff_is_cut_and_says_so() {
        let long = "line\n".repeat(20_000);
        let shown = unified(side("x", ""), side("x", &long));
        assert!(shown.text.len() < MAX_DIFF_BYTES + 100);
        assert!(shown.text.contains("[diff cut: "));
        assert_eq!(shown.added, 20_000);
    }
}
