//! What a call would do and what would be decided about it, without making it: nothing runs, nothing is
//! recorded, nobody is asked.

use axum::{Json, extract::State};
use haft_contract::Access;
use haft_runtime::DryRun;
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    calls::NewCall,
    outcome_view::{DecisionView, OutcomeView},
};
use crate::{
    Gateway,
    body::JsonBody,
    identify::{CALL, Identified},
    problem::Problem,
};

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(plan))
}

/// What a call would come to.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Plan)]
pub(crate) struct PlanView {
    /// `allow`, `ask` or `deny`; `ended` if the call would end before anything is decided.
    #[schema(example = "ask")]
    verdict: String,
    /// The decision about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<DecisionView>,
    /// What it would keep to.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlannedView>,
    /// How it would end, if it ended before it was decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<OutcomeView>,
}

/// A plan.
#[derive(Debug, Serialize, ToSchema)]
struct PlannedView {
    /// The tool.
    tool: String,
    /// The input as it would be used.
    input: Value,
    /// What it would touch.
    accesses: Vec<AccessView>,
    /// Whether it only reads.
    read_only: bool,
    /// Whether it may be repeated.
    idempotent: bool,
    /// Whether it may destroy something.
    destructive: bool,
    /// How strongly it would be confined.
    tier: &'static str,
    /// How long it may run.
    deadline_ms: u64,
    /// What was rewritten in the input on the way in.
    coercions: Vec<String>,
}

/// One thing that a call would touch.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Access)]
struct AccessView {
    /// What sort: `read`, `write`, `command`, `host`, `database` and so on.
    kind: &'static str,
    /// What exactly.
    what: String,
}

impl PlanView {
    fn of(dry: &DryRun) -> Self {
        let plan = &dry.plan;
        let effects = plan.effects();
        let accesses = plan.accesses().iter().map(|access| AccessView {
            kind: access.kind(),
            what: what(access),
        });
        Self {
            verdict: dry.decision.verdict.as_str().to_owned(),
            decision: Some(DecisionView::of(&dry.decision)),
            plan: Some(PlannedView {
                tool: plan.tool().to_string(),
                input: plan.input().clone(),
                accesses: accesses.collect(),
                read_only: effects.read_only,
                idempotent: effects.idempotent,
                destructive: effects.destructive,
                tier: plan.tier().as_str(),
                deadline_ms: u64::try_from(plan.deadline().as_millis()).unwrap_or(u64::MAX),
                coercions: dry.coercions.clone(),
            }),
            outcome: None,
        }
    }
}

/// What exactly an access touches.
fn what(access: &Access) -> String {
    match access {
        Access::Path(path) => path.target().to_string(),
        Access::Command(command) => command.command.text(),
        Access::Process(process) => process.text(),
        Access::Host { host, port } => format!("{host}:{port}"),
        Access::Database { source, .. } => source.clone(),
        Access::Message { channel, target } => format!("{channel}:{target}"),
        Access::RemoteTool { provider, tool } => format!("{provider}/{tool}"),
        Access::Custom(custom) => custom.target().as_str().to_owned(),
    }
}

/// Plan a call without making it.
///
/// The body is that of a call; `wait_ms` means nothing here.
#[utoipa::path(
    post,
    path = "/v1/plans",
    tag = "calls",
    request_body = NewCall,
    responses((status = 200, description = "What it would come to", body = PlanView)),
)]
async fn plan(
    State(gateway): State<Gateway>,
    who: Identified,
    JsonBody { value: new }: JsonBody<NewCall>,
) -> Result<Json<PlanView>, Problem> {
    who.needs(CALL)?;
    let request = new.request(&gateway, &who)?;
    let view = match gateway.runtime().plan(request).await {
        Ok(dry) => PlanView::of(&dry),
        Err(outcome) => PlanView {
            verdict: "ended".to_owned(),
            decision: None,
            plan: None,
            outcome: Some(OutcomeView::of(&outcome)),
        },
    };
    Ok(Json(view))
}
