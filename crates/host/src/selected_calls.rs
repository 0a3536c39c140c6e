//! Which calls a person means (one, a session's, those since a moment), and what they did to files
//! in a workspace, for taking changes back and showing them. Reads only the record.

use std::{collections::BTreeSet, time::Duration};

use haft_contract::{
    CallEvent, CallId, Principal, SessionId, TenantId, Tool as _, WorkspaceId,
    event::RecordedEvent,
    host::{CallFilter, CallQuery, Clock as _, History, StoredCall, Timestamp},
    surface::NextStep,
};
use haft_runtime::SystemClock;
use haft_tools::undo::{FoldedChanges, UndoTool};

use crate::{
    call_lookup,
    error::{HostError, HostErrorKind, unreadable_record},
};

/// How many calls back to search.
const MAX_CALLS: usize = 20_000;

/// How many calls back to look for one that changed something, and how many of them at once.
const MAX_LOOKED_AT: usize = 2_000;
const LOOKED_AT_ONCE: usize = 50;

/// How much of a call's summary names it in a note, in characters.
const MAX_SUMMARY_CHARS: usize = 60;

/// Which calls. Names nothing: the last one that changed something.
#[derive(Debug, Clone, Default)]
pub struct CallSelection {
    /// This call: its id, the beginning of it, or `last`.
    pub call: Option<String>,
    /// Every call of this session.
    pub session: Option<SessionId>,
    /// Only calls made within this time; without a session, those of every session.
    pub since: Option<Duration>,
}

/// What the calls did to files here.
pub struct SelectedChanges {
    /// Everything, in the order it happened.
    pub happened: Vec<RecordedEvent>,
    /// The same, one change per file.
    pub folded: FoldedChanges,
    /// The workspace, if anything was changed in one of those that are meant.
    pub workspace: Option<WorkspaceId>,
    /// How many of the calls changed files in another workspace.
    pub elsewhere: usize,
    /// What to say first: which call it is, where nobody named one.
    pub meant: Option<String>,
    /// What to say if nothing was changed.
    nothing: Option<String>,
}

impl SelectedChanges {
    /// What to say if nothing is on record; `None` if something is.
    pub fn nothing(&self) -> Option<&str> {
        self.nothing.as_deref()
    }
}

impl CallSelection {
    /// Finds the calls and what they did.
    pub async fn find(
        &self,
        history: &impl History,
        principal: &Principal,
        workspaces: &[WorkspaceId],
    ) -> Result<SelectedChanges, HostError> {
        let tenant = &principal.tenant;
        let failed = |error| unreadable_record(&error);
        let mut meant = None;
        let calls = if self.names_nothing() {
            let last = last_that_changed(history, principal, workspaces).await?;
            let last = last.ok_or_else(|| {
                HostError::new(
                    HostErrorKind::NotFound,
                    "no call that changed something is on record in this workspace",
                    NextStep::ListCalls.words(),
                )
            })?;
            meant = Some(format!(
                "the last call that changed something: {}",
                named(&last)
            ));
            vec![last.id]
        } else {
            self.calls(history, principal, workspaces).await?
        };
        let mut happened = history.changes(tenant, &calls).await.map_err(failed)?;
        let changing: BTreeSet<CallId> = happened.iter().map(|change| change.call).collect();
        let mut worked_in = None;
        let mut elsewhere = 0;
        // The newest first: of calls in several workspaces, those in its one are meant.
        for call in changing.into_iter().rev() {
            let stored = history.call(tenant, call).await.map_err(failed)?;
            let meant = worked_in.as_ref().map_or(workspaces, std::slice::from_ref);
            let mut here = None;
            for workspace in meant {
                if let Some(stored) = &stored
                    && history
                        .was_made_in(tenant, stored, workspace)
                        .await
                        .map_err(failed)?
                {
                    here = Some(workspace.clone());
                }
            }
            if here.is_none() {
                happened.retain(|change| change.call != call);
                elsewhere += 1;
            }
            worked_in = worked_in.or(here);
        }
        let folded = FoldedChanges::of(&happened);
        let nothing = if folded.files.is_empty() && folded.rows.is_empty() {
            Some(
                self.nothing(history, principal, workspaces, &happened)
                    .await?,
            )
        } else {
            None
        };
        Ok(SelectedChanges {
            workspace: worked_in,
            happened,
            folded,
            elsewhere,
            meant,
            nothing,
        })
    }

    fn names_nothing(&self) -> bool {
        self.call.is_none() && self.session.is_none() && self.since.is_none()
    }

