//! Questions that wait for a person: listing them, reading one whole, answering it.
//!
//! What is shown is drawn from the form whose digest the answer binds, by the one place that draws
//! questions. A rule that is allowed from now on is one of those proposed, found by planning the call again
//! under the rules in force.

use std::time::Duration;

use axum::{
    Json,
    extract::{Path, Query, State},
};
use haft_contract::{
    PlanDigest,
    host::{
        AnswerPlace, Answerer, Approval, ApprovalId, ApprovalState, Clock as _, GivenAnswer,
        GivenVerdict, Grant, GrantProposal, GrantRequest, GrantScope, Ledger as _,
    },
};
use haft_host::{
    asked_again,
    question::{self, DrawingContext, QuestionDrawing, RoomForText},
    recorded_question::{shown_in, why_asked},
    screen_text,
};
use haft_runtime::SystemClock;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{grants::GrantView, page::Page};
use crate::{
    Gateway,
    body::JsonBody,
    identify::{APPROVE, Identified, READ},
    limits::MAX_PAGE,
    problem::{Problem, ProblemKind},
    time::rfc3339,
};

/// The longest reason of a refusal.
const MAX_REASON: usize = 2_000;

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(look_up))
        .routes(routes!(answer))
}

/// A question.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Approval)]
pub(crate) struct ApprovalView {
    /// Its id.
    pub(crate) question: String,
    /// The call that waits.
    pub(crate) call: String,
    /// `pending`, `approved`, `refused`, `lapsed`, `withdrawn` or `used`.
    #[schema(example = "pending")]
    pub(crate) state: &'static str,
    /// When it was asked.
    #[schema(format = DateTime)]
    pub(crate) asked: String,
    /// When it lapses.
    #[schema(format = DateTime)]
    pub(crate) expires: String,
    /// The person the agent acts for.
    pub(crate) user: String,
    /// The agent that asks.
    pub(crate) agent: String,
    /// The conversation.
    pub(crate) session: String,
    /// What people know its workspace by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) workspace: Option<String>,
    /// What happens, in one line.
    pub(crate) summary: String,
    /// The SHA-256 of the whole plan; an answer names it.
    pub(crate) digest: String,
    /// Whether the record has all of it. If not, it can only be refused from here.
    pub(crate) complete: bool,
}

/// A question, whole.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApprovalDetail)]
pub(crate) struct ApprovalDetail {
    #[serde(flatten)]
    pub(crate) approval: ApprovalView,
    /// Why a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// Everything that happens, in lines: the whole diff or command, every access, where it runs.
    pub(crate) shown: Vec<String>,
    /// What only an auditor needs.
    pub(crate) details: Vec<String>,
    /// The canonical plan that the digest is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(crate) plan: Option<Value>,
    /// Rules that could be allowed from now on, narrowest first.
    pub(crate) proposals: Vec<ProposalView>,
}

/// Rules that could be allowed from now on.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Proposal)]
pub(crate) struct ProposalView {
    /// The rules, which belong together.
    pub(crate) rules: Vec<String>,
    /// What accepting them means.
    pub(crate) meaning: String,
}

impl ApprovalView {
    pub(crate) fn of(approval: &Approval) -> Self {
        let principal = &approval.principal;
        Self {
            question: approval.id.to_string(),
            call: approval.call.to_string(),
            state: approval.state.as_str(),
            asked: rfc3339(approval.asked),
            expires: rfc3339(approval.expires),
            user: principal.user.to_string(),
            agent: principal.agent.to_string(),
            session: principal.session.to_string(),
            workspace: shown_in(approval).map(str::to_owned),
            summary: approval.summary.clone(),
            digest: approval.digest.to_string(),
            complete: approval.form.is_some(),
        }
    }
}

/// Which questions.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ApprovalsQuery {
    /// How many entries at most.
    #[param(minimum = 1, maximum = 200, default = 200)]
    limit: Option<usize>,
}

