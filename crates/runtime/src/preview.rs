//! Builds what a person is shown before they answer, from the plan: the tool's own diffs, the
//! commands as policy read them, hosts, databases and the rest.
//!
//! A preview is complete or does not exist. What cannot be shown whole cannot be approved, and
//! nothing is ever cut. The tool reads files through a guard that can only read what the plan
//! names.

use std::{
    panic::AssertUnwindSafe,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt as _;
use haft_contract::{
    Access, ErrorKind, PlanDigest, SealedPlan, ToolError, WorkPath,
    access::{Command, CommandAccess, PathMode},
    context::PreviewContext,
    custom_access::CustomAccess,
    erased::ParsedInput,
    host::{Question, Verdict},
    ops::{FileKind, FileOps, FileVersion, RepositoryOps},
    preview::{
        CommandPreview, FileChangeKind, FileDiff, MAX_PREVIEW_BYTES, Preview, PreviewPart,
        TouchKind,
    },
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    change_history::ChangeHistory,
    guard::{Guard, ReadOnly, changes::ChangeWatch, confinement::Confinement},
    pipeline::CallState,
    registry::Entry,
};

/// How long a tool may take to make its preview.
const PREVIEW_WAIT: Duration = Duration::from_secs(10);

/// The most files of the workspace that one question binds.
const MAX_FILES: usize = 256;

/// The most words that are checked for being file names.
const MAX_LOOKS: usize = 1_024;

/// The largest file whose content is bound; a larger one is bound only by its version.
const MAX_HASHED_BYTES: u64 = 16 << 20;

/// Bytes read at once.
const READ_BYTES: usize = 256 << 10;

/// A file of the workspace that a command of the plan runs or names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// As the command names it.
    pub(crate) path: WorkPath,
    /// The path with every symlink followed.
    pub(crate) resolved: Option<WorkPath>,
    /// The version of the file; absent when there is none.
    pub(crate) version: Option<FileVersion>,
    /// SHA-256 of its content. A version alone is only as precise as the file system's clock.
    pub(crate) content: Option<String>,
}

/// A preview, and the programs it mentions.
pub(crate) struct ShownPreview {
    pub(crate) preview: Value,
    pub(crate) programs: Vec<Program>,
    /// A one-line summary, for lists.
    pub(crate) summary: String,
}

/// Builds the preview.
pub(crate) async fn show(
    call: &CallState,
    entry: &Entry,
    parsed: &ParsedInput,
    plan: &Arc<SealedPlan>,
) -> Result<ShownPreview, ToolError> {
    let mut preview = ask_tool(call, entry, parsed, plan).await?;
    let commands = commands(call, entry, plan)?;
    let files = files_of(plan, &commands)?;
    preview.parts.extend(from_plan(plan));
    preview
        .parts
        .extend(commands.into_iter().map(PreviewPart::Command));
    let bytes = preview.bytes();
    if bytes > MAX_PREVIEW_BYTES {
        return Err(cannot_be_shown(format!(
            "its preview has {bytes} bytes, and at most {MAX_PREVIEW_BYTES} can be \
             shown"
        ))
        .hint("split it into several calls; what cannot be shown in full cannot be approved"));
    }
    Ok(ShownPreview {
        programs: bound(files, call).await?,
        summary: summary(plan),
        preview: to_json(&preview),
    })
}

/// Which of the named files are bound: every program, existing or not, and every other file that
/// exists.
async fn bound(named: NamedFiles, call: &CallState) -> Result<Vec<Program>, ToolError> {
    let mut found = look_at(named.run, call).await;
    for file in look_at(named.others, call).await {
        if file.version.is_some() {
            found.push(file);
        }
    }
    if found.len() > MAX_FILES {
        return Err(cannot_be_shown(format!(
            "its commands name more than {MAX_FILES} files of the workspace"
        ))
        .hint("split it into several calls"));
    }
    Ok(found)
}

