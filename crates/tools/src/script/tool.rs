//! A script as a tool.
//!
//! The program that runs is the one that was trusted: its SHA-256 is pinned, and the back end
//! checks the very file it executes. The script gets exactly the input that was planned.

use std::sync::Arc;

use haft_contract::{
    Access, BoxFuture, CallContext, Content, ErrorKind, NoProgress, Plan, PlanContext, Progress,
    ToolError, ToolName, ToolSpec, WorkPath,
    access::Command,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    ops::{ExitStatus, Input, OutputChunk, Spawn, Stream},
    spec::Requirement,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::manifest::{ManifestError, ScriptManifest};
use crate::{
    process::follow::{FollowEnd, TakeChunk, failure, follow},
    text::display::start_of,
};

/// The most standard output kept for parsing as JSON. Longer output is text.
const MAX_RESULT_BYTES: usize = 1024 * 1024;
/// The longest progress line; longer ones are dropped.
const MAX_PROGRESS_LINE: usize = 4 * 1024;
/// The longest progress status passed on.
const MAX_STATUS_BYTES: usize = 200;

/// A script found in a trusted folder.
#[derive(Debug, Clone)]
pub struct ScriptSource {
    /// The text of its manifest.
    pub manifest_text: String,
    /// The program's absolute path on the back end.
    pub program_path: String,
    /// The SHA-256 of the program when it was trusted.
    pub sha256: [u8; 32],
}

/// A tool that runs a script.
#[derive(Debug, Clone)]
pub struct ScriptTool {
    name: ToolName,
    manifest: ScriptManifest,
    program_path: String,
    sha256: [u8; 32],
    /// The programs that it starts.
    programs: Vec<String>,
}

impl ScriptTool {
    /// A tool named by its manifest.
    pub fn new(source: ScriptSource) -> Result<Self, ManifestError> {
        let manifest = ScriptManifest::parse(&source.manifest_text)?;
        Ok(Self {
            name: manifest.name.clone(),
            programs: manifest.needs.clone(),
            manifest,
            program_path: source.program_path,
            sha256: source.sha256,
        })
    }

    /// The same tool under a configured name.
    #[must_use]
    pub fn named(mut self, name: ToolName) -> Self {
        self.name = name;
        self
    }

    /// The same tool, which also needs this program: the interpreter that its first line names.
    #[must_use]
    pub fn run_by(mut self, interpreter: Option<String>) -> Self {
        self.programs.extend(interpreter);
        self
    }

    /// The tool as a registry object.
    pub fn erased(self) -> Arc<dyn ErasedTool> {
        Arc::new(self)
    }

    fn argv(&self) -> Vec<String> {
        vec![self.program_path.clone()]
    }

    async fn execute(
        &self,
        input: &Value,
        cx: CallContext<NoProgress>,
    ) -> Result<ToolReply, ToolError> {
        let command = Command::Argv(self.argv());
        let mut spawn = Spawn::new(command, WorkPath::root(), cx.tier());
        spawn.input = Input::Bytes(serde_json::to_vec(input).unwrap_or_default());
        spawn.progress_channel = true;
        spawn.pinned = Some(self.sha256);
        let mut process = cx.processes().spawn(spawn).await?;
        let mut output = ScriptOutput {
            cx: &cx,
            printed: PrintedResult::default(),
            progress: ProgressLines::default(),
        };
        let exit = match follow(&mut *process, cx.cancel(), &mut output).await? {
            FollowEnd::Stopped(error) => return Err(error),
            FollowEnd::Ended(exit) => exit,
        };
        match (failure("the script", &exit), exit.status) {
            (None, _) => Ok(output.printed.reply()),
            (Some(error), ExitStatus::Code(code)) => {
                Err(error.with_structured(json!({ "exit_code": code })))
            }
            (Some(error), ExitStatus::Signal(signal)) => {
                Err(error.with_structured(json!({ "signal": signal })))
            }
        }
    }
}

impl ErasedTool for ScriptTool {
    fn name(&self) -> &ToolName {
        &self.name
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            self.manifest.title.as_str(),
            self.manifest.description.as_str(),
        )
        .effects(self.manifest.effects)
        .deadline(self.manifest.deadline)
        .groups(&["script"])
        .requires([
            Requirement::Commands,
            Requirement::Program(self.program_path.clone()),
        ])
        .requires(self.programs.iter().cloned().map(Requirement::Program))
    }

    fn input_schema(&self) -> Value {
        self.manifest.input.clone()
    }

    fn output_schema(&self) -> Value {
        let any = || json!({ "description": "what the script printed, if that was JSON" });
        self.manifest.output.clone().unwrap_or_else(any)
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        Some(self.sha256)
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }

    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        Ok(ParsedInput::new(input.clone()))
    }

    fn plan(&self, _: &ParsedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::new(self.manifest.effects).access(Access::argv(self.argv(), WorkPath::root())))
    }

    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        Box::pin(async move {
            let input = input.take::<Value>().ok_or_else(|| {
                ToolError::new(ErrorKind::Internal, "the input was parsed for another tool")
            })?;
            self.execute(&input, cx).await
        })
    }
}

