//! `list`: the entries of a directory with type and size, sorted.

use std::fmt::Write as _;

use haft_contract::{
    Access, CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool,
    ToolError, ToolSpec,
    ops::{Entry, FileKind, ListQuery},
    spec::{ForeignCall, ParameterAlias},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    foreign::{leave_out, refuse_unless},
    text::display::one_line,
};

const DEFAULT_LIMIT: u64 = 500;
const MAX_LIMIT: u64 = 5_000;
const MAX_DEPTH: u64 = 20;

const DESCRIPTION: &str = "\
Lists the files and directories in a directory, sorted by path, with type and size.
Use it to get to know a directory; use it instead of `ls` or `tree` in `bash`. To look for files by \
name use `find`, to look into a file use `read`.
`depth` 1 (the default) lists the directory alone; more levels show what is beneath.";

/// The `list` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ListTool;

/// What `list` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListInput {
    /// The directory: relative to the workspace, or absolute inside it. Defaults to the workspace.
    #[serde(default = "workspace")]
    pub path: String,
    /// How many levels to show. Defaults to 1, at most 20.
    #[serde(default = "one_level")]
    #[schemars(range(min = 1, max = 20))]
    pub depth: u64,
    /// The most entries to return. Defaults to 500, at most 5000.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 5000))]
    pub limit: u64,
    /// Whether to leave out what `.gitignore` leaves out.
    #[serde(default)]
    pub respect_ignores: bool,
}

/// What `list` found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListOutput {
    /// The directory, relative to the workspace.
    pub path: String,
    /// What is in it, sorted by path.
    pub entries: Vec<ListedEntry>,
    /// How many entries the limit left out.
    pub omitted: u64,
}

/// One file or directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedEntry {
    /// The path, relative to the workspace.
    pub path: String,
    /// `file`, `directory`, `symlink` or `other`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The size of a file in bytes.
    pub size: u64,
}

impl From<Entry> for ListedEntry {
    fn from(entry: Entry) -> Self {
        Self {
            path: entry.path,
            kind: entry.kind.as_str(),
            size: entry.size,
        }
    }
}

fn workspace() -> String {
    ".".to_owned()
}

fn one_level() -> u64 {
    1
}

fn default_limit() -> u64 {
    DEFAULT_LIMIT
}

/// What other systems' lists take besides.
fn other_lists(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let mut notes = Vec::new();
    if input.remove("recursive") == Some(Value::Bool(true)) {
        input.insert("depth".to_owned(), Value::from(MAX_DEPTH));
        notes.push(format!("`recursive` read as a `depth` of {MAX_DEPTH}"));
    }
    if let Some(respect) = input.remove("respect_git_ignore") {
        input.insert("respect_ignores".to_owned(), respect);
        notes.push("`respect_git_ignore` read as `respect_ignores`".to_owned());
    }
    let ignore = "set `respect_ignores` to leave out what `.gitignore` leaves out, or use `find`";
    refuse_unless(input, "ignore", &[], ignore)?;
    refuse_unless(input, "ignore_globs", &[], ignore)?;
    refuse_unless(input, "excludePatterns", &[], ignore)?;
    if input.get("offset").and_then(Value::as_f64) == Some(1.0) {
        input.remove("offset");
        notes.push("`offset` is left out: entries are listed from the first".to_owned());
    }
    refuse_unless(input, "offset", &[], "raise `limit` to see more entries")?;
    if let Some(options) = input.remove("file_filtering_options") {
        let respect = options.get("respect_git_ignore").and_then(Value::as_bool);
        input.insert(
            "respect_ignores".to_owned(),
            Value::Bool(respect == Some(true)),
        );
        notes.push("`file_filtering_options` read as `respect_ignores`".to_owned());
    }
    let unneeded = [
        ("sortBy", "entries are sorted by path"),
        ("explanation", "nobody is asked about a list"),
    ];
    leave_out(input, &unneeded, &mut notes);
    Ok(notes)
}

impl Tool for ListTool {
    type Input = ListInput;
    type Output = ListOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "list";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("List a directory", DESCRIPTION)
            .effects(Effects::READ_ONLY)
            .groups(&["files"])
            .aliases(&["list_dir", "ls", "LS"])
            .foreign_names(&[
                "list_directory",
                "list_directory_with_sizes",
                "list_files",
                "tree",
            ])
            .foreign_calls(&[
                ForeignCall::new("directory_tree").with("depth", "20"),
                ForeignCall::new("get_file_info")
                    .instead("`list` says how large a file is; `stat` in `bash` says more"),
                ForeignCall::new("list_allowed_directories")
                    .instead("there is one workspace, and `list` without a path shows it"),
            ])
            .parameter_aliases(&[
                ParameterAlias::new("directory", "path"),
                ParameterAlias::new("dir_path", "path"),
                ParameterAlias::new("target_directory", "path"),
                ParameterAlias::new("relative_workspace_path", "path"),
                ParameterAlias::new("max_entries", "limit"),
            ])
            .reshape(other_lists)
    }

    fn plan(&self, input: &ListInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        Ok(Plan::read_only().access(Access::read_tree(path)))
    }

    async fn run(
        &self,
        input: ListInput,
        cx: CallContext<NoProgress>,
    ) -> Result<ListOutput, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        let query = ListQuery {
            depth: usize::try_from(input.depth.clamp(1, MAX_DEPTH)).unwrap_or(1),
            limit: usize::try_from(input.limit.clamp(1, MAX_LIMIT)).unwrap_or(1),
            respect_ignores: input.respect_ignores,
            withheld: &[],
            cancel: cx.cancel(),
        };
        let listing = cx.files().list(&path, query).await.map_err(|error| {
            let kind = error.kind();
            let error = ToolError::from(error).at("/path");
            if kind == ErrorKind::NotDirectory {
                error.hint("use `read` to look into a file")
            } else {
                error
            }
        })?;
        Ok(ListOutput {
            path: path.as_str().to_owned(),
            entries: listing.entries.into_iter().map(Into::into).collect(),
            omitted: listing.omitted,
        })
    }

    fn render(&self, output: &ListOutput) -> Vec<Content> {
        let mut text = String::new();
        for entry in &output.entries {
            let path = one_line(&entry.path);
            // Writing to a `String` cannot fail.
            let _ = if entry.kind == FileKind::Directory.as_str() {
                writeln!(text, "{path}/")
            } else if entry.kind == FileKind::File.as_str() {
                writeln!(text, "{path}  {} bytes", entry.size)
            } else {
                writeln!(text, "{path}  {}", entry.kind)
            };
        }
        if output.entries.is_empty() {
            text.push_str("[the directory is empty]");
        }
        if output.omitted > 0 {
            let _ = write!(
                text,
                "[{} more entries; raise `limit` or list a directory beneath]",
                output.omitted
            );
        }
        vec![Content::Text(text)]
    }
}
