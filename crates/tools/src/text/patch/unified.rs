//! Unified diffs, plain or from git, several files at once. Line counts in hunk headers are used
//! where they resolve an ambiguity and ignored where they are wrong: models miscount.

use super::{FilePatch, FinalNewline, Hunk, HunkLine, PatchError};

const NO_FILE: &str = "/dev/null";

/// Reads a unified diff.
pub(super) fn parse(lines: &[&str]) -> Result<Vec<FilePatch>, PatchError> {
    let mut files = Vec::new();
    let mut git = GitHeader::default();
    let mut index = 0;
    while let Some(line) = lines.get(index) {
        if line.starts_with("diff --git ") {
            git.finish(&mut files);
        } else if let Some(path) = line.strip_prefix("rename from ") {
            git.rename_from = Some(path.to_owned());
        } else if let Some(path) = line.strip_prefix("rename to ") {
            git.rename_to = Some(path.to_owned());
        } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
            return Err(PatchError::new(index, "binary changes are not supported"));
        } else if let Some(old) = line.strip_prefix("--- ") {
            let new = lines
                .get(index + 1)
                .and_then(|next| next.strip_prefix("+++ "))
                .ok_or_else(|| PatchError::new(index + 1, "`---` is not followed by `+++`"))?;
            let (hunks, next) = read_hunks(lines, index + 2)?;
            files.push(file_patch(index, old, new, hunks)?);
            git = GitHeader::default();
            index = next;
            continue;
        } else if line.starts_with("@@ ") {
            return Err(PatchError::new(
                index,
                "a hunk before any `---` and `+++` lines that name the file",
            ));
        }
        index += 1;
    }
    git.finish(&mut files);
    Ok(files)
}

/// What git writes before the first hunk. A rename without changes has no hunks at all.
#[derive(Default)]
struct GitHeader {
    rename_from: Option<String>,
    rename_to: Option<String>,
}

impl GitHeader {
    fn finish(&mut self, files: &mut Vec<FilePatch>) {
        if let (Some(path), Some(to)) = (self.rename_from.take(), self.rename_to.take()) {
            files.push(FilePatch::Update {
                path,
                move_to: Some(to),
                hunks: Vec::new(),
            });
        }
    }
}

fn file_patch(
    index: usize,
    old: &str,
    new: &str,
    hunks: Vec<Hunk>,
) -> Result<FilePatch, PatchError> {
    let (old, new) = (file_name(old), file_name(new));
    let plain = |name: &str| name.to_owned();
    let git_style = |name: &str, side: &str| name == NO_FILE || name.starts_with(side);
    let (old, new) = if git_style(old, "a/") && git_style(new, "b/") {
        let strip = |name: &str, side: &str| name.strip_prefix(side).unwrap_or(name).to_owned();
        (strip(old, "a/"), strip(new, "b/"))
    } else {
        (plain(old), plain(new))
    };
    if hunks.is_empty() {
        return Err(PatchError::new(index, "the file has no hunks"));
    }
    match (old.as_str() == NO_FILE, new.as_str() == NO_FILE) {
        (true, true) => Err(PatchError::new(index, "both sides are `/dev/null`")),
        (true, false) => Ok(FilePatch::Add {
            path: new,
            content: added(&hunks, index)?,
        }),
        (false, true) => Ok(FilePatch::Delete { path: old, hunks }),
        (false, false) => Ok(FilePatch::Update {
            move_to: (old != new).then_some(new),
            path: old,
            hunks,
        }),
    }
}

/// The name on a `---` or `+++` line, without the timestamp some tools add after a tab.
fn file_name(text: &str) -> &str {
    text.split_once('\t').map_or(text, |(name, _)| name).trim()
}

fn added(hunks: &[Hunk], index: usize) -> Result<String, PatchError> {
    let mut content = String::new();
    for hunk in hunks {
        for line in &hunk.lines {
            let HunkLine::Add(text) = line else {
                return Err(PatchError::new(
                    index,
                    "a new file can only have added lines",
                ));
            };
            content.push_str(text);
            content.push('\n');
        }
        if hunk.final_newline == FinalNewline::Absent {
            content.pop();
        }
    }
    Ok(content)
}

fn read_hunks(lines: &[&str], from: usize) -> Result<(Vec<Hunk>, usize), PatchError> {
    let mut hunks = Vec::new();
    let mut index = from;
    while let Some(line) = lines.get(index)
        && line.starts_with("@@")
    {
        let Some(header) = HunkHeader::parse(line) else {
            return Err(PatchError::new(
                index,
                "expected a hunk header such as `@@ -1,2 +1,3 @@`",
            ));
        };
        let (hunk, next) = read_hunk(lines, index, header);
        hunks.push(hunk);
        index = next;
    }
    Ok((hunks, index))
}

