//! Conversations: which there are, and their calls.

use axum::{
    Json,
    extract::{Path, Query, State},
};
use haft_contract::host::StoredSession;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    call_view::CallView,
    calls::{CallsQuery, calls_page},
    page::{Page, PageQuery},
};
use crate::{
    Gateway,
    identify::{Identified, READ},
    problem::Problem,
    time::rfc3339,
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(calls))
}

/// A conversation.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct SessionView {
    /// Its id.
    pub(crate) session: String,
    /// What kind it is.
    pub(crate) kind: &'static str,
    /// The workspace of these calls of it.
    pub(crate) workspace_id: String,
    /// The agent whose conversation it is.
    pub(crate) agent: String,
    /// When its first call was made.
    #[schema(format = DateTime)]
    pub(crate) first: String,
    /// When its last call was made.
    #[schema(format = DateTime)]
    pub(crate) last: String,
    /// How many calls it has.
    pub(crate) calls: u64,
}

impl SessionView {
    fn of(session: &StoredSession) -> Self {
        Self {
            session: session.id.to_string(),
            kind: session.kind.as_str(),
            workspace_id: session.workspace.to_string(),
            agent: session.agent.clone(),
            first: rfc3339(session.first),
            last: rfc3339(session.last),
            calls: session.calls,
        }
    }
}

/// List conversations, the last active first.
///
/// Without the scope `read`, only those of the same agent.
#[utoipa::path(
    get,
    path = "/v1/sessions",
    tag = "sessions",
    params(PageQuery),
    responses((status = 200, description = "The last active ones", body = Page<SessionView>)),
)]
async fn list(
    State(gateway): State<Gateway>,
    who: Identified,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<SessionView>>, Problem> {
    let limit = page.limit()?;
    Ok(Json(Page::whole(recent(&gateway, &who, limit).await?)))
}

pub(crate) async fn recent(
    gateway: &Gateway,
    who: &Identified,
    limit: usize,
) -> Result<Vec<SessionView>, Problem> {
    let found = gateway
        .history()
        .sessions(who.tenant(), who.only_workspaces(), limit)
        .await?;
    let seen = found
        .iter()
        .filter(|session| who.has(READ) || session.agent == who.agent().as_str());
    Ok(seen.map(SessionView::of).collect())
}

/// List the calls of a conversation, newest first.
#[utoipa::path(
    get,
    path = "/v1/sessions/{id}/calls",
    tag = "sessions",
    params(("id" = String, Path, description = "The conversation's id"), PageQuery),
    responses((status = 200, description = "One page", body = Page<CallView>)),
)]
async fn calls(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<CallView>>, Problem> {
    let query = CallsQuery::of_session(id, page);
    calls_page(&gateway, &who, query).await.map(Json)
}
