//! One endpoint, many callers: every request is its caller's own, in its caller's workspace.

use std::{collections::HashMap, sync::Arc};

use haft_contract::{
    BoxFuture, CallContext, Effects, NoProgress, Plan, PlanContext, Principal, ProviderId,
    SessionKind, TenantId, Tool, ToolError, ToolSpec, WorkspaceId,
    erased::{ErasedTool, erase},
    host::{CallQuery, History as _, Verdict},
};
use haft_mcp::{
    client::Clients,
    server::{Caller, Endpoint, Identify, LiveCalls, SessionScope, http::Guard},
};
use haft_runtime::{Runtime, Workspace, WorkspaceError, Workspaces, registry::Registry};
use haft_testkit::{FixedPolicy, MemoryLedger, memory, sample};
use http::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Era, Stage,
    stage::FixedMounts,
    web::{Web, events},
};

const ADA: &str = "ada-of-acme-0123456789abcdef0123";
const BOB: &str = "bob-of-beta-0123456789abcdef0123";
const EVE: &str = "eve-of-acme-0123456789abcdef0123";

/// Says for whom it runs.
struct Whose;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Serialize, JsonSchema)]
struct Who {
    tenant: String,
    user: String,
}

impl Tool for Whose {
    type Input = Nothing;
    type Output = Who;
    type Progress = NoProgress;
    const NAME: &'static str = "whose";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Whose", "Says for whom it runs.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &Nothing, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, _: Nothing, cx: CallContext<NoProgress>) -> Result<Who, ToolError> {
        Ok(Who {
            tenant: cx.principal().tenant.to_string(),
            user: cx.principal().user.to_string(),
        })
    }
}

/// The workspace of each tenant. Only that of `acme` has the sample tools.
struct OfTenants(HashMap<TenantId, Arc<Workspace>>);

impl Workspaces for OfTenants {
    fn open<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Arc<Workspace>, WorkspaceError>> {
        Box::pin(async move {
            let found = self.0.get(&principal.tenant);
            let found = found.filter(|found| found.id() == workspace).cloned();
            found.ok_or_else(|| WorkspaceError::not_found(workspace))
        })
    }
}

/// Knows three people by their tokens. Everybody's workspace is called `main`; `eve` names one that
/// is not there.
struct People;

impl Identify for People {
    fn identify<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Option<Caller>> {
        Box::pin(async {
            let token = headers.get("authorization")?.to_str().ok()?;
            let (user, tenant, workspace) = match token.strip_prefix("Bearer ")? {
                ADA => ("ada", "acme", "main"),
                BOB => ("bob", "beta", "main"),
                EVE => ("eve", "acme", "elsewhere"),
                _ => return None,
            };
            let caller = Caller::new(who(user, tenant));
            Some(caller.in_workspace(WorkspaceId::parse(workspace).unwrap()))
        })
    }
}

fn who(user: &str, tenant: &str) -> Arc<Principal> {
    let mut who = Principal::local(
        user.parse().unwrap(),
        "agent".parse().unwrap(),
        "session".parse().unwrap(),
    );
    who.tenant = TenantId::parse(tenant).unwrap();
    Arc::new(who)
}

fn workspace(tenant: &str, tools: Vec<Arc<dyn ErasedTool>>) -> (TenantId, Arc<Workspace>) {
    let registry = Registry::new();
    registry.register(&ProviderId::builtin(), tools).unwrap();
    let (operations, _) = memory::operations();
    let tenant = TenantId::parse(tenant).unwrap();
    let workspace = Workspace::builder(operations, Arc::new(FixedPolicy::allow_all()))
        .id(WorkspaceId::parse("main").unwrap())
        .owner(tenant.clone())
        .registry(Arc::new(registry));
    (tenant, workspace.build())
}

