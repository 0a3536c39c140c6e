//! The command line as a whole: the options every command takes, and the list of commands. Each
//! command's own arguments are in its file under `commands/`.

use std::{path::PathBuf, sync::Arc};

use clap::{Args, Parser, Subcommand, ValueEnum};
use haft_contract::{
    AgentId, Principal, SessionId, SessionKind,
    identity::{ChannelId, IdentityError, Scope},
};
use haft_host::config::{Env, resolve::Overrides};

use crate::{
    commands::{
        answer::AnswerArgs,
        approvals::{
            ApprovalsArgs,
            answer::{ApproveArgs, DenyArgs},
        },
        batch::BatchArgs,
        call::CallArgs,
        cite::CiteArgs,
        completions::CompletionsArgs,
        config::ConfigArgs,
        diff::DiffArgs,
        docs::DocsArgs,
        doctor::DoctorArgs,
        explain::ExplainArgs,
        grants::GrantsArgs,
        init::InitArgs,
        keys::KeysArgs,
        log::LogArgs,
        mcp::McpArgs,
        memory::MemoryArgs,
        policy::PolicyArgs,
        record::RecordArgs,
        recover::RecoverArgs,
        serve::ServeArgs,
        sessions::SessionsArgs,
        show::ShowArgs,
        sources::SourcesArgs,
        stats::StatsArgs,
        status::StatusArgs,
        tools::ToolsArgs,
        trust::TrustArgs,
        undo::UndoArgs,
    },
    exit,
    stop::Stop,
};

/// Runs tools for AI agents: every call is planned, decided, recorded and explained.
#[derive(Debug, Parser)]
#[command(
    name = "haft",
    version,
    max_term_width = 100,
    after_help = exit::after_help()
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command understands.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct GlobalArgs {
    /// The directory tools work in [default: the nearest one above with a trusted haft.toml, or the current one]
    #[arg(long, short = 'C', global = true, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Use this configuration file and no other
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where the record and the trust store are kept [default: haft in the user's data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print results as JSON; a list is one array
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print results as JSON, each item of a list on a line of its own
    #[arg(long, global = true, conflicts_with = "json")]
    pub(crate) jsonl: bool,
    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

impl GlobalArgs {
    /// The locations these options set.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            workspace: self.workspace.clone(),
            config: self.config.clone(),
            data_dir: self.data_dir.clone(),
        }
    }
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set
    Auto,
    /// Also in a pipe or a file
    Always,
    /// Never
    Never,
}

/// Who calls.
#[derive(Debug, Default, Args)]
pub(crate) struct IdentityArgs {
    /// The agent that asks [default: cli, or mcp for `haft mcp`]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The agent that started it; may be repeated, the nearest first. It may do no more than any of them
    #[arg(long = "parent-agent", value_name = "NAME")]
    pub(crate) parent_agents: Vec<String>,
    /// The conversation it asks in [default: main, or a new one for `haft mcp`]
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// What kind of conversation that is [default: main, or subagent with a parent agent]
    #[arg(long, value_name = "KIND")]
    pub(crate) session_kind: Option<Kind>,
    /// The channel the conversation came from
    #[arg(long, value_name = "NAME")]
    pub(crate) channel: Option<ChannelId>,
    /// A scope the caller's credential carries; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<Scope>,
}

impl IdentityArgs {
    /// The caller, from the command line and the environment.
    pub(crate) fn principal(&self, env: &Env) -> Result<Arc<Principal>, Stop> {
        self.principal_or(env, "cli", || "main".to_owned())
    }

    /// The caller, with these names for an agent and a session that nobody named.
    pub(crate) fn principal_or(
        &self,
        env: &Env,
        agent: &str,
        session: impl FnOnce() -> String,
    ) -> Result<Arc<Principal>, Stop> {
        let named_agent = self.agent.as_deref().or(env.agent.as_deref());
        let named_session = self.session.clone().or_else(|| env.session.clone());
        let mut principal = Principal::local(
            env.user_id().map_err(refused)?,
            AgentId::parse(named_agent.unwrap_or(agent)).map_err(refused)?,
            SessionId::parse(&named_session.unwrap_or_else(session)).map_err(refused)?,
        );
        principal.ancestors = either(&self.parent_agents, &env.parent_agents)
            .map(|agent| AgentId::parse(agent).map_err(refused))
            .collect::<Result<_, _>>()?;
        principal.scopes = if self.scopes.is_empty() {
            let scopes = env.scopes.iter().map(|scope| Scope::parse(scope));
            scopes.collect::<Result<_, _>>().map_err(refused)?
        } else {
            self.scopes.iter().cloned().collect()
        };
        let channel = env.channel.as_deref().map(ChannelId::parse).transpose();
        principal.channel = self.channel.clone().or(channel.map_err(refused)?);
        principal.session_kind = match (self.session_kind, &env.session_kind) {
            (Some(kind), _) => kind.into(),
            (None, Some(word)) => Kind::from_str(word, false)
                .map_err(|_| unknown_kind(word))?
                .into(),
            (None, None) if principal.ancestors.is_empty() => SessionKind::Main,
            (None, None) => SessionKind::Subagent,
        };
        Ok(Arc::new(principal))
    }
}

/// What the command line names, or else the environment.
fn either<'a>(arguments: &'a [String], variable: &'a [String]) -> std::slice::Iter<'a, String> {
    if arguments.is_empty() {
        variable.iter()
    } else {
        arguments.iter()
    }
}

fn refused(error: IdentityError) -> Stop {
    Stop::usage(error.to_string(), "choose a shorter, plainer name")
}

fn unknown_kind(word: &str) -> Stop {
    let kinds = SessionKind::ALL.map(SessionKind::as_str).join(", ");
    Stop::usage(
        format!("HAFT_SESSION_KIND is `{word}`, which is not a kind of session"),
        format!("set it to one of {kinds}, or unset it"),
    )
}

/// What kind of conversation a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Kind {
    /// The operator's own
    #[default]
    Main,
    /// A direct message from another person
    Dm,
    /// A group chat
    Group,
    /// Started by another session
    Subagent,
    /// A scheduled job
    Cron,
}

impl From<Kind> for SessionKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Main => Self::Main,
            Kind::Dm => Self::Dm,
            Kind::Group => Self::Group,
            Kind::Subagent => Self::Subagent,
            Kind::Cron => Self::Cron,
        }
    }
}

/// The commands, in the order a newcomer meets them.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(InitArgs),
    Doctor(DoctorArgs),
    Tools(ToolsArgs),
    Sources(SourcesArgs),
    Call(CallArgs),
    Batch(BatchArgs),
    Mcp(McpArgs),
    Approvals(ApprovalsArgs),
    Approve(ApproveArgs),
    Deny(DenyArgs),
    Answer(AnswerArgs),
    Status(StatusArgs),
    Log(LogArgs),
    Show(ShowArgs),
    Diff(DiffArgs),
    Cite(CiteArgs),
    Undo(UndoArgs),
    Explain(ExplainArgs),
    Sessions(SessionsArgs),
    Stats(StatsArgs),
    Grants(GrantsArgs),
    Memory(MemoryArgs),
    Serve(ServeArgs),
    Keys(KeysArgs),
    Policy(PolicyArgs),
    Trust(TrustArgs),
    Recover(RecoverArgs),
    Record(RecordArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    Docs(DocsArgs),
}
