//! Reads the in-memory ledger back, following `History`.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    BoxFuture, CallId, TenantId, Terminal, WorkspaceId,
    event::RecordedEvent,
    host::{
        CallQuery, History, LedgerError, MAX_STATS_ROWS, ReplayableCall, StatsGroup, StatsKey,
        StatsQuery, StatsRow, StoredCall, StoredEvent, StoredSession, StoredWorkspace, Timestamp,
        Verification, shown_workspace,
    },
};

use super::{CallRow, MemoryLedger, Row, State, record};

impl History for MemoryLedger {
    fn call<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Option<StoredCall>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut calls = state.calls.iter().enumerate();
            let found = calls.find(|(_, call)| call.id == id && call.principal.tenant == *tenant);
            Ok(found.map(|(index, call)| state.fold(index as u64 + 1, call)))
        })
    }

    fn calls<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a CallQuery,
    ) -> BoxFuture<'a, Result<Vec<StoredCall>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut calls: Vec<StoredCall> = state
                .stored(tenant)
                .filter(|call| query.wants(call))
                .filter(|call| {
                    query
                        .search
                        .as_ref()
                        .is_none_or(|words| state.mentions(call, words))
                })
                .collect();
            if query.after.is_none() {
                calls.reverse();
            }
            calls.truncate(query.limit);
            Ok(calls)
        })
    }

    fn events<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: CallId,
    ) -> BoxFuture<'a, Result<Vec<StoredEvent>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let of_call = state.rows.iter();
            Ok(of_call
                .filter(|row| row.tenant == tenant.as_str() && row.call == id)
                .zip(1..)
                .map(|(row, sequence)| StoredEvent {
                    sequence,
                    record: row.sequence,
                    at: row.at,
                    kind: row.kind.to_owned(),
                    body: row.body.clone(),
                })
                .collect())
        })
    }

    fn replayable<'a>(
        &'a self,
        tenant: &'a TenantId,
        since: Timestamp,
        after: Option<u64>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<ReplayableCall>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let calls = state.stored(tenant).filter(|call| {
                call.opened >= since && after.is_none_or(|after| call.position > after)
            });
            let calls: Vec<StoredCall> = calls.take(limit).collect();
            Ok(calls.into_iter().map(|call| state.replay(call)).collect())
        })
    }

    fn changes<'a>(
        &'a self,
        tenant: &'a TenantId,
        calls: &'a [CallId],
    ) -> BoxFuture<'a, Result<Vec<RecordedEvent>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let rows = state.rows.iter();
            Ok(rows
                .filter(|row| row.tenant == tenant.as_str() && calls.contains(&row.call))
                .filter_map(|row| {
                    Some(RecordedEvent {
                        call: row.call,
                        at: row.at,
                        event: record::change(row.kind, &row.body)?,
                    })
                })
                .collect())
        })
    }

    fn sessions<'a>(
        &'a self,
        tenant: &'a TenantId,
        workspaces: &'a [WorkspaceId],
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredSession>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut sessions: Vec<StoredSession> = Vec::new();
            for call in state.stored(tenant) {
                if !workspaces.is_empty() && !workspaces.contains(&call.workspace) {
                    continue;
                }
                match sessions.iter_mut().find(|session| {
                    session.id == call.session && session.workspace == call.workspace
                }) {
                    Some(session) => {
                        session.last = session.last.max(call.opened);
                        session.calls += 1;
                    }
                    None => sessions.push(StoredSession {
                        id: call.session,
                        kind: call.session_kind,
                        workspace: call.workspace,
                        agent: call.agent,
                        first: call.opened,
                        last: call.opened,
                        calls: 1,
                    }),
                }
            }
            sessions.sort_by_key(|session| std::cmp::Reverse(session.last));
            sessions.truncate(limit);
            Ok(sessions)
        })
    }

    fn workspaces<'a>(
        &'a self,
        tenant: &'a TenantId,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredWorkspace>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut workspaces: Vec<StoredWorkspace> = Vec::new();
            for call in state.stored(tenant) {
                let known = workspaces.iter_mut().find(|one| one.id == call.workspace);
                match known {
                    Some(workspace) => {
                        workspace.shown = call.workspace_shown.or(workspace.shown.take());
                        workspace.last = workspace.last.max(call.opened);
                        workspace.calls += 1;
                    }
                    None => workspaces.push(StoredWorkspace {
                        id: call.workspace,
                        shown: call.workspace_shown,
                        calls: 1,
                        last: call.opened,
                    }),
                }
            }
            workspaces.sort_by_key(|workspace| std::cmp::Reverse(workspace.last));
            workspaces.truncate(limit);
            Ok(workspaces)
        })
    }

    fn stats<'a>(
        &'a self,
        tenant: &'a TenantId,
        query: &'a StatsQuery,
    ) -> BoxFuture<'a, Result<Vec<StatsRow>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut rows: Vec<StatsRow> = Vec::new();
            for call in state.stored(tenant).filter(|call| query.filter.wants(call)) {
                let group = group(&call, query.by);
                let known = rows.iter().position(|row| row.group == group);
                let index = known.unwrap_or(rows.len());
                if known.is_none() {
                    rows.push(StatsRow::empty(group));
                }
                state.count(&call, &mut rows[index]);
            }
            match query.by {
                StatsKey::All => {}
                StatsKey::Day { .. } => rows.sort_by_key(|row| match &row.group {
                    StatsGroup::Day(day) => std::cmp::Reverse(*day),
                    StatsGroup::All | StatsGroup::Name(_) => std::cmp::Reverse(0),
                }),
                StatsKey::Tool | StatsKey::Agent | StatsKey::Workspace => {
                    rows.sort_by_key(|row| {
                        let name = match &row.group {
                            StatsGroup::All => String::new(),
                            StatsGroup::Name(name) => name.clone(),
                            StatsGroup::Day(day) => day.to_string(),
                        };
                        (std::cmp::Reverse(row.calls), name)
                    });
                }
            }
            rows.truncate(query.limit.min(MAX_STATS_ROWS));
            Ok(rows)
        })
    }

    fn verify<'a>(
        &'a self,
        tenant: &'a TenantId,
    ) -> BoxFuture<'a, Result<Verification, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut previous = [0; 32];
            let mut records = 0;
            for row in state
                .rows
                .iter()
                .filter(|row| row.tenant == tenant.as_str())
            {
                let Row {
                    sequence,
                    call,
                    at,
                    kind,
                    ..
                } = *row;
                if record::chain(&previous, sequence, call, at, kind, &row.body) != row.hash {
                    return Ok(Verification::Broken {
                        sequence,
                        reason: "its hash does not fit its content".to_owned(),
                    });
                }
                previous = row.hash;
                records += 1;
            }
            Ok(Verification::Intact { records })
        })
    }
}

