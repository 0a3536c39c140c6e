//! Builds an embedded Haft, for one workspace or for many: back end, record, policy, tools, and
//! approver.
//!
//! Every method sets one thing; [`HaftBuilder::build`] reports any error. Whatever guards a call
//! has a safe default: the preset `careful`, and nobody to ask. What only some features have is in
//! `builder/`.

#[cfg(feature = "sandbox")]
mod files;
#[cfg(not(feature = "mcp"))]
mod no_servers;
mod record;
#[cfg(feature = "mcp")]
mod servers;

use std::{collections::BTreeMap, future::Future, marker::PhantomData, path::PathBuf, sync::Arc};

use haft_contract::{
    AgentId, ProviderId, SessionId, SessionKind, TenantId, UserId,
    erased::{ErasedTool, IntoTool},
    event::RecordedEvent,
    host::{ApprovalAnswer, ApprovalRequest, Approver},
    identity::IdentityError,
    ops::{Operations, SandboxMode},
};
use haft_host::{
    DirectoryOptions, HostError, HostErrorKind, RecordOptions, WorkspaceSource,
    rules::{AgentRules, RulesInCode, SessionRules},
};
use haft_ledger::{MemoryRecord, store::NamedStore};
use haft_policy::Preset;
use haft_runtime::{Runtime, RuntimeBuilder};

#[cfg(feature = "sandbox")]
use self::files::compared;
#[cfg(not(feature = "mcp"))]
use self::no_servers::ServersToMount;
#[cfg(feature = "mcp")]
use self::servers::ServersToMount;
use crate::{
    apart::check_apart,
    closures::{AskWith, ListenWith},
    elsewhere::{CheckedLocation, WorkspaceLocation},
    embedded::Haft,
    host::Host,
};

/// The agent that makes calls unless another is named.
const DEFAULT_AGENT: &str = "agent";

/// The user that calls are made for unless another is named.
const DEFAULT_USER: &str = "local";

/// Says that a builder makes a [`Haft`], for one workspace.
#[derive(Debug)]
pub enum SingleWorkspace {}

/// Says that a builder makes a [`Host`], for many workspaces.
#[derive(Debug)]
pub enum ManyWorkspaces {}

/// Builds a [`Host`].
pub type HostBuilder = HaftBuilder<ManyWorkspaces>;

/// Builds a [`Haft`], or a [`Host`].
#[must_use = "nothing is opened before `build`"]
pub struct HaftBuilder<W = SingleWorkspace> {
    /// The only workspace, if there is to be one.
    workspace: Option<WorkspaceLocation>,
    makes: PhantomData<fn() -> W>,
    local: DirectoryOptions,
    operations: Option<Operations>,
    data_dir: Option<PathBuf>,
    in_memory: bool,
    database: Option<String>,
    store: Option<NamedStore>,
    secrets: Vec<String>,
    rules: RulesInCode,
    sandbox: BTreeMap<String, SandboxMode>,
    user: String,
    agent: String,
    session: Option<String>,
    session_kind: SessionKind,
    servers: ServersToMount,
    #[cfg(feature = "sandbox")]
    compares_commands: bool,
    runtime: RuntimeBuilder,
}

impl<W> HaftBuilder<W> {
    fn of(workspace: Option<WorkspaceLocation>) -> Self {
        Self {
            workspace,
            makes: PhantomData,
            local: DirectoryOptions::default(),
            operations: None,
            data_dir: None,
            in_memory: false,
            database: None,
            store: None,
            secrets: Vec::new(),
            rules: RulesInCode::default(),
            sandbox: BTreeMap::new(),
            user: DEFAULT_USER.to_owned(),
            agent: DEFAULT_AGENT.to_owned(),
            session: None,
            session_kind: SessionKind::Main,
            servers: ServersToMount::default(),
            #[cfg(feature = "sandbox")]
            compares_commands: true,
            runtime: with_built_in(Runtime::builder()),
        }
    }

    /// What applies where no rule matches. The default, if no policy text sets one either, is
    /// `careful`. If several are named, the strictest applies.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// // Whatever no rule allows is denied, and nobody is asked.
    /// let builder = Haft::open("work").preset(Preset::Locked).allow("read");
    /// ```
    pub fn preset(mut self, preset: Preset) -> Self {
        self.rules = self.rules.preset(preset);
        self
    }