fn read_hunk(lines: &[&str], header_index: usize, header: HunkHeader) -> (Hunk, usize) {
    let mut hunk = Hunk {
        patch_line: header_index + 1,
        at_line: Some(header.old_start),
        ..Hunk::default()
    };
    let (mut old_left, mut new_left) = (header.old_count, header.new_count);
    let mut index = header_index + 1;
    while let Some(line) = lines.get(index) {
        let expected = old_left > 0 || new_left > 0;
        if line.starts_with('\\') {
            hunk.note_missing_newline();
        } else if !expected && starts_next_file(lines, index) {
            break;
        } else if let Some(text) = line.strip_prefix(' ') {
            hunk.lines.push(HunkLine::Keep(text.to_owned()));
            old_left = old_left.saturating_sub(1);
            new_left = new_left.saturating_sub(1);
        } else if let Some(text) = line.strip_prefix('+') {
            hunk.lines.push(HunkLine::Add(text.to_owned()));
            new_left = new_left.saturating_sub(1);
        } else if let Some(text) = line.strip_prefix('-') {
            hunk.lines.push(HunkLine::Remove(text.to_owned()));
            old_left = old_left.saturating_sub(1);
        } else if line.is_empty() && expected {
            hunk.lines.push(HunkLine::Keep(String::new()));
            old_left = old_left.saturating_sub(1);
            new_left = new_left.saturating_sub(1);
        } else {
            break;
        }
        index += 1;
    }
    (hunk, index)
}

/// `--- x` inside a hunk removes the line `-- x`; followed by `+++ y` it names the next file.
fn starts_next_file(lines: &[&str], index: usize) -> bool {
    let line = |at: usize| lines.get(at).copied().unwrap_or_default();
    line(index).starts_with("--- ") && line(index + 1).starts_with("+++ ")
}

impl Hunk {
    /// `\ No newline at end of file` applies to the line before it.
    fn note_missing_newline(&mut self) {
        self.final_newline = match self.lines.last() {
            Some(HunkLine::Remove(_)) => FinalNewline::Present,
            Some(HunkLine::Add(_)) => FinalNewline::Absent,
            Some(HunkLine::Keep(_)) | None => FinalNewline::AsBefore,
        };
    }
}

struct HunkHeader {
    old_start: usize,
    old_count: usize,
    new_count: usize,
}

impl HunkHeader {
    fn parse(line: &str) -> Option<Self> {
        let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
        let (old, new) = ranges.split_once(" +")?;
        let (old_start, old_count) = range(old)?;
        let (_, new_count) = range(new)?;
        Some(Self {
            old_start,
            old_count,
            new_count,
        })
    }
}

fn range(text: &str) -> Option<(usize, usize)> {
    match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_headers_renames_and_several_files_are_read() {
        let files = super::super::parse(
            "diff --git a/x b/y\nsimilarity index 90%\nrename from x\nrename to y\n--- a/x\n+++ b/y\n\
             @@ -1 +1 @@\n-a\n+b\ndiff --git a/p b/q\nrename from p\nrename to q\n\
             --- /dev/null\n+++ b/new\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n\
             --- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n",
        );
        let summary: Vec<String> = files
            .unwrap()
            .into_iter()
            .map(|file| match file {
                FilePatch::Add { path, content } => format!("add {path} {content:?}"),
                FilePatch::Delete { path, .. } => format!("delete {path}"),
                FilePatch::Update { path, move_to, .. } => format!("update {path} {move_to:?}"),
            })
            .collect();
        assert_eq!(
            summary,
            [
                "update x Some(\"y\")",
                "add new \"one\\ntwo\"",
                "delete old"
            ]
        );
    }

    #[test]
    fn a_removed_line_that_looks_like_a_header_is_a_line() {
        let files =
            super::super::parse("--- a/x\n+++ b/x\n@@ -1,2 +1,1 @@\n--- old\n-b\n+++ new\n")
                .unwrap();
        let Some(FilePatch::Update { hunks, .. }) = files.first() else {
            panic!("not an update");
        };
        assert_eq!(
            hunks[0].lines,
            vec![
                HunkLine::Remove("-- old".into()),
                HunkLine::Remove("b".into()),
                HunkLine::Add("++ new".into()),
            ]
        );
    }
}
