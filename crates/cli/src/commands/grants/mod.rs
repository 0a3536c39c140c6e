//! `haft grants`: standing approvals, so that a person is not asked the same thing all day. They
//! are kept with the record, never in a workspace, and end by time, by count or by hand.
//!
//! Policy defines what a rule may say and what it covers (`haft_policy::grant`); this module shows,
//! stores and ends grants.

mod add;
mod list;
mod outdated;
mod revoke;
mod suggest;

use clap::{Args, Subcommand};
use haft_contract::{
    TenantId,
    host::{Clock as _, Grant, GrantScope, History as _, Ledger as _, Policy, Question, Timestamp},
};
use haft_host::Record;
use haft_ledger::StoredLedger;
use haft_runtime::SystemClock;

pub(crate) use self::outdated::end_outdated;
use super::{App, scope::RecordScope};
use crate::{exit::Exit, stop::Stop};

/// List, make and end standing approvals
#[derive(Debug, Args)]
pub(crate) struct GrantsArgs {
    #[command(subcommand)]
    command: GrantsCommand,
}

#[derive(Debug, Subcommand)]
enum GrantsCommand {
    /// List the standing approvals that have not ended
    List(list::ListArgs),
    /// Allow something from now on, without being asked
    Add(add::AddArgs),
    /// End standing approvals at once
    Revoke(revoke::RevokeArgs),
    /// Suggest standing approvals for what you approve often
    Suggest(suggest::SuggestArgs),
}

/// Runs the command.
pub(crate) async fn run(args: GrantsArgs, app: &App) -> Result<Exit, Stop> {
    match args.command {
        GrantsCommand::List(args) => list::run(args, app).await,
        GrantsCommand::Add(args) => add::run(args, app).await,
        GrantsCommand::Revoke(args) => revoke::run(&args, app).await,
        GrantsCommand::Suggest(args) => suggest::run(&args, app).await,
    }
}

/// The grants that apply to a question now. Looking must not create a record, so without one there
/// are no grants.
pub(crate) async fn holding(
    app: &App,
    policy: &dyn Policy,
    question: Question<'_>,
) -> Result<Vec<Grant>, Stop> {
    let places = app.places()?;
    if !Record::exists(&places) {
        return Ok(Vec::new());
    }
    let record = Record::open_to_look(&places).await?;
    app.recovered(&record.recovery);
    let holding = record.grants_for(policy, question).await;
    let holding = holding.map_err(|error| Stop::ledger(&error))?;
    close(&record.ledger).await?;
    Ok(holding)
}

/// Every grant that has not ended, oldest first.
async fn living(ledger: &StoredLedger) -> Result<Vec<Grant>, Stop> {
    let grants = ledger.grants();
    let living = grants.list(&TenantId::local(), now()).await;
    living.map_err(|error| Stop::ledger(&error))
}

/// Where a grant holds, seen from one workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrantPlace {
    /// In this workspace, and in no other.
    Here,
    /// In another workspace.
    Elsewhere,
    /// In every workspace.
    Everywhere,
}

/// Where a grant holds. One of a conversation is where the call was made that led to it; one that no call
/// led to counts as made here.
async fn place_of(
    grant: &Grant,
    ledger: &StoredLedger,
    scope: &RecordScope,
) -> Result<GrantPlace, Stop> {
    let here = scope.workspaces.here();
    let is_here = match (&grant.scope, grant.cause) {
        (GrantScope::Agent(_), _) => return Ok(GrantPlace::Everywhere),
        (GrantScope::Project(workspace), _) => here.contains(&workspace.id),
        (GrantScope::Session(_), None) => true,
        (GrantScope::Session(_), Some(cause)) => {
            let cause = ledger.call(&TenantId::local(), cause).await;
            let cause = cause.map_err(|error| Stop::ledger(&error))?;
            cause.is_none_or(|cause| here.contains(&cause.workspace))
        }
    };
    Ok(if is_here {
        GrantPlace::Here
    } else {
        GrantPlace::Elsewhere
    })
}

fn now() -> Timestamp {
    SystemClock.now()
}

/// Makes everything durable.
async fn close(ledger: &StoredLedger) -> Result<(), Stop> {
    ledger.close().await.map_err(|error| Stop::ledger(&error))
}
