//! One engine with two tenants of two workspaces each, and one with ten thousand idle ones: real
//! directories, the real back end and the real record.

use std::{
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    contract::{
        BoxFuture, CallId, Label, ProviderId, WorkPath, WorkspaceId,
        erased::{ErasedTool, erase},
        host::{GrantRequest, GrantScope, GrantedWorkspace, Ledger as _},
        identity::TenantId,
        ops::Operations,
        outcome::DeniedBy,
    },
    prelude::*,
};
use haft_backends::{LocalBackend, LocalOptions};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_policy::{CedarPolicy, PolicySource};
use haft_runtime::{
    Limits, Runtime, SystemClock, Workspace, WorkspaceError, Workspaces, registry::Registry,
};
use haft_testkit::{ScriptedApprover, approver::ScriptedAnswer, eventually};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::sync::watch;

/// The most calls one workspace, and one tenant, may have in flight here.
const OF_WORKSPACE: usize = 2;
const OF_TENANT: usize = 4;

/// What an idle workspace may cost.
const IDLE_BYTES: u64 = 64 * 1024;
const IDLE_WORKSPACES: usize = 10_000;

/// The workspaces of a host, by tenant and id.
#[derive(Default)]
pub(crate) struct Listed(pub(crate) HashMap<(TenantId, WorkspaceId), Arc<Workspace>>);

impl Workspaces for Listed {
    fn opened(&self, principal: &Principal, workspace: &WorkspaceId) -> Option<Arc<Workspace>> {
        let key = (principal.tenant.clone(), workspace.clone());
        self.0.get(&key).cloned()
    }

    fn open<'a>(
        &'a self,
        _: &'a Principal,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Arc<Workspace>, WorkspaceError>> {
        Box::pin(async { Err(WorkspaceError::not_found(workspace)) })
    }
}

/// Holds the file `notes.txt` for writing until it may go on.
struct Hold {
    go: watch::Receiver<bool>,
    running: Arc<AtomicUsize>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Debug, Serialize, JsonSchema)]
struct Done {}

impl Tool for Hold {
    type Input = Nothing;
    type Output = Done;
    type Progress = NoProgress;
    const NAME: &'static str = "hold";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Hold", "Holds notes.txt.").effects(Effects::CHANGES)
    }

    fn plan(&self, _: &Nothing, _: &PlanContext) -> Result<Plan, ToolError> {
        let path = WorkPath::relative("notes.txt").map_err(ToolError::from)?;
        Ok(Plan::new(Effects::CHANGES).access(Access::write(path)))
    }

    async fn run(&self, _: Nothing, _: CallContext<NoProgress>) -> Result<Done, ToolError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _ = self.go.clone().wait_for(|go| *go).await;
        Ok(Done {})
    }
}

/// A tool of a mounted server: says which login its connection has.
struct WhoAmI(&'static str);

#[derive(Debug, Serialize, JsonSchema)]
struct Login {
    login: String,
}

impl Tool for WhoAmI {
    type Input = Nothing;
    type Output = Login;
    type Progress = NoProgress;
    const NAME: &'static str = "whoami";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Who am I", "Says the login.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &Nothing, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, _: Nothing, _: CallContext<NoProgress>) -> Result<Login, ToolError> {
        let login = self.0.to_owned();
        Ok(Login { login })
    }
}

/// Says more than a result holds.
struct Flood;

impl Tool for Flood {
    type Input = Nothing;
    type Output = Done;
    type Progress = NoProgress;
    const NAME: &'static str = "flood";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Flood", "Says very much.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &Nothing, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, _: Nothing, cx: CallContext<NoProgress>) -> Result<Done, ToolError> {
        for line in 0..20_000 {
            let text = format!("line {line} of many\n");
            cx.output()
                .push(haft::contract::ops::Stream::Stdout, text.as_bytes())
                .await;
        }
        Ok(Done {})
    }
}

const RULES: &str = "[policy]\npreset = \"careful\"\nallow = [\"hold\", \"whoami\", \"flood\", \"read_output\", \"undo\"]\n";

/// Where a test calls: a tenant's workspace, by the names everybody gives theirs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct At {
    tenant: &'static str,
    workspace: &'static str,
    login: &'static str,
}

