//! `bash`: runs a command and returns its output and how it ended, or leaves it running in the
//! background and returns its process id (`stay.rs`).
//!
//! Output is passed on as it arrives and never held here, so it cannot flood memory and survives
//! when the call is stopped. Reading continues until the streams end, whatever the caps above do: a
//! reader that stops would block the child forever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    Access, BoxFuture, CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext,
    Progress, Tool, ToolError, ToolSpec,
    access::Command,
    background::ProcessState,
    context::{OutputSink, StreamText},
    ops::{ChildExit, ExitStatus, Input, OutputChunk, Spawn, Stream, TerminalSize},
    spec::{Deadline, ForeignCall, ParameterAlias, Requirement},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::{
    follow::{FollowEnd, TakeChunk, failure, follow},
    stay::{StayOutcome, StayingCommand, stay},
    view::ProcessView,
};
use crate::foreign::{leave_out, refuse_unless};

/// How long a command may run if it does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
/// The longest a command may run.
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// How long a background command is watched before the call returns, so that one that fails at once
/// says so.
const FIRST_LOOK: Duration = Duration::from_millis(250);
/// Extra time for moving a command to the background, after waiting for it.
const HANDING_OVER: Duration = Duration::from_secs(5);
/// The initial size of a terminal.
const TERMINAL: TerminalSize = TerminalSize {
    rows: 40,
    columns: 120,
};

const DESCRIPTION: &str = "\
Runs a command with bash in the workspace, waits for it, and returns its output and exit code.
Use it to build, test, run programs and use git. Do not use it to read, write, edit, list or search \
files: use `read`, `write`, `edit`, `patch`, `list`, `find` and `grep`, which are safer and show \
less noise.
Every call starts in a fresh shell: variables and `cd` do not carry over; use `cwd` or join commands \
with `&&`. There is no input, so commands must not ask questions. It may run 120 seconds unless \
`timeout_ms` says otherwise, at most 600 seconds; then everything it started is stopped. Long \
output is cut in the middle; `read_output` shows the rest.
For servers, watchers and programs that ask: `background` leaves it running and returns its process \
id at once, `yield_ms` does so if it has not ended by then, and `process` follows it, answers it and \
ends it. `pty` gives it a terminal.";

/// The tools of the reference MCP server for git.
const GIT: [ForeignCall; 12] = [
    git("git_status"),
    git("git_diff_unstaged"),
    git("git_diff_staged"),
    git("git_diff"),
    git("git_commit"),
    git("git_add"),
    git("git_reset"),
    git("git_log"),
    git("git_create_branch"),
    git("git_checkout"),
    git("git_show"),
    git("git_branch"),
];

const fn git(name: &'static str) -> ForeignCall {
    ForeignCall::new(name).instead("run git with `bash`, as in `git status` or `git diff`")
}

/// The `bash` tool.
#[derive(Debug, Clone, Copy)]
pub struct BashTool {
    default_timeout: Duration,
}

/// The configuration of a `bash` tool.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BashConfig {
    /// How long a command may run if it does not say, in milliseconds; at most ten minutes.
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
    /// How long it may run, in milliseconds. Defaults to 120000, at most 600000; in the background
    /// there is no limit unless one is given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: Option<u64>,
    /// The directory to run in: relative to the workspace, or absolute inside it. Defaults to the
    /// workspace.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Leave it running in the background and return its process id. Its input stays open for
    /// `process`. Defaults to false.
    #[serde(default)]
    pub background: bool,
    /// Give it a terminal, for programs that want one. Defaults to false.
    #[serde(default)]
    pub pty: bool,
    /// Wait this long, in milliseconds; if it has not ended by then, leave it running in the
    /// background and return its process id.
    #[serde(default)]
    #[schemars(range(max = 600_000))]
    pub yield_ms: Option<u64>,
    /// What the command does, in a few words, for the person who is asked to allow it.
    #[serde(default)]
    pub description: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BashOutput {
    /// The exit code; absent when a signal ended the command, or it still runs.
    pub exit_code: Option<i32>,
    /// The signal that ended the command.
    pub signal: Option<i32>,
    /// How long it ran, in milliseconds; so far, if it still runs.
    pub duration_ms: u64,
    /// What it wrote to standard output: the beginning and the end, if that is long. The text has both
    /// streams as they came.
    pub stdout: String,
    /// What it wrote to standard error, in the same way.
    pub stderr: String,
    /// Bytes it wrote to standard output.
    pub stdout_bytes: u64,
    /// Bytes it wrote to standard error.
    pub stderr_bytes: u64,
    /// The process that was left running in the background.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessView>,
    /// The offset in its log at which the output that is not in this result begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<u64>,
}

impl BashTool {
    /// A `bash` tool with its own default run time.
    pub fn configured(config: &BashConfig) -> Self {
        Self {
            default_timeout: config
                .timeout_ms
                .map_or(DEFAULT_TIMEOUT, Duration::from_millis)
                .min(MAX_TIMEOUT),
        }
    }
}