/// Whether a caller may read this question: its own, or any of the tenant with a scope for that.
fn may_read(who: &Identified, approval: &Approval) -> bool {
    let asker = &approval.principal;
    let workspace = asked_again::workspace(approval).map(|workspace| workspace.id);
    // Where the record does not have the question whole, nobody can tell which workspace it is about.
    let is_reached = match workspace {
        Some(workspace) => who.reaches(&workspace),
        None => who.only_workspaces().is_empty(),
    };
    let is_theirs = asker.user == *who.user() && asker.agent == *who.agent();
    is_reached && (who.has(READ) || who.has(APPROVE) || is_theirs)
}

/// List the questions that wait for an answer, oldest first.
#[utoipa::path(
    get,
    path = "/v1/approvals",
    tag = "approvals",
    params(ApprovalsQuery),
    responses((status = 200, description = "The open questions", body = Page<ApprovalView>)),
)]
async fn list(
    State(gateway): State<Gateway>,
    who: Identified,
    Query(query): Query<ApprovalsQuery>,
) -> Result<Json<Page<ApprovalView>>, Problem> {
    let limit = query.limit.unwrap_or(MAX_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        let most = format!("`limit` is from 1 to {MAX_PAGE}");
        return Err(Problem::new(ProblemKind::BadRequest, most));
    }
    let open = pending(&gateway, &who, limit).await?;
    Ok(Json(Page::whole(
        open.iter().map(ApprovalView::of).collect(),
    )))
}

/// The open questions that a caller may read.
pub(crate) async fn pending(
    gateway: &Gateway,
    who: &Identified,
    limit: usize,
) -> Result<Vec<Approval>, Problem> {
    let store = gateway.ledger().approvals();
    let mut open = store
        .pending(who.tenant(), SystemClock.now(), limit)
        .await?;
    open.retain(|approval| may_read(who, approval));
    Ok(open)
}

pub(crate) async fn find(
    gateway: &Gateway,
    who: &Identified,
    id: &str,
) -> Result<Approval, Problem> {
    let unknown = || Problem::not_found("question");
    let id = ApprovalId::parse(id).ok_or_else(unknown)?;
    let found = gateway.ledger().approvals().get(who.tenant(), id).await?;
    found
        .filter(|found| may_read(who, found))
        .ok_or_else(unknown)
}

/// A question as it is drawn everywhere, if the record has all of it, unchanged.
pub(crate) fn drawn(approval: &Approval, why: Option<&str>) -> Option<QuestionDrawing> {
    let cx = DrawingContext {
        why,
        home: None,
        room: RoomForText::Enough,
    };
    question::draw(approval.form.as_deref()?, approval.digest, cx).ok()
}

/// The rules that could be accepted for a question; none if the rules or the plan have changed.
pub(crate) async fn proposals(gateway: &Gateway, approval: &Approval) -> Vec<GrantProposal> {
    if approval.state != ApprovalState::Pending {
        return Vec::new();
    }
    let Some(workspace) = asked_again::workspace(approval) else {
        return Vec::new();
    };
    let found = asked_again::proposals_in(gateway.runtime(), workspace.id, approval).await;
    found.unwrap_or_default()
}

/// A question with everything that is shown of it.
pub(crate) struct WholeQuestion {
    pub(crate) approval: Approval,
    /// Why a person is asked, if the record says so.
    pub(crate) why: Option<String>,
    /// The question as it is drawn everywhere; absent if the record does not have all of it.
    pub(crate) drawing: Option<QuestionDrawing>,
    pub(crate) proposals: Vec<GrantProposal>,
}

pub(crate) async fn whole(
    gateway: &Gateway,
    who: &Identified,
    id: &str,
) -> Result<WholeQuestion, Problem> {
    let approval = find(gateway, who, id).await?;
    let why = why_asked(gateway.ledger(), who.tenant(), approval.call).await;
    Ok(WholeQuestion {
        drawing: drawn(&approval, why.as_deref()),
        proposals: proposals(gateway, &approval).await,
        why,
        approval,
    })
}