    /// Allows what a rule names: `write(docs/**)`, `bash(cargo test)`, `deploy(action:status)`,
    /// `my_tool`. [`notation`](crate::notation) has every form.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").allow("write(docs/**)").allow("bash(cargo test)");
    /// ```
    pub fn allow(mut self, rule: impl Into<String>) -> Self {
        self.rules = self.rules.allow(rule);
        self
    }

    /// Asks about what a rule names, even where it would be allowed.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").allow("write").ask("write(Cargo.toml)");
    /// ```
    pub fn ask(mut self, rule: impl Into<String>) -> Self {
        self.rules = self.rules.ask(rule);
        self
    }

    /// Denies what a rule names, whatever else allows it.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").allow("@changes").deny("write(.github/**)");
    /// ```
    pub fn deny(mut self, rule: impl Into<String>) -> Self {
        self.rules = self.rules.deny(rule);
        self
    }

    /// Rules for one agent, in addition to those for everyone. As soon as one agent has rules, an
    /// agent without any is a stranger, and everything it does asks: give each of them a section,
    /// `|rules| rules` if it has no rules of its own. [`Haft::agent`] makes calls for it.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work")
    ///     .for_agent("writer", |rules| rules.allow("write(docs/**)"))
    ///     .for_agent("reader", |rules| rules.deny("@changes"));
    /// ```
    pub fn for_agent(
        mut self,
        agent: impl Into<String>,
        rules: impl FnOnce(AgentRules) -> AgentRules,
    ) -> Self {
        self.rules = self.rules.for_agent(agent, rules);
        self
    }

    /// Rules for one kind of session, which can only narrow what its agent may do.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder =
    ///     Haft::open("work").for_session(SessionKind::Cron, |rules| rules.deny("host(*)"));
    /// ```
    pub fn for_session(
        mut self,
        kind: SessionKind,
        rules: impl FnOnce(SessionRules) -> SessionRules,
    ) -> Self {
        self.rules = self.rules.for_session(kind, rules);
        self
    }

    /// Adds the policy part of a configuration text, as in `haft.toml`. The name identifies it in
    /// explanations. Rules of several texts and of code add up, deny over ask over allow.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let text = "[policy]\nallow = [\"write(docs/**)\"]\n";
    /// let builder = Haft::open("work").policy_text("rules.toml", text);
    /// ```
    pub fn policy_text(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.rules = self.rules.policy_text(name, text);
        self
    }

    /// The confinement a tool's child processes need: a full sandbox unless this, or a policy text,
    /// says otherwise; if both do, the stronger applies. A sandbox is set up by a helper: call
    /// [`helper::exit_if_asked`](crate::helper::exit_if_asked) first in `main`; without that, an
    /// installed `haft` is used.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").sandbox("bash", SandboxMode::Full);
    /// ```
    pub fn sandbox(mut self, tool: impl Into<String>, mode: SandboxMode) -> Self {
        self.sandbox.insert(tool.into(), mode);
        self
    }