/// The endpoint of two tenants. Its own caller, whom nobody can be over HTTP, is `ada`.
async fn served() -> (Web, MemoryLedger, CancellationToken) {
    let whose = || erase(Whose).unwrap();
    let mut more = sample::all();
    more.push(whose());
    let tenants = [workspace("acme", more), workspace("beta", vec![whose()])];
    let ledger = MemoryLedger::new();
    let calls = LiveCalls::new(Arc::<Clients>::default());
    let runtime = Runtime::builder()
        .workspaces(Arc::new(OfTenants(tenants.into())))
        .ledger(Arc::new(ledger.clone()))
        .events(Arc::clone(&calls) as _)
        .build()
        .unwrap();
    let endpoint = Endpoint::new(
        runtime,
        who("ada", "acme"),
        calls,
        SessionScope::OfConnection,
    )
    .workspace(WorkspaceId::parse("main").unwrap())
    .mounts(Arc::new(FixedMounts::default()));
    let cancel = CancellationToken::new();
    let guard = Guard::identified(Arc::new(People));
    let web = Web::serve_guarded(Arc::new(endpoint), guard, cancel.clone()).await;
    (web, ledger, cancel)
}

async fn answer(web: &Web, method: &str, parameters: Value) -> Value {
    let answer = web.modern(method, parameters).send().await.unwrap();
    answer.json().await.unwrap()
}

#[tokio::test]
async fn every_request_is_its_callers_own() {
    let (web, ledger, cancel) = served().await;
    let (ada, bob) = (web.holding(ADA), web.holding(BOB));
    for meta in [json!({}), json!({"example.com/trace": "1"})] {
        for (web, user, tenant) in [(&ada, "ada", "acme"), (&bob, "bob", "beta")] {
            let call = json!({"name": "whose", "arguments": {}, "_meta": meta});
            let said = answer(web, "tools/call", call).await;
            let said = &said["result"]["structuredContent"];
            assert_eq!(*said, json!({"tenant": tenant, "user": user}));
        }
    }
    for tenant in ["acme", "beta"] {
        let all = CallQuery {
            limit: 10,
            ..CallQuery::default()
        };
        let tenant = TenantId::parse(tenant).unwrap();
        let recorded = ledger.calls(&tenant, &all).await.unwrap();
        assert_eq!(recorded.len(), 2, "each tenant has its own on record");
        assert!(
            recorded
                .iter()
                .all(|call| call.workspace.as_str() == "main")
        );
    }
    let nobody = web.modern("tools/list", json!({})).send().await.unwrap();
    assert_eq!(nobody.status(), 401);
    assert!(nobody.headers().contains_key("www-authenticate"));
    cancel.cancel();
}

#[tokio::test]
async fn each_caller_is_shown_the_tools_and_mounts_of_its_workspace() {
    let (web, _, cancel) = served().await;
    let names = |listed: &Value| -> Vec<String> {
        let tools = listed["result"]["tools"].as_array().unwrap().iter();
        tools
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let listed = answer(&web.holding(ADA), "tools/list", json!({})).await;
    assert!(names(&listed).contains(&"count".to_owned()));
    let listed = answer(&web.holding(BOB), "tools/list", json!({})).await;
    assert_eq!(names(&listed), ["whose"]);
    let unknown = json!({"name": "count", "arguments": {"to": 1}});
    let refused = answer(&web.holding(BOB), "tools/call", unknown).await;
    assert_ne!(
        refused["result"]["structuredContent"],
        json!({"counted": 1})
    );
    let listed = answer(&web.holding(EVE), "tools/list", json!({})).await;
    assert_eq!(names(&listed), [""; 0], "her workspace is not there");
    let denied = json!({"name": "whose", "arguments": {}});
    let denied = answer(&web.holding(EVE), "tools/call", denied).await;
    assert!(
        denied.to_string().contains("there is no workspace"),
        "{denied}"
    );
    let of = async |token| answer(&web.holding(token), "prompts/list", json!({})).await;
    let shown = of(ADA).await["result"]["prompts"].as_array().map(Vec::len);
    assert!(shown.is_some_and(|shown| shown > 0), "mounted for acme");
    let shown = of(BOB).await["result"]["prompts"].as_array().map(Vec::len);
    assert_eq!(shown.unwrap_or(0), 0, "and for nobody else");
    cancel.cancel();
}

/// A session id that somebody else has seen is worth nothing with another credential.
#[tokio::test]
async fn a_session_belongs_to_who_began_it() {
    let (web, _, cancel) = served().await;
    let (ada, bob) = (web.holding(ADA), web.holding(BOB));
    let session = ada.begin().await;
    let call = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "whose", "arguments": {}},
    });
    let stolen = bob.in_session(&session, &call).send().await.unwrap();
    assert_eq!(stolen.status(), 404);
    let ended = bob.client.delete(bob.url()).bearer_auth(BOB);
    let ended = ended
        .header("mcp-session-id", &session)
        .send()
        .await
        .unwrap();
    assert_eq!(ended.status(), 404, "nor can it be ended");
    let own = ada.in_session(&session, &call).send().await.unwrap();
    assert_eq!(own.status(), 200);
    let own = events(own).await;
    let said = own.iter().find(|it| it["id"] == 7).unwrap();
    assert_eq!(said["result"]["structuredContent"]["user"], "ada");
    cancel.cancel();
}