/// Read a question whole.
#[utoipa::path(
    get,
    path = "/v1/approvals/{id}",
    tag = "approvals",
    params(("id" = String, Path, description = "The question's id")),
    responses((status = 200, description = "The question", body = ApprovalDetail)),
)]
async fn look_up(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
) -> Result<Json<ApprovalDetail>, Problem> {
    let WholeQuestion {
        approval,
        why,
        drawing,
        proposals,
    } = whole(&gateway, &who, &id).await?;
    let (shown, details) = drawing.map_or_else(Default::default, |drawing| {
        let lines = |text: String| text.lines().map(str::to_owned).collect();
        (
            lines(drawing.text()),
            lines(screen_text::plain(&drawing.details)),
        )
    });
    let found = proposals.into_iter().map(|proposal| ProposalView {
        rules: proposal.rules,
        meaning: proposal.meaning,
    });
    Ok(Json(ApprovalDetail {
        approval: ApprovalView::of(&approval),
        why,
        shown,
        details,
        plan: approval.form.as_deref().cloned(),
        proposals: found.collect(),
    }))
}

/// An answer to a question.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAnswer {
    /// `approve` or `refuse`.
    #[schema(example = "approve")]
    verdict: String,
    /// The digest of the question as it was read: nobody approves what they have not seen.
    digest: String,
    /// Why not, for the agent; only with `refuse`.
    #[schema(max_length = 2000)]
    reason: Option<String>,
    /// Allows calls like it from now on, too; only with `approve`.
    always: Option<AlwaysView>,
}

/// What is allowed from now on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Always)]
pub(crate) struct AlwaysView {
    /// The rules of one of the proposals, as they were proposed.
    rules: Vec<String>,
    /// Where they hold: `session`, `project` or `agent`.
    scope: String,
    /// For how long; without it until somebody ends it.
    #[schema(minimum = 1)]
    for_ms: Option<u64>,
    /// For how many calls; without it for as many as come.
    #[schema(minimum = 1)]
    uses: Option<u32>,
}

/// What became of an answer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Answered)]
pub(crate) struct AnsweredView {
    /// The question.
    pub(crate) question: String,
    /// The call.
    pub(crate) call: String,
    /// What it is now.
    #[schema(example = "approved")]
    pub(crate) state: &'static str,
    /// What is allowed from now on.
    pub(crate) grants: Vec<GrantView>,
}

/// Answer a question.
///
/// The first answer counts. Needs the scope `approve`; nobody answers their own question: not the agent that
/// asks, none that started it, nobody in its conversation.
#[utoipa::path(
    post,
    path = "/v1/approvals/{id}/answer",
    tag = "approvals",
    params(("id" = String, Path, description = "The question's id")),
    request_body = NewAnswer,
    responses((status = 200, description = "It is answered", body = AnsweredView)),
)]
async fn answer(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
    JsonBody { value: new }: JsonBody<NewAnswer>,
) -> Result<Json<AnsweredView>, Problem> {
    let by = Answerer::Credential(who.principal(None, None)?);
    give_answer(&gateway, &who, &id, by, new).await.map(Json)
}

