//! What the record says about a question beyond its own row: the workspace it is about, and why it is
//! asked. Screens and lists that show questions ask here. What is drawn of a question is in
//! `question/`.

use haft_contract::{
    CallId, TenantId, WorkspaceId,
    host::{Approval, History},
};
use serde_json::Value;

/// The workspace a question is about: its form says so; a question whose form is not kept is about the
/// workspace of its call.
pub async fn workspace_of(history: &impl History, question: &Approval) -> Option<WorkspaceId> {
    let form = question.form.as_ref();
    let said = form.and_then(|form| form.get("workspace_id")?.as_str().map(str::to_owned));
    if let Some(id) = said.and_then(|id| WorkspaceId::parse(&id).ok()) {
        return Some(id);
    }
    workspace_of_call(history, &question.principal.tenant, question.call).await
}

async fn workspace_of_call(
    history: &impl History,
    tenant: &TenantId,
    call: CallId,
) -> Option<WorkspaceId> {
    let call = history.call(tenant, call).await.ok()??;
    Some(call.workspace)
}

/// What the form of a question shows as its workspace.
pub fn shown_in(question: &Approval) -> Option<&str> {
    let form = question.form.as_ref()?;
    form.get("workspace").and_then(Value::as_str)
}

/// Whether a question is about one of these workspaces, or `only` names none. One whose workspace nobody
/// knows is about all.
pub async fn is_about(history: &impl History, question: &Approval, only: &[WorkspaceId]) -> bool {
    if only.is_empty() {
        return true;
    }
    let workspace = workspace_of(history, question).await;
    workspace.is_none_or(|workspace| only.contains(&workspace))
}

/// The same for whatever a call asks.
pub async fn is_asked_in(
    history: &impl History,
    tenant: &TenantId,
    call: CallId,
    only: &[WorkspaceId],
) -> bool {
    if only.is_empty() {
        return true;
    }
    let workspace = workspace_of_call(history, tenant, call).await;
    workspace.is_none_or(|workspace| only.contains(&workspace))
}

/// Why a call asks: the last decision of the rules about it.
pub async fn why_asked(history: &impl History, tenant: &TenantId, call: CallId) -> Option<String> {
    let events = history.events(tenant, call).await.ok()?;
    let decided = events.iter().rev().find(|event| event.kind == "decided")?;
    Some(decided.body.get("reason")?.as_str()?.to_owned())
}
