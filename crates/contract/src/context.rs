//! What a tool knows about the call it serves. An immutable argument, never state of the tool.

use std::{fmt, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{
    access::Access,
    agent_question::{AgentQuestion, PersonReply},
    artifact::{ArtifactId, ReadArtifact},
    background::Background,
    call::CallId,
    error::{ErrorKind, ToolError},
    event::RecordedEvent,
    future::BoxFuture,
    identity::Principal,
    memory::{Memory, MemoryId},
    ops::{
        DatabaseOps, DocumentOps, FileOps, FileVersion, MessageOps, NetOps, OpsError, ProcessOps,
        RemoteToolOps, RepositoryOps, SearchOps, Stream, Tier, World,
    },
    path::WorkPath,
    progress::{NoProgress, Progress, ProgressSink, ReportProgress},
    streamed::{ItemSink, TakeItems},
    todo::TodoItem,
};

/// What a tool may know while it plans: who asks, and where paths are rooted. No operations, so a
/// plan cannot touch anything.
#[derive(Debug, Clone)]
pub struct PlanContext {
    /// Who asks.
    pub principal: Arc<Principal>,
    /// The workspace root as an absolute path, for turning absolute paths into relative ones.
    pub root: Arc<str>,
}

impl PlanContext {
    /// Parses a path parameter, naming the parameter in the error. A path that begins with `~` or a
    /// variable is refused: nothing expands it, and a directory of that name is never meant.
    pub fn path(&self, text: &str, pointer: &str) -> Result<WorkPath, ToolError> {
        if let Some(name) = not_expanded(text) {
            let message = format!("the path begins with `{name}`");
            let hint = format!(
                "`{name}` is not expanded; give the path itself, relative to the workspace or absolute \
                 inside it (`./{name}` is a file of that name)"
            );
            let error = ToolError::new(ErrorKind::InvalidPath, message);
            return Err(error.at(pointer).hint(hint));
        }
        WorkPath::parse(text, &self.root).map_err(|error| {
            ToolError::from(error)
                .at(pointer)
                .hint("give a path inside the workspace, relative to its root")
        })
    }
}

/// The longest variable that is named in an error.
const MAX_VARIABLE_BYTES: usize = 64;

/// The start of a path that a shell would have expanded: `~`, `$HOME`, `${PWD}`. File names may
/// begin with a dollar sign (`$id.tsx`), so a variable is written in capitals or in braces.
fn not_expanded(path: &str) -> Option<&str> {
    let first = path.split('/').next()?;
    let variable = first.strip_prefix('$').filter(|name| {
        let braced = name.starts_with('{') && name.ends_with('}');
        let letter = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let named = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(letter);
        first.len() <= MAX_VARIABLE_BYTES && (named || braced)
    });
    let harmless = |c: char| c.is_ascii_graphic();
    (first == "~" || (variable.is_some() && first.chars().all(harmless))).then_some(first)
}

/// What a tool may use while it previews an input: the files its plan names, for reading only, and
/// what databases expect of its statements.
#[derive(Clone)]
pub struct PreviewContext {
    /// Who asks.
    pub principal: Arc<Principal>,
    /// The workspace root as an absolute path.
    pub root: Arc<str>,
    /// Files, limited to what the plan names. Every change fails.
    pub files: Arc<dyn FileOps>,
    /// The git repository, limited to what the plan names. Every change fails.
    pub repository: Arc<dyn RepositoryOps>,
    /// What earlier calls did to files.
    pub past: Arc<dyn PastChanges>,
    /// Databases: statements that the plan names can be explained. None can be run.
    pub databases: Arc<dyn DatabaseOps>,
    /// Fires when the call no longer needs an answer.
    pub cancel: CancellationToken,
}

impl PreviewContext {
    /// Parses a path parameter the same way [`PlanContext::path`] did.
    pub fn path(&self, text: &str, pointer: &str) -> Result<WorkPath, ToolError> {
        WorkPath::parse(text, &self.root).map_err(|error| ToolError::from(error).at(pointer))
    }
}

impl fmt::Debug for PreviewContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreviewContext").finish_non_exhaustive()
    }
}

