//! `grep`: finds text in files. Patterns run on a linear-time engine in process; nothing a model
//! writes ever becomes a flag of another program.

use std::fmt::{self, Write as _};

use haft_contract::{
    Access, CallContext, Content, Effects, NoProgress, Plan, PlanContext, Tool, ToolError,
    ToolSpec,
    ops::{GrepFile, GrepFound, GrepLine, GrepMode, GrepQuery},
    spec::{ForeignCall, ParameterAlias},
    streamed::{ItemSink, Tell},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::check_pattern;
use crate::{
    foreign::{leave_out, refuse_unless},
    text::display::one_line,
};

const DEFAULT_LIMIT: u64 = 200;
const MAX_LIMIT: u64 = 5_000;
const MAX_CONTEXT: u64 = 50;

/// Longer lines are cut: minified files would flood the model.
const MAX_LINE_BYTES: usize = 500;

const DESCRIPTION: &str = "\
Searches file contents with a regular expression (Rust syntax, as ripgrep: no backreferences or \
look-around) and returns matching lines, matching files or counts.
Use it to find where something is defined or used; use it instead of `grep` or `rg` in `bash`. To \
find files by name use `find`.
Set `fixed` for plain text, `glob` (`*.rs`) or `type` (`rust`) to narrow the files, `mode` to \
`files` for paths only or `count` for numbers, `before` and `after` for context lines. What \
`.gitignore` leaves out, `.git` and binary files are not searched.";

/// The `grep` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct GrepTool;

/// What `grep` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GrepInput {
    /// The regular expression, or the plain text if `fixed` is set.
    #[schemars(length(min = 1))]
    pub pattern: String,
    /// The file or directory to search: relative to the workspace, or absolute inside it. Defaults
    /// to the workspace.
    #[serde(default = "workspace")]
    pub path: String,
    /// Only files whose path matches this glob, such as `*.rs`.
    #[serde(default)]
    pub glob: Option<String>,
    /// Only files of this type, as ripgrep names them, such as `rust`, `py` or `js`.
    #[serde(default, rename = "type")]
    pub file_type: Option<String>,
    /// What to return: `content` (matching lines, default), `files` (paths) or `count`.
    #[serde(default)]
    pub mode: Mode,
    /// Lines of context before each match.
    #[serde(default)]
    #[schemars(range(max = 50))]
    pub before: u64,
    /// Lines of context after each match.
    #[serde(default)]
    #[schemars(range(max = 50))]
    pub after: u64,
    /// Whether to ignore case.
    #[serde(default)]
    pub ignore_case: bool,
    /// Whether the pattern is plain text.
    #[serde(default)]
    pub fixed: bool,
    /// Whether a match may span lines.
    #[serde(default)]
    pub multiline: bool,
    /// The most results to return: matching lines, or files. Defaults to 200, at most 5000.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 5000))]
    pub limit: u64,
    /// How many results to pass over first, to continue an earlier search.
    #[serde(default)]
    pub offset: u64,
}

/// What a search returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Mode {
    /// Matching lines with context.
    #[default]
    Content,
    /// Paths of files with a match.
    Files,
    /// Matching lines per file.
    Count,
}

/// What `grep` found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GrepOutput {
    /// Matching lines in `content` mode, files in the other modes.
    pub results: u64,
    /// Files that were searched.
    pub searched: u64,
    /// The `offset` to continue with, when there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
    /// Files and their number of matching lines, in the `files` and `count` modes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileMatches>,
    /// What the model reads. Not repeated in the structured output.
    #[serde(skip)]
    text: String,
}

/// Matches in one file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FileMatches {
    /// The file, relative to the workspace.
    pub path: String,
    /// Matching lines in it.
    pub count: u64,
}

/// A match, as soon as it is found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FoundMatch {
    /// The file, relative to the workspace.
    pub path: String,
    /// The line number, from 1; absent in the `files` and `count` modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The matching line; absent in the `files` and `count` modes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl fmt::Display for FoundMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.path))?;
        match (self.line, &self.text) {
            (Some(line), Some(text)) => write!(f, ":{line}: {text}"),
            (_, _) => Ok(()),
        }
    }
}