    /// Adds your own tool to the built-in ones: a [`Tool`](haft_contract::Tool), or an async function
    /// with [`tool_fn`](crate::tool_fn).
    ///
    /// ```
    /// use haft::{Cx, prelude::*, tool_fn};
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Ask {
    ///     symbol: String,
    /// }
    ///
    /// # let directory = std::path::Path::new("/nonexistent");
    /// let haft = haft::Haft::open(directory)
    ///     .tool(tool_fn("price", "Says what a share costs.", async |ask: Ask, _: Cx| {
    ///         Ok(format!("{} costs 42", ask.symbol))
    ///     }))
    ///     .allow("price");
    /// ```
    pub fn tool(self, tool: impl IntoTool) -> Self {
        self.configure(|runtime| runtime.tool(tool))
    }

    /// Adds a provider's tools: scripts, or tools whose schema is known only at run time.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// use haft::{
    ///     Cx,
    ///     contract::{ProviderId, erased::IntoTool as _},
    ///     tool_fn,
    /// };
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Nothing {}
    ///
    /// # fn build() -> Result<(), Box<dyn std::error::Error>> {
    /// let clock = tool_fn("clock", "Says what time it is.", async |_: Nothing, _: Cx| {
    ///     Ok("12:00".to_owned())
    /// });
    /// let tools = vec![clock.into_tool()?];
    /// let builder = Haft::open("work").provider(ProviderId::embedded(), tools);
    /// # Ok(()) }
    /// ```
    pub fn provider(self, provider: ProviderId, tools: Vec<Arc<dyn ErasedTool>>) -> Self {
        self.configure(|runtime| runtime.provider(provider, tools))
    }

    /// Who is asked. Without an approver, every call that would ask is denied.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// struct Cautious;
    ///
    /// impl Approver for Cautious {
    ///     async fn ask(&self, request: ApprovalRequest) -> ApprovalAnswer {
    ///         let reason = Some(format!("not {} today", request.plan.tool()));
    ///         ApprovalAnswer::Refused { by: "ada".to_owned(), reason }
    ///     }
    /// }
    ///
    /// let builder = Haft::open("work").approver(Cautious);
    /// ```
    pub fn approver(self, approver: impl Approver) -> Self {
        self.configure(|runtime| runtime.approver(approver))
    }

    /// Who is asked, as a closure: it gets the question with the whole plan, and its future
    /// resolves to the answer.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").approve_with(|request: ApprovalRequest| async move {
    ///     println!("{}", request.plan.tool());
    ///     ApprovalAnswer::Approved { by: "ada".to_owned(), digest: request.digest, grant: None }
    /// });
    /// ```
    pub fn approve_with<F, A>(self, ask: F) -> Self
    where
        F: Fn(ApprovalRequest) -> A + Send + Sync + 'static,
        A: Future<Output = ApprovalAnswer> + Send + 'static,
    {
        self.approver(AskWith(ask))
    }

    /// Adds a listener that sees every event of every call as it happens, including progress. Must
    /// not block.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").on_event(|recorded| println!("{:?}", recorded.event));
    /// ```
    pub fn on_event(self, listen: impl Fn(&RecordedEvent) + Send + Sync + 'static) -> Self {
        self.configure(|runtime| runtime.events(Arc::new(ListenWith(listen))))
    }

    /// The person calls are made for.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").user("ada");
    /// ```
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = user.into();
        self
    }

    /// The agent that makes the calls. See [`Haft::agent`] for several.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").agent("writer");
    /// ```
    pub fn agent(mut self, agent: impl Into<String>) -> Self {
        self.agent = agent.into();
        self
    }

    /// Anything else the runtime's builder can do: limits, hooks, a clock. The
    /// operations, the policy and the ledger are set by [`build`](Self::build).
    ///
    /// ```
    /// # use haft::prelude::*;
    /// use haft::Limits;
    ///
    /// let limits = Limits { calls_in_flight: 4, ..Limits::default() };
    /// let builder = Haft::open("work").configure(|runtime| runtime.limits(limits));
    /// ```
    pub fn configure(mut self, change: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Self {
        self.runtime = change(self.runtime);
        self
    }
}

impl HaftBuilder {
    pub(crate) fn new(workspace: WorkspaceLocation) -> Self {
        Self::of(Some(workspace))
    }

    /// The files, processes and search of a back end of your own. The workspace is then whatever that
    /// back end has open, and [`local`](Self::local) has no effect. For another machine and for a
    /// container there are `Ssh` and `Container`.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// use haft::contract::ops::Operations;
    ///
    /// // A workspace in which there is nothing: its tools only reach a service of the program's own.
    /// let builder = Haft::open("calendar").operations(Operations::none("/calendar"));
    /// ```
    pub fn operations(mut self, operations: Operations) -> Self {
        self.operations = Some(operations);
        self
    }

    /// The conversation that calls belong to. The default is a new one.
    ///
    /// ```
    /// # use haft::prelude::*;
    /// let builder = Haft::open("work").session("chat-17", SessionKind::Dm);
    /// ```
    pub fn session(mut self, session: impl Into<String>, kind: SessionKind) -> Self {
        self.session = Some(session.into());
        self.session_kind = kind;
        self
    }

    /// Opens everything. Also settles calls left open by processes that are gone; see
    /// [`Haft::recovery`].
    ///
    /// ```
    /// # use haft::prelude::*;
    /// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
    /// let haft = Haft::open("work").build().await?;
    /// # Ok(()) }
    /// ```
    pub async fn build(self) -> Result<Haft, HostError> {
        let (session, kind) = (self.session.clone(), self.session_kind);
        if let Some(session) = &session {
            // Before anything is opened.
            SessionId::parse(session).map_err(unusable_name)?;
        }
        let host = self.open().await?;
        let principal = host.principal(None, session.as_deref(), kind)?;
        Ok(Haft::new(host, Arc::new(principal), None))
    }
}

impl HaftBuilder<ManyWorkspaces> {
    pub(crate) fn for_many() -> Self {
        Self::of(None)
    }

