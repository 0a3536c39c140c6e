//! Reads the in-memory ledger back, following `History`.

use std::sync::Arc;

use haft_contract::{
    BoxFuture, CallId, TenantId, Terminal,
    event::RecordedEvent,
    host::{
        CallQuery, History, LedgerError, ReplayableCall, StoredCall, StoredEvent, StoredSession,
        Timestamp, Verification,
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
                .filter(|call| {
                    query
                        .session
                        .as_ref()
                        .is_none_or(|only| call.session == *only)
                })
                .filter(|call| {
                    query
                        .terminal
                        .is_none_or(|only| call.terminal == Some(only))
                })
                .filter(|call| query.after.is_none_or(|after| call.position > after))
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
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<StoredSession>, LedgerError>> {
        Box::pin(async move {
            self.reachable()?;
            let state = self.lock();
            let mut sessions: Vec<StoredSession> = Vec::new();
            for call in state.stored(tenant) {
                match sessions
                    .iter_mut()
                    .find(|session| session.id == call.session)
                {
                    Some(session) => {
                        session.last = session.last.max(call.opened);
                        session.calls += 1;
                    }
                    None => sessions.push(StoredSession {
                        id: call.session,
                        kind: call.session_kind,
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