/// The files as they are now, for comparing with what was approved.
pub(crate) async fn look_at(paths: Vec<WorkPath>, call: &CallState) -> Vec<Program> {
    let files = &call.workspace.operations.files;
    let mut programs = Vec::with_capacity(paths.len());
    for path in paths {
        programs.push(match files.resolve(&path).await {
            Ok(there) => {
                let stat = there.stat.filter(|stat| stat.kind == FileKind::File);
                let content = match &stat {
                    Some(stat) if stat.size <= MAX_HASHED_BYTES => {
                        content(&**files, &there.path).await
                    }
                    Some(_) | None => None,
                };
                Program {
                    path,
                    resolved: Some(there.path),
                    version: stat.map(|stat| stat.version),
                    content,
                }
            }
            // Outside the workspace, or not resolvable: there is no file of the workspace to bind.
            Err(_) => Program {
                path,
                resolved: None,
                version: None,
                content: None,
            },
        });
    }
    programs
}

/// SHA-256 of a file; `None` if it cannot be read, which differs from every content.
async fn content(files: &dyn FileOps, path: &WorkPath) -> Option<String> {
    let reader = files.open(path).await.ok()?;
    let mut hasher = Sha256::new();
    let mut buffer = Vec::new();
    let mut offset = 0;
    while offset <= MAX_HASHED_BYTES {
        buffer = reader.read_at(offset, READ_BYTES, buffer).await.ok()?;
        hasher.update(&buffer);
        offset = offset.saturating_add(u64::try_from(buffer.len()).ok()?);
        if buffer.len() < READ_BYTES {
            break;
        }
    }
    Some(PlanDigest(hasher.finalize().into()).to_string())
}

async fn ask_tool(
    call: &CallState,
    entry: &Entry,
    parsed: &ParsedInput,
    plan: &Arc<SealedPlan>,
) -> Result<Preview, ToolError> {
    let cancel = call.cancel.child_token();
    // Stops whatever the tool left running for its preview once nobody waits for it.
    let _stop = cancel.clone().drop_guard();
    let guard = Arc::new(ReadOnly(Guard {
        engine: Arc::clone(&call.engine),
        workspace: Arc::clone(&call.workspace),
        plan: Arc::clone(plan),
        withheld: Arc::clone(&call.withheld),
        // A preview connects to nothing.
        denied_addresses: None,
        principal: Arc::clone(&call.principal),
        recording: Arc::clone(&call.recording),
        session: call.session.clone(),
        confinement: Confinement::default(),
        changes: ChangeWatch::default(),
        left_out: Arc::clone(&call.left_out),
        past: OnceLock::new(),
    }));
    let cx = PreviewContext {
        principal: Arc::clone(&call.principal),
        root: Arc::clone(&call.workspace.operations.root),
        files: Arc::clone(&guard) as Arc<dyn FileOps>,
        repository: Arc::clone(&guard) as Arc<dyn RepositoryOps>,
        databases: guard,
        past: Arc::new(ChangeHistory::new(
            &call.engine,
            &call.workspace,
            &call.principal,
        )),
        cancel,
    };
    let drawing = AssertUnwindSafe(async { entry.tool().preview(parsed, cx).await }).catch_unwind();
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => Err(crate::halt::cancelled()),
        drawn = drawing => drawn.unwrap_or_else(|_| {
            Err(cannot_be_shown("the tool panicked while showing what it would do")
                .hint("this is a fault in the tool; the log has the detail"))
        }),
        () = tokio::time::sleep(PREVIEW_WAIT) => Err(cannot_be_shown(format!(
            "the tool did not show what it would do within {} s",
            PREVIEW_WAIT.as_secs()
        ))
        .hint("split it into several calls")),
    }
}

fn cannot_be_shown(why: impl std::fmt::Display) -> ToolError {
    ToolError::new(
        ErrorKind::Denied,
        format!("a person would have to approve this call, and {why}"),
    )
}