/// Everything a call may use while it runs.
pub struct CallContext<P> {
    parts: Arc<CallParts>,
    progress: ProgressSink<P>,
}

/// What the runtime supplies for one call. Tools see it through [`CallContext`].
pub struct CallParts {
    /// The call's id.
    pub call: CallId,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// The workspace root as an absolute path.
    pub root: Arc<str>,
    /// The tier child processes of this call run in.
    pub tier: Tier,
    /// Files, limited to what the plan names.
    pub files: Arc<dyn FileOps>,
    /// Processes, limited to what the plan names.
    pub processes: Arc<dyn ProcessOps>,
    /// Search, limited to what the plan names.
    pub search: Arc<dyn SearchOps>,
    /// The git repository, limited to what the plan names.
    pub repository: Arc<dyn RepositoryOps>,
    /// The network, databases, people and remote tools, limited to what the plan names.
    pub world: World,
    /// Says whether the plan names an access.
    pub claims: Arc<dyn ClaimAccess>,
    /// Takes the raw output of a command, which it cleans, caps and spills.
    pub output: Arc<dyn OutputSink>,
    /// Opens what earlier calls of this session spilled.
    pub spilled: Arc<dyn OpenSpilled>,
    /// What this session has read before.
    pub seen: Arc<dyn SeenFiles>,
    /// What earlier calls did to files.
    pub past: Arc<dyn PastChanges>,
    /// The session's list of things to do.
    pub todo: Arc<dyn SessionTodo>,
    /// What the agent keeps beyond a session.
    pub memory: Arc<dyn AgentMemory>,
    /// The person whom the agent may ask something.
    pub person: Arc<dyn AskPerson>,
    /// Processes the session keeps beyond a call.
    pub background: Arc<dyn Background>,
    /// Takes progress reports.
    pub progress: Arc<dyn ReportProgress>,
    /// Takes items of the result as the tool has them.
    pub items: Arc<dyn TakeItems>,
    /// How long the call may still run, and when it must stop.
    pub limits: Arc<dyn RunLimits>,
}

/// Says whether a call's plan names what its tool is about to touch by means of its own.
pub trait ClaimAccess: Send + Sync {
    /// Fails with [`ErrorKind::NotInPlan`] unless the plan names the access.
    fn claim(&self, access: &Access) -> Result<(), OpsError>;
}

/// Tells how long a call may still run, and when it must stop.
pub trait RunLimits: Send + Sync {
    /// The time to the deadline; zero once it has passed.
    fn remaining(&self) -> Duration;
    /// Fires when the call must stop. The same token each time.
    fn cancel(&self) -> &CancellationToken;
}

/// Takes the raw output of a command as it arrives. Everything pushed becomes part of the outcome,
/// even when the call is cancelled or times out before the tool returns.
pub trait OutputSink: Send + Sync {
    /// Takes one chunk. Waits while earlier output is being written out, which slows down the
    /// producer.
    fn push<'a>(&'a self, stream: Stream, bytes: &'a [u8]) -> BoxFuture<'a, ()>;

    /// What has arrived on one stream so far, cleaned and capped, for the structured output of a tool
    /// whose text has both streams as they came.
    fn apart(&self, stream: Stream) -> BoxFuture<'_, StreamText>;
}

/// The output on one stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StreamText {
    /// Its beginning and its end, or all of it.
    pub text: String,
    /// How many bytes are left out between them.
    pub bytes_omitted: u64,
}

/// Opens the output an earlier call spilled, if this principal may see it.
pub trait OpenSpilled: Send + Sync {
    /// The spilled output of a call.
    fn open(&self, call: CallId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, ToolError>>;
}

/// What earlier calls did to files, as far as this principal may know: calls of the same user in
/// the same workspace, and unless it is the operator's own session, of the same session only.
pub trait PastChanges: Send + Sync {
    /// What these calls did to files, in the order it happened. A call outside that range is
    /// reported as not found.
    fn of<'a>(
        &'a self,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, Result<Vec<RecordedEvent>, ToolError>>;

