//! Calls: making one, listing them, looking one up, stopping one.
//!
//! A call that is waited for runs in one step. One that is not, or that has an idempotency key, is accepted
//! durably first and resumed from the record, so that it survives this process. Either way it goes on
//! when its client goes away; `cancel` stops it.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{Path, Query, State},
    response::{IntoResponse as _, Response},
};
use haft_contract::{
    Arguments, CallId, CallRequest, Outcome, SessionId, SessionKind,
    host::{CallFilter, CallQuery, Clock as _, Epoch, LedgerErrorKind, StoredCall},
};
use haft_ledger::RequestKey;
use haft_runtime::SystemClock;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::LOCATION};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    call_view::{CallView, OPEN, outcome},
    outcome_view::OutcomeView,
    page::{Page, PageQuery},
};
use crate::{
    Gateway,
    body::JsonBody,
    identify::{CALL, Identified, READ},
    limits::{CALL_WAIT, MAX_CALL_WAIT, MAX_IDEMPOTENCY_KEY},
    problem::{Problem, ProblemKind},
    time,
};

/// The event that has the outcome.
const SETTLED: &str = "settled";

/// The header that makes a request safe to repeat.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// How long after its key a call may take to be on record. If it is not by then, nobody makes it.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(30);

/// Says that an answer is of an earlier request with the same key.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(make, list))
        .routes(routes!(look_up))
        .routes(routes!(cancel))
}

/// One request to run one tool.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewCall {
    /// The tool's name, or another name that models use for it.
    #[schema(example = "read")]
    tool: String,
    /// Its arguments: an object, or the same as JSON text.
    #[serde(default)]
    #[schema(value_type = Object, example = json!({"path": "README.md"}))]
    arguments: Value,
    /// The workspace, by id or name; without it the first one of the credential.
    workspace: Option<String>,
    /// The conversation it belongs to; without it one of the credential's own.
    session: Option<String>,
    /// What kind of conversation that is: `main`, `dm`, `group`, `subagent` or `cron`. It can only take
    /// rights away.
    session_kind: Option<String>,
    /// A shorter time to run than the tool's own.
    #[schema(minimum = 1)]
    timeout_ms: Option<u64>,
    /// How long to wait for the outcome before the answer is only that it was accepted; 0 does not
    /// wait.
    #[schema(minimum = 0, maximum = 600_000, default = 30_000)]
    wait_ms: Option<u64>,
}

/// A call and, once it has ended, its outcome.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallResult)]
pub(crate) struct CallResult {
    /// Its id.
    call: String,
    /// `open`, or how it ended.
    #[schema(example = "succeeded")]
    state: String,
    /// How it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<OutcomeView>,
}

/// A call with everything known about it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CallDetail)]
pub(crate) struct CallDetail {
    #[serde(flatten)]
    call: CallView,
    /// How it ended, once it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<OutcomeView>,
}

impl CallResult {
    fn open(call: CallId) -> Self {
        Self {
            call: call.to_string(),
            state: OPEN.to_owned(),
            result: None,
        }
    }

    fn ended(call: CallId, result: OutcomeView) -> Self {
        Self {
            call: call.to_string(),
            state: result.outcome.clone(),
            result: Some(result),
        }
    }
}

/// Make a call.
///
/// It is planned, decided, recorded and run like every call of Haft. A denial is an outcome, not an error
/// of the API: the answer is 200 and says who refused it. With `Idempotency-Key`, the same key and the same
/// body are the same call for seven days, whatever happens to the connection.
#[utoipa::path(
    post,
    path = "/v1/calls",
    tag = "calls",
    request_body = NewCall,
    params(("Idempotency-Key" = Option<String>, Header, description = "Makes the request safe to repeat: 1 to 255 printable characters")),
    responses(
        (status = 200, description = "It has ended", body = CallResult),
        (status = 202, description = "It is accepted and has not ended", body = CallResult),
    ),
)]
async fn make(
    State(gateway): State<Gateway>,
    who: Identified,
    headers: HeaderMap,
    JsonBody { value: new }: JsonBody<NewCall>,
) -> Result<Response, Problem> {
    who.needs(CALL)?;
    let wait = new.wait()?;
    let key = idempotency_key(&headers)?;
    let request = new.request(&gateway, &who)?;
    let Some(key) = key else {
        return if wait.is_zero() {
            accept(&gateway, request).await
        } else {
            run(&gateway, request, wait).await
        };
    };
    let digest = digest(&request);
    let keys = gateway.ledger().request_keys();
    let (tenant, owner) = (who.tenant(), who.credential_id());
    let known = keys
        .remember(tenant, &owner, &key, digest, request.id, SystemClock.now())
        .await?;
    if known.body_digest != digest {
        return Err(Problem::new(
            ProblemKind::OtherBody,
            "this `Idempotency-Key` was used with another body",
        )
        .hint("use a new key for a new request"));
    }
    if known.is_new {
        return resume_accepted(&gateway, request, wait).await;
    }
    replay(&gateway, &who, request, known, wait).await
}