    /// Says that nothing is on record, what never is, and which call a person may mean instead.
    async fn nothing(
        &self,
        history: &impl History,
        principal: &Principal,
        workspaces: &[WorkspaceId],
        happened: &[RecordedEvent],
    ) -> Result<String, HostError> {
        let mut text = "these calls changed no file on record in this workspace".to_owned();
        let is_compared =
            |event: &RecordedEvent| matches!(event.event, CallEvent::ChangesScanned { .. });
        if happened.iter().any(is_compared) {
            text.push_str("; files that git ignores are not on record");
        }
        if self.call.as_deref() == Some("last")
            && let Some(last) = last_that_changed(history, principal, workspaces).await?
        {
            let named = named(&last);
            text.push_str("; the last call that changed something is ");
            text.push_str(&named);
        }
        Ok(text)
    }

    /// The ids of the calls.
    async fn calls(
        &self,
        history: &impl History,
        principal: &Principal,
        workspaces: &[WorkspaceId],
    ) -> Result<Vec<CallId>, HostError> {
        let here = among(workspaces);
        match self.call.as_deref() {
            Some("last") => {
                let last = last_but_dry_runs(history, &principal.tenant, here);
                return Ok(vec![last.await?]);
            }
            Some(id) => return Ok(vec![call_lookup::call(history, id, here).await?.id]),
            None => {}
        }
        let since = self.since.map(|ago| {
            let ago = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
            Timestamp(SystemClock.now().0.saturating_sub(ago))
        });
        let query = CallQuery {
            filter: CallFilter { since, ..here },
            session: self.session.clone(),
            limit: MAX_CALLS,
            ..CallQuery::default()
        };
        let found = history
            .calls(&principal.tenant, &query)
            .await
            .map_err(|error| unreadable_record(&error))?;
        if found.len() == MAX_CALLS {
            return Err(HostError::new(
                HostErrorKind::Refused,
                format!("this selects more than {MAX_CALLS} calls"),
                "name a shorter time with `--since`",
            ));
        }
        Ok(found
            .iter()
            .filter(|call| call.user == principal.user.as_str())
            .map(|call| call.id)
            .collect())
    }
}

/// The calls of these workspaces.
fn among(workspaces: &[WorkspaceId]) -> CallFilter {
    CallFilter {
        workspaces: workspaces.to_vec(),
        ..CallFilter::default()
    }
}

/// The newest call of this user in these workspaces that changed a file, git's state or rows.
async fn last_that_changed(
    history: &impl History,
    principal: &Principal,
    workspaces: &[WorkspaceId],
) -> Result<Option<StoredCall>, HostError> {
    let failed = |error| unreadable_record(&error);
    let query = CallQuery {
        filter: among(workspaces),
        limit: MAX_LOOKED_AT,
        ..CallQuery::default()
    };
    let tenant = &principal.tenant;
    let mut calls = history.calls(tenant, &query).await.map_err(failed)?;
    calls.retain(|call| call.user == principal.user.as_str());
    for some in calls.chunks(LOOKED_AT_ONCE) {
        let ids: Vec<CallId> = some.iter().map(|call| call.id).collect();
        let happened = history.changes(tenant, &ids).await.map_err(failed)?;
        let changing: BTreeSet<CallId> = happened
            .iter()
            .filter(|event| changes_something(&event.event))
            .map(|event| event.call)
            .collect();
        if let Some(last) = some.iter().find(|call| changing.contains(&call.id)) {
            return Ok(Some(last.clone()));
        }
    }
    Ok(None)
}

fn changes_something(event: &CallEvent) -> bool {
    matches!(
        event,
        CallEvent::FileChanged { .. } | CallEvent::RowsChanged { .. }
    )
}

/// A call for a note: its id, its tool and what it was about.
fn named(call: &StoredCall) -> String {
    let summary: String = call.summary.chars().take(MAX_SUMMARY_CHARS).collect();
    let rest = if summary.len() < call.summary.len() {
        "…"
    } else {
        ""
    };
    format!("`{}` ({}: {summary}{rest})", call.id, call.asked_tool)
}

/// The newest call that is not a dry run: whoever looks first and then says `last` again means the
/// same call.
async fn last_but_dry_runs(
    history: &impl History,
    tenant: &TenantId,
    here: CallFilter,
) -> Result<CallId, HostError> {
    let mut last = call_lookup::call(history, "last", here.clone()).await?;
    if !is_dry_run(history, tenant, &last).await? {
        return Ok(last.id);
    }
    let query = CallQuery {
        filter: here,
        limit: MAX_CALLS,
        ..CallQuery::default()
    };
    let calls = history.calls(tenant, &query).await;
    for call in calls.map_err(|error| unreadable_record(&error))? {
        if !is_dry_run(history, tenant, &call).await? {
            return Ok(call.id);
        }
        last = call;
    }
    Ok(last.id)
}