    /// Opens a file's former content, if [`PastChanges::of`] has returned it to this call before. A
    /// hash alone opens nothing.
    fn open(&self, content: ArtifactId) -> BoxFuture<'_, Result<Arc<dyn ReadArtifact>, ToolError>>;
}

/// Which version of a file this session last read or wrote. The runtime notes it whenever a file is
/// opened or written through the context.
pub trait SeenFiles: Send + Sync {
    /// The version last seen, if this session has seen the file.
    fn last_seen<'a>(
        &'a self,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Option<FileVersion>, OpsError>>;
}

/// The session's list of things to do: what the last call of the same user and agent, in the same
/// session of the same kind, set. Other sessions have their own.
pub trait SessionTodo: Send + Sync {
    /// The list; empty if none was set.
    fn list(&self) -> BoxFuture<'_, Result<Vec<TodoItem>, ToolError>>;

    /// Returns once the running call, whose input is the new list, would survive a power cut.
    fn keep(&self) -> BoxFuture<'_, Result<(), ToolError>>;
}

/// What an agent keeps beyond a session, for the user it acts for. Only Haft's own memory tools
/// reach it, so that rules and people see it in a plan by their names.
pub trait AgentMemory: Send + Sync {
    /// Saves a text, with the labels of this session. Returns it as it is kept, with secrets taken
    /// out. Fails unless the plan says that the call changes something.
    fn save<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Result<Memory, ToolError>>;

    /// One memory. This session has then read from whatever its labels name.
    fn get(&self, id: MemoryId) -> BoxFuture<'_, Result<Memory, ToolError>>;

    /// The newest memories that have all of these words, newest first. This session has then read
    /// from whatever the labels of what is returned name.
    fn search<'a>(
        &'a self,
        words: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<FoundMemories, ToolError>>;

    /// Removes a memory. Fails unless the plan says that the call changes something.
    fn forget(&self, id: MemoryId) -> BoxFuture<'_, Result<(), ToolError>>;
}

/// The person an agent works for. Only Haft's own tool `clarify` reaches them, so that rules and people
/// know such a call by its name.
pub trait AskPerson: Send + Sync {
    /// Asks a question, wherever the host asks about approvals, and waits for the answer, which may
    /// come from another process. The call's clock is stopped meanwhile. The question is on record
    /// before anybody is asked. Fails with [`ErrorKind::Denied`] where there is nobody, and with
    /// [`ErrorKind::TimedOut`] when nobody answers.
    fn ask(&self, question: AgentQuestion) -> BoxFuture<'_, Result<PersonReply, ToolError>>;
}

/// What a search in memories found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMemories {
    /// The newest of them, newest first.
    pub memories: Vec<Memory>,
    /// How many there are in all.
    pub total: usize,
}

impl<P> CallContext<P> {
    /// The call's id.
    pub fn call(&self) -> CallId {
        self.parts.call
    }

    /// Who asks.
    pub fn principal(&self) -> &Arc<Principal> {
        &self.parts.principal
    }

    /// The tier child processes of this call run in.
    pub fn tier(&self) -> Tier {
        self.parts.tier
    }

    /// Files, limited to what the plan names.
    pub fn files(&self) -> &dyn FileOps {
        &*self.parts.files
    }

    /// Processes, limited to what the plan names.
    pub fn processes(&self) -> &dyn ProcessOps {
        &*self.parts.processes
    }

    /// Search, limited to what the plan names.
    pub fn search(&self) -> &dyn SearchOps {
        &*self.parts.search
    }

    /// The git repository at the workspace's root, limited to what the plan names.
    pub fn repository(&self) -> &dyn RepositoryOps {
        &*self.parts.repository
    }

    /// The network, limited to the hosts that the plan names.
    pub fn net(&self) -> &dyn NetOps {
        &*self.parts.world.net
    }

    /// Documents that came from there, read where they can do no harm.
    pub fn documents(&self) -> &dyn DocumentOps {
        &*self.parts.world.documents
    }

    /// Databases, limited to what the plan names.
    pub fn databases(&self) -> &dyn DatabaseOps {
        &*self.parts.world.databases
    }