/// Answers a repeated request with what its call has come to.
async fn replay(
    gateway: &Gateway,
    who: &Identified,
    mut request: CallRequest,
    known: RequestKey,
    wait: Duration,
) -> Result<Response, Problem> {
    let call = known.call;
    let stored = gateway.history().call(who.tenant(), call).await?;
    let mut answer = match stored {
        // A process ended between the key and the call: the repeated request makes it.
        None if SystemClock.now().since(known.at) > ACCEPTED_WITHIN => {
            request.id = call;
            resume_accepted(gateway, request, wait).await?
        }
        Some(stored) if stored.terminal.is_some() => {
            let result = result_of(gateway, who, &stored).await?;
            let ended = result.map(|result| CallResult::ended(call, result));
            Json(ended.unwrap_or_else(|| CallResult::open(call))).into_response()
        }
        _ => {
            return Err(Problem::new(
                ProblemKind::InFlight,
                format!("the call `{call}` of this key has not ended"),
            )
            .hint(format!("`GET /v1/calls/{call}/events` waits for its end")));
        }
    };
    let headers = answer.headers_mut();
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(answer)
}

/// Runs a call in one step and waits for it.
async fn run(gateway: &Gateway, request: CallRequest, wait: Duration) -> Result<Response, Problem> {
    let call = request.id;
    let runtime = gateway.runtime().clone();
    // It goes on when nobody waits any more.
    let running = gateway
        .calls()
        .spawn(async move { runtime.call(request).await });
    match tokio::time::timeout(wait, running).await {
        Ok(Ok(outcome)) => Ok(ended(&outcome)),
        Ok(Err(_)) => Err(Problem::new(ProblemKind::Internal, "the call broke down")),
        Err(_) => {
            // Accepted means recorded, whatever happens next.
            gateway.runtime().flush().await?;
            Ok(accepted(call))
        }
    }
}

/// Accepts a call durably; it is run without anybody waiting.
async fn accept(gateway: &Gateway, request: CallRequest) -> Result<Response, Problem> {
    let call = request.id;
    let tenant = request.principal.tenant.clone();
    gateway.runtime().accept(request).await?;
    drop(gateway.resume(tenant, call, Epoch::FIRST));
    Ok(accepted(call))
}

/// Accepts a call durably and waits for it.
async fn resume_accepted(
    gateway: &Gateway,
    request: CallRequest,
    wait: Duration,
) -> Result<Response, Problem> {
    let call = request.id;
    let tenant = request.principal.tenant.clone();
    gateway.runtime().accept(request).await?;
    let running = gateway.resume(tenant, call, Epoch::FIRST);
    match tokio::time::timeout(wait, running).await {
        Ok(Ok(Ok(outcome))) => Ok(ended(&outcome)),
        Ok(Ok(Err(error))) if error.kind() != LedgerErrorKind::LimitExceeded => Err(error.into()),
        Ok(Err(_)) => Err(Problem::new(ProblemKind::Internal, "the call broke down")),
        // It is on record, and runs when there is room.
        Ok(Ok(Err(_))) | Err(_) => Ok(accepted(call)),
    }
}

fn ended(outcome: &Arc<Outcome>) -> Response {
    Json(CallResult::ended(outcome.call, OutcomeView::of(outcome))).into_response()
}