const PLACES: [At; 4] = [
    At {
        tenant: "acme",
        workspace: "one",
        login: "acme-1",
    },
    At {
        tenant: "acme",
        workspace: "two",
        login: "acme-2",
    },
    At {
        tenant: "beta",
        workspace: "one",
        login: "beta-1",
    },
    At {
        tenant: "beta",
        workspace: "two",
        login: "beta-2",
    },
];

/// The engine of two tenants, and a person for each of their workspaces.
struct Two {
    runtime: Runtime,
    ledger: StoredLedger,
    people: HashMap<&'static str, ScriptedApprover>,
    roots: HashMap<&'static str, TempDir>,
    go: watch::Sender<bool>,
    running: Arc<AtomicUsize>,
    _data: TempDir,
}

impl Two {
    async fn open() -> Self {
        let (go, may) = watch::channel(false);
        let running = Arc::new(AtomicUsize::new(0));
        let (mut people, mut roots) = (HashMap::new(), HashMap::new());
        let mut listed = Listed::default();
        for at in PLACES {
            let registry = Registry::new();
            let hold = Hold {
                go: may.clone(),
                running: Arc::clone(&running),
            };
            let mut tools = haft_tools::catalog::builtins();
            tools.extend([erase(hold).unwrap(), erase(Flood).unwrap()]);
            tools.extend(haft_tools::catalog::undo_tool());
            registry.register(&ProviderId::builtin(), tools).unwrap();
            let root = tempfile::tempdir().unwrap();
            std::fs::write(root.path().join("notes.txt"), at.login).unwrap();
            let person = ScriptedApprover::always(ScriptedAnswer::Approve);
            let policy = CedarPolicy::load(&[PolicySource::new("haft.toml", RULES)]).unwrap();
            let workspace = Workspace::builder(operations(root.path()), Arc::new(policy))
                .id(id(at.workspace))
                .owner(TenantId::parse(at.tenant).unwrap())
                .registry(Arc::new(registry))
                .approver(person.clone())
                .calls_in_flight(OF_WORKSPACE)
                .build();
            let mount = |server: &str| {
                let provider = ProviderId::mounted(server).unwrap();
                let tools: Vec<Arc<dyn ErasedTool>> = vec![erase(WhoAmI(at.login)).unwrap()];
                workspace.registry().register(&provider, tools).unwrap();
            };
            // The same server in three of them, each with a login of its own, and none in the fourth.
            if at.login != "beta-2" {
                mount("mail");
            }
            let key = (TenantId::parse(at.tenant).unwrap(), id(at.workspace));
            listed.0.insert(key, workspace);
            people.insert(at.login, person);
            roots.insert(at.login, root);
        }
        let data = tempfile::tempdir().unwrap();
        let options = LedgerOptions::new(data.path().join("record"), Arc::new(SystemClock));
        let (ledger, _) = StoredLedger::open(options).await.unwrap();
        let runtime = Runtime::builder()
            .workspaces(Arc::new(listed))
            .ledger(Arc::new(ledger.clone()))
            .limits(Limits {
                calls_in_flight: 100,
                calls_in_flight_per_tenant: OF_TENANT,
                ..Limits::default()
            })
            .build()
            .unwrap();
        Self {
            runtime,
            ledger,
            people,
            roots,
            go,
            running,
            _data: data,
        }
    }

    async fn call(&self, at: At, tool: &str, input: Value) -> Arc<Outcome> {
        self.runtime.call(request(at, tool, input)).await
    }

    async fn succeed(&self, at: At, tool: &str, input: Value) -> Arc<Outcome> {
        let outcome = self.call(at, tool, input).await;
        assert!(
            outcome.succeeded(),
            "{at:?} {tool}: {}",
            outcome.model_text()
        );
        outcome
    }

    fn asked(&self, at: At) -> usize {
        self.people[at.login].asked().len()
    }

    fn text(&self, at: At) -> String {
        std::fs::read_to_string(self.roots[at.login].path().join("notes.txt")).unwrap()
    }

