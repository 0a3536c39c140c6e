//! Which calls a person means (one, a session's, those since a moment), and what they did to files
//! in this workspace, for `haft undo` and `haft diff`. Reads only the record.

use std::{collections::BTreeSet, time::Duration};

use clap::Args;
use haft_contract::{
    CallId, Principal, SessionId, TenantId,
    event::RecordedEvent,
    host::{CallQuery, Clock as _, History},
};
use haft_host::config::{Env, Settings};
use haft_runtime::SystemClock;
use haft_tools::undo::FoldedChanges;

use super::{call::duration, lookup};
use crate::{exit::Exit, stop::Stop};

/// How many calls back to search.
const MAX_CALLS: usize = 20_000;

/// Which calls.
#[derive(Debug, Args)]
pub(crate) struct SelectionArgs {
    /// The call's id, the beginning of it, or `last`
    #[arg(required_unless_present_any = ["session", "since"], conflicts_with_all = ["session", "since"])]
    call: Option<String>,
    /// Every call of this session [default: HAFT_SESSION, or main]
    #[arg(long, value_name = "NAME", num_args = 0..=1)]
    #[expect(
        clippy::option_option,
        reason = "clap's shape for an option whose value may be left out"
    )]
    session: Option<Option<SessionId>>,
    /// Only calls made in this time, such as 10m or 2h; without `--session`, of every session
    #[arg(long, value_name = "TIME", value_parser = duration)]
    since: Option<Duration>,
}

/// What the calls did to files here.
pub(crate) struct SelectedChanges {
    /// Everything, in the order it happened.
    pub(crate) happened: Vec<RecordedEvent>,
    /// The same, one change per file.
    pub(crate) folded: FoldedChanges,
    /// How many of the calls changed files in another workspace.
    pub(crate) elsewhere: usize,
}

impl SelectionArgs {
    /// Finds the calls and what they did.
    pub(crate) async fn find(
        &self,
        history: &impl History,
        principal: &Principal,
        workspace: &str,
    ) -> Result<SelectedChanges, Stop> {
        let calls = self.calls(history, principal).await?;
        let tenant = TenantId::local();
        let mut happened = history
            .changes(&tenant, &calls)
            .await
            .map_err(|error| Stop::ledger(&error))?;
        let changing: BTreeSet<CallId> = happened.iter().map(|change| change.call).collect();
        let mut elsewhere = 0;
        for call in changing {
            if !was_here(history, call, workspace).await? {
                happened.retain(|change| change.call != call);
                elsewhere += 1;
            }
        }
        Ok(SelectedChanges {
            folded: FoldedChanges::of(&happened),
            happened,
            elsewhere,
        })
    }

    /// The ids of the calls.
    async fn calls(
        &self,
        history: &impl History,
        principal: &Principal,
    ) -> Result<Vec<CallId>, Stop> {
        if let Some(id) = &self.call {
            return Ok(vec![lookup::call(history, id).await?.id]);
        }
        let session = self.session.as_ref().map(|named| {
            let own = || principal.session.clone();
            named.clone().unwrap_or_else(own)
        });
        let query = CallQuery {
            session,
            limit: MAX_CALLS,
            ..CallQuery::default()
        };
        let found = history
            .calls(&TenantId::local(), &query)
            .await
            .map_err(|error| Stop::ledger(&error))?;
        let now = SystemClock.now();
        let recent = |call: &&haft_contract::host::StoredCall| {
            let age = now.since(call.opened);
            self.since.is_none_or(|since| age <= since)
        };
        let full = found.len() == MAX_CALLS && found.iter().all(|call| recent(&call));
        if full {
            return Err(Stop::new(
                Exit::Failed,
                format!("more than {MAX_CALLS} calls are meant"),
                "name a shorter time with `--since`",
            ));
        }
        Ok(found
            .iter()
            .filter(recent)
            .filter(|call| call.user == principal.user.as_str())
            .map(|call| call.id)
            .collect())
    }
}

/// The person at the command line, as a principal.
pub(crate) fn operator(env: &Env) -> Result<std::sync::Arc<Principal>, Stop> {
    crate::args::IdentityArgs::default().principal(env)
}

/// The record's name for the workspace.
pub(crate) fn workspace(settings: &Settings) -> String {
    match &settings.ssh {
        Some(ssh) => ssh.root.clone(),
        None => settings.places.workspace.display().to_string(),
    }
}

/// Whether a call ran in this workspace. The same path means a different file elsewhere.
async fn was_here(history: &impl History, call: CallId, workspace: &str) -> Result<bool, Stop> {
    let events = history
        .events(&TenantId::local(), call)
        .await
        .map_err(|error| Stop::ledger(&error))?;
    let planned = events.iter().find(|event| event.kind == "planned");
    let place = planned.and_then(|event| event.body.get("workspace")?.as_str());
    Ok(place == Some(workspace))
}
