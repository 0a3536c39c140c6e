//! Search over the in-memory tree, with the same `regex` and glob languages as the real one.

use std::sync::Arc;

use globset::GlobMatcher;
use haft_contract::{
    BoxFuture, ErrorKind, WorkPath,
    ops::{
        Entry, FindQuery, FindResults, FindSort, GrepFile, GrepLine, GrepMode, GrepQuery,
        GrepResults, OpsError, SearchOps,
    },
};
use regex::bytes::{Regex, RegexBuilder};

use super::{
    glob,
    tree::{MemoryTree, NodeKind, Tree},
};

/// The most memory one compiled pattern takes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// The file types this back end knows, and their names.
const FILE_TYPES: [(&str, &str); 4] = [
    ("rust", "*.rs"),
    ("py", "*.py"),
    ("toml", "*.toml"),
    ("txt", "*.txt"),
];

/// Search in one tree.
pub(super) struct MemorySearch {
    tree: MemoryTree,
}

impl MemorySearch {
    pub(super) fn new(tree: MemoryTree) -> Self {
        Self { tree }
    }
}

impl SearchOps for MemorySearch {
    fn grep<'a>(&'a self, query: GrepQuery<'a>) -> BoxFuture<'a, Result<GrepResults, OpsError>> {
        Box::pin(async move {
            let results = grep(&self.tree.lock(), &query)?;
            query.tell_page(&results);
            Ok(results)
        })
    }

    fn find<'a>(&'a self, query: FindQuery<'a>) -> BoxFuture<'a, Result<FindResults, OpsError>> {
        Box::pin(async move {
            let results = find(&self.tree.lock(), &query)?;
            query.tell_page(&results);
            Ok(results)
        })
    }

    fn withholds(&self, withheld: &[String], path: &WorkPath) -> Result<bool, OpsError> {
        let withheld = glob::withheld(withheld)?;
        Ok(path.ancestors().any(|path| withheld.is_match(path)))
    }
}

fn find(tree: &Tree, query: &FindQuery<'_>) -> Result<FindResults, OpsError> {
    tree.directory(query.path)?;
    let pattern = glob::pattern(query.pattern)?;
    let withheld = glob::withheld(query.withheld)?;
    let mut entries = Vec::new();
    for (name, node) in tree.beneath(query.path) {
        stopped(query.cancel.is_cancelled())?;
        if pattern.is_match(below(query.path, name))
            && query.kind.is_none_or(|kind| kind == node.what.kind())
            && !withheld.is_match(name)
            && !(query.respect_ignores && glob::is_ignored(tree, name))
        {
            entries.push(node.entry(name));
        }
    }
    let by_path = |a: &Entry, b: &Entry| a.path.cmp(&b.path);
    match query.sort {
        FindSort::Path => entries.sort_by(by_path),
        FindSort::Modified => {
            entries.sort_by(|a, b| {
                b.modified_ms
                    .cmp(&a.modified_ms)
                    .then_with(|| by_path(a, b))
            });
        }
        FindSort::Size => entries.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| by_path(a, b))),
    }
    let total = entries.len() as u64;
    let entries = entries
        .into_iter()
        .skip(query.offset)
        .take(query.limit)
        .collect();
    Ok(FindResults { entries, total })
}

fn grep(tree: &Tree, query: &GrepQuery<'_>) -> Result<GrepResults, OpsError> {
    let regex = compile(query)?;
    let files = candidates(tree, query)?;
    let mut results = GrepResults::default();
    let mut passed = 0;
    for (name, bytes) in files {
        stopped(query.cancel.is_cancelled())?;
        results.searched += 1;
        let lines: Vec<&[u8]> = split(&bytes);
        let matched = matching_lines(&regex, &bytes, &lines, query.multiline);
        if matched.is_empty() {
            continue;
        }
        match query.mode {
            GrepMode::Files | GrepMode::Count => {
                passed += 1;
                if passed <= query.offset {
                    continue;
                }
                if results.files.len() == query.limit {
                    results.more = true;
                    break;
                }
                results.files.push(GrepFile {
                    path: name,
                    count: matched.len() as u64,
                });
            }
            GrepMode::Content => {
                let room = query.limit - results.lines.iter().filter(|line| line.matched).count();
                let skip = query.offset.saturating_sub(passed);
                passed += matched.len();
                let kept: Vec<usize> = matched.iter().copied().skip(skip).take(room).collect();
                show(query, &name, &lines, &matched, &kept, &mut results.lines);
                if matched.len().saturating_sub(skip) > room {
                    results.more = true;
                    break;
                }
            }
        }
    }
    Ok(results)
}

/// A file to search and its bytes.
type Candidate = (String, Arc<Vec<u8>>);

