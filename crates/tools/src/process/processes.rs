//! `process`: shows, reads, types into, signals and ends the processes the session keeps.
//!
//! `list`, `poll` and `log` only read. Every other action names the process in its plan, so that
//! rules and people judge it by the command that runs there. The runtime decides what a process is
//! and who owns it.

use std::{fmt::Write as _, time::Duration};

use haft_contract::{
    Access, CallContext, Content, Effects, NoProgress, Plan, PlanContext, Tool, ToolError,
    ToolSpec,
    access::ProcessAct,
    background::{LogPage, LogStart, ProcessId},
    ops::{ProcessSignal, TerminalSize},
    spec::{Deadline, ForeignCall, ParameterAlias},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    keys,
    view::{LogView, ProcessView},
};
use crate::foreign::{leave_out, refuse_unless};

/// How long `poll` waits for something to happen if it is not told.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// The longest `poll` waits.
const MAX_WAIT: Duration = Duration::from_mins(5);
/// How long an action that waits for nothing may take.
const ACTION_TIME: Duration = Duration::from_secs(30);
/// Bytes of a log returned if the call does not say.
const DEFAULT_LIMIT: usize = 16 * 1024;
/// The most bytes of a log returned at once. With the text around it, a page stays under the output
/// cap, so the page itself is never cut.
const MAX_LIMIT: usize = 47_000;
/// The most text written at once.
const MAX_TEXT_BYTES: usize = 256 * 1024;

const DESCRIPTION: &str = "\
Works with processes that `bash` left running in the background. Actions:
`list` shows them. `poll` waits up to `wait_ms` until one prints something new, waits for input or \
ends, and returns its new output. `log` returns output from `offset` on, or the end of it. `write` \
sends `text` to its input as it is (end a line with \\n); `end_input` then ends the input. `keys` \
presses keys: `enter`, `tab`, `escape`, `up`, `ctrl-c`, `ctrl-d`, `f1`, or single characters. \
`resize` sets the size of its terminal. `signal` sends a signal. `kill` ends it and everything it \
started.
Use it to follow servers and watchers and to answer prompts. Do not use it for a command that ends \
by itself: `bash` waits for that. Processes belong to this session and end with it. Offsets count bytes of output \
from its start; only the newest part of a long log is kept, and a page says how much is gone.";

/// The `process` tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessTool;

/// What `process` takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessInput {
    /// What to do.
    pub action: Action,
    /// The process, as `bash` or `list` named it. Needed for every action but `list`.
    #[serde(default)]
    pub id: Option<String>,
    /// For `write`: the text, sent as it is.
    #[serde(default)]
    pub text: Option<String>,
    /// For `write`: whether the input ends after the text. Defaults to false.
    #[serde(default)]
    pub end_input: bool,
    /// For `keys`: the keys, in order.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub keys: Option<Vec<String>>,
    /// For `poll` and `log`: the offset to read from. `poll` defaults to what was not shown yet,
    /// `log` to the end.
    #[serde(default)]
    pub offset: Option<u64>,
    /// For `poll` and `log`: the most bytes to return. Defaults to 16384, at most 47000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 47000))]
    pub limit: Option<u64>,
    /// For `poll`: how long to wait, in milliseconds. Defaults to 5000, at most 300000.
    #[serde(default)]
    #[schemars(range(max = 300_000))]
    pub wait_ms: Option<u64>,
    /// For `resize`: rows.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub rows: Option<u16>,
    /// For `resize`: columns.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub columns: Option<u16>,
    /// For `signal`: which one.
    #[serde(default)]
    pub signal: Option<SignalName>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Show every process.
    List,
    /// Wait until something happens, and return new output.
    Poll,
    /// Return output.
    Log,
    /// Send text.
    Write,
    /// Press keys.
    Keys,
    /// Set the size of the terminal.
    Resize,
    /// Send a signal.
    Signal,
    /// End it and everything it started.
    Kill,
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SignalName {
    /// Interrupt, as Ctrl-C does.
    Int,
    /// Ask to end.
    Term,
    /// End by force.
    Kill,
    /// Hang up; many servers reload.
    Hup,
    /// Quit.
    Quit,
    /// User-defined.
    Usr1,
    /// User-defined.
    Usr2,
    /// Pause.
    Stop,
    /// Resume.
    Cont,
}

