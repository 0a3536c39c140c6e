//! What lists and counts need of a call, one small row each, so that they need not read bodies. Derived
//! from the call and caught up with; the call itself decides.

use std::collections::BTreeMap;

use haft_contract::host::shown_workspace;
use serde_json::Value;

use crate::{
    listed::SETTLED,
    recorded_call::{RecordedCall, terminal_number},
    row::StoredPrincipal,
    store::{Connection, StoreError, Value as Bound, values},
};

const NAME_WORKSPACE: &str = "INSERT INTO workspace (tenant, name, shown) VALUES (?1, ?2, ?3)
     ON CONFLICT (tenant, name) DO UPDATE SET shown = coalesce(excluded.shown, workspace.shown)";

const NOTE_FACT: &str =
    "INSERT INTO call_fact (listed, tenant, session, workspace, agent, tool, asked_tool, opened_at,
         terminal, asked, asked_us, ran_us, bytes)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
     ON CONFLICT (listed) DO UPDATE SET tool = excluded.tool, terminal = excluded.terminal,
         asked = excluded.asked, asked_us = excluded.asked_us, ran_us = excluded.ran_us,
         bytes = excluded.bytes";

/// One call, as far as lists and counts need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CallFact {
    pub(crate) listed: i64,
    pub(crate) tenant: i64,
    pub(crate) session: i64,
    pub(crate) workspace: String,
    pub(crate) workspace_shown: Option<String>,
    pub(crate) agent: String,
    pub(crate) tool: String,
    pub(crate) asked_tool: String,
    pub(crate) opened_at: i64,
    pub(crate) terminal: Option<i64>,
    pub(crate) asked: bool,
    pub(crate) asked_us: i64,
    pub(crate) ran_us: i64,
    pub(crate) bytes: i64,
}

impl CallFact {
    /// The facts of a call. One that cannot be read has the fewest, and is still counted; `verify` names
    /// it.
    pub(crate) fn of(call: &RecordedCall) -> Self {
        let who: Option<StoredPrincipal> = serde_json::from_str(&call.stored_principal).ok();
        let mut fact = Self {
            listed: call.listed,
            agent: who.map(|who| who.agent).unwrap_or_default(),
            terminal: call.terminal.map(terminal_number),
            opened_at: call.events.first().map_or(0, |entry| entry.event.at.0),
            ..Self::default()
        };
        let Ok(entry) = call.entry() else {
            return fact;
        };
        fact.tool = entry.tool.unwrap_or_else(|| entry.asked_tool.clone());
        fact.asked_tool = entry.asked_tool;
        fact.workspace = entry.workspace;
        fact.workspace_shown = entry.workspace_shown;
        fact.opened_at = entry.opened.0;
        fact.asked = call.of_kind("approval_asked").next().is_some();
        if let Some(settled) = call.of_kind(SETTLED).next() {
            let micros = |name: &str| settled.body.pointer(name).and_then(Value::as_i64);
            fact.asked_us = micros("/facts/asked_us").unwrap_or(0);
            fact.ran_us = micros("/facts/ran_us").unwrap_or(0);
            fact.bytes = output_bytes(&settled.body);
        }
        fact
    }
}

/// The bytes of a call's whole output: what was spilled, or what the record has of it.
fn output_bytes(settled: &Value) -> i64 {
    let spilled = settled.pointer("/facts/artifact/bytes");
    if let Some(bytes) = spilled.and_then(Value::as_i64) {
        return bytes;
    }
    let content = settled.get("content").and_then(Value::as_array);
    let of_part = |part: &Value| match part.get("text").and_then(Value::as_str) {
        Some(text) => i64::try_from(text.len()).unwrap_or(i64::MAX),
        None => part.get("bytes").and_then(Value::as_i64).unwrap_or(0),
    };
    let bytes = content.into_iter().flatten().map(of_part);
    bytes.fold(0, i64::saturating_add)
}

/// What people know a workspace by, from a stored plan.
pub(crate) fn workspace_shown(planned: &Value) -> Option<String> {
    let text = |name: &str| planned.get(name).and_then(Value::as_str);
    Some(shown_workspace(text("backend")?, text("workspace")?))
}

/// Writes the facts of calls; returns the numbers of their workspaces, by tenant and name.
pub(crate) async fn note(
    connection: &mut dyn Connection,
    facts: &BTreeMap<i64, CallFact>,
) -> Result<BTreeMap<(i64, String), i64>, StoreError> {
    let mut shown: BTreeMap<(i64, &str), Option<&str>> = BTreeMap::new();
    for fact in facts.values() {
        let known = shown.entry((fact.tenant, &fact.workspace)).or_default();
        *known = fact.workspace_shown.as_deref().or(*known);
    }
    let named: Vec<Vec<Bound<'_>>> = shown
        .iter()
        .map(|((tenant, name), shown)| values![*tenant, *name, *shown].to_vec())
        .collect();
    if named.is_empty() {
        return Ok(BTreeMap::new());
    }
    connection.execute_all(NAME_WORKSPACE, &named).await?;
    let mut numbers = BTreeMap::new();
    for (tenant, name) in shown.keys() {
        let number = connection
            .number(
                "SELECT id FROM workspace WHERE tenant = ?1 AND name = ?2",
                &values![*tenant, *name],
            )
            .await?;
        numbers.insert((*tenant, (*name).to_owned()), number);
    }
    let workspace_of = |fact: &CallFact| {
        let number = numbers.get(&(fact.tenant, fact.workspace.clone()));
        number.copied().unwrap_or(0)
    };
    let rows: Vec<Vec<Bound<'_>>> = facts
        .values()
        .map(|fact| {
            values![
                fact.listed,
                fact.tenant,
                fact.session,
                workspace_of(fact),
                &fact.agent,
                &fact.tool,
                &fact.asked_tool,
                fact.opened_at,
                fact.terminal,
                fact.asked,
                fact.asked_us,
                fact.ran_us,
                fact.bytes,
            ]
            .to_vec()
        })
        .collect();
    connection.execute_all(NOTE_FACT, &rows).await?;
    Ok(numbers)
}
