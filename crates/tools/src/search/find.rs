//! `find`: finds files by name pattern. Results never leave the workspace.

use std::fmt::{self, Write as _};

use haft_contract::{
    Access, CallContext, Content, Effects, NoProgress, Plan, PlanContext, Tool, ToolError,
    ToolSpec,
    ops::{FileKind, FindQuery, FindSort, FoundEntry},
    spec::ParameterAlias,
    streamed::Tell,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check_pattern;
use crate::{
    files::list::ListedEntry,
    foreign::{leave_out, refuse_unless},
    text::display::one_line,
};

const DEFAULT_LIMIT: u64 = 200;
const MAX_LIMIT: u64 = 5_000;

const DESCRIPTION: &str = "\
Finds files and directories whose path matches a glob, such as `**/*.rs`, `src/**/test_*.py` or \
`Cargo.toml`.
Use it when you know a name or extension; use it instead of `find` or `ls -R` in `bash`. To search \
inside files use `grep`.
A pattern without a slash matches the name at any depth; `**/*.rs` also matches at the top. What \
`.gitignore` leaves out is left out unless `include_ignored` is set. Sort by `modified` to see the \
newest first.";

/// The `find` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct FindTool;

/// What `find` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindInput {
    /// The glob to match paths against, relative to `path`.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// The directory to look in: relative to the workspace, or absolute inside it. Defaults to the
    /// workspace.
    #[serde(default = "workspace")]
    pub path: String,
    /// Only entries of this type. Defaults to all types.
    #[serde(default, rename = "type")]
    pub kind: Option<EntryType>,
    /// The order of results: `path` (default), `modified` (newest first) or `size` (largest first).
    #[serde(default)]
    pub sort: SortBy,
    /// The most results to return. Defaults to 200, at most 5000.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 5000))]
    pub limit: u64,
    /// How many results to pass over first, to continue an earlier search.
    #[serde(default)]
    pub offset: u64,
    /// Whether to include what `.gitignore` leaves out.
    #[serde(default)]
    pub include_ignored: bool,
}

/// A type of directory entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum EntryType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Symlink,
}

/// The order of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum SortBy {
    /// By path.
    #[default]
    Path,
    /// Newest first.
    Modified,
    /// Largest first.
    Size,
}

/// What `find` found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FindOutput {
    /// The entries, in the order asked for.
    pub entries: Vec<ListedEntry>,
    /// How many entries matched in all.
    pub total: u64,
    /// The `offset` to continue with, when there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

/// An entry, as soon as it is found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundFile {
    /// The entry, relative to the workspace.
    pub path: String,
    /// What it is: `file`, `directory`, `symlink` or `other`.
    pub kind: &'static str,
}

impl fmt::Display for FoundFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.path))
    }
}

impl From<FoundEntry> for FoundFile {
    fn from(found: FoundEntry) -> Self {
        Self {
            path: found.path,
            kind: found.kind.as_str(),
        }
    }
}

fn workspace() -> String {
    ".".to_owned()
}

fn default_limit() -> u64 {
    DEFAULT_LIMIT
}

/// What other systems' searches for files take besides.
fn other_finders(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let mut notes = Vec::new();
    if input.get("respect_git_ignore") == Some(&Value::Bool(false)) {
        input.insert("include_ignored".to_owned(), Value::Bool(true));
        notes.push("`respect_git_ignore` false read as `include_ignored`".to_owned());
    }
    input.remove("respect_git_ignore");
    let patterns = "narrow `pattern` instead; what `.gitignore` leaves out is left out in any case";
    refuse_unless(input, "excludePatterns", &[], patterns)?;
    refuse_unless(input, "exclude_patterns", &[], patterns)?;
    let unneeded = [
        (
            "case_sensitive",
            "file names are matched as they are written",
        ),
        ("explanation", "nobody is asked about a search"),
        ("respect_gemini_ignore", "there is no such file here"),
    ];
    leave_out(input, &unneeded, &mut notes);
    Ok(notes)
}

impl Tool for FindTool {
    type Input = FindInput;
    type Output = FindOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "find";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Find files", DESCRIPTION)
            .effects(Effects::READ_ONLY)
            .groups(&["search"])
            .streams::<FoundFile>("file")
            .aliases(&["find_files", "glob", "Glob"])
            .foreign_names(&["search_files", "file_search", "glob_file_search"])
            .parameter_aliases(&[
                ParameterAlias::new("glob", "pattern"),
                ParameterAlias::new("glob_pattern", "pattern"),
                ParameterAlias::new("directory", "path"),
                ParameterAlias::new("dir_path", "path"),
                ParameterAlias::new("target_directory", "path"),
                ParameterAlias::new("query", "pattern"),
            ])
            .reshape(other_finders)
    }

    fn plan(&self, input: &FindInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        check_pattern(&input.pattern, "/pattern")?;
        let path = cx.path(&input.path, "/path")?;
        Ok(Plan::read_only().access(Access::read_tree(path)))
    }

    async fn run(
        &self,
        input: FindInput,
        cx: CallContext<NoProgress>,
    ) -> Result<FindOutput, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        let items = cx.items();
        let query = FindQuery {
            pattern: &input.pattern,
            path: &path,
            kind: input.kind.map(|kind| match kind {
                EntryType::File => FileKind::File,
                EntryType::Directory => FileKind::Directory,
                EntryType::Symlink => FileKind::Symlink,
            }),
            sort: match input.sort {
                SortBy::Path => FindSort::Path,
                SortBy::Modified => FindSort::Modified,
                SortBy::Size => FindSort::Size,
            },
            respect_ignores: !input.include_ignored,
            limit: usize::try_from(input.limit.clamp(1, MAX_LIMIT)).unwrap_or(1),
            offset: usize::try_from(input.offset).unwrap_or(usize::MAX),
            withheld: &[],
            found: Some(Tell::new(move |found| items.emit(&FoundFile::from(found)))),
            cancel: cx.cancel(),
        };
        let found = cx.search().find(query).await?;
        let end = input.offset.saturating_add(found.entries.len() as u64);
        Ok(FindOutput {
            next_offset: (end < found.total && !found.entries.is_empty()).then_some(end),
            entries: found.entries.into_iter().map(Into::into).collect(),
            total: found.total,
        })
    }

    fn render(&self, output: &FindOutput) -> Vec<Content> {
        let mut text = String::new();
        for entry in &output.entries {
            text.push_str(&one_line(&entry.path));
            if entry.kind == FileKind::Directory.as_str() {
                text.push('/');
            }
            text.push('\n');
        }
        if output.total == 0 {
            text.push_str("[nothing matches]");
        }
        if let Some(next) = output.next_offset {
            // Writing to a `String` cannot fail.
            let _ = write!(
                text,
                "[{} of {}; continue with offset={next}]",
                output.entries.len(),
                output.total
            );
        }
        vec![Content::Text(text)]
    }
}