/// What `process` returns in addition to the output.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ProcessOutput {
    /// The process acted on, or every process for `list`.
    pub processes: Vec<ProcessView>,
    /// Which part of the log was returned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogView>,
    /// What the model reads. Not repeated in the structured output.
    #[serde(skip)]
    text: String,
}

/// Other agents' words: `submit`, filters of output, and writing nothing to see what comes.
fn other_processes(input: &mut Map<String, Value>) -> Result<Vec<String>, ToolError> {
    let mut notes = Vec::new();
    if input.get("action").and_then(Value::as_str) == Some("send-keys") {
        input.insert("action".to_owned(), Value::from("keys"));
        notes.push("`send-keys` read as `keys`".to_owned());
    }
    let filter = "`log` and `poll` return all output; search it yourself, or in a file that the command writes";
    refuse_unless(input, "filter", &[], filter)?;
    if input.get("action").and_then(Value::as_str) == Some("write") {
        let nothing = input
            .get("text")
            .is_some_and(|text| text.as_str() == Some(""));
        if nothing && input.get("end_input") != Some(&Value::Bool(true)) {
            input.remove("text");
            input.insert("action".to_owned(), Value::from("poll"));
            notes.push("writing nothing is read as `poll`".to_owned());
        }
        let why = "`poll` waits for what comes of it";
        if let Some(wait) = input.remove("yield_time_ms") {
            if input.get("action").and_then(Value::as_str) == Some("poll") {
                input.insert("wait_ms".to_owned(), wait);
            } else {
                notes.push(format!("`yield_time_ms` is left out: {why}"));
            }
        }
    }
    let cut = [("max_output_tokens", "`limit` says how much is returned")];
    leave_out(input, &cut, &mut notes);
    Ok(notes)
}

impl Tool for ProcessTool {
    type Input = ProcessInput;
    type Output = ProcessOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "process";

    fn spec(&self) -> ToolSpec {
        let short = Deadline::new(ACTION_TIME, ACTION_TIME);
        let poll = MAX_WAIT + ACTION_TIME;
        ToolSpec::new("Background processes", DESCRIPTION)
            .effects(Effects::UNKNOWN)
            .deadline(short)
            .action("list", short)
            .action("poll", Deadline::new(poll, poll))
            .action("log", short)
            .action("write", short)
            .action("keys", short)
            .action("resize", short)
            .action("signal", short)
            .action("kill", short)
            .groups(&["process"])
            .aliases(&["processes"])
            .foreign_calls(&[
                ForeignCall::new("BashOutput").with("action", "poll"),
                ForeignCall::new("KillShell").with("action", "kill"),
                ForeignCall::new("KillBash").with("action", "kill"),
                ForeignCall::new("write_stdin").with("action", "write"),
            ])
            .parameter_aliases(&[
                ParameterAlias::new("process", "id"),
                ParameterAlias::new("process_id", "id"),
                ParameterAlias::new("bash_id", "id"),
                ParameterAlias::new("shell_id", "id"),
                ParameterAlias::new("session_id", "id"),
                ParameterAlias::new("sessionId", "id"),
                ParameterAlias::new("chars", "text"),
                ParameterAlias::new("input", "text"),
                ParameterAlias::new("data", "text"),
                ParameterAlias::new("cols", "columns"),
                ParameterAlias::new("eof", "end_input"),
                ParameterAlias::new("timeout_ms", "wait_ms"),
            ])
            .reshape(other_processes)
    }