/// The commands one by one, as policy read them; as a whole if it does not read commands.
fn commands(
    call: &CallState,
    entry: &Entry,
    plan: &SealedPlan,
) -> Result<Vec<CommandPreview>, ToolError> {
    let planned: Vec<&CommandAccess> = plan.accesses().iter().filter_map(command).collect();
    if planned.is_empty() {
        return Ok(Vec::new());
    }
    let question = Question {
        principal: &call.principal,
        tool: entry.facts(),
        plan,
        grants: &[],
    };
    let policy = &call.rules.policy;
    let read = std::panic::catch_unwind(AssertUnwindSafe(|| policy.commands(&question)))
        .map_err(|_| cannot_be_shown("its commands could not be read"))?;
    if !read.is_empty() {
        return Ok(read);
    }
    let whole = |access: &&CommandAccess| CommandPreview {
        text: access.command.text(),
        touches: Vec::new(),
        may_name: Vec::new(),
        opaque: Some("its words were not checked individually".to_owned()),
        unbound: None,
        verdict: Verdict::Ask,
    };
    Ok(planned.iter().map(whole).collect())
}

/// The files of the workspace that commands may use, as paths.
#[derive(Default)]
struct NamedFiles {
    /// What they run.
    run: Vec<WorkPath>,
    /// Whatever else their words may name.
    others: Vec<WorkPath>,
}

/// The files of the workspace that the plan's commands run, and all that their words may name.
fn files_of(plan: &SealedPlan, commands: &[CommandPreview]) -> Result<NamedFiles, ToolError> {
    let mut named = NamedFiles::default();
    for access in plan.accesses().iter().filter_map(command) {
        let touched = commands.iter().flat_map(|command| &command.touches);
        let run = touched
            .filter(|touched| touched.how == TouchKind::Runs)
            .map(|touched| touched.what.as_str());
        let argv = match &access.command {
            Command::Argv(argv) => argv.as_slice(),
            Command::Shell(_) => &[],
        };
        let first = argv.first().map(String::as_str);
        // A name without a slash is looked up where programs are installed, which is outside.
        let run = run.chain(first).filter(|name| name.contains('/'));
        for path in run.filter_map(|name| within(name, &access.cwd, plan.workspace())) {
            if !named.run.contains(&path) {
                named.run.push(path);
            }
        }
        let words = commands.iter().flat_map(|command| &command.may_name);
        let words = words.chain(argv.iter().skip(1));
        for path in words.filter_map(|name| within(name, &access.cwd, plan.workspace())) {
            if !named.run.contains(&path) && !named.others.contains(&path) {
                named.others.push(path);
            }
        }
    }
    if named.run.len() + named.others.len() > MAX_LOOKS {
        return Err(cannot_be_shown(format!(
            "its commands have more than {MAX_LOOKS} words that may be file names"
        ))
        .hint("split it into several calls"));
    }
    Ok(named)
}

/// The workspace path that a word means in a directory, if it means one.
fn within(word: &str, cwd: &WorkPath, root: &str) -> Option<WorkPath> {
    let absolute = if word.starts_with('/') {
        word.to_owned()
    } else {
        format!("{root}/{cwd}/{word}")
    };
    WorkPath::parse(&absolute, root).ok()
}

fn command(access: &Access) -> Option<&CommandAccess> {
    match access {
        Access::Command(command) => Some(command),
        Access::Path(_)
        | Access::Process(_)
        | Access::Host { .. }
        | Access::Database { .. }
        | Access::Message { .. }
        | Access::RemoteTool { .. }
        | Access::Custom(_) => None,
    }
}

/// The parts that come from the plan itself, other than files and commands.
fn from_plan(plan: &SealedPlan) -> impl Iterator<Item = PreviewPart> {
    plan.accesses().iter().filter_map(|access| match access {
        Access::Path(_) | Access::Command(_) => None,
        Access::Process(process) => Some(PreviewPart::Note(process.text())),
        Access::Host { host, port } => Some(PreviewPart::Host {
            host: host.clone(),
            port: *port,
        }),
        Access::Database { source, writes } => Some(if *writes {
            PreviewPart::Rows {
                source: source.clone(),
                affected: None,
            }
        } else {
            PreviewPart::Note(format!("query the database {source}"))
        }),
        Access::Message { channel, target } => Some(PreviewPart::Note(format!(
            "send a message to {target} on {channel}"
        ))),
        Access::RemoteTool { provider, tool } => {
            Some(PreviewPart::Note(format!("call {tool} at {provider}")))
        }
        Access::Custom(custom) => Some(PreviewPart::Note(in_words(custom))),
    })
}

