//! What sessions have left to do, for people: the newest list of each session that set one lately.

use std::collections::HashSet;

use haft_contract::{
    TenantId,
    host::{CallFilter, CallQuery, History, LedgerError, StoredCall},
    todo::TodoItem,
};
use haft_runtime::{TODO_TOOL, list_set_by};

/// How many of the newest `todo` calls are looked at.
const MAX_CALLS: usize = 200;

/// A session's list of things to do, and the call that set it.
#[derive(Debug, Clone, PartialEq)]
pub struct TodoList {
    /// The call.
    pub call: StoredCall,
    /// The list.
    pub items: Vec<TodoItem>,
}

impl TodoList {
    /// How many things are left to do.
    pub fn open(&self) -> usize {
        let open = self.items.iter().filter(|item| item.status.is_open());
        open.count()
    }
}

/// The lists on which something is left, the newest first: for each session, what the newest of these calls
/// that set a list says.
pub async fn unfinished(
    history: &dyn History,
    tenant: &TenantId,
    filter: CallFilter,
) -> Result<Vec<TodoList>, LedgerError> {
    let query = CallQuery {
        filter: CallFilter {
            tool: Some(format!("builtin/{TODO_TOOL}")),
            ..filter
        },
        limit: MAX_CALLS,
        ..CallQuery::default()
    };
    let mut known = HashSet::new();
    let mut lists = Vec::new();
    for call in history.calls(tenant, &query).await? {
        let whose = (
            call.user.clone(),
            call.agent.clone(),
            call.session.clone(),
            call.session_kind,
        );
        if known.contains(&whose) {
            continue;
        }
        if let Some(items) = list_set_by(history, tenant, &call).await? {
            known.insert(whose);
            lists.push(TodoList { call, items });
        }
    }
    lists.retain(|list| list.open() > 0);
    Ok(lists)
}
