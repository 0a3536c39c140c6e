//! Taking a call back. It is a person's doing and takes the one path of a call itself: planned, decided,
//! recorded, and undone in its turn.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Path, State},
};
use haft_contract::CallRequest;
use haft_host::undo;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{calls::visible, outcome_view::OutcomeView};
use crate::{
    Gateway,
    identify::{APPROVE, Identified},
    limits::CALL_WAIT,
    problem::{Problem, ProblemKind},
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(take_back))
}

/// What an undo did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UndoneView {
    /// Whether everything that is known to have changed is as it was before.
    pub(crate) complete: bool,
    /// What is not known, or could not be taken back.
    pub(crate) notes: Vec<String>,
    /// The calls that did it; to redo, undo these.
    pub(crate) calls: Vec<UndoCallView>,
}

/// One call of an undo.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UndoCallView {
    /// Its id.
    pub(crate) call: String,
    /// How it ended.
    pub(crate) result: OutcomeView,
}

/// Take a call back.
///
/// Changed files get their old content, removed ones come back, created ones go, rows of databases are as
/// they were. What has changed since is a conflict and stays. Needs the scope `approve`: an agent does not
/// take back what it did.
#[utoipa::path(
    post,
    path = "/v1/calls/{id}/undo",
    tag = "calls",
    params(("id" = String, Path, description = "The call's id")),
    responses((status = 200, description = "What it did", body = UndoneView)),
)]
async fn take_back(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
) -> Result<Json<UndoneView>, Problem> {
    undo_call(&gateway, &who, &id, CALL_WAIT).await.map(Json)
}

/// Takes a call back, and waits for it this long.
pub(crate) async fn undo_call(
    gateway: &Gateway,
    who: &Identified,
    id: &str,
    wait: Duration,
) -> Result<UndoneView, Problem> {
    who.needs(APPROVE)?;
    let call = visible(gateway, who, id).await?;
    // A credential reaches no more by taking back than by calling.
    let workspace = who.workspace(gateway, Some(call.workspace.as_str()))?;
    let person = who.person(call.session.clone())?;
    let at = workspace.id.clone();
    let request = move |input: Value| {
        CallRequest::new("undo", input, Arc::clone(&person)).in_workspace(at.clone())
    };
    let taking_back = {
        let (gateway, tenant) = (gateway.clone(), who.tenant().clone());
        async move {
            let (runtime, ledger) = (gateway.runtime(), gateway.ledger());
            undo::undo(runtime, ledger, &tenant, &[call.id], request).await
        }
    };
    // It goes on when nobody waits any more: its rules may ask a person first.
    let running = gateway.calls().spawn(taking_back);
    let undone = match tokio::time::timeout(wait, running).await {
        Ok(Ok(undone)) => undone?,
        Ok(Err(_)) => return Err(Problem::new(ProblemKind::Internal, "the undo broke down")),
        Err(_) => {
            return Ok(UndoneView {
                complete: false,
                notes: vec!["it goes on, and may be waiting for somebody to approve it".to_owned()],
                calls: Vec::new(),
            });
        }
    };
    let calls = undone.outcomes().iter().map(|outcome| UndoCallView {
        call: outcome.call.to_string(),
        result: OutcomeView::of(outcome),
    });
    Ok(UndoneView {
        complete: undone.is_complete(),
        notes: undone.notes().to_vec(),
        calls: calls.collect(),
    })
}
