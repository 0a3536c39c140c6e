//! A session's list of things to do, read from the record: the input of the newest call of `todo`
//! that was started and set one. There is no other copy of it.

use haft_contract::{
    CallId, Principal, TenantId,
    host::{CallFilter, CallQuery, History, LedgerError, StoredCall},
    todo::{MAX_TODO_ITEMS, TodoItem, TodoStatus},
};
use serde_json::Value;

/// The tool whose calls set the list.
pub const TODO_TOOL: &str = "todo";

/// How many of a session's newest `todo` calls are looked at, one after the other: most set the
/// list, so the first few are enough unless it was only read for a long time.
const CALLS_LOOKED_AT: [usize; 3] = [4, 64, 2_048];

/// The list that a recorded call set, if it set one.
pub async fn list_set_by(
    history: &dyn History,
    tenant: &TenantId,
    call: &StoredCall,
) -> Result<Option<Vec<TodoItem>>, LedgerError> {
    let events = history.events(tenant, call.id).await?;
    // A call that was denied, or that asked and was refused, set nothing.
    if !events.iter().any(|event| event.kind == "started") {
        return Ok(None);
    }
    let planned = events.iter().find(|event| event.kind == "planned");
    let items = planned.and_then(|planned| planned.body.pointer("/input/items"));
    Ok(items.and_then(Value::as_array).map(|items| {
        let items = items.iter().take(MAX_TODO_ITEMS);
        items.filter_map(item).collect()
    }))
}

fn item(stored: &Value) -> Option<TodoItem> {
    let status = stored.get("status").and_then(Value::as_str);
    Some(TodoItem {
        text: stored.get("text")?.as_str()?.to_owned(),
        status: status.and_then(TodoStatus::parse).unwrap_or_default(),
    })
}

/// The newest list of a session, as this principal's calls before this one set it.
pub(crate) async fn newest(
    history: &dyn History,
    principal: &Principal,
    this: CallId,
) -> Result<Vec<TodoItem>, LedgerError> {
    let mut looked_at = 0;
    for limit in CALLS_LOOKED_AT {
        let query = CallQuery {
            filter: CallFilter {
                agent: Some(principal.agent.as_str().to_owned()),
                tool: Some(format!("builtin/{TODO_TOOL}")),
                ..CallFilter::default()
            },
            session: Some(principal.session.clone()),
            limit,
            ..CallQuery::default()
        };
        let calls = history.calls(&principal.tenant, &query).await?;
        for call in calls.iter().skip(looked_at) {
            // Another user, or a session of another kind, may name the same session.
            let is_theirs = call.user == principal.user.as_str()
                && call.session_kind == principal.session_kind
                && call.id != this;
            if is_theirs && let Some(items) = list_set_by(history, &principal.tenant, call).await? {
                return Ok(items);
            }
        }
        looked_at = calls.len();
        if looked_at < limit {
            break;
        }
    }
    Ok(Vec::new())
}