/// The files to search, in order of their paths.
fn candidates(tree: &Tree, query: &GrepQuery<'_>) -> Result<Vec<Candidate>, OpsError> {
    let withheld = glob::withheld(query.withheld)?;
    let wanted = query.glob.map(glob::pattern).transpose()?;
    let kind = query.file_type.map(file_type).transpose()?;
    if !query.path.is_root() && tree.directory(query.path).is_err() {
        let (_, bytes) = tree.file(query.path)?;
        let name = query.path.as_str();
        let hidden = withheld.is_match(name);
        return Ok(if hidden {
            Vec::new()
        } else {
            vec![(name.to_owned(), Arc::clone(bytes))]
        });
    }
    let matches = |glob: &Option<GlobMatcher>, name: &str| {
        glob.as_ref()
            .is_none_or(|glob| glob.is_match(below(query.path, name)))
    };
    Ok(tree
        .beneath(query.path)
        .filter(|(name, _)| matches(&wanted, name) && matches(&kind, name))
        .filter(|(name, _)| !withheld.is_match(name) && !glob::is_ignored(tree, name))
        .filter_map(|(name, node)| match &node.what {
            NodeKind::File(bytes) => Some((name.to_owned(), Arc::clone(bytes))),
            NodeKind::Directory | NodeKind::Symlink(_) | NodeKind::Other => None,
        })
        .collect())
}

fn file_type(name: &str) -> Result<GlobMatcher, OpsError> {
    let known = FILE_TYPES.iter().find(|(known, _)| *known == name);
    let (_, pattern) = known.ok_or_else(|| {
        OpsError::new(
            ErrorKind::InvalidInput,
            format!("there is no file type `{name}`"),
        )
    })?;
    glob::pattern(pattern)
}

fn compile(query: &GrepQuery<'_>) -> Result<Regex, OpsError> {
    let text = if query.fixed {
        regex::escape(query.pattern)
    } else {
        query.pattern.to_owned()
    };
    RegexBuilder::new(&text)
        .case_insensitive(query.ignore_case)
        .multi_line(true)
        .dot_matches_new_line(query.multiline)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| {
            let kind = match error {
                regex::Error::CompiledTooBig(_) => ErrorKind::LimitExceeded,
                _ => ErrorKind::InvalidInput,
            };
            OpsError::new(kind, format!("the pattern cannot be used: {error}"))
        })
}

/// The indexes of the lines a match touches.
fn matching_lines(regex: &Regex, bytes: &[u8], lines: &[&[u8]], multiline: bool) -> Vec<usize> {
    if !multiline {
        return (0..lines.len())
            .filter(|index| regex.is_match(lines[*index]))
            .collect();
    }
    let line_of = |offset: usize| {
        bytes[..offset]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count()
    };
    let mut touched: Vec<usize> = regex
        .find_iter(bytes)
        .flat_map(|found| {
            let last = found.end().saturating_sub(1).max(found.start());
            line_of(found.start())..=line_of(last)
        })
        .filter(|index| *index < lines.len())
        .collect();
    touched.dedup();
    touched
}

/// Adds the kept lines of one file with their context, each line once.
fn show(
    query: &GrepQuery<'_>,
    name: &str,
    lines: &[&[u8]],
    matched: &[usize],
    kept: &[usize],
    shown: &mut Vec<GrepLine>,
) {
    let mut next = 0;
    for index in kept {
        let from = index.saturating_sub(query.before).max(next);
        let to = (index + query.after + 1).min(lines.len());
        for (at, line) in lines.iter().enumerate().take(to).skip(from) {
            // A match past the limit is not shown as context either.
            let is_match = matched.contains(&at);
            if is_match && !kept.contains(&at) {
                break;
            }
            let (text, cut) = clip(line, query.max_line_bytes);
            shown.push(GrepLine {
                path: name.to_owned(),
                number: at as u64 + 1,
                text,
                matched: is_match,
                cut,
            });
            next = at + 1;
        }
    }
}

/// The line as text, cut at a character boundary, and how many bytes were cut.
fn clip(line: &[u8], limit: usize) -> (String, u64) {
    let text = String::from_utf8_lossy(line);
    if text.len() <= limit {
        return (text.into_owned(), 0);
    }
    let end = text.floor_char_boundary(limit);
    (text[..end].to_owned(), (text.len() - end) as u64)
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
        .into_iter()
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .collect()
}

fn below<'n>(directory: &WorkPath, name: &'n str) -> &'n str {
    if directory.is_root() {
        name
    } else {
        &name[directory.as_str().len() + 1..]
    }
}

fn stopped(cancelled: bool) -> Result<(), OpsError> {
    if cancelled {
        return Err(OpsError::new(
            ErrorKind::Cancelled,
            "the search was stopped",
        ));
    }
    Ok(())
}