/// Rules that deny everything to a direct message.
fn denying_direct_messages() -> FixedPolicy {
    FixedPolicy::by(|question| match question.principal.session_kind {
        SessionKind::Dm => Verdict::Deny,
        _ => Verdict::Allow,
    })
}

/// What a client asks for: a call, and what mounted servers have beside their tools.
fn requests() -> [(&'static str, Value, &'static str); 4] {
    let whom = json!({"name": "greet", "arguments": {"whom": "Ada"}});
    let completed = json!({
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "whom", "value": "A"},
    });
    [
        (
            "tools/call",
            json!({"name": "count", "arguments": {"to": 1}}),
            "counted",
        ),
        ("resources/read", json!({"uri": "s+file:///a"}), "text of a"),
        ("prompts/get", whom, "hello"),
        ("completion/complete", completed, "A-completed"),
    ]
}

/// The same request as a direct message, or as something that the connection is not.
fn narrowed_to(kind: &str, mut parameters: Value) -> Value {
    parameters["_meta"]["dev.haft/caller"] = json!({ "sessionKind": kind });
    parameters
}

/// A request as the connection, as a direct message, and as nonsense, wherever it is sent.
async fn check_narrowed(mut ask: impl AsyncFnMut(&str, Value) -> Value) {
    for (method, parameters, shows) in requests() {
        let own = ask(method, parameters.clone()).await;
        assert!(own.to_string().contains(shows), "{method}: {own}");
        let dm = ask(method, narrowed_to("dm", parameters.clone())).await;
        assert!(!dm.to_string().contains(shows), "{method}: {dm}");
        let is_denied = dm["result"]["_meta"]["dev.haft/terminal"] == "denied";
        assert!(is_denied || dm.get("error").is_some(), "{method}: {dm}");
        let wrong = ask(method, narrowed_to("owner", parameters.clone())).await;
        let message = wrong["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("can only narrow"), "{method}: {wrong}");
        let again = ask(method, parameters).await;
        assert!(again.to_string().contains(shows), "{method}: {again}");
    }
}

#[tokio::test]
async fn a_client_narrows_calls_prompts_and_resources_alike_in_both_eras() {
    let stage = Stage::configured(
        |harness, _| harness.policy(denying_direct_messages()),
        |endpoint| endpoint,
        SessionScope::OfEndpoint,
    );
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        check_narrowed(async |method: &str, parameters| wire.ask(method, parameters).await).await;
    }
}

#[tokio::test]
async fn a_client_narrows_itself_over_http_with_and_without_a_session() {
    let stage = Stage::configured(
        |harness, _| harness.policy(denying_direct_messages()),
        |endpoint| endpoint,
        SessionScope::OfConnection,
    );
    let cancel = CancellationToken::new();
    let web = Web::serve(Arc::clone(&stage.endpoint), cancel.clone()).await;
    check_narrowed(async |method: &str, parameters| answer(&web, method, parameters).await).await;
    let session = web.begin().await;
    check_narrowed(async |method: &str, parameters| {
        let body = json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": parameters});
        let told = web.in_session(&session, &body).send().await.unwrap();
        let mut told = events(told).await.into_iter().filter(|it| it["id"] == 5);
        told.next().expect("an answer")
    })
    .await;
    cancel.cancel();
}