impl From<GrepFound> for FoundMatch {
    fn from(found: GrepFound) -> Self {
        match found {
            GrepFound::Line(line) => Self {
                path: line.path,
                line: Some(line.number),
                text: Some(line.text),
            },
            GrepFound::File(file) => Self {
                path: file.path,
                line: None,
                text: None,
            },
        }
    }
}

fn tell_items(items: ItemSink) -> Tell<GrepFound> {
    Tell::new(move |found| items.emit(&FoundMatch::from(found)))
}

fn workspace() -> String {
    ".".to_owned()
}

fn default_limit() -> u64 {
    DEFAULT_LIMIT
}

impl Tool for GrepTool {
    type Input = GrepInput;
    type Output = GrepOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "grep";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Search in files", DESCRIPTION)
            .effects(Effects::READ_ONLY)
            .groups(&["search"])
            .streams::<FoundMatch>("match")
            .aliases(&["Grep"])
            .foreign_names(&["search_file_content", "grep_search", "grep_files"])
            .foreign_calls(&[ForeignCall::new("codebase_search")
                .instead("nothing here searches by meaning; search for words with `grep`")])
            .parameter_aliases(&[
                ParameterAlias::new("query", "pattern"),
                ParameterAlias::new("regex", "pattern"),
                ParameterAlias::new("include", "glob"),
                ParameterAlias::new("include_pattern", "glob"),
                ParameterAlias::new("dir_path", "path"),
                ParameterAlias::new("directory", "path"),
                ParameterAlias::new("output_mode", "mode"),
                ParameterAlias::new("head_limit", "limit"),
                ParameterAlias::new("-i", "ignore_case"),
                ParameterAlias::new("-A", "after"),
                ParameterAlias::new("-B", "before"),
                ParameterAlias::new("-C", "before"),
                ParameterAlias::new("-C", "after"),
                ParameterAlias::new("context", "before"),
                ParameterAlias::new("context", "after"),
                ParameterAlias::new("fixed_strings", "fixed"),
                ParameterAlias::new("max_results", "limit"),
                ParameterAlias::new("file_pattern", "glob"),
            ])
            .reshape(other_searches)
    }

    fn plan(&self, input: &GrepInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        check_pattern(&input.pattern, "/pattern")?;
        if let Some(glob) = &input.glob {
            check_pattern(glob, "/glob")?;
        }
        let path = cx.path(&input.path, "/path")?;
        Ok(Plan::read_only().access(Access::read_tree(path)))
    }

    async fn run(
        &self,
        input: GrepInput,
        cx: CallContext<NoProgress>,
    ) -> Result<GrepOutput, ToolError> {
        let path = cx.path(&input.path, "/path")?;
        let context = |lines: u64| usize::try_from(lines.min(MAX_CONTEXT)).unwrap_or(0);
        let query = GrepQuery {
            pattern: &input.pattern,
            path: &path,
            glob: input.glob.as_deref(),
            file_type: input.file_type.as_deref(),
            mode: match input.mode {
                Mode::Content => GrepMode::Content,
                Mode::Files => GrepMode::Files,
                Mode::Count => GrepMode::Count,
            },
            before: context(input.before),
            after: context(input.after),
            ignore_case: input.ignore_case,
            fixed: input.fixed,
            multiline: input.multiline,
            limit: usize::try_from(input.limit.clamp(1, MAX_LIMIT)).unwrap_or(1),
            offset: usize::try_from(input.offset).unwrap_or(usize::MAX),
            max_line_bytes: MAX_LINE_BYTES,
            withheld: &[],
            found: Some(tell_items(cx.items())),
            cancel: cx.cancel(),
        };
        let found = cx.search().grep(query).await?;
        let results = match input.mode {
            Mode::Content => found.lines.iter().filter(|line| line.matched).count(),
            Mode::Files | Mode::Count => found.files.len(),
        } as u64;
        let mut text = match input.mode {
            Mode::Content => lines_text(&found.lines),
            Mode::Files => files_text(&found.files, |_| String::new()),
            Mode::Count => files_text(&found.files, |file| format!(": {}", file.count)),
        };
        let next_offset = found.more.then(|| input.offset.saturating_add(results));
        if results == 0 {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "[no match in {} files]", found.searched);
        }
        if let Some(next) = next_offset {
            let _ = write!(text, "[there is more; continue with offset={next}]");
        }
        Ok(GrepOutput {
            results,
            searched: found.searched,
            next_offset,
            files: found
                .files
                .into_iter()
                .map(|file| FileMatches {
                    path: file.path,
                    count: file.count,
                })
                .collect(),
            text,
        })
    }

    fn render(&self, output: &GrepOutput) -> Vec<Content> {
        vec![Content::text(output.text.clone())]
    }
}

