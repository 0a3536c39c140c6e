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
        approvals::{
            ApprovalsArgs,
            answer::{ApproveArgs, DenyArgs},
        },
        batch::BatchArgs,
        call::CallArgs,
        completions::CompletionsArgs,
        config::ConfigArgs,
        diff::DiffArgs,
        docs::DocsArgs,
        doctor::DoctorArgs,
        explain::ExplainArgs,
        grants::GrantsArgs,
        init::InitArgs,
        log::LogArgs,
        mcp::McpArgs,
        policy::PolicyArgs,
        record::RecordArgs,
        recover::RecoverArgs,
        sessions::SessionsArgs,
        show::ShowArgs,
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
    /// The agent that asks [default: cli]
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// The conversation it asks in [default: main]
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// What kind of conversation that is
    #[arg(long, value_name = "KIND", default_value = "main")]
    pub(crate) session_kind: Kind,
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
        let refused =
            |error: IdentityError| Stop::usage(error.to_string(), "choose a shorter, plainer name");
        let user = env.user_id().map_err(refused)?;
        let agent = self.agent.as_deref().or(env.agent.as_deref());
        let session = self.session.as_deref().or(env.session.as_deref());
        let mut principal = Principal::local(
            user,
            AgentId::parse(agent.unwrap_or("cli")).map_err(refused)?,
            SessionId::parse(session.unwrap_or("main")).map_err(refused)?,
        );
        principal.session_kind = self.session_kind.into();
        principal.scopes = self.scopes.iter().cloned().collect();
        principal.channel.clone_from(&self.channel);
        Ok(Arc::new(principal))
    }
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
    Call(CallArgs),
    Batch(BatchArgs),
    Mcp(McpArgs),
    Approvals(ApprovalsArgs),
    Approve(ApproveArgs),
    Deny(DenyArgs),
    Status(StatusArgs),
    Log(LogArgs),
    Show(ShowArgs),
    Diff(DiffArgs),
    Undo(UndoArgs),
    Explain(ExplainArgs),
    Sessions(SessionsArgs),
    Stats(StatsArgs),
    Grants(GrantsArgs),
    Policy(PolicyArgs),
    Trust(TrustArgs),
    Recover(RecoverArgs),
    Record(RecordArgs),
    Config(ConfigArgs),
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Docs(DocsArgs),
}
