//! The `*** Begin Patch` form that models are trained on. No crate reads it, so this module does.

use super::{FilePatch, Hunk, HunkLine, PatchError};

pub(super) const BEGIN_MARK: &str = "*** Begin Patch";
const END_MARK: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const UPDATE: &str = "*** Update File:";
const MOVE: &str = "*** Move to:";

/// Reads the envelope; lines before and after it are ignored.
pub(super) fn parse(lines: &[&str]) -> Result<Vec<FilePatch>, PatchError> {
    let begin = lines
        .iter()
        .position(|line| line.trim_end() == BEGIN_MARK)
        .ok_or_else(|| PatchError::new(0, "`*** Begin Patch` is missing"))?;
    let mut reader = Reader {
        lines,
        index: begin + 1,
    };
    let mut files = Vec::new();
    loop {
        let Some(line) = reader.next() else {
            return Err(PatchError::new(
                lines.len(),
                "`*** End Patch` is missing; the patch may be cut off",
            ));
        };
        let at = reader.index - 1;
        if line.trim_end() == END_MARK {
            return Ok(files);
        }
        if let Some(path) = line.strip_prefix(ADD) {
            files.push(FilePatch::Add {
                path: named(path, at)?,
                content: reader.added()?,
            });
        } else if let Some(path) = line.strip_prefix(DELETE) {
            files.push(FilePatch::Delete {
                path: named(path, at)?,
                hunks: Vec::new(),
            });
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            let path = named(path, at)?;
            let move_to = reader.move_target()?;
            let hunks = reader.hunks()?;
            if hunks.is_empty() && move_to.is_none() {
                return Err(PatchError::new(at, "the update changes nothing"));
            }
            files.push(FilePatch::Update {
                path,
                move_to,
                hunks,
            });
        } else if !line.trim().is_empty() {
            return Err(PatchError::new(
                at,
                "expected `*** Add File:`, `*** Update File:`, `*** Delete File:` or `*** End Patch`",
            ));
        }
    }
}

fn named(path: &str, at: usize) -> Result<String, PatchError> {
    let path = path.trim();
    if path.is_empty() {
        return Err(PatchError::new(at, "the path is missing"));
    }
    Ok(path.to_owned())
}

struct Reader<'l> {
    lines: &'l [&'l str],
    index: usize,
}

impl<'l> Reader<'l> {
    fn peek(&self) -> Option<&'l str> {
        self.lines.get(self.index).copied()
    }

    fn next(&mut self) -> Option<&'l str> {
        let line = self.peek()?;
        self.index += 1;
        Some(line)
    }

    /// The lines of a new file.
    fn added(&mut self) -> Result<String, PatchError> {
        let mut content = String::new();
        while let Some(line) = self.peek()
            && !line.starts_with("*** ")
        {
            let Some(text) = line.strip_prefix('+') else {
                if line.trim().is_empty() {
                    self.index += 1;
                    continue;
                }
                return Err(PatchError::new(
                    self.index,
                    "every line of a new file starts with `+`",
                ));
            };
            content.push_str(text);
            content.push('\n');
            self.index += 1;
        }
        Ok(content)
    }

    fn move_target(&mut self) -> Result<Option<String>, PatchError> {
        let Some(path) = self.peek().and_then(|line| line.strip_prefix(MOVE)) else {
            return Ok(None);
        };
        let path = named(path, self.index)?;
        self.index += 1;
        Ok(Some(path))
    }

    fn hunks(&mut self) -> Result<Vec<Hunk>, PatchError> {
        let mut hunks = Vec::new();
        let mut hunk = Hunk::default();
        while let Some(line) = self.peek() {
            if line.trim_end() == END_OF_FILE {
                hunk.at_end = true;
            } else if line.starts_with("*** ") {
                break;
            } else if let Some(anchor) = line.strip_prefix("@@") {
                if !hunk.lines.is_empty() {
                    hunks.push(std::mem::take(&mut hunk));
                }
                // `@@ -1,2 +1,2 @@` is a stray unified header; it anchors nothing.
                let anchor = anchor.strip_prefix(' ').unwrap_or(anchor);
                if !anchor.trim().is_empty() && !anchor.trim_end().ends_with("@@") {
                    hunk.anchors.push(anchor.to_owned());
                }
            } else {
                if hunk.lines.is_empty() {
                    hunk.patch_line = self.index + 1;
                }
                hunk.lines.push(hunk_line(line, self.index)?);
            }
            self.index += 1;
        }
        drop_trailing_blanks(&mut hunk);
        if !hunk.lines.is_empty() {
            hunks.push(hunk);
        } else if !hunk.anchors.is_empty() {
            return Err(PatchError::new(
                self.index.saturating_sub(1),
                "the hunk has no lines",
            ));
        }
        Ok(hunks)
    }
}

/// A blank line between two files of a patch is layout, not context.
fn drop_trailing_blanks(hunk: &mut Hunk) {
    let changes = |line: &HunkLine| matches!(line, HunkLine::Add(_) | HunkLine::Remove(_));
    if !hunk.lines.iter().any(changes) {
        hunk.lines
            .retain(|line| !matches!(line, HunkLine::Keep(text) if text.is_empty()));
    }
}

fn hunk_line(line: &str, at: usize) -> Result<HunkLine, PatchError> {
    if line.is_empty() {
        // Models drop the space that marks an empty context line.
        return Ok(HunkLine::Keep(String::new()));
    }
    if let Some(text) = line.strip_prefix(' ') {
        Ok(HunkLine::Keep(text.to_owned()))
    } else if let Some(text) = line.strip_prefix('+') {
        Ok(HunkLine::Add(text.to_owned()))
    } else if let Some(text) = line.strip_prefix('-') {
        Ok(HunkLine::Remove(text.to_owned()))
    } else {
        Err(PatchError::new(
            at,
            "a line of a hunk starts with ` `, `+` or `-`",
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<FilePatch>, String> {
        super::super::parse(text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_operation_is_read() {
        let files = parsed(
            "*** Begin Patch\n*** Add File: new.txt\n+one\n+\n*** Delete File: old.txt\n\
             *** Update File: a.rs\n*** Move to: b.rs\n@@ fn main\n keep\n-gone\n+come\n*** End Patch",
        )
        .unwrap();
        assert_eq!(
            files,
            vec![
                FilePatch::Add {
                    path: "new.txt".into(),
                    content: "one\n\n".into()
                },
                FilePatch::Delete {
                    path: "old.txt".into(),
                    hunks: vec![]
                },
                FilePatch::Update {
                    path: "a.rs".into(),
                    move_to: Some("b.rs".into()),
                    hunks: vec![Hunk {
                        patch_line: 9,
                        anchors: vec!["fn main".into()],
                        lines: vec![
                            HunkLine::Keep("keep".into()),
                            HunkLine::Remove("gone".into()),
                            HunkLine::Add("come".into()),
                        ],
                        ..Hunk::default()
                    }]
                },
            ]
        );
    }

    #[test]
    fn a_patch_that_is_cut_off_is_refused() {
        assert_eq!(
            parsed("*** Begin Patch\n*** Add File: x\n+a"),
            Err("line 4 of the patch: `*** End Patch` is missing; the patch may be cut off".into())
        );
        assert_eq!(
            parsed("*** Begin Patch\nhello\n*** End Patch"),
            Err("line 2 of the patch: expected `*** Add File:`, `*** Update File:`, `*** Delete File:` or `*** End Patch`".into())
        );
    }
}