/// Accepts other agents' words for the mode, and what their searches take besides.
fn other_searches(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let mut notes = Vec::new();
    let words = [
        ("files_with_matches", "files"),
        ("files_only", "files"),
        ("count_matches", "count"),
    ];
    if let Some(mode) = input.get_mut("mode") {
        let meant = words.iter().find(|(word, _)| mode.as_str() == Some(*word));
        if let Some((word, own)) = meant {
            *mode = Value::from(*own);
            notes.push(format!("`{word}` became `{own}`"));
        }
    }
    if input.get("limit").and_then(Value::as_f64) == Some(0.0) {
        input.remove("limit");
        notes.push("a limit of 0 is none, so the usual one applies".to_owned());
    }
    if let Some(sensitive) = input.remove("case_sensitive") {
        input
            .entry("ignore_case".to_owned())
            .or_insert(Value::Bool(sensitive == Value::Bool(false)));
        notes.push("`case_sensitive` read as the opposite of `ignore_case`".to_owned());
    }
    let exclude = "narrow `glob` instead; what `.gitignore` leaves out is not searched in any case";
    refuse_unless(input, "exclude_pattern", &[], exclude)?;
    let unneeded = [
        ("-n", "lines are always numbered"),
        ("explanation", "nobody is asked about a search"),
    ];
    leave_out(input, &unneeded, &mut notes);
    Ok(notes)
}

/// Lines under their file's name; `12:` marks a match, `11-` context, `--` a gap.
fn lines_text(lines: &[GrepLine]) -> String {
    let mut text = String::new();
    let mut previous: Option<&GrepLine> = None;
    for line in lines {
        match previous {
            Some(before) if before.path == line.path => {
                if before.number + 1 < line.number {
                    text.push_str("--\n");
                }
            }
            Some(_) | None => {
                if previous.is_some() {
                    text.push('\n');
                }
                text.push_str(&one_line(&line.path));
                text.push('\n');
            }
        }
        let mark = if line.matched { ':' } else { '-' };
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{}{mark} {}", line.number, line.text);
        if line.cut > 0 {
            let _ = write!(text, " [{} bytes cut]", line.cut);
        }
        text.push('\n');
        previous = Some(line);
    }
    text
}

fn files_text(files: &[GrepFile], suffix: impl Fn(&GrepFile) -> String) -> String {
    let mut text = String::new();
    for file in files {
        text.push_str(&one_line(&file.path));
        text.push_str(&suffix(file));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str, number: u64, text: &str, matched: bool) -> GrepLine {
        GrepLine {
            path: path.to_owned(),
            number,
            text: text.to_owned(),
            matched,
            cut: 0,
        }
    }

    #[test]
    fn lines_stand_under_their_file() {
        let lines = [
            line("a.rs", 3, "x", true),
            line("a.rs", 4, "y", false),
            line("a.rs", 9, "x", true),
            line("b\n.rs", 1, "x", true),
        ];
        assert_eq!(
            lines_text(&lines),
            "a.rs\n3: x\n4- y\n--\n9: x\n\nb\\n.rs\n1: x\n"
        );
    }
}