    fn plan(&self, input: &ProcessInput, _: &PlanContext) -> Result<Plan, ToolError> {
        let acts = match input.action.wanted() {
            ActionKind::Look => return Ok(looking(input)?.action(input.action.as_str())),
            ActionKind::Act => acts(input)?,
        };
        let id = id(input)?;
        let mut plan = Plan::new(Effects::UNKNOWN).action(input.action.as_str());
        for act in acts {
            plan = plan.access(Access::process(id, act));
        }
        Ok(plan)
    }

    async fn run(
        &self,
        input: ProcessInput,
        cx: CallContext<NoProgress>,
    ) -> Result<ProcessOutput, ToolError> {
        let background = cx.background();
        match input.action {
            Action::List => {
                let kept = background.list().await;
                Ok(listed(kept.iter().map(ProcessView::of).collect()))
            }
            Action::Poll => {
                let id = id(&input)?;
                let from = input.offset.map_or(LogStart::Unread, LogStart::At);
                let wait = input
                    .wait_ms
                    .map_or(DEFAULT_WAIT, Duration::from_millis)
                    .min(MAX_WAIT);
                let kept = tokio::select! {
                    biased;
                    () = cx.cancel().cancelled() => background.look(id).await?,
                    kept = background.wait(id, from, wait) => kept?,
                };
                let page = background.log(id, from, limit(&input))?;
                Ok(paged(ProcessView::of(&kept), page))
            }
            Action::Log => {
                let id = id(&input)?;
                let from = input.offset.map_or(LogStart::End, LogStart::At);
                let page = background.log(id, from, limit(&input))?;
                let kept = background.look(id).await?;
                Ok(paged(ProcessView::of(&kept), page))
            }
            Action::Write | Action::Keys | Action::Resize | Action::Signal | Action::Kill => {
                let id = id(&input)?;
                for act in acts(&input)? {
                    background.act(id, act).await?;
                }
                let kept = background.look(id).await?;
                let view = ProcessView::of(&kept);
                let text = format!("[{}]", view.line());
                Ok(ProcessOutput {
                    processes: vec![view],
                    log: None,
                    text,
                })
            }
        }
    }

    fn render(&self, output: &ProcessOutput) -> Vec<Content> {
        vec![Content::text(output.text.clone())]
    }
}

/// Whether an action changes anything.
enum ActionKind {
    /// It only reads.
    Look,
    /// It acts on a process.
    Act,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Poll => "poll",
            Self::Log => "log",
            Self::Write => "write",
            Self::Keys => "keys",
            Self::Resize => "resize",
            Self::Signal => "signal",
            Self::Kill => "kill",
        }
    }

    fn wanted(self) -> ActionKind {
        match self {
            Self::List | Self::Poll | Self::Log => ActionKind::Look,
            Self::Write | Self::Keys | Self::Resize | Self::Signal | Self::Kill => ActionKind::Act,
        }
    }
}

impl From<SignalName> for ProcessSignal {
    fn from(name: SignalName) -> Self {
        match name {
            SignalName::Int => Self::Interrupt,
            SignalName::Term => Self::Terminate,
            SignalName::Kill => Self::Kill,
            SignalName::Hup => Self::HangUp,
            SignalName::Quit => Self::Quit,
            SignalName::Usr1 => Self::User1,
            SignalName::Usr2 => Self::User2,
            SignalName::Stop => Self::Stop,
            SignalName::Cont => Self::Continue,
        }
    }
}

/// What an action does to its process, in order. The plan names exactly what the run does.
fn acts(input: &ProcessInput) -> Result<Vec<ProcessAct>, ToolError> {
    match input.action {
        Action::Write => write(input),
        Action::Keys => Ok(vec![ProcessAct::Write(pressed(input)?)]),
        Action::Resize => match (input.rows, input.columns) {
            (Some(rows), Some(columns)) => {
                Ok(vec![ProcessAct::Resize(TerminalSize { rows, columns })])
            }
            (None, _) => Err(missing("rows", "resize")),
            (_, None) => Err(missing("columns", "resize")),
        },
        Action::Signal => match input.signal {
            Some(signal) => Ok(vec![ProcessAct::Signal(signal.into())]),
            None => Err(missing("signal", "signal")),
        },
        Action::Kill => Ok(vec![ProcessAct::Kill]),
        Action::List | Action::Poll | Action::Log => Ok(Vec::new()),
    }
}

