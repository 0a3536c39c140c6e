//! The rules: which there are, why they decide as they do, and what other rules would have decided about
//! what is on record.

use std::sync::Arc;

use axum::{Json, extract::State};
use haft_contract::host::{CallFilter, Question, RuleRef};
use haft_host::replay::{self, Change, Group, GroupKey, ReplayBaseline, ReplayJudge, Report};
use haft_policy::{CedarPolicy, PolicySource, explain::Step};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    calls::NewCall,
    outcome_view::{DecisionView, OutcomeView, RuleView},
};
use crate::{
    Gateway,
    body::JsonBody,
    identify::{CALL, Identified, READ},
    problem::{Problem, ProblemKind},
    time,
};

/// The longest text of rules that are tried.
const MAX_RULES: usize = 256 * 1024;

/// What a file of rules that came with a request is called in explanations.
const TRIED: &str = "the rules of this request";

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(show))
        .routes(routes!(check))
        .routes(routes!(try_rules))
}

/// The rules in force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Policy)]
pub(crate) struct PolicyView {
    /// Their version, which every decision names.
    pub(crate) version: String,
    /// The rules, in the order in which they are written.
    pub(crate) rules: Vec<PolicyRuleView>,
}

/// A rule in force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PolicyRule)]
pub(crate) struct PolicyRuleView {
    /// `allow`, `ask` or `deny`.
    pub(crate) verdict: &'static str,
    /// To whom it applies, unless it is everyone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) holds_for: Option<String>,
    #[serde(flatten)]
    pub(crate) rule: RuleView,
}

/// Show the rules in force.
#[utoipa::path(
    get,
    path = "/v1/policy",
    tag = "policy",
    responses((status = 200, description = "The rules", body = PolicyView)),
)]
async fn show(
    State(gateway): State<Gateway>,
    who: Identified,
) -> Result<Json<PolicyView>, Problem> {
    who.needs(READ)?;
    Ok(Json(PolicyView::in_force(&gateway)))
}

impl PolicyView {
    pub(crate) fn in_force(gateway: &Gateway) -> Self {
        use haft_contract::host::Policy as _;
        let policy = gateway.host().policy().current();
        let rules = policy.rules().map(|rule| PolicyRuleView {
            verdict: rule.verdict().as_str(),
            holds_for: rule.holds_for(),
            rule: RuleView::of(rule.origin()),
        });
        Self {
            version: policy.version().0.clone(),
            rules: rules.collect(),
        }
    }
}

/// Why the rules decide about a call as they do.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Explanation)]
pub(crate) struct ExplanationView {
    /// The decision; absent if the call would end before anything is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<DecisionView>,
    /// Each thing that is judged, and what decides about it.
    pub(crate) steps: Vec<StepView>,
    /// How the call would end, if it ended before anything is decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<OutcomeView>,
}

/// One thing that is judged.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ExplanationStep)]
pub(crate) struct StepView {
    /// The agent it is judged for.
    pub(crate) agent: String,
    /// The preset that applies if no rule does.
    pub(crate) preset: &'static str,
    /// What is judged; absent where it is the tool itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<String>,
    /// `allow`, `ask` or `deny`.
    pub(crate) verdict: &'static str,
    /// The rule that decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<RuleView>,
    /// Why, in words.
    pub(crate) reason: String,
}

impl StepView {
    fn of(step: &Step) -> Self {
        Self {
            agent: step.agent.to_string(),
            preset: step.preset.as_str(),
            access: step.access.clone(),
            verdict: step.verdict.as_str(),
            rule: step.rule.as_ref().map(RuleView::of),
            reason: step.reason.clone(),
        }
    }
}

/// Explain what the rules say about a call, without making it.
#[utoipa::path(
    post,
    path = "/v1/policy/check",
    tag = "policy",
    request_body = NewCall,
    responses((status = 200, description = "The explanation", body = ExplanationView)),
)]
async fn check(
    State(gateway): State<Gateway>,
    who: Identified,
    JsonBody { value: new }: JsonBody<NewCall>,
) -> Result<Json<ExplanationView>, Problem> {
    explain(&gateway, &who, new).await.map(Json)
}

pub(crate) async fn explain(
    gateway: &Gateway,
    who: &Identified,
    new: NewCall,
) -> Result<ExplanationView, Problem> {
    who.needs(CALL)?;
    let request = new.request(gateway, who)?;
    let principal = Arc::clone(&request.principal);
    let at = request.workspace.clone();
    let foreseen = match gateway.runtime().plan(request).await {
        Ok(foreseen) => foreseen,
        Err(outcome) => {
            return Ok(ExplanationView {
                decision: None,
                steps: Vec::new(),
                outcome: Some(OutcomeView::of(&outcome)),
            });
        }
    };
    let workspace = gateway.runtime().workspace(&principal, &at).await;
    let tools = workspace
        .ok()
        .map(|workspace| workspace.registry().snapshot());
    let entry = tools
        .as_ref()
        .and_then(|tools| tools.get(foreseen.plan.tool().tool.as_str()));
    let steps = entry.map(|entry| {
        let policy = gateway.host().policy().current();
        let explained = policy.explain(&Question {
            principal: &principal,
            tool: entry.facts(),
            plan: &foreseen.plan,
            grants: &[],
        });
        explained.steps.iter().map(StepView::of).collect()
    });
    Ok(ExplanationView {
        decision: Some(DecisionView::of(&foreseen.decision)),
        steps: steps.unwrap_or_default(),
        outcome: None,
    })
}

