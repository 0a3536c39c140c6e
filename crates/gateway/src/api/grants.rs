//! Standing approvals: listing and ending them. They are made by answering a question.

use axum::{
    Json,
    extract::{Path, State},
};
use haft_contract::host::{Clock as _, Grant, GrantId, Ledger as _};
use haft_runtime::SystemClock;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::page::Page;
use crate::{
    Gateway,
    identify::{APPROVE, Identified, READ},
    problem::Problem,
    time::rfc3339,
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(revoke))
}

/// A standing approval.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Grant)]
pub(crate) struct GrantView {
    /// Its id.
    pub(crate) grant: String,
    /// The person it was made for.
    pub(crate) user: String,
    /// The rule.
    pub(crate) rule: String,
    /// Where it holds: `session`, `project` or `agent`.
    pub(crate) scope: &'static str,
    /// Which one.
    pub(crate) bound_to: String,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(crate) until: Option<String>,
    /// How many more calls may start with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uses_left: Option<u32>,
    /// Who made it.
    pub(crate) made_by: String,
    /// When it was made.
    #[schema(format = DateTime)]
    pub(crate) made_at: String,
    /// The call that led to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cause: Option<String>,
}

impl GrantView {
    pub(crate) fn of(grant: &Grant) -> Self {
        Self {
            grant: grant.id.to_string(),
            user: grant.user.to_string(),
            rule: grant.rule.clone(),
            scope: grant.scope.as_str(),
            bound_to: grant.scope.shown().to_owned(),
            until: grant.until.map(rfc3339),
            uses_left: grant.uses_left,
            made_by: grant.made_by.clone(),
            made_at: rfc3339(grant.made_at),
            cause: grant.cause.map(|call| call.to_string()),
        }
    }
}

/// List the standing approvals that hold, oldest first.
///
/// Without the scope `read` or `approve`, only those made for the same person.
#[utoipa::path(
    get,
    path = "/v1/grants",
    tag = "approvals",
    responses((status = 200, description = "All that hold", body = Page<GrantView>)),
)]
async fn list(
    State(gateway): State<Gateway>,
    who: Identified,
) -> Result<Json<Page<GrantView>>, Problem> {
    Ok(Json(Page::whole(held(&gateway, &who).await?)))
}

pub(crate) async fn held(gateway: &Gateway, who: &Identified) -> Result<Vec<GrantView>, Problem> {
    let store = gateway.ledger().grants();
    let held = store.list(who.tenant(), SystemClock.now()).await?;
    let sees_all = who.has(READ) || who.has(APPROVE);
    let seen = held
        .iter()
        .filter(|grant| sees_all || grant.user == *who.user());
    Ok(seen.map(GrantView::of).collect())
}

/// End a standing approval at once.
#[utoipa::path(
    delete,
    path = "/v1/grants/{id}",
    tag = "approvals",
    params(("id" = String, Path, description = "The standing approval's id")),
    responses((status = 204, description = "It has ended")),
)]
async fn revoke(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    who.needs(APPROVE)?;
    end(&gateway, &who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn end(gateway: &Gateway, who: &Identified, id: &str) -> Result<(), Problem> {
    who.needs(APPROVE)?;
    let unknown = || Problem::not_found("standing approval");
    let id = GrantId::parse(id).ok_or_else(unknown)?;
    let had = gateway.ledger().grants().revoke(who.tenant(), id).await?;
    if had { Ok(()) } else { Err(unknown()) }
}
