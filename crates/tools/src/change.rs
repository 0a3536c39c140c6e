//! Shows how one file changes, from its bytes before and after.
//!
//! Everything that shows a change uses this one function: the tools' results, approval previews,
//! `undo`, and the command line. The result is complete; callers with little room cut it
//! themselves.

use haft_contract::{
    WorkPath,
    preview::{FileChangeKind, FileDiff},
};

use crate::text::{
    diff::{DiffSide, unified},
    encoding::{DecodedText, is_binary},
};

/// A file before and after a change.
#[derive(Debug, Clone, Copy)]
pub struct FileChange<'a> {
    /// The file.
    pub path: &'a WorkPath,
    /// Its new name, if it is renamed.
    pub to: Option<&'a WorkPath>,
    /// Its current content; `None` when there is no file.
    pub before: Option<&'a [u8]>,
    /// Its future content; `None` when it is removed.
    pub after: Option<&'a [u8]>,
}

/// A change in the form people see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownChange {
    /// The whole change.
    pub diff: FileDiff,
    /// Lines added.
    pub added: u64,
    /// Lines removed.
    pub removed: u64,
}

impl FileChange<'_> {
    /// Renders the change. The work grows with the size of both texts.
    pub fn show(&self) -> ShownChange {
        let (before, after) = (
            self.before.unwrap_or_default(),
            self.after.unwrap_or_default(),
        );
        let mut shown = ShownChange {
            diff: FileDiff {
                path: self.path.clone(),
                change: self.kind(),
                text: String::new(),
                note: None,
            },
            added: 0,
            removed: 0,
        };
        if is_binary(before) || is_binary(after) {
            shown.diff.note = Some(self.binary_note());
            return shown;
        }
        let (old, new) = (DecodedText::decode(before), DecodedText::decode(after));
        let unified = unified(
            DiffSide {
                path: self.before.map(|_| self.path.as_str()),
                text: old.text(),
            },
            DiffSide {
                path: self.after.map(|_| self.to.unwrap_or(self.path).as_str()),
                text: new.text(),
            },
        );
        shown.diff.note = self.text_note(&old, &new, &unified.text);
        shown.diff.text = unified.text;
        shown.added = unified.added;
        shown.removed = unified.removed;
        shown
    }

    fn kind(&self) -> FileChangeKind {
        match (self.before, self.after, self.to) {
            (None, _, _) => FileChangeKind::Create,
            (Some(_), None, _) => FileChangeKind::Remove,
            (Some(_), Some(_), Some(to)) => FileChangeKind::Move { to: to.clone() },
            (Some(_), Some(_), None) => FileChangeKind::Change,
        }
    }

    fn binary_note(&self) -> String {
        let size = |bytes: &[u8]| format!("{} bytes", bytes.len());
        match (self.before, self.after) {
            (Some(before), Some(after)) if before == after => {
                format!("binary content, {}, stays as it is", size(before))
            }
            (Some(before), Some(after)) => {
                format!("binary content: {} become {}", size(before), size(after))
            }
            (Some(bytes), None) | (None, Some(bytes)) => format!("binary content, {}", size(bytes)),
            (None, None) => "no content".to_owned(),
        }
    }

    /// What the diff's lines cannot express.
    fn text_note(
        &self,
        old: &DecodedText<'_>,
        new: &DecodedText<'_>,
        diff: &str,
    ) -> Option<String> {
        let mut notes = Vec::new();
        match (self.before, self.after) {
            (Some(before), Some(after)) if before == after => {
                notes.push("the content stays as it is".to_owned());
            }
            (Some(_), Some(_)) if diff.is_empty() => {
                notes.push("only how the text is encoded changes".to_owned());
            }
            (Some(bytes), None) | (None, Some(bytes)) if bytes.is_empty() => {
                notes.push("an empty file".to_owned());
            }
            _ => {}
        }
        let encodings = [
            self.before.map(|_| old.spelled()),
            self.after.map(|_| new.spelled()),
        ];
        match encodings {
            [Some(before), Some(after)] if before != after => {
                notes.push(format!("from {before} to {after}"));
            }
            [Some(only), _] | [None, Some(only)] if only != "UTF-8" => {
                notes.push(format!("shown from {only}"));
            }
            _ => {}
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::preview::FileChangeKind;

    use super::*;

    fn shown(before: Option<&[u8]>, after: Option<&[u8]>) -> FileDiff {
        let path = WorkPath::parse("x", "/w").unwrap();
        let change = FileChange {
            path: &path,
            to: None,
            before,
            after,
        };
        change.show().diff
    }

    fn check(before: Option<&[u8]>, after: Option<&[u8]>, note: Option<&str>) {
        assert_eq!(shown(before, after).note.as_deref(), note);
    }

    #[test]
    fn what_a_diff_cannot_say_is_noted() {
        check(Some(b"a\n"), Some(b"b\n"), None);
        check(None, Some(b"a\n"), None);
        check(None, Some(b""), Some("an empty file"));
        check(Some(b"a"), Some(b"a"), Some("the content stays as it is"));
        check(None, Some(b"\0a"), Some("binary content, 2 bytes"));
        check(
            Some(b"a"),
            Some(b"\0a"),
            Some("binary content: 1 bytes become 2 bytes"),
        );
        check(
            Some(b"a"),
            Some(b"\xef\xbb\xbfa"),
            Some(
                "only how the text is encoded changes; from UTF-8 to UTF-8 with a byte-order mark",
            ),
        );
    }

    #[test]
    fn a_file_that_comes_or_goes_is_shown_whole() {
        let created = shown(None, Some(b"a\nb"));
        assert_eq!(created.change, FileChangeKind::Create);
        assert_eq!(
            created.text,
            "--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n"
        );
        let removed = shown(Some(b"a\n"), None);
        assert_eq!(removed.change, FileChangeKind::Remove);
        assert_eq!(removed.text, "--- a/x\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n");
    }
}