/// Whether a call is an undo that only showed what it would put back.
async fn is_dry_run(
    history: &impl History,
    tenant: &TenantId,
    call: &StoredCall,
) -> Result<bool, HostError> {
    if call.asked_tool != UndoTool::NAME {
        return Ok(false);
    }
    let events = history.events(tenant, call.id).await;
    let events = events.map_err(|error| unreadable_record(&error))?;
    let planned = events.iter().find(|event| event.kind == "planned");
    let dry_run = planned.and_then(|event| event.body.get("input")?.get("dry_run")?.as_bool());
    Ok(dry_run.unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use haft_testkit::{Harness, MemoryLedger, TestClock};
    use haft_tools::builtins;
    use serde_json::json;

    use super::*;

    /// The files that a selection finds in a workspace, and how many calls it leaves out.
    async fn found(
        ledger: &MemoryLedger,
        principal: &Principal,
        selection: CallSelection,
        workspace: &WorkspaceId,
    ) -> (Vec<String>, usize) {
        let here = std::slice::from_ref(workspace);
        let changes = selection.find(ledger, principal, here).await.unwrap();
        let files = changes.folded.files.iter();
        let files = files.map(|(path, _)| path.as_str().to_owned()).collect();
        (files, changes.elsewhere)
    }

    fn named(call: &str) -> CallSelection {
        CallSelection {
            call: Some(call.to_owned()),
            ..CallSelection::default()
        }
    }

    fn since(hours: u64) -> CallSelection {
        CallSelection {
            since: Some(Duration::from_secs(hours * 60 * 60)),
            ..CallSelection::default()
        }
    }

    /// Every workspace in memory shows the same root.
    #[tokio::test]
    async fn a_call_belongs_to_a_workspace_by_its_id_and_not_by_the_root_it_shows() {
        let ledger = MemoryLedger::new();
        let id = |id: &str| WorkspaceId::parse(id).unwrap();
        let principal = haft_testkit::principal();
        for (workspace, file) in [("one", "mine"), ("two", "theirs")] {
            let harness = Harness::memory()
                .tools(builtins())
                .ledger(Arc::new(ledger.clone()))
                .principal(Arc::clone(&principal))
                .configure(|runtime| runtime.workspace_id(id(workspace)))
                .build();
            let input = json!({"path": file, "content": "x"});
            harness.succeed("write", input).await;
        }
        let session = || CallSelection {
            session: Some(principal.session.clone()),
            ..CallSelection::default()
        };
        let one = found(&ledger, &principal, session(), &id("one")).await;
        assert_eq!(one, (vec!["mine".to_owned()], 0));
        let two = found(&ledger, &principal, session(), &id("two")).await;
        assert_eq!(two, (vec!["theirs".to_owned()], 0));
        // Without a word it is the last one that changed something here.
        let default = found(&ledger, &principal, CallSelection::default(), &id("one")).await;
        assert_eq!(default, (vec!["mine".to_owned()], 0));
        // The last call is the last of this workspace; one that is named may be elsewhere, and is left out.
        let last = found(&ledger, &principal, named("last"), &id("one")).await;
        assert_eq!(last, (vec!["mine".to_owned()], 0));
        let query = CallQuery {
            filter: CallFilter::of_workspace(id("two")),
            limit: 1,
            ..CallQuery::default()
        };
        let theirs = ledger.calls(&principal.tenant, &query).await.unwrap();
        let theirs = theirs[0].id.to_string();
        let elsewhere = found(&ledger, &principal, named(&theirs), &id("one")).await;
        assert_eq!(elsewhere, (Vec::new(), 1));
    }

    #[tokio::test]
    async fn only_calls_within_the_time_are_meant() {
        let ledger = MemoryLedger::new();
        let here = WorkspaceId::parse("here").unwrap();
        let principal = haft_testkit::principal();
        let now = TestClock::at(SystemClock.now());
        for (clock, file) in [(TestClock::new(), "old"), (now, "new")] {
            let clock = Arc::new(clock);
            let harness = Harness::memory()
                .tools(builtins())
                .ledger(Arc::new(ledger.clone()))
                .principal(Arc::clone(&principal))
                .configure(|runtime| runtime.workspace_id(here.clone()).clock(clock))
                .build();
            let input = json!({"path": file, "content": "x"});
            harness.succeed("write", input).await;
        }
        let recent = found(&ledger, &principal, since(1), &here).await;
        assert_eq!(recent, (vec!["new".to_owned()], 0));
        let all = found(&ledger, &principal, since(40_000 * 24), &here).await;
        assert_eq!(all.0.len(), 2);
    }
}