    /// Opens everything but workspaces, which are added with [`Host::workspace`]. Also settles calls
    /// left open by processes that are gone; see [`Host::recovery`].
    ///
    /// ```
    /// # use haft::prelude::*;
    /// # async fn open() -> Result<(), Box<dyn std::error::Error>> {
    /// let host = Host::builder().allow("write(docs/**)").build().await?;
    /// # Ok(()) }
    /// ```
    pub async fn build(self) -> Result<Host, HostError> {
        self.open().await
    }
}

impl<W> HaftBuilder<W> {
    /// Opens everything.
    async fn open(mut self) -> Result<Host, HostError> {
        let user = UserId::parse(&self.user).map_err(unusable_name)?;
        let agent = AgentId::parse(&self.agent).map_err(unusable_name)?;
        let data_dir = self.checked_data_dir()?;
        let workspace = self.workspace.take().map(WorkspaceLocation::check);
        let workspace = workspace.transpose()?;
        if let (None, Some(CheckedLocation::Directory(root)), Some(data_dir)) =
            (&self.operations, &workspace, &data_dir)
        {
            check_apart(data_dir, root)?;
        }
        let memory = self.in_memory.then(MemoryRecord::new).transpose();
        let memory = memory.map_err(|error| {
            let message = format!("a record in memory cannot be made: {error}");
            HostError::new(HostErrorKind::Record, message, "try again")
        })?;
        // Without one there is no server to keep anything of.
        let kept_in = data_dir.clone().unwrap_or_default();
        let servers = self.servers.with_defaults(&self.local, &kept_in, &user);
        #[cfg(feature = "sandbox")]
        let local = compared(self.local, self.compares_commands, data_dir.as_deref());
        #[cfg(not(feature = "sandbox"))]
        let local = self.local;
        let options = Box::new(local);
        // What workspaces on this machine are opened with, where the program's own is elsewhere.
        #[cfg_attr(
            not(any(feature = "containers", feature = "ssh")),
            expect(unused_mut, reason = "everything is here")
        )]
        let mut beside: Option<Box<DirectoryOptions>> = None;
        let workspace = match (self.operations, workspace) {
            (Some(operations), _) => WorkspaceSource::Opened(operations),
            (None, Some(CheckedLocation::Directory(root))) => {
                WorkspaceSource::Local { root, options }
            }
            #[cfg(any(feature = "containers", feature = "ssh"))]
            (None, Some(CheckedLocation::Remote(remote))) => {
                beside = Some(options);
                WorkspaceSource::Remote(remote)
            }
            (None, None) => WorkspaceSource::None { options },
        };
        let builder = haft_host::HostBuilder::new(
            self.runtime,
            workspace,
            self.rules.sources(),
            RecordOptions::new(kept_in, TenantId::local())
                .in_memory(memory)
                .database(self.database)
                .store(self.store)
                .secrets(self.secrets),
        )?;
        let mut builder = servers.mount_on(builder.sandboxes(self.sandbox));
        if let Some(options) = beside {
            builder = builder.beside(options);
        }
        // Apart, so that whoever opens a host does not carry all that opening one needs.
        let host = Box::pin(haft_host::Host::open(builder)).await?;
        Ok(Host::new(host, data_dir, user, agent))
    }
}

impl<W> std::fmt::Debug for HaftBuilder<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HaftBuilder")
            .field("workspace", &self.workspace)
            .field("data_dir", &self.data_dir)
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

/// The tools of every Haft, in a workspace that has files.
#[cfg(feature = "sandbox")]
fn with_built_in(runtime: RuntimeBuilder) -> RuntimeBuilder {
    runtime.provider(ProviderId::builtin(), haft_tools::builtins())
}

#[cfg(not(feature = "sandbox"))]
fn with_built_in(runtime: RuntimeBuilder) -> RuntimeBuilder {
    runtime
}

/// A name of a tenant, a user, an agent or a session that is not one.
pub(crate) fn unusable_name(error: IdentityError) -> HostError {
    let hint = "choose a shorter, plainer name";
    HostError::new(HostErrorKind::Invalid, error.to_string(), hint)
}