fn write(input: &ProcessInput) -> Result<Vec<ProcessAct>, ToolError> {
    let text = input.text.as_deref().unwrap_or_default();
    if text.is_empty() && !input.end_input {
        return Err(missing("text", "write"));
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(ToolError::invalid_input(format!(
            "the text is longer than {MAX_TEXT_BYTES} bytes"
        ))
        .at("/text")
        .hint("write it to a file, and let the process read that"));
    }
    let mut acts = Vec::new();
    if !text.is_empty() {
        acts.push(ProcessAct::Write(text.to_owned()));
    }
    if input.end_input {
        acts.push(ProcessAct::CloseInput);
    }
    Ok(acts)
}

fn pressed(input: &ProcessInput) -> Result<String, ToolError> {
    let names = input.keys.as_deref().unwrap_or_default();
    if names.is_empty() {
        return Err(missing("keys", "keys"));
    }
    if names.len() > keys::MAX_KEYS {
        let message = format!("at most {} keys can be pressed at once", keys::MAX_KEYS);
        return Err(ToolError::invalid_input(message).at("/keys"));
    }
    let mut pressed = String::new();
    for (index, name) in names.iter().enumerate() {
        let bytes = keys::bytes(name).ok_or_else(|| {
            let shown = crate::text::display::one_line(name);
            ToolError::invalid_input(format!("there is no key `{shown}`"))
                .at(format!("/keys/{index}"))
                .hint("use `enter`, `ctrl-c`, `up`, …, or one character; `write` sends text")
        })?;
        pressed.push_str(&bytes);
    }
    Ok(pressed)
}

/// The plan of an action that only reads.
fn looking(input: &ProcessInput) -> Result<Plan, ToolError> {
    if input.action != Action::List {
        id(input)?;
    }
    Ok(Plan::read_only())
}

fn id(input: &ProcessInput) -> Result<ProcessId, ToolError> {
    let text = input
        .id
        .as_deref()
        .ok_or_else(|| missing("id", input.action.as_str()))?;
    ProcessId::parse(text.trim()).ok_or_else(|| {
        ToolError::invalid_input("that is not the id of a process")
            .at("/id")
            .hint("ids look like `p1`; the action `list` shows them")
    })
}

fn missing(parameter: &str, action: &str) -> ToolError {
    ToolError::invalid_input(format!("`{action}` needs `{parameter}`")).at(format!("/{parameter}"))
}

fn limit(input: &ProcessInput) -> usize {
    let asked = input.limit.and_then(|limit| usize::try_from(limit).ok());
    asked.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT)
}

fn listed(processes: Vec<ProcessView>) -> ProcessOutput {
    let text = if processes.is_empty() {
        "[this session has no processes]".to_owned()
    } else {
        let lines: Vec<String> = processes.iter().map(ProcessView::line).collect();
        lines.join("\n")
    };
    ProcessOutput {
        processes,
        log: None,
        text,
    }
}

/// A page of a log, then one line about the process and where to continue.
fn paged(process: ProcessView, page: LogPage) -> ProcessOutput {
    let log = LogView::of(&page);
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    if log.dropped > 0 {
        let _ = writeln!(text, "[{} bytes before this are not kept]", log.dropped);
    }
    text.push_str(&page.text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = write!(text, "[{}", process.line());
    let _ = match (page.text.is_empty(), log.more) {
        (true, _) => write!(text, "; nothing new"),
        (false, 0) => write!(text, "; next offset {}", log.next_offset),
        (false, more) => write!(
            text,
            "; {more} bytes follow, continue with offset={}",
            log.next_offset
        ),
    };
    text.push(']');
    ProcessOutput {
        processes: vec![process],
        log: Some(log),
        text,
    }
}