/// Answers a question, and only then stores the rules, so that an answer that came too late grants nothing.
pub(crate) async fn give_answer(
    gateway: &Gateway,
    who: &Identified,
    id: &str,
    by: Answerer,
    new: NewAnswer,
) -> Result<AnsweredView, Problem> {
    who.needs(APPROVE)?;
    let question = find(gateway, who, id).await?;
    let digest = PlanDigest::parse(&new.digest).ok_or_else(|| {
        Problem::new(ProblemKind::BadRequest, "`digest` is not a SHA-256")
            .hint("send the `digest` of the question as it was read")
    })?;
    let verdict = new.verdict()?;
    let wish = match &new.always {
        Some(always) => Some(always.request(gateway, &question).await?),
        None => None,
    };
    let name = by.name();
    let given = GivenAnswer {
        verdict,
        digest,
        by,
    };
    let now = SystemClock.now();
    let store = gateway.ledger().approvals();
    let answered = store.answer(who.tenant(), question.id, given, now).await?;
    let mut kept = Vec::new();
    for grant in wish
        .map(|wish| wish.grants(&question.principal, &name, now, question.call))
        .unwrap_or_default()
    {
        gateway.ledger().grants().add(Grant::clone(&grant)).await?;
        kept.push(GrantView::of(&grant));
    }
    Ok(AnsweredView {
        question: answered.id.to_string(),
        call: answered.call.to_string(),
        state: answered.state.as_str(),
        grants: kept,
    })
}

impl NewAnswer {
    pub(crate) fn approve(digest: String, always: Option<AlwaysView>) -> Self {
        Self {
            verdict: "approve".to_owned(),
            digest,
            reason: None,
            always,
        }
    }

    pub(crate) fn refuse(digest: String, reason: Option<String>) -> Self {
        Self {
            verdict: "refuse".to_owned(),
            digest,
            reason,
            always: None,
        }
    }

    fn verdict(&self) -> Result<GivenVerdict, Problem> {
        let odd = |what: &str| Err(Problem::new(ProblemKind::BadRequest, what));
        let reason = self.reason.clone().filter(|why| !why.trim().is_empty());
        if reason
            .as_ref()
            .is_some_and(|why| why.chars().count() > MAX_REASON)
        {
            return odd("`reason` has at most 2000 characters");
        }
        match (self.verdict.as_str(), reason, &self.always) {
            ("approve", None, _) => Ok(GivenVerdict::Approve),
            ("refuse", reason, None) => Ok(GivenVerdict::Refuse { reason }),
            ("approve", Some(_), _) => odd("`reason` is only for `refuse`"),
            ("refuse", _, Some(_)) => odd("`always` is only for `approve`"),
            _ => odd("`verdict` is `approve` or `refuse`"),
        }
    }
}

impl AlwaysView {
    pub(crate) fn new(rules: Vec<String>, scope: String, for_ms: Option<u64>) -> Self {
        Self {
            rules,
            scope,
            for_ms,
            uses: None,
        }
    }

    /// What is wished for, if it was proposed.
    async fn request(
        &self,
        gateway: &Gateway,
        question: &Approval,
    ) -> Result<GrantRequest, Problem> {
        let proposed = proposals(gateway, question).await;
        if !proposed.iter().any(|proposal| proposal.rules == self.rules) {
            return Err(Problem::new(
                ProblemKind::Unprocessable,
                "`always` has rules that were not proposed",
            )
            .hint("`proposals` of the question lists those that can be accepted"));
        }
        let asker = &question.principal;
        let workspace = asked_again::workspace(question);
        let scope = match (self.scope.as_str(), workspace) {
            ("session", _) => GrantScope::Session(asker.session.clone()),
            ("agent", _) => GrantScope::Agent(asker.agent.clone()),
            ("project", Some(workspace)) => GrantScope::Project(workspace),
            _ => {
                return Err(Problem::new(
                    ProblemKind::BadRequest,
                    "`scope` is `session`, `project` or `agent`",
                ));
            }
        };
        let now = SystemClock.now();
        Ok(GrantRequest {
            rules: self.rules.clone(),
            scope,
            until: self.for_ms.map(|ms| now.after(Duration::from_millis(ms))),
            uses: self.uses,
        })
    }
}

/// Somebody at the console, who sees the question from the record.
pub(crate) fn person(who: &Identified) -> Answerer {
    Answerer::Person {
        name: who.user().to_string(),
        place: AnswerPlace::Elsewhere,
    }
}