/// Passes output on as it arrives, and progress lines as progress.
struct ScriptOutput<'c> {
    cx: &'c CallContext<NoProgress>,
    printed: PrintedResult,
    progress: ProgressLines,
}

impl TakeChunk for ScriptOutput<'_> {
    async fn take(&mut self, chunk: OutputChunk) {
        match chunk.stream {
            Stream::Progress => {
                let report = |progress| self.cx.report(progress);
                return self.progress.take(&chunk.bytes, report);
            }
            Stream::Stdout => self.printed.take(&chunk.bytes),
            Stream::Stderr => {}
        }
        self.cx.output().push(chunk.stream, &chunk.bytes).await;
    }
}

/// What the script printed, while it can still be a JSON result.
#[derive(Default)]
struct PrintedResult {
    bytes: Vec<u8>,
    total: u64,
}

impl PrintedResult {
    fn take(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.total <= MAX_RESULT_BYTES as u64 {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes.clear();
        }
    }

    /// JSON becomes the structured result; the text itself is already in the outcome.
    fn reply(self) -> ToolReply {
        let content = if self.total == 0 {
            vec![Content::text("[no output]")]
        } else {
            Vec::new()
        };
        ToolReply {
            content,
            structured: serde_json::from_slice(&self.bytes).unwrap_or(Value::Null),
        }
    }
}

/// Progress lines, assembled from chunks that may end anywhere.
#[derive(Default)]
struct ProgressLines {
    line: Vec<u8>,
    too_long: bool,
}

#[derive(Deserialize)]
struct ProgressLine {
    #[serde(default)]
    step: u64,
    #[serde(default)]
    total: Option<u64>,
    #[serde(default)]
    status: String,
}

impl ProgressLines {
    fn take(&mut self, bytes: &[u8], report: impl Fn(Progress<NoProgress>)) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = piece.strip_suffix(b"\n");
            self.line.extend_from_slice(text.unwrap_or(piece));
            if self.line.len() > MAX_PROGRESS_LINE {
                self.line.clear();
                self.too_long = true;
            }
            if text.is_some() {
                if !std::mem::take(&mut self.too_long) && !self.line.is_empty() {
                    report(progress(&self.line));
                }
                self.line.clear();
            }
        }
    }
}

/// `{"step": 1, "total": 3, "status": "…"}`, or any other line as a status.
fn progress(line: &[u8]) -> Progress<NoProgress> {
    if let Ok(line) = serde_json::from_slice::<ProgressLine>(line) {
        let status = start_of(&line.status, MAX_STATUS_BYTES);
        Progress::of(line.step, line.total, status)
    } else {
        let text = String::from_utf8_lossy(line);
        Progress::of(0, None, start_of(text.trim(), MAX_STATUS_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn r8_progress_lines_are_json_or_text_however_they_are_cut() {
        let seen = RefCell::new(Vec::new());
        let mut lines = ProgressLines::default();
        let long = [b'x'; MAX_PROGRESS_LINE + 1];
        for chunk in [
            b"{\"step\":1,\"to".as_slice(),
            b"tal\":4,\"status\":\"a\"}\nplain ",
            b"text\n\n",
            &long,
            b"y\n{\"step\":2}\n",
        ] {
            lines.take(chunk, |progress| seen.borrow_mut().push(progress));
        }
        let seen = seen.into_inner();
        assert_eq!(
            seen,
            [
                Progress::of(1, Some(4), "a"),
                Progress::of(0, None, "plain text"),
                Progress::of(2, None, ""),
            ]
        );
    }

    #[test]
    fn r8_a_result_is_json_or_text() {
        let reply = |text: &[u8]| {
            let mut printed = PrintedResult::default();
            printed.take(text);
            printed.reply().structured
        };
        assert_eq!(reply(b"{\"a\":1}\n"), json!({"a": 1}));
        assert_eq!(reply(b"done"), Value::Null);
        assert_eq!(reply(&vec![b'1'; MAX_RESULT_BYTES + 1]), Value::Null);
    }
}