impl BashTool {
    /// How long the call itself may take. `timeout_ms` limits a background command, not its call;
    /// the call lasts as long as it waits.
    fn time_of_call(&self, input: &BashInput) -> Option<Duration> {
        let asked = input.timeout_ms.map(Duration::from_millis);
        let patience = input.yield_ms.map(Duration::from_millis);
        match (input.background, asked, patience) {
            (false, Some(asked), _) => Some(asked),
            (_, _, Some(patience)) => Some(self.default_timeout.max(patience + HANDING_OVER)),
            (true, _, None) | (false, None, None) => None,
        }
    }
}

/// Takes a command as a list of arguments, and what other agents' shells take besides.
fn other_shells(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let mut notes = Vec::new();
    if let Some(Value::Array(arguments)) = input.get("command") {
        let command = command_line(arguments)?;
        input.insert("command".to_owned(), Value::String(command));
        notes.push("`command` was a list of arguments and is read as a command line".to_owned());
    }
    let sandbox = "every command runs as the operator has set; leave it out";
    refuse_unless(input, "dangerouslyDisableSandbox", &[], sandbox)?;
    refuse_unless(input, "with_escalated_permissions", &[], sandbox)?;
    refuse_unless(input, "sandbox_permissions", &["use_default"], sandbox)?;
    let environment = "set variables in the command, as in `NAME=value make`";
    refuse_unless(input, "env", &[], environment)?;
    let host = "commands run where the workspace is; leave it out";
    refuse_unless(input, "host", &["auto", "sandbox"], host)?;
    refuse_unless(input, "elevated", &[], sandbox)?;
    refuse_unless(input, "node", &[], host)?;
    refuse_unless(
        input,
        "shell",
        &["bash", "/bin/bash"],
        "commands are run by bash",
    )?;
    let unneeded = [
        ("security", "rules decide what may run"),
        ("ask", "rules decide what is asked about"),
        (
            "max_output_tokens",
            "long output is cut in any case, and `read_output` shows the rest",
        ),
        ("login", "every command starts in a fresh shell"),
        (
            "prefix_rule",
            "what is allowed for longer is decided where the call is approved",
        ),
    ];
    leave_out(input, &unneeded, &mut notes);
    Ok(notes)
}

/// A command line of arguments: what is after `bash -lc`, or each argument quoted.
fn command_line(arguments: &[Value]) -> Result<String, ToolError> {
    let words: Option<Vec<&str>> = arguments.iter().map(Value::as_str).collect();
    let words = words.ok_or_else(|| {
        ToolError::invalid_input("an argument in `command` is not text")
            .at("/command")
            .hint("give the command as one text, as you would type it into bash")
    })?;
    match words.as_slice() {
        [
            "bash" | "/bin/bash" | "sh" | "/bin/sh",
            "-c" | "-lc",
            script,
        ] => Ok((*script).to_owned()),
        words => Ok(words
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(" ")),
    }
}