impl State {
    /// The calls of a tenant, oldest first.
    fn stored(&self, tenant: &TenantId) -> impl Iterator<Item = StoredCall> {
        let calls = self.calls.iter().enumerate();
        calls
            .filter(|(_, call)| call.principal.tenant == *tenant)
            .map(|(index, call)| self.fold(index as u64 + 1, call))
    }

    fn count(&self, call: &StoredCall, row: &mut StatsRow) {
        row.calls += 1;
        let rows = self.rows.iter().filter(|row| row.call == call.id);
        row.asked += u64::from(rows.clone().any(|row| row.kind == "approval_asked"));
        match call.terminal {
            Some(Terminal::Denied) => row.denied += 1,
            Some(Terminal::Failed | Terminal::TimedOut | Terminal::Unknown) => row.failed += 1,
            Some(Terminal::Succeeded | Terminal::Cancelled) | None => {}
        }
        for settled in rows.filter(|row| row.kind == "settled") {
            let number = |name: &str| settled.body[name].as_u64().unwrap_or(0);
            row.ran += Duration::from_micros(number("ran_us"));
            row.waited += Duration::from_micros(number("asked_us"));
            row.bytes += number("bytes");
        }
    }

    fn replay(&self, call: StoredCall) -> ReplayableCall {
        let rows = || self.rows.iter().filter(|row| row.call == call.id);
        let body = |kind| {
            rows()
                .find(|row| row.kind == kind)
                .map(|row| row.body.clone())
        };
        // A hook may have had the call planned again; the decision is about the last plan.
        let planned = rows()
            .take_while(|row| row.kind != "decided")
            .filter(|row| row.kind == "planned")
            .last();
        let answered = rows().rfind(|row| row.kind == "approval_answered");
        let opened = self.calls.iter().find(|opened| opened.id == call.id);
        ReplayableCall {
            principal: opened
                .map(|opened| Arc::clone(&opened.principal))
                .expect("its opening"),
            opened: body("opened").expect("its first row"),
            planned: planned.map(|row| row.body.clone()),
            decided: body("decided"),
            answered: answered.map(|row| row.body.clone()),
            call,
        }
    }

    fn fold(&self, position: u64, call: &CallRow) -> StoredCall {
        let mut stored = StoredCall {
            position,
            id: call.id,
            user: call.principal.user.to_string(),
            agent: call.principal.agent.to_string(),
            session: call.principal.session.clone(),
            session_kind: call.principal.session_kind,
            workspace: call.workspace.clone(),
            workspace_shown: None,
            asked_tool: call.asked_tool.clone(),
            tool: None,
            opened: call.opened,
            terminal: None,
            settled: None,
            summary: String::new(),
        };
        for row in self.rows.iter().filter(|row| row.call == call.id) {
            match row.kind {
                "resolved" => stored.tool = row.body["tool"].as_str().map(str::to_owned),
                "planned" => {
                    let shown = |name: &str| row.body[name].as_str();
                    let shown = shown("backend").zip(shown("workspace"));
                    stored.workspace_shown =
                        shown.map(|(backend, root)| shown_workspace(backend, root));
                    let first = row.body["accesses"][0]["text"].as_str();
                    first.unwrap_or_default().clone_into(&mut stored.summary);
                }
                "settled" => {
                    stored.terminal = row.body["terminal"].as_str().and_then(Terminal::parse);
                    stored.settled = Some(row.at);
                    if let Some(error) = row.body["error"].as_str() {
                        error.clone_into(&mut stored.summary);
                    }
                }
                _ => {}
            }
        }
        stored
    }

    /// Whether every word occurs in the call's name or rows.
    fn mentions(&self, call: &StoredCall, words: &str) -> bool {
        let rows = self.rows.iter().filter(|row| row.call == call.id);
        let text = rows.fold(call.asked_tool.clone(), |text, row| {
            format!("{text} {}", row.body)
        });
        let text = text.to_lowercase();
        let mut words = words.split_whitespace();
        words.all(|word| text.contains(&word.to_lowercase()))
    }
}

/// The microseconds of a day.
const DAY_US: i64 = 24 * 60 * 60 * 1_000_000;

fn group(call: &StoredCall, by: StatsKey) -> StatsGroup {
    match by {
        StatsKey::All => StatsGroup::All,
        StatsKey::Day { offset_us } => StatsGroup::Day((call.opened.0 + offset_us) / DAY_US),
        StatsKey::Tool => {
            StatsGroup::Name(call.tool.clone().unwrap_or_else(|| call.asked_tool.clone()))
        }
        StatsKey::Agent => StatsGroup::Name(call.agent.clone()),
        StatsKey::Workspace => StatsGroup::Name(call.workspace.to_string()),
    }
}