    /// People and channels, limited to those that the plan names.
    pub fn messages(&self) -> &dyn MessageOps {
        &*self.parts.world.messages
    }

    /// Tools that run elsewhere, limited to those that the plan names.
    pub fn remote_tools(&self) -> &dyn RemoteToolOps {
        &*self.parts.world.remote_tools
    }

    /// Fails with [`ErrorKind::NotInPlan`] unless the plan names this access, and once the call has
    /// ended. For what a tool touches without the operations above: an access of its own kind, or a
    /// host that it reaches with a client of its own. Claim it right before touching it.
    pub fn claim(&self, access: &Access) -> Result<(), OpsError> {
        self.parts.claims.claim(access)
    }

    /// Takes the raw output of a command.
    pub fn output(&self) -> &dyn OutputSink {
        &*self.parts.output
    }

    /// The same, for work that outlives a borrow of the context.
    pub fn shared_output(&self) -> Arc<dyn OutputSink> {
        Arc::clone(&self.parts.output)
    }

    /// Emits an item of the result as soon as it is there, for whoever watches: a row, a match, a file.
    /// A person sees it as its [`Display`](fmt::Display) says. Never waits, and may be dropped where
    /// nobody watches or there are too many, so the result must have every item too. Needs
    /// [`ToolSpec::streams`](crate::ToolSpec::streams).
    pub fn emit<T: serde::Serialize + fmt::Display>(&self, item: &T) {
        self.items().emit(item);
    }

    /// The sink of these items, for work that outlives a borrow of the context.
    pub fn items(&self) -> ItemSink {
        ItemSink::new(Arc::clone(&self.parts.items))
    }

    /// Processes this session keeps beyond a call.
    pub fn background(&self) -> &dyn Background {
        &*self.parts.background
    }

    /// Opens what earlier calls of this session spilled.
    pub fn spilled(&self) -> &dyn OpenSpilled {
        &*self.parts.spilled
    }

    /// What this session has read before.
    pub fn seen(&self) -> &dyn SeenFiles {
        &*self.parts.seen
    }

    /// What earlier calls did to files.
    pub fn past(&self) -> &dyn PastChanges {
        &*self.parts.past
    }

    /// The session's list of things to do.
    pub fn todo(&self) -> &dyn SessionTodo {
        &*self.parts.todo
    }

    /// What the agent keeps beyond a session.
    pub fn memory(&self) -> &dyn AgentMemory {
        &*self.parts.memory
    }

    /// The person whom the agent may ask something.
    pub fn person(&self) -> &dyn AskPerson {
        &*self.parts.person
    }

    /// Fires when the call must stop.
    pub fn cancel(&self) -> &CancellationToken {
        self.parts.limits.cancel()
    }

    /// How long the call may still run.
    pub fn remaining(&self) -> Duration {
        self.parts.limits.remaining()
    }

    /// Parses a path parameter the same way [`PlanContext::path`] did.
    pub fn path(&self, text: &str, pointer: &str) -> Result<WorkPath, ToolError> {
        WorkPath::parse(text, &self.parts.root).map_err(|error| ToolError::from(error).at(pointer))
    }
}

impl<P: serde::Serialize> CallContext<P> {
    /// Reports the call's progress.
    pub fn report(&self, progress: Progress<P>) {
        self.progress.report(progress);
    }

    /// The progress sink itself, for work that outlives a borrow of the context.
    pub fn progress(&self) -> ProgressSink<P> {
        self.progress.clone()
    }
}

impl CallContext<NoProgress> {
    /// The context of one call, as the runtime builds it.
    pub fn new(parts: CallParts) -> Self {
        let progress = ProgressSink::new(Arc::clone(&parts.progress));
        Self {
            parts: Arc::new(parts),
            progress,
        }
    }

    /// The same context for a tool with its own progress type.
    pub(crate) fn typed<P: serde::Serialize>(self) -> CallContext<P> {
        CallContext {
            parts: self.parts,
            progress: self.progress.typed(),
        }
    }
}

impl<P> fmt::Debug for CallContext<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("call", &self.parts.call)
            .finish_non_exhaustive()
    }
}