/// Rules to try on what is on record.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewReplay {
    /// The rules, written as in haft.toml.
    #[schema(example = "[policy]\npreset = \"careful\"\ndeny = [\"bash(git push *)\"]")]
    pub(crate) rules: String,
    /// Only calls made at this moment or later (RFC 3339).
    #[schema(format = DateTime)]
    pub(crate) since: Option<String>,
    /// What the answers are compared with: `recorded` decisions, or what the `current` rules would say.
    #[schema(default = "recorded")]
    pub(crate) against: Option<String>,
}

/// What other rules would have decided.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Replay)]
pub(crate) struct ReplayView {
    /// How many calls were looked at.
    pub(crate) calls: u64,
    /// How many of them would be decided as they were.
    pub(crate) unchanged: u64,
    /// How many would be decided differently.
    pub(crate) changed: u64,
    /// How many could not be decided again.
    pub(crate) not_decided: u64,
    /// What would change, the most important first.
    pub(crate) changes: Vec<ChangeView>,
}

/// Calls whose answer would change in the same way.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayChange)]
pub(crate) struct ChangeView {
    /// The answer then.
    pub(crate) was: &'static str,
    /// The answer under the rules that were tried.
    pub(crate) now: &'static str,
    /// How many calls.
    pub(crate) calls: u64,
    /// The same, by tool, program and rule.
    pub(crate) groups: Vec<GroupView>,
}

/// Calls of one tool, program and rule.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayGroup)]
pub(crate) struct GroupView {
    /// The tool.
    pub(crate) tool: String,
    /// The program of the command that was decisive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<String>,
    /// The rule that decides now; without one it is the preset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<RuleView>,
    /// How many calls.
    pub(crate) calls: u64,
    /// How many of them a person refused then.
    pub(crate) refused: u64,
    /// Some of them.
    pub(crate) examples: Vec<ExampleView>,
}

/// A call whose answer would change.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ReplayExample)]
pub(crate) struct ExampleView {
    /// Its id.
    pub(crate) call: String,
    /// What was decisive, in words.
    pub(crate) what: String,
}

impl ReplayView {
    fn of(report: &Report) -> Self {
        let changes = report.changes();
        Self {
            calls: report.calls(),
            unchanged: report.unchanged,
            changed: report.changed(),
            not_decided: report.skipped.values().sum(),
            changes: changes.iter().map(ChangeView::of).collect(),
        }
    }
}

impl ChangeView {
    fn of((change, groups): &(Change, Vec<(&GroupKey, &Group)>)) -> Self {
        Self {
            was: change.was.as_str(),
            now: change.now.as_str(),
            calls: groups.iter().map(|(_, group)| group.calls).sum(),
            groups: groups
                .iter()
                .map(|(key, group)| GroupView::of(key, group))
                .collect(),
        }
    }
}

impl GroupView {
    fn of(key: &GroupKey, group: &Group) -> Self {
        let examples = group.examples.iter().map(|(call, what)| ExampleView {
            call: call.to_string(),
            what: what.clone(),
        });
        let rule: Option<RuleRef> = key.rule();
        Self {
            tool: key.tool.clone(),
            program: key.program.clone(),
            rule: rule.as_ref().map(RuleView::of),
            calls: group.calls,
            refused: group.refused,
            examples: examples.collect(),
        }
    }
}

/// Try other rules on what is on record.
///
/// Every recorded call is decided again under these rules. Nothing runs and nothing is written; standing
/// approvals are not counted.
#[utoipa::path(
    post,
    path = "/v1/policy/replay",
    tag = "policy",
    request_body = NewReplay,
    responses((status = 200, description = "What would have been decided differently", body = ReplayView)),
)]
async fn try_rules(
    State(gateway): State<Gateway>,
    who: Identified,
    JsonBody { value: new }: JsonBody<NewReplay>,
) -> Result<Json<ReplayView>, Problem> {
    replay_rules(&gateway, &who, new).await.map(Json)
}

pub(crate) async fn replay_rules(
    gateway: &Gateway,
    who: &Identified,
    new: NewReplay,
) -> Result<ReplayView, Problem> {
    who.needs(READ)?;
    if new.rules.len() > MAX_RULES {
        let most = format!("`rules` has at most {MAX_RULES} bytes");
        return Err(Problem::new(ProblemKind::Unprocessable, most));
    }
    let since = new.since.as_deref().map(|text| {
        time::parse(text).ok_or_else(|| {
            Problem::new(ProblemKind::BadRequest, "`since` is not a moment")
                .hint("write it as `2026-01-31T12:00:00Z`")
        })
    });
    let calls = CallFilter {
        since: since.transpose()?,
        ..CallFilter::default()
    };
    let tried = CedarPolicy::load(&[PolicySource {
        name: TRIED.to_owned(),
        text: new.rules,
    }])
    .map_err(|error| {
        Problem::new(ProblemKind::Unprocessable, haft_host::error::chain(&error))
            .hint("write them as in haft.toml: `[policy]` with `allow`, `ask` and `deny`")
    })?;
    let against = match new.against.as_deref() {
        None | Some("recorded") => ReplayBaseline::Recorded,
        Some("current") => ReplayBaseline::Policy(gateway.host().policy().current()),
        Some(_) => {
            return Err(Problem::new(
                ProblemKind::BadRequest,
                "`against` is `recorded` or `current`",
            ));
        }
    };
    let judge = Arc::new(ReplayJudge {
        policy: Arc::new(tried),
        against,
        tools: vec![gateway.runtime().registry().snapshot()],
    });
    let report = replay::replay(gateway.ledger(), who.tenant(), &calls, judge, |_| {}).await?;
    Ok(ReplayView::of(&report))
}
