//! What was used: calls counted by day, tool, agent or workspace. The record counts; nobody loads calls to
//! count them.

use axum::{
    Json,
    extract::{Query, State},
};
use haft_contract::host::{CallFilter, MAX_STATS_ROWS, StatsGroup, StatsKey, StatsQuery, StatsRow};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::page::Page;
use crate::{
    Gateway,
    identify::{Identified, READ},
    problem::{Problem, ProblemKind},
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(usage))
}

/// What is counted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UsageQuery {
    /// `all`, `day` (in UTC), `tool`, `agent` or `workspace`.
    #[param(default = "day")]
    pub(crate) by: Option<String>,
}

/// One group of calls.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Usage)]
pub(crate) struct UsageView {
    /// What they have in common: a day, or a name.
    pub(crate) group: String,
    /// How many.
    pub(crate) calls: u64,
    /// How many of them a person was asked about.
    pub(crate) asked: u64,
    /// How many were denied.
    pub(crate) denied: u64,
    /// How many failed, ran out of time, or ended unknown.
    pub(crate) failed: u64,
    /// How long they ran, together.
    pub(crate) ran_ms: u64,
    /// How long they waited for people, together.
    pub(crate) waited_ms: u64,
    /// The bytes of output they had.
    pub(crate) bytes: u64,
}

impl UsageView {
    fn of(row: &StatsRow) -> Self {
        let millis =
            |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            group: match &row.group {
                StatsGroup::All => "all".to_owned(),
                StatsGroup::Day(day) => date(*day),
                StatsGroup::Name(name) => name.clone(),
            },
            calls: row.calls,
            asked: row.asked,
            denied: row.denied,
            failed: row.failed,
            ran_ms: millis(row.ran),
            waited_ms: millis(row.waited),
            bytes: row.bytes,
        }
    }
}

/// A day, counted from 1970-01-01, as a date.
fn date(day: i64) -> String {
    let seconds = day.saturating_mul(86_400);
    jiff::Timestamp::from_second(seconds).map_or_else(
        |_| day.to_string(),
        |at| at.strftime("%Y-%m-%d").to_string(),
    )
}

/// Count calls.
#[utoipa::path(
    get,
    path = "/v1/usage",
    tag = "usage",
    params(UsageQuery),
    responses((status = 200, description = "The newest days, or the groups with the most calls", body = Page<UsageView>)),
)]
async fn usage(
    State(gateway): State<Gateway>,
    who: Identified,
    Query(query): Query<UsageQuery>,
) -> Result<Json<Page<UsageView>>, Problem> {
    let counted = count(&gateway, &who, query.by.as_deref()).await?;
    Ok(Json(Page::whole(counted)))
}

pub(crate) async fn count(
    gateway: &Gateway,
    who: &Identified,
    by: Option<&str>,
) -> Result<Vec<UsageView>, Problem> {
    who.needs(READ)?;
    let by = match by {
        None | Some("day") => StatsKey::Day { offset_us: 0 },
        Some("all") => StatsKey::All,
        Some("tool") => StatsKey::Tool,
        Some("agent") => StatsKey::Agent,
        Some("workspace") => StatsKey::Workspace,
        Some(_) => {
            return Err(Problem::new(
                ProblemKind::BadRequest,
                "`by` is `all`, `day`, `tool`, `agent` or `workspace`",
            ));
        }
    };
    let query = StatsQuery {
        filter: CallFilter::default(),
        by,
        limit: MAX_STATS_ROWS,
    };
    let rows = gateway.history().stats(who.tenant(), &query).await?;
    Ok(rows.iter().map(UsageView::of).collect())
}