/// An access of a tool's own kind: `payment eur/120 to acme`.
fn in_words(custom: &CustomAccess) -> String {
    format!("{} {}", custom.kind().as_str(), custom.target().as_str())
}

/// A one-line summary of a plan: the tool, and the strongest thing it does.
fn summary(plan: &SealedPlan) -> String {
    let tool = &plan.tool().tool;
    let accesses = plan.accesses().iter();
    // `max_by_key` takes the last of several; the first one says more.
    let line = match accesses.rev().max_by_key(|access| strength(access)) {
        None => tool.to_string(),
        Some(Access::Path(path)) => match path.mode {
            PathMode::Read => format!("{tool} reads {}", path.target()),
            PathMode::Write => format!("{tool} writes {}", path.target()),
        },
        Some(Access::Command(command)) => format!("{tool}: {}", command.command.text()),
        Some(Access::Process(process)) => format!("{tool}: {}", process.text()),
        Some(Access::Host { host, port }) => format!("{tool} connects to {host}:{port}"),
        Some(Access::Database { source, writes }) => {
            let verb = if *writes { "changes" } else { "queries" };
            format!("{tool} {verb} database {source}")
        }
        Some(Access::Message { channel, target }) => {
            format!("{tool} sends to {target} on {channel}")
        }
        Some(Access::RemoteTool {
            provider,
            tool: called,
        }) => {
            format!("{tool}: {called} at {provider}")
        }
        Some(Access::Custom(custom)) => format!("{tool}: {}", in_words(custom)),
    };
    one_line(&line)
}

/// How much an access says about a call: what it changes or runs, not what it reads for that.
fn strength(access: &Access) -> u8 {
    match access {
        Access::Path(path) => match path.mode {
            PathMode::Read => 0,
            PathMode::Write => 4,
        },
        Access::Database { writes: false, .. } => 1,
        Access::Host { .. } => 2,
        Access::Process(_) => 3,
        Access::Database { writes: true, .. }
        | Access::Message { .. }
        | Access::RemoteTool { .. }
        | Access::Custom(_) => 4,
        Access::Command(_) => 5,
    }
}

/// The most characters of a summary. It is for lists; nobody approves based on it.
const MAX_SUMMARY_CHARS: usize = 160;

fn one_line(text: &str) -> String {
    let escaped = text.chars().flat_map(char::escape_debug);
    let mut line: String = escaped.clone().take(MAX_SUMMARY_CHARS).collect();
    if escaped.count() > MAX_SUMMARY_CHARS {
        line.push('…');
    }
    line
}

/// A preview in the canonical form.
pub(crate) fn to_json(preview: &Preview) -> Value {
    preview.parts.iter().map(part).collect()
}

fn part(part: &PreviewPart) -> Value {
    match part {
        PreviewPart::Diff(diff) => file_diff(diff),
        PreviewPart::Command(command) => json!({
            "kind": "command",
            "text": command.text,
            "touches": command
                .touches
                .iter()
                .map(|touched| json!({"how": touched.how.as_str(), "what": touched.what}))
                .collect::<Vec<_>>(),
            "opaque": command.opaque,
            "unbound": command.unbound,
            "verdict": command.verdict.as_str(),
        }),
        PreviewPart::Host { host, port } => json!({"kind": "host", "host": host, "port": port}),
        PreviewPart::Rows { source, affected } => {
            json!({"kind": "rows", "source": source, "affected": affected})
        }
        PreviewPart::Note(text) => json!({"kind": "note", "text": text}),
    }
}

fn file_diff(diff: &FileDiff) -> Value {
    let to = match &diff.change {
        FileChangeKind::Move { to } => Some(to.as_str()),
        FileChangeKind::Create | FileChangeKind::Change | FileChangeKind::Remove => None,
    };
    json!({
        "kind": "diff",
        "path": diff.path.as_str(),
        "change": diff.change.as_str(),
        "to": to,
        "text": diff.text,
        "note": diff.note,
    })
}