fn accepted(call: CallId) -> Response {
    let location = HeaderValue::from_str(&format!("/v1/calls/{call}"));
    let mut answer = (StatusCode::ACCEPTED, Json(CallResult::open(call))).into_response();
    if let Ok(location) = location {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(key) = sent.next() else {
        return Ok(None);
    };
    let key = key.to_str().unwrap_or_default();
    if sent.next().is_some() || key.is_empty() || key.len() > MAX_IDEMPOTENCY_KEY {
        return Err(Problem::new(
            ProblemKind::BadRequest,
            format!("`Idempotency-Key` is one text of 1 to {MAX_IDEMPOTENCY_KEY} characters"),
        ));
    }
    Ok(Some(key.to_owned()))
}

/// What two requests have in common that are the same: everything but the id that was given to each.
fn digest(request: &CallRequest) -> [u8; 32] {
    let arguments = match &request.arguments {
        Arguments::Text(text) => Value::from(text.clone()),
        Arguments::Value(value) => value.clone(),
    };
    let body = serde_json::json!([
        request.tool,
        arguments,
        request.workspace.as_str(),
        request.principal.session.as_str(),
        request.principal.session_kind.as_str(),
        request
            .timeout
            .map(|timeout| timeout.as_millis().to_string()),
    ]);
    let canonical = serde_json_canonicalizer::to_vec(&body).unwrap_or_default();
    Sha256::digest(canonical).into()
}

impl NewCall {
    /// A call of a tool that nothing else is said about.
    pub(crate) fn of(tool: String, arguments: Value, workspace: Option<String>) -> Self {
        Self {
            tool,
            arguments,
            workspace,
            session: None,
            session_kind: None,
            timeout_ms: None,
            wait_ms: None,
        }
    }

    fn wait(&self) -> Result<Duration, Problem> {
        let wait = self.wait_ms.map_or(CALL_WAIT, Duration::from_millis);
        if wait <= MAX_CALL_WAIT {
            return Ok(wait);
        }
        Err(Problem::new(
            ProblemKind::BadRequest,
            format!("`wait_ms` is at most {}", MAX_CALL_WAIT.as_millis()),
        )
        .hint("`GET /v1/calls/{id}/events` waits as long as the call takes"))
    }

    /// The request that the runtime gets.
    pub(super) fn request(
        self,
        gateway: &Gateway,
        who: &Identified,
    ) -> Result<CallRequest, Problem> {
        let kind = self.session_kind.as_deref().map(session_kind).transpose()?;
        let principal = who.principal(self.session.as_deref(), kind)?;
        let workspace = who.workspace(gateway, self.workspace.as_deref())?;
        let arguments = match self.arguments {
            Value::Null => Arguments::Value(serde_json::json!({})),
            Value::String(text) => Arguments::Text(text),
            value => Arguments::Value(value),
        };
        let mut request = CallRequest::from_arguments(self.tool, arguments, principal)
            .in_workspace(workspace.id.clone());
        if let Some(timeout) = self.timeout_ms {
            request = request.timeout(Duration::from_millis(timeout));
        }
        Ok(request)
    }
}

fn session_kind(word: &str) -> Result<SessionKind, Problem> {
    let mut kinds = SessionKind::ALL.into_iter();
    kinds.find(|kind| kind.as_str() == word).ok_or_else(|| {
        let kinds = SessionKind::ALL.map(SessionKind::as_str).join("`, `");
        Problem::new(
            ProblemKind::BadRequest,
            "`session_kind` is none that there is",
        )
        .hint(format!("it is one of `{kinds}`"))
    })
}

/// Which calls to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CallsQuery {
    /// How many entries at most.
    #[param(minimum = 1, maximum = 200, default = 50)]
    pub(crate) limit: Option<usize>,
    /// `next` of the page before.
    pub(crate) cursor: Option<String>,
    /// Only calls of this conversation.
    pub(crate) session: Option<String>,
    /// Only calls of this agent.
    pub(crate) agent: Option<String>,
    /// Only calls of this tool.
    pub(crate) tool: Option<String>,
    /// Only calls in this workspace, by id or name.
    pub(crate) workspace: Option<String>,
    /// Only calls that are `open` or ended like this.
    pub(crate) outcome: Option<String>,
    /// Only calls whose tool, input, paths, commands or output have these words.
    pub(crate) search: Option<String>,
    /// Only calls made at this moment or later (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    pub(crate) since: Option<String>,
    /// Only calls made before this moment (RFC 3339).
    #[param(value_type = Option<String>, format = DateTime)]
    pub(crate) until: Option<String>,
}

/// List calls, newest first.
///
/// Without the scope `read`, only those of the same person and agent.
#[utoipa::path(
    get,
    path = "/v1/calls",
    tag = "calls",
    params(CallsQuery),
    responses((status = 200, description = "One page", body = Page<CallView>)),
)]
async fn list(
    State(gateway): State<Gateway>,
    who: Identified,
    Query(query): Query<CallsQuery>,
) -> Result<Json<Page<CallView>>, Problem> {
    calls_page(&gateway, &who, query).await.map(Json)
}

/// A page of calls that this caller may see.
pub(crate) async fn calls_page(
    gateway: &Gateway,
    who: &Identified,
    query: CallsQuery,
) -> Result<Page<CallView>, Problem> {
    let page = PageQuery::of(query.limit, query.cursor.clone());
    let query = CallQuery {
        filter: query.filter(gateway, who)?,
        session: query.session.as_deref().map(session).transpose()?,
        outcome: query.outcome.as_deref().map(known_outcome).transpose()?,
        search: query.search.filter(|words| !words.trim().is_empty()),
        before: page.before()?,
        limit: page.limit()?,
        ..CallQuery::default()
    };
    let found = gateway.history().calls(who.tenant(), &query).await?;
    let next = found.last().filter(|_| found.len() == query.limit);
    let next = next.map(|last| last.position.to_string());
    let seen = found.iter().filter(|call| may_see(who, call));
    Ok(Page {
        items: seen.map(CallView::of).collect(),
        next,
    })
}

