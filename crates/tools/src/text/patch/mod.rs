//! Patches, independent of their written form.
//!
//! [`envelope`] reads the `*** Begin Patch` form, [`unified`] reads unified diffs, [`place`] finds
//! where hunks belong in a text. Neither parser may panic or guess: a patch it does not understand
//! is an error that names the line.

mod envelope;
#[cfg(test)]
mod fuzz;
mod place;
mod unified;

pub(crate) use place::{PlacementFailure, place};

/// The most files one patch may touch.
const MAX_FILES: usize = 1_000;

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FilePatch {
    /// Creates a file.
    Add {
        /// The file.
        path: String,
        /// Its content.
        content: String,
    },
    /// Removes a file.
    Delete {
        /// The file.
        path: String,
        /// Its content as the patch states it; empty if the patch does not.
        hunks: Vec<Hunk>,
    },
    /// Changes a file, moves it, or both.
    Update {
        /// The file.
        path: String,
        /// Where it moves to.
        move_to: Option<String>,
        /// The changes.
        hunks: Vec<Hunk>,
    },
}

/// One contiguous change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Hunk {
    /// The line of the patch it starts at.
    pub(crate) patch_line: usize,
    /// Lines to find first, outermost first.
    pub(crate) anchors: Vec<String>,
    /// The line of the file (from 1) the patch says it starts at.
    pub(crate) at_line: Option<usize>,
    /// Whether it reaches the end of the file.
    pub(crate) at_end: bool,
    /// What it says about the final newline.
    pub(crate) final_newline: FinalNewline,
    /// Its lines, without line ends.
    pub(crate) lines: Vec<HunkLine>,
}

/// What a hunk says about the newline at the end of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum FinalNewline {
    /// Nothing: the file keeps what it has.
    #[default]
    AsBefore,
    /// The file ends with one afterwards.
    Present,
    /// The file ends without one afterwards.
    Absent,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HunkLine {
    /// In the file, and kept.
    Keep(String),
    /// In the file, and removed.
    Remove(String),
    /// Not in the file, and added.
    Add(String),
}

impl Hunk {
    /// The bytes of its lines, including line endings.
    pub(crate) fn size(&self) -> usize {
        let length = |line: &HunkLine| match line {
            HunkLine::Keep(text) | HunkLine::Remove(text) | HunkLine::Add(text) => text.len() + 1,
        };
        self.lines.iter().map(length).sum()
    }

    /// The lines the file must have, in order.
    pub(crate) fn old_lines(&self) -> Vec<&str> {
        self.lines
            .iter()
            .filter_map(|line| match line {
                HunkLine::Keep(text) | HunkLine::Remove(text) => Some(text.as_str()),
                HunkLine::Add(_) => None,
            })
            .collect()
    }
}

/// Why and where a patch cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {message}")]
pub(crate) struct PatchError {
    line: usize,
    message: String,
}

impl PatchError {
    fn new(index: usize, message: impl Into<String>) -> Self {
        Self {
            line: index + 1,
            message: message.into(),
        }
    }
}

/// Parses a patch in either form.
pub(crate) fn parse(text: &str) -> Result<Vec<FilePatch>, PatchError> {
    let lines: Vec<&str> = text.lines().collect();
    let files = if lines
        .iter()
        .any(|line| line.trim_end() == envelope::BEGIN_MARK)
    {
        envelope::parse(&lines)?
    } else {
        unified::parse(&lines)?
    };
    if files.is_empty() {
        return Err(PatchError::new(
            0,
            "no file is named; start with `*** Begin Patch` or with a unified diff's `---` and `+++`",
        ));
    }
    if files.len() > MAX_FILES {
        return Err(PatchError::new(
            0,
            format!("more than {MAX_FILES} files in one patch"),
        ));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::text::heavy::Stop;

    proptest::proptest! {
        #[test]
        fn parsing_never_panics(text in "(?s).{0,400}") {
            let _ = parse(&text);
        }

        #[test]
        fn parsing_patch_like_text_never_panics(
            lines in proptest::collection::vec(proptest::sample::select(vec![
                "*** Begin Patch", "*** End Patch", "*** Add File: a", "*** Update File: b",
                "*** Delete File: c", "*** Move to: d", "*** End of File", "@@", "@@ fn x",
                "@@ -1,2 +1,3 @@", "@@ -0,0 +1 @@", "@@ -99999999999999999999 +1 @@",
                "--- a/x", "+++ b/x", "--- /dev/null", "+++ /dev/null", "diff --git a/x b/x",
                "rename from x", "rename to y", "\\ No newline at end of file", "", " a", "-b", "+c",
            ]), 0..30),
        ) {
            if let Ok(files) = parse(&lines.join("\n")) {
                for file in files {
                    if let FilePatch::Update { hunks, .. } = file {
                        let stop = Stop::with(&CancellationToken::new());
                        let _ = place("a\nb\nc", &hunks, &stop);
                    }
                }
            }
        }
    }
}
