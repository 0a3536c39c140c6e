//! `bash`: runs a command in the foreground and returns what it printed and how it ended.
//!
//! Output is handed on as it arrives and is never held here, so it cannot flood memory and is kept
//! when the call is stopped. Reading goes on until the streams end, whatever the caps above do: a
//! reader that stops makes the child wait for ever.

use std::time::Duration;

use haft_contract::{
    Access, CallContext, Content, Effects, NoProgress, Plan, PlanContext, Progress, Tool,
    ToolError, ToolSpec,
    access::Command,
    ops::{ExitStatus, OutputChunk, Spawn, Stream},
    spec::{Deadline, ParameterAlias},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::follow::{Followed, TakeChunk, failure, follow};

/// How long a command may run unless it asks for more or less.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
/// How long a command may run at most.
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

const DESCRIPTION: &str = "\
Runs a command with bash in the workspace, waits for it, and returns its output and exit code.
Use it to build, test, run programs and use git. Do not use it to read, write, edit, list or search \
files: use `read`, `write`, `edit`, `patch`, `list`, `find` and `grep`, which are safer and show \
less noise.
Every call starts in a fresh shell: variables and `cd` do not carry over; use `cwd` or join commands \
with `&&`. There is no terminal and no input, so commands must not ask questions. It may run 120 \
seconds unless `timeout_ms` says otherwise, at most 600 seconds; then everything it started is \
stopped. Long output is cut in the middle; `read_output` shows the rest.";

/// Runs commands.
#[derive(Debug, Clone, Copy)]
pub struct BashTool {
    default_timeout: Duration,
}

/// The configuration of a `bash` tool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BashConfig {
    /// How long a command may run unless it asks otherwise, in milliseconds; at most ten minutes.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

/// What `bash` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BashInput {
    /// The command, as you would type it into bash.
    #[schemars(length(min = 1))]
    pub command: String,
    /// How long it may run, in milliseconds. Defaults to 120000, at most 600000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u64>,
    /// The directory to run in: relative to the workspace, or absolute inside it. Defaults to the
    /// workspace.
    #[serde(default)]
    pub cwd: Option<String>,
    /// What the command does, in a few words, for the person who is asked to allow it.
    #[serde(default)]
    pub description: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
pub struct BashOutput {
    /// The exit code; absent when a signal ended the command.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// Bytes it wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes it wrote to standard error.
    pub stderr_bytes: u64,
}

impl BashTool {
    /// A `bash` tool with a default run time of its own.
    pub fn configured(config: &BashConfig) -> Self {
        Self {
            default_timeout: config
                .timeout_ms
                .map_or(DEFAULT_TIMEOUT, Duration::from_millis)
                .min(MAX_TIMEOUT),
        }
    }
}

impl Default for BashTool {
    fn default() -> Self {
        Self::configured(&BashConfig::default())
    }
}

impl Tool for BashTool {
    type Input = BashInput;
    type Output = BashOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "bash";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Run a command", DESCRIPTION)
            .effects(Effects::UNKNOWN)
            .deadline(Deadline::new(self.default_timeout, MAX_TIMEOUT))
            .groups(&["process"])
            .aliases(&["bash_exec", "exec", "Bash"])
            .parameter_aliases(&[
                ParameterAlias::new("cmd", "command"),
                ParameterAlias::scaled("timeout", "timeout_ms", 1000),
                ParameterAlias::new("directory", "cwd"),
                ParameterAlias::new("workdir", "cwd"),
            ])
    }

    fn plan(&self, input: &BashInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        if input.command.trim().is_empty() {
            return Err(ToolError::invalid_input("the command is empty").at("/command"));
        }
        if input.command.contains('\0') {
            return Err(ToolError::invalid_input("the command holds a NUL byte").at("/command"));
        }
        let cwd = cx.path(input.cwd.as_deref().unwrap_or("."), "/cwd")?;
        Ok(Plan::new(Effects::UNKNOWN)
            .access(Access::shell(input.command.as_str(), cwd))
            .timeout(input.timeout_ms.map(Duration::from_millis)))
    }

    async fn run(
        &self,
        input: BashInput,
        cx: CallContext<NoProgress>,
    ) -> Result<BashOutput, ToolError> {
        let cwd = cx.path(input.cwd.as_deref().unwrap_or("."), "/cwd")?;
        if let Some(description) = input.description {
            cx.report(Progress::of(0, None, description));
        }
        let spawn = Spawn::new(Command::Shell(input.command), cwd, cx.tier());
        let mut process = cx.processes().spawn(spawn).await?;
        let mut counted = Counted {
            cx: &cx,
            stdout: 0,
            stderr: 0,
        };
        let exit = match follow(&mut *process, cx.cancel(), &mut counted).await? {
            Followed::Ended(exit) => exit,
            Followed::Stopped(error) => return Err(error.with_structured(counted.so_far())),
        };
        let output = counted.output(exit.status);
        match failure("the command", &exit) {
            None => Ok(output),
            Some(error) => Err(error.with_structured(structured(&output))),
        }
    }

    fn render(&self, output: &BashOutput) -> Vec<Content> {
        // What was printed is in the outcome already; silence is worth a word.
        if output.stdout_bytes + output.stderr_bytes == 0 {
            vec![Content::text("[no output, exit code 0]")]
        } else {
            Vec::new()
        }
    }
}

/// Hands output on and counts it by stream.
struct Counted<'c> {
    cx: &'c CallContext<NoProgress>,
    stdout: u64,
    stderr: u64,
}

impl TakeChunk for Counted<'_> {
    async fn take(&mut self, chunk: OutputChunk) {
        match chunk.stream {
            Stream::Stdout => self.stdout += chunk.bytes.len() as u64,
            Stream::Stderr => self.stderr += chunk.bytes.len() as u64,
            // No progress channel was asked for, so nothing comes from it.
            Stream::Progress => return,
        }
        self.cx.output().push(chunk.stream, &chunk.bytes).await;
    }
}

impl Counted<'_> {
    fn so_far(&self) -> serde_json::Value {
        serde_json::json!({ "stdout_bytes": self.stdout, "stderr_bytes": self.stderr })
    }

    fn output(&self, status: ExitStatus) -> BashOutput {
        let (exit_code, signal) = match status {
            ExitStatus::Code(code) => (Some(code), None),
            ExitStatus::Signal(signal) => (None, Some(signal)),
        };
        BashOutput {
            exit_code,
            signal,
            stdout_bytes: self.stdout,
            stderr_bytes: self.stderr,
        }
    }
}

fn structured(output: &BashOutput) -> serde_json::Value {
    serde_json::to_value(output).unwrap_or_default()
}
