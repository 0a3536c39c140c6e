//! Search over one workspace. Results never leave it, and nothing a model writes is ever passed
//! as a flag to another program.

use tokio_util::sync::CancellationToken;

use super::{Entry, FileKind, OpsError};
use crate::{future::BoxFuture, path::WorkPath, streamed::Tell};

/// Search operations of one workspace.
pub trait SearchOps: Send + Sync {
    /// Searches file contents. Results are ordered by path, then by line.
    fn grep<'a>(&'a self, query: GrepQuery<'a>) -> BoxFuture<'a, Result<GrepResults, OpsError>>;

    /// Finds files by name pattern.
    fn find<'a>(&'a self, query: FindQuery<'a>) -> BoxFuture<'a, Result<FindResults, OpsError>>;

    /// Whether these patterns withhold a path: it, or a directory above it, matches. Gives the same
    /// answer that leaves it out of `grep` and `find`, for a file that is opened by name.
    fn withholds(&self, withheld: &[String], path: &WorkPath) -> Result<bool, OpsError>;
}

/// What to search for in file contents.
#[derive(Debug, Clone)]
pub struct GrepQuery<'a> {
    /// A regular expression in linear-time syntax, or plain text with `fixed`.
    pub pattern: &'a str,
    /// Where to search: a file or a directory.
    pub path: &'a WorkPath,
    /// Only files whose path matches this glob.
    pub glob: Option<&'a str>,
    /// Only files of this type (`rust`, `py`), as ripgrep names them.
    pub file_type: Option<&'a str>,
    /// What to report.
    pub mode: GrepMode,
    /// Lines of context before each match.
    pub before: usize,
    /// Lines of context after each match.
    pub after: usize,
    /// Whether case is ignored.
    pub ignore_case: bool,
    /// Whether the pattern is plain text.
    pub fixed: bool,
    /// Whether a match may span lines.
    pub multiline: bool,
    /// The most results to return: lines, or files in the other modes.
    pub limit: usize,
    /// How many results to skip.
    pub offset: usize,
    /// The longest line returned, in bytes; longer ones are cut and marked.
    pub max_line_bytes: usize,
    /// Glob patterns of paths to leave out because reading them is denied.
    pub withheld: &'a [String],
    /// Told of results as they are found, in any order and each once, until `limit` were told. The
    /// results say which of them are on the page. A search that passes over results, or a back end
    /// that learns of them only at the end, tells the page just before it returns.
    pub found: Option<Tell<GrepFound>>,
    /// Stops a long search.
    pub cancel: &'a CancellationToken,
}

/// A result of a grep, as soon as it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrepFound {
    /// A matching line, in content mode.
    Line(GrepLine),
    /// A file with a match, in the other modes.
    File(GrepFile),
}

/// What a grep reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrepMode {
    /// Matching lines with context.
    Content,
    /// Files with at least one match.
    Files,
    /// Matches per file.
    Count,
}

impl GrepQuery<'_> {
    /// Tells the whole page at once.
    pub fn tell_page(&self, page: &GrepResults) {
        let Some(found) = &self.found else { return };
        let lines = page.lines.iter().filter(|line| line.matched);
        let lines = lines.map(|line| GrepFound::Line(line.clone()));
        let files = page.files.iter().map(|file| GrepFound::File(file.clone()));
        lines.chain(files).for_each(|result| found.tell(result));
    }
}

/// What a grep found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrepResults {
    /// Matching lines and their context, in content mode.
    pub lines: Vec<GrepLine>,
    /// Files and their match counts, in the other modes.
    pub files: Vec<GrepFile>,
    /// Whether more results exist past the limit.
    pub more: bool,
    /// Files searched.
    pub searched: u64,
}

/// A line of a grep result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepLine {
    /// The file.
    pub path: String,
    /// The line number, from 1.
    pub number: u64,
    /// The text, without its line end, cut at the query's limit.
    pub text: String,
    /// Whether this line matched; otherwise it is context.
    pub matched: bool,
    /// Bytes cut from the end of the line.
    pub cut: u64,
}

/// A file of a grep result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrepFile {
    /// The file.
    pub path: String,
    /// Matching lines in it.
    pub count: u64,
}

/// Which files to find.
#[derive(Debug, Clone)]
pub struct FindQuery<'a> {
    /// A glob over the path below `path`. `**/*.rs` also matches at the top; a pattern without a
    /// slash matches the file name at any depth.
    pub pattern: &'a str,
    /// Where to look.
    pub path: &'a WorkPath,
    /// Only entries of this kind.
    pub kind: Option<FileKind>,
    /// The order of results.
    pub sort: FindSort,
    /// Whether to honour `.gitignore` and similar files.
    pub respect_ignores: bool,
    /// The most results to return.
    pub limit: usize,
    /// How many results to skip.
    pub offset: usize,
    /// Glob patterns of paths to leave out because reading them is denied.
    pub withheld: &'a [String],
    /// Told of entries as they are found, as [`GrepQuery::found`] is.
    pub found: Option<Tell<FoundEntry>>,
    /// Stops a long search.
    pub cancel: &'a CancellationToken,
}

/// An entry as soon as it is found. Its size and times come with the results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEntry {
    /// Its path.
    pub path: String,
    /// What kind of thing it is.
    pub kind: FileKind,
}

impl FindQuery<'_> {
    /// Tells the whole page at once.
    pub fn tell_page(&self, page: &FindResults) {
        let Some(found) = &self.found else { return };
        for entry in &page.entries {
            found.tell(FoundEntry {
                path: entry.path.clone(),
                kind: entry.kind,
            });
        }
    }
}

/// The order of find results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindSort {
    /// By path.
    Path,
    /// Newest first, then by path.
    Modified,
    /// Largest first, then by path.
    Size,
}

/// What a find found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FindResults {
    /// The entries, in the order asked for.
    pub entries: Vec<Entry>,
    /// How many entries matched in total.
    pub total: u64,
}