    /// What a session would be judged with.
    async fn labels(&self, at: At, session: &str) -> Vec<String> {
        let mut request = request(at, "read", json!({"path": "notes.txt"}));
        request.principal = who(at, session);
        let dry = self.runtime.plan(request).await.unwrap();
        dry.plan.read_from().iter().map(Label::to_string).collect()
    }
}

fn request(at: At, tool: &str, input: Value) -> CallRequest {
    CallRequest::new(tool, input, who(at, "main")).in_workspace(id(at.workspace))
}

fn operations(root: &Path) -> Operations {
    let backend = LocalBackend::open(root, LocalOptions::default()).unwrap();
    backend.operations()
}

fn id(text: &str) -> WorkspaceId {
    WorkspaceId::parse(text).unwrap()
}

/// The same user, agent and session everywhere: nothing but tenant and workspace tells calls apart.
fn who(at: At, session: &str) -> Arc<Principal> {
    let mut who = Principal::local(
        "ada".parse().unwrap(),
        "coder".parse().unwrap(),
        session.parse().unwrap(),
    );
    who.tenant = TenantId::parse(at.tenant).unwrap();
    Arc::new(who)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_tenants_with_two_workspaces_each_share_nothing() {
    let two = Two::open().await;
    files_and_seen_versions(&two).await;
    locks(&two).await;
    grants(&two).await;
    labels(&two).await;
    mounts_and_logins(&two).await;
    quotas(&two).await;
    artifacts_and_undo(&two).await;
    two.runtime.shut_down().await.unwrap();
    two.ledger.close().await.unwrap();
}

/// The same relative path is another file, and what was seen of it in one place is not known in
/// another: there a write would be a conflict with the version seen elsewhere.
async fn files_and_seen_versions(two: &Two) {
    for at in PLACES {
        let seen = two.succeed(at, "read", json!({"path": "notes.txt"})).await;
        assert!(seen.text().contains(at.login), "{}", seen.text());
        for other in PLACES.into_iter().filter(|other| *other != at) {
            assert!(!seen.text().contains(other.login));
        }
    }
    // Somebody else changes the first one's file. Only who saw it there is told.
    let [first, others @ ..] = PLACES;
    let path = two.roots[first.login].path().join("notes.txt");
    std::fs::write(path, "changed").unwrap();
    let write = json!({"path": "notes.txt", "content": "mine"});
    let refused = two.call(first, "write", write.clone()).await;
    assert_eq!(refused.error.as_ref().unwrap().kind, ErrorKind::Conflict);
    for at in others {
        two.succeed(at, "write", write.clone()).await;
        assert_eq!(two.text(at), "mine");
    }
    assert_eq!(two.text(first), "changed");
    // One more look, in one place: elsewhere nothing becomes out of date by it.
    let once = json!({"path": "once.txt", "content": "1"});
    two.succeed(first, "write", once.clone()).await;
    for at in others {
        two.succeed(at, "write", once.clone()).await;
        two.succeed(at, "write", once.clone()).await;
    }
}

/// Writers of the same relative path wait for each other in one workspace, and in no other.
async fn locks(two: &Two) {
    let hold = |at| {
        let (runtime, request) = (two.runtime.clone(), request(at, "hold", json!({})));
        tokio::spawn(async move { runtime.call(request).await })
    };
    let first: Vec<_> = PLACES.into_iter().map(hold).collect();
    eventually("one runs in each", || {
        two.running.load(Ordering::SeqCst) == 4
    })
    .await;
    let second: Vec<_> = PLACES.into_iter().map(hold).collect();
    eventually("the next are there", || two.runtime.in_flight() == 8).await;
    assert_eq!(two.running.load(Ordering::SeqCst), 4, "and wait");
    two.go.send(true).unwrap();
    for call in first.into_iter().chain(second) {
        assert!(call.await.unwrap().succeeded());
    }
    two.go.send(false).unwrap();
    two.running.store(0, Ordering::SeqCst);
}

/// What was allowed for good in one workspace is asked about in every other, whatever people call it;
/// what was allowed for the agent is asked about in the other tenant.
async fn grants(two: &Two) {
    let [here, _, _, _] = PLACES;
    let write = |name: &str| json!({"path": format!("{name}.txt"), "content": "x"});
    let mut granted = 0;
    for (name, scope, holds_in_tenant) in [
        (
            "project",
            GrantScope::Project(GrantedWorkspace {
                id: id("one"),
                shown: "/w".to_owned(),
            }),
            false,
        ),
        ("agent", GrantScope::Agent("coder".parse().unwrap()), true),
    ] {
        let wish = GrantRequest {
            rules: vec![format!("write({name}.txt)")],
            scope,
            until: None,
            uses: None,
        };
        two.people[here.login].then(ScriptedAnswer::Always(wish));
        let before = two.asked(here);
        two.succeed(here, "write", write(name)).await;
        assert_eq!(two.asked(here), before + 1);
        granted += 1;
        let list = two.ledger.grants();
        let list = list.list(&TenantId::parse("acme").unwrap(), now()).await;
        assert_eq!(list.unwrap().len(), granted, "it was kept");
        for at in PLACES {
            let before = two.asked(at);
            two.succeed(at, "write", write(name)).await;
            let holds = at == here || (holds_in_tenant && at.tenant == here.tenant);
            assert_eq!(two.asked(at) > before, !holds, "{name} in {at:?}");
        }
    }
}

/// What a session has read from counts in its tenant, wherever it goes on; the session of the same
/// name in another tenant, and another session, have read nothing.
async fn labels(two: &Two) {
    let [here, next_door, ..] = PLACES;
    for at in PLACES {
        assert!(two.labels(at, "main").await.is_empty());
    }
    two.succeed(here, "whoami", json!({})).await;
    assert_eq!(two.labels(here, "main").await, ["mcp:mail"]);
    assert_eq!(
        two.labels(next_door, "main").await,
        ["mcp:mail"],
        "one conversation cannot shed what it read by going next door"
    );
    for at in PLACES.into_iter().filter(|at| at.tenant != here.tenant) {
        assert!(two.labels(at, "main").await.is_empty(), "{at:?}");
    }
    assert!(two.labels(next_door, "other").await.is_empty());
}

/// A server that is mounted in one workspace is not there in another, and one that is mounted in both
/// has two logins.
async fn mounts_and_logins(two: &Two) {
    for at in PLACES {
        let outcome = two.call(at, "whoami", json!({})).await;
        if at.login == "beta-2" {
            let kind = outcome.error.as_ref().unwrap().kind;
            assert_eq!(kind, ErrorKind::UnknownTool);
        } else {
            assert_eq!(outcome.structured, Some(json!({"login": at.login})));
        }
    }
}

/// Who has used up what they may have in flight keeps nobody else from theirs.
async fn quotas(two: &Two) {
    let [one, next_door, other_tenant, _] = PLACES;
    let hold = |at| {
        let (runtime, request) = (two.runtime.clone(), request(at, "hold", json!({})));
        tokio::spawn(async move { runtime.call(request).await })
    };
    let mut calls: Vec<_> = (0..OF_WORKSPACE).map(|_| hold(one)).collect();
    eventually("they are there", || two.runtime.in_flight() == 2).await;
    eventually("one runs", || two.running.load(Ordering::SeqCst) == 1).await;
    let full = two.call(one, "read", json!({"path": "notes.txt"})).await;
    assert!(
        full.model_text().contains("this workspace already has"),
        "{}",
        full.model_text()
    );
    two.succeed(next_door, "read", json!({"path": "once.txt"}))
        .await;
    calls.extend((0..OF_WORKSPACE).map(|_| hold(next_door)));
    eventually("they are there", || two.runtime.in_flight() == 4).await;
    let full = two
        .call(next_door, "read", json!({"path": "once.txt"}))
        .await;
    assert!(
        full.model_text().contains("of this tenant"),
        "{}",
        full.model_text()
    );
    two.succeed(other_tenant, "read", json!({"path": "once.txt"}))
        .await;
    two.go.send(true).unwrap();
    for call in calls {
        assert!(call.await.unwrap().succeeded());
    }
}

/// What a call left, its long output and what it changed, is found where it was made and nowhere else.
async fn artifacts_and_undo(two: &Two) {
    let [here, others @ ..] = PLACES;
    let flood = two.succeed(here, "flood", json!({})).await;
    assert!(flood.facts.artifact.is_some());
    let page = json!({"call": flood.call.to_string(), "pattern": "line 9999 "});
    let found = two.succeed(here, "read_output", page.clone()).await;
    assert!(found.text().contains("line 9999 "), "{}", found.text());
    let change = json!({"path": "undone.txt", "content": "new"});
    let changed = two.succeed(here, "write", change).await;
    let undo = json!({"calls": [changed.call.to_string()]});
    for at in others {
        let outcome = two.call(at, "read_output", page.clone()).await;
        let kind = outcome.error.as_ref().unwrap().kind;
        assert_eq!(
            kind,
            ErrorKind::NotFound,
            "{at:?}: {}",
            outcome.model_text()
        );
        let outcome = two.call(at, "undo", undo.clone()).await;
        assert!(!outcome.succeeded(), "{at:?}: {}", outcome.model_text());
    }
    assert!(two.roots[here.login].path().join("undone.txt").exists());
    let unknown = two.call(
        here,
        "read_output",
        json!({"call": CallId::new().to_string()}),
    );
    assert!(!unknown.await.succeeded());
    // And the whole of a workspace that is not theirs.
    let mut astray = request(here, "read", json!({"path": "notes.txt"}));
    astray.principal = who(others[2], "main");
    astray.workspace = id("three");
    let outcome = two.runtime.call(astray).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
}

/// What this process holds in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kilobytes << 10
}