/// An argument as bash reads it back.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
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
            .requires([
                Requirement::Commands,
                Requirement::Program("bash".to_owned()),
            ])
            .aliases(&["bash_exec", "exec", "Bash"])
            .foreign_names(&[
                "shell",
                "exec_command",
                "local_shell",
                "shell_command",
                "run_shell_command",
                "run_terminal_cmd",
                "execute_command",
            ])
            .foreign_calls(&GIT)
            .parameter_aliases(&[
                ParameterAlias::new("cmd", "command"),
                // Seconds or milliseconds, as the model is used to; no command may run longer than 600 s.
                ParameterAlias::scaled("timeout", "timeout_ms", 1000).up_to(600),
                ParameterAlias::new("directory", "cwd"),
                ParameterAlias::new("workdir", "cwd"),
                ParameterAlias::new("working_dir", "cwd"),
                ParameterAlias::new("dir_path", "cwd"),
                ParameterAlias::new("run_in_background", "background"),
                ParameterAlias::new("is_background", "background"),
                ParameterAlias::new("yield_time_ms", "yield_ms"),
                ParameterAlias::new("yieldMs", "yield_ms"),
                ParameterAlias::scaled("timeout_secs", "timeout_ms", 1000),
                ParameterAlias::new("tty", "pty"),
                ParameterAlias::new("justification", "description"),
                ParameterAlias::new("explanation", "description"),
            ])
            .reshape(other_shells)
    }

    fn plan(&self, input: &BashInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        if input.command.trim().is_empty() {
            return Err(ToolError::invalid_input("the command is empty").at("/command"));
        }
        if input.command.contains('\0') {
            return Err(ToolError::invalid_input("the command contains a NUL byte").at("/command"));
        }
        let cwd = cx.path(input.cwd.as_deref().unwrap_or("."), "/cwd")?;
        let command = input.command.as_str();
        let access = if input.background || input.yield_ms.is_some() {
            Access::staying_shell(command, cwd)
        } else {
            Access::shell(command, cwd)
        };
        Ok(Plan::new(Effects::UNKNOWN)
            .access(access)
            .timeout(self.time_of_call(input)))
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
        let stays = match (input.background, input.yield_ms) {
            (false, None) => None,
            (true, None) => Some(FIRST_LOOK),
            (_, Some(patience)) => Some(Duration::from_millis(patience)),
        };
        let command = Command::Shell(input.command);
        let mut spawn = Spawn::new(command.clone(), cwd, cx.tier());
        spawn.terminal = input.pty.then_some(TERMINAL);
        // Only a command that can be answered later gets an open input. One that may merely take
        // long keeps the input every other command has.
        if input.background || (input.pty && stays.is_some()) {
            spawn.input = Input::Open;
        }
        let terminal = spawn.terminal;
        let mut process = cx.processes().spawn(spawn).await?;
        let mut counted = CountedOutput::new(cx.shared_output());
        let Some(patience) = stays else {
            return match follow(&mut *process, cx.cancel(), &mut counted).await? {
                FollowEnd::Ended(exit) => ended(&exit, &counted).await,
                FollowEnd::Stopped(error) => Err(stopped(error, &counted).await),
            };
        };
        let counted = Arc::new(counted);
        let staying = StayingCommand {
            process,
            command,
            terminal,
            lifetime: input.timeout_ms.map(Duration::from_millis),
            patience,
            output: Arc::<CountedOutput>::clone(&counted),
        };
        match stay(staying, &cx).await? {
            StayOutcome::Stopped(error) => Err(stopped(error, &counted).await),
            StayOutcome::Runs(kept, from) => Ok(BashOutput {
                process: Some(ProcessView::of(&kept)),
                next_offset: Some(from),
                ..counted.output(None).await
            }),
            StayOutcome::Ended(kept) => match kept.state {
                ProcessState::Ended(exit) => ended(&exit, &counted).await,
                ProcessState::Running { .. } | ProcessState::Lost => {
                    let message = "Haft does not know how the command ended";
                    Err(stopped(ToolError::new(ErrorKind::Internal, message), &counted).await)
                }
            },
        }
    }

    fn render(&self, output: &BashOutput) -> Vec<Content> {
        match (&output.process, output.next_offset) {
            (Some(process), next) => vec![Content::text(format!(
                "[in the background: {}; next offset {}; see `process`]",
                process.line(),
                next.unwrap_or_default()
            ))],
            // The output is already in the outcome; only silence needs a note.
            (None, _) if output.stdout_bytes + output.stderr_bytes == 0 => {
                vec![Content::text("[no output, exit code 0]")]
            }
            (None, _) => Vec::new(),
        }
    }
}

async fn ended(exit: &ChildExit, counted: &CountedOutput) -> Result<BashOutput, ToolError> {
    let output = counted.output(Some(exit.status)).await;
    match failure("the command", exit) {
        None => Ok(output),
        Some(error) => Err(error.with_structured(structured(&output))),
    }
}

/// The error of a command that did not end by itself, with what it had put out.
async fn stopped(error: ToolError, counted: &CountedOutput) -> ToolError {
    error.with_structured(structured(&counted.output(None).await))
}

/// Passes output on and counts it per stream.
struct CountedOutput {
    output: Arc<dyn OutputSink>,
    began: Instant,
    stdout: AtomicU64,
    stderr: AtomicU64,
}

impl OutputSink for CountedOutput {
    fn push<'a>(&'a self, stream: Stream, bytes: &'a [u8]) -> BoxFuture<'a, ()> {
        let count = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
            // No progress channel was requested, so nothing arrives on it.
            Stream::Progress => return Box::pin(async {}),
        };
        count.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.output.push(stream, bytes)
    }

    fn apart(&self, stream: Stream) -> BoxFuture<'_, StreamText> {
        self.output.apart(stream)
    }
}

impl TakeChunk for CountedOutput {
    async fn take(&mut self, chunk: OutputChunk) {
        self.push(chunk.stream, &chunk.bytes).await;
    }
}

impl CountedOutput {
    fn new(output: Arc<dyn OutputSink>) -> Self {
        Self {
            output,
            began: Instant::now(),
            stdout: AtomicU64::new(0),
            stderr: AtomicU64::new(0),
        }
    }

    async fn output(&self, status: Option<ExitStatus>) -> BashOutput {
        let (exit_code, signal) = match status {
            Some(ExitStatus::Code(code)) => (Some(code), None),
            Some(ExitStatus::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let [stdout_bytes, stderr_bytes] = self.counts();
        let duration_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        BashOutput {
            exit_code,
            signal,
            duration_ms,
            stdout: self.output.apart(Stream::Stdout).await.text,
            stderr: self.output.apart(Stream::Stderr).await.text,
            stdout_bytes,
            stderr_bytes,
            process: None,
            next_offset: None,
        }
    }

    fn counts(&self) -> [u64; 2] {
        [&self.stdout, &self.stderr].map(|count| count.load(Ordering::Relaxed))
    }
}

fn structured(output: &BashOutput) -> Value {
    serde_json::to_value(output).unwrap_or_default()
}