impl CallsQuery {
    /// Of one conversation.
    pub(super) fn of_session(session: String, page: PageQuery) -> Self {
        let (limit, cursor) = page.parts();
        Self {
            limit,
            cursor,
            session: Some(session),
            ..Self::default()
        }
    }

    fn filter(&self, gateway: &Gateway, who: &Identified) -> Result<CallFilter, Problem> {
        let moment = |name: &str, text: &Option<String>| {
            let parsed = text.as_deref().map(|text| {
                time::parse(text).ok_or_else(|| {
                    Problem::new(ProblemKind::BadRequest, format!("`{name}` is not a moment"))
                        .hint("write it as `2026-01-31T12:00:00Z`")
                })
            });
            parsed.transpose()
        };
        let workspace = self.workspace.as_deref();
        let workspace = workspace.map(|named| who.workspace(gateway, Some(named)));
        let workspace = workspace.transpose()?.map(|found| found.id.clone());
        let agent = if who.has(READ) {
            self.agent.clone()
        } else {
            Some(who.agent().to_string())
        };
        Ok(CallFilter {
            // A credential that is bound to workspaces reads no others.
            workspaces: workspace.map_or_else(|| who.only_workspaces().clone(), |one| vec![one]),
            agent,
            tool: self.tool.clone(),
            since: moment("since", &self.since)?,
            until: moment("until", &self.until)?,
        })
    }
}

fn known_outcome(word: &str) -> Result<haft_contract::host::CallOutcome, Problem> {
    outcome(word).ok_or_else(|| {
        Problem::new(ProblemKind::BadRequest, "`outcome` is none that there is").hint(
            "it is `open`, `succeeded`, `failed`, `denied`, `timed_out`, `cancelled` or `unknown`",
        )
    })
}

fn session(text: &str) -> Result<SessionId, Problem> {
    SessionId::parse(text).map_err(|error| Problem::new(ProblemKind::BadRequest, error.to_string()))
}

/// Whether a caller may see a call of its tenant.
pub(crate) fn may_see(who: &Identified, call: &StoredCall) -> bool {
    let is_theirs = call.user == who.user().as_str() && call.agent == who.agent().as_str();
    who.reaches(&call.workspace) && (who.has(READ) || is_theirs)
}

/// The call with this id, if the caller may see it.
pub(crate) async fn visible(
    gateway: &Gateway,
    who: &Identified,
    id: &str,
) -> Result<StoredCall, Problem> {
    let unknown = || Problem::not_found("call");
    let id = CallId::parse(id).ok_or_else(unknown)?;
    let found = gateway.history().call(who.tenant(), id).await?;
    found.filter(|call| may_see(who, call)).ok_or_else(unknown)
}

/// How a recorded call ended.
pub(crate) async fn result_of(
    gateway: &Gateway,
    who: &Identified,
    call: &StoredCall,
) -> Result<Option<OutcomeView>, Problem> {
    if call.terminal.is_none() {
        return Ok(None);
    }
    let events = gateway.history().events(who.tenant(), call.id).await?;
    let settled = events.iter().rev().find(|event| event.kind == SETTLED);
    Ok(settled.and_then(|event| OutcomeView::from_record(&event.body)))
}

/// Look a call up.
#[utoipa::path(
    get,
    path = "/v1/calls/{id}",
    tag = "calls",
    params(("id" = String, Path, description = "The call's id")),
    responses((status = 200, description = "The call", body = CallDetail)),
)]
async fn look_up(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
) -> Result<Json<CallDetail>, Problem> {
    let call = visible(&gateway, &who, &id).await?;
    let result = result_of(&gateway, &who, &call).await?;
    Ok(Json(CallDetail {
        call: CallView::of(&call),
        result,
    }))
}

/// Tells a call to stop.
pub(crate) async fn stop(
    gateway: &Gateway,
    who: &Identified,
    id: &str,
) -> Result<StoredCall, Problem> {
    who.needs(CALL)?;
    let call = visible(gateway, who, id).await?;
    gateway.runtime().cancel(call.id);
    Ok(call)
}

/// Stop a call.
///
/// Everything it started is gone within two seconds, and what it had put out is kept. A call that has
/// ended stays as it is.
#[utoipa::path(
    post,
    path = "/v1/calls/{id}/cancel",
    tag = "calls",
    params(("id" = String, Path, description = "The call's id")),
    responses((status = 202, description = "It is told to stop, or had ended", body = CallResult)),
)]
async fn cancel(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let call = stop(&gateway, &who, &id).await?;
    let state = call.terminal.map_or(OPEN, haft_contract::Terminal::as_str);
    let told = CallResult {
        call: call.id.to_string(),
        state: state.to_owned(),
        result: None,
    };
    Ok((StatusCode::ACCEPTED, Json(told)).into_response())
}