fn now() -> haft::contract::host::Timestamp {
    use haft::contract::host::Clock as _;
    SystemClock.now()
}

/// Ten thousand open workspaces, each over a directory of its own, cost little while nothing happens
/// in them, and each of them answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_workspaces_cost_little() {
    let parent = tempfile::tempdir().unwrap();
    let registry = Registry::new();
    let tools = haft_tools::catalog::builtins();
    registry.register(&ProviderId::builtin(), tools).unwrap();
    let registry = Arc::new(registry);
    let policy = CedarPolicy::load(&[PolicySource::new("haft.toml", RULES)]).unwrap();
    let policy = Arc::new(policy);
    let first = LocalBackend::open(parent.path(), LocalOptions::default()).unwrap();
    let open = |number: usize| {
        let root = parent.path().join(number.to_string());
        std::fs::create_dir(&root).unwrap();
        let operations = first.open_beside(&root).unwrap().operations();
        let workspace = Workspace::builder(operations, Arc::<CedarPolicy>::clone(&policy))
            .id(id(&format!("w{number}")))
            .owner(TenantId::parse("acme").unwrap())
            .registry(Arc::clone(&registry));
        let workspace = workspace.build();
        let tenant = TenantId::parse("acme").unwrap();
        ((tenant, workspace.id().clone()), workspace)
    };
    // What every process needs once is there before anything is measured.
    drop(open(IDLE_WORKSPACES));
    let mut listed = Listed::default();
    listed.0.reserve(IDLE_WORKSPACES);
    let before = resident();
    let began = std::time::Instant::now();
    listed.0.extend((0..IDLE_WORKSPACES).map(open));
    let took: Duration = began.elapsed();
    let each = resident().saturating_sub(before) / IDLE_WORKSPACES as u64;
    println!("{IDLE_WORKSPACES} idle workspaces: {each} bytes each, opened in {took:?}");
    assert!(each <= IDLE_BYTES, "{each} bytes each");
    let data = tempfile::tempdir().unwrap();
    let options = LedgerOptions::new(data.path().join("record"), Arc::new(SystemClock));
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    let runtime = Runtime::builder()
        .workspaces(Arc::new(listed))
        .ledger(Arc::new(ledger.clone()))
        .build()
        .unwrap();
    for number in [0, IDLE_WORKSPACES / 2, IDLE_WORKSPACES - 1] {
        let file = parent.path().join(number.to_string()).join("notes.txt");
        std::fs::write(file, format!("this is {number}")).unwrap();
        let who = who(PLACES[0], "main");
        let request = CallRequest::new("read", json!({"path": "notes.txt"}), who);
        let request = request.in_workspace(id(&format!("w{number}")));
        let outcome = runtime.call(request).await;
        assert!(outcome.text().contains(&format!("this is {number}")));
    }
    runtime.shut_down().await.unwrap();
    ledger.close().await.unwrap();
}
