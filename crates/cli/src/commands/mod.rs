//! One file per command: its arguments and what it does. Commands print through `Output` and run
//! tools through the runtime; they touch nothing themselves.

pub(crate) mod answer;
pub(crate) mod approvals;
pub(crate) mod arguments;
pub(crate) mod batch;
pub(crate) mod call;
pub(crate) mod cite;
pub(crate) mod completions;
pub(crate) mod config;
mod dev_container;
pub(crate) mod diff;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod grants;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod log;
pub(crate) mod mcp;
pub(crate) mod memory;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod selection;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod show;
pub(crate) mod sources;
pub(crate) mod stats;
pub(crate) mod status;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod undo;

use std::{collections::BTreeMap, path::PathBuf};

use haft_host::{
    Record,
    config::{ConfigPlaces, Env, Settings},
};
use haft_ledger::{Recovery, StoredLedger};

use crate::{
    args::{Command, GlobalArgs},
    exit::Exit,
    scope::{self, RecordScope, WorkspaceArgs},
    stop::Stop,
    terminal::{Output, Page, Style},
};

/// What every command gets.
#[derive(Debug)]
pub(crate) struct App {
    /// The program's environment.
    pub(crate) env: Env,
    /// The agents' configuration directories, by the variables that set them.
    pub(crate) agent_directories: BTreeMap<String, PathBuf>,
    /// The options every command takes.
    pub(crate) global: GlobalArgs,
    /// Where to print.
    pub(crate) output: Output,
}

/// Runs a command.
pub(crate) async fn run(command: Command, app: &App) -> Result<Exit, Stop> {
    match command {
        Command::Init(args) => init::run(&args, app).await,
        Command::Doctor(args) => doctor::run(&args, app).await,
        Command::Tools(args) => tools::run(&args, app).await,
        Command::Sources(args) => Box::pin(sources::run(args, app)).await,
        Command::Call(args) => call::run(args, app).await,
        Command::Batch(args) => batch::run(args, app).await,
        Command::Mcp(args) => Box::pin(mcp::run(args, app)).await,
        Command::Approvals(args) => approvals::run(&args, app).await,
        Command::Approve(args) => approvals::answer::approve(&args, app).await,
        Command::Deny(args) => approvals::answer::deny(&args, app).await,
        Command::Answer(args) => answer::run(&args, app).await,
        Command::Status(args) => status::run(&args, app).await,
        Command::Log(args) => log::run(args, app).await,
        Command::Show(args) => show::run(&args, app).await,
        Command::Diff(args) => diff::run(&args, app).await,
        Command::Cite(args) => Box::pin(cite::run(&args, app)).await,
        Command::Undo(args) => Box::pin(undo::run(&args, app)).await,
        Command::Explain(args) => explain::run(&args, app).await,
        Command::Sessions(args) => sessions::run(&args, app).await,
        Command::Stats(args) => stats::run(&args, app).await,
        Command::Grants(args) => grants::run(args, app).await,
        Command::Memory(args) => memory::run(args, app).await,
        Command::Serve(args) => Box::pin(serve::run(args, app)).await,
        Command::Keys(args) => Box::pin(keys::run(args, app)).await,
        Command::Policy(args) => Box::pin(policy::run(args, app)).await,
        Command::Trust(args) => trust::run(&args, app).await,
        Command::Record(args) => record::run(&args, app).await,
        Command::Recover(args) => Box::pin(recover::run(&args, app)).await,
        Command::Config(args) => config::run(&args, app),
        Command::Completions(args) => completions::run(&args, app),
        Command::Docs(args) => docs::run(&args, app),
    }
}

impl App {
    /// Finds where everything is.
    pub(crate) fn places(&self) -> Result<ConfigPlaces, Stop> {
        Ok(ConfigPlaces::find(&self.env, &self.global.overrides())?)
    }

    /// Reads the configuration.
    pub(crate) fn settings(&self) -> Result<Settings, Stop> {
        Ok(self.places()?.settings()?)
    }

    /// Opens the record to look at it, and says what is missing from it.
    pub(crate) async fn record(&self) -> Result<StoredLedger, Stop> {
        let record = Record::open_to_look(&self.places()?).await?;
        self.recovered(&record.recovery);
        Ok(record.ledger)
    }

    /// Opens the record to look at the calls of these workspaces.
    pub(crate) async fn record_of(
        &self,
        workspaces: WorkspaceArgs,
    ) -> Result<(StoredLedger, RecordScope), Stop> {
        let ledger = self.record().await?;
        let scope = self.scope_of(workspaces, &ledger).await?;
        Ok((ledger, scope))
    }

    /// Which workspaces of the record are meant. Their names are listed with all that is caught up
    /// with, which takes a while in a long record: a person sees how far it is.
    pub(crate) async fn scope_of(
        &self,
        workspaces: WorkspaceArgs,
        ledger: &StoredLedger,
    ) -> Result<RecordScope, Stop> {
        let places = self.places()?;
        if let Err(error) = log::catch_up(ledger, self).await {
            tracing::debug!(%error, "the lists have not caught up");
        }
        Ok(RecordScope::find(workspaces, ledger, places).await)
    }

    /// Prints notes that are not results.
    pub(crate) fn notes<'n>(&self, notes: impl IntoIterator<Item = &'n String>) {
        for note in notes {
            self.output
                .note(&Page::new().styled(Style::Warn, "note: ").text(note).end());
        }
    }

    /// Says what is missing from the record, and in one line what an earlier run left open.
    pub(crate) fn recovered(&self, recovery: &Recovery) {
        self.notes(&recovery.lost);
        let mut parts = Vec::new();
        match recovery.settled_unknown.len() {
            0 => {}
            1 => parts.push("1 call of an earlier run ended unknown".to_owned()),
            more => parts.push(format!("{more} calls of an earlier run ended unknown")),
        }
        match recovery.never_started.len() {
            0 => {}
            1 => parts.push("1 call of an earlier run was never started".to_owned()),
            more => parts.push(format!("{more} calls of an earlier run were never started")),
        }
        if !parts.is_empty() {
            let text = format!(
                "{}; `haft log --all-workspaces` shows them",
                parts.join(", ")
            );
            self.notes([&text]);
        }
    }
}
