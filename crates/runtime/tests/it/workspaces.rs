//! One engine, many workspaces: who may use which, and what one has to do with another.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_contract::{
    Access, BoxFuture, CallRequest, Effects, ErrorKind, Outcome, Principal, TenantId, Terminal,
    ToolError, WorkPath, WorkspaceId,
    host::{History as _, Verdict},
    outcome::DeniedBy,
};
use haft_runtime::{
    Limits, OneWorkspace, Runtime, Workspace, WorkspaceBuilder, WorkspaceError, Workspaces,
    registry::Registry,
};
use haft_testkit::{
    EventLog, FixedPolicy, Harness, MemoryLedger, eventually,
    memory::{self, MemoryTree},
    principal,
    principal::in_tenant,
};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::scripted::Scripted;

/// A host's list of workspaces, by tenant and id. Opens each when it is first asked for.
#[derive(Default)]
struct Listed {
    workspaces: Mutex<HashMap<(TenantId, WorkspaceId), Arc<Workspace>>>,
    opened: AtomicUsize,
}

impl Listed {
    fn add(&self, tenant: &TenantId, workspace: Arc<Workspace>) {
        let key = (tenant.clone(), workspace.id().clone());
        self.workspaces.lock().unwrap().insert(key, workspace);
    }
}

impl Workspaces for Listed {
    fn open<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Arc<Workspace>, WorkspaceError>> {
        Box::pin(async move {
            self.opened.fetch_add(1, Ordering::SeqCst);
            let key = (principal.tenant.clone(), workspace.clone());
            let found = self.workspaces.lock().unwrap().get(&key).cloned();
            found.ok_or_else(|| WorkspaceError::not_found(workspace))
        })
    }
}

fn id(text: &str) -> WorkspaceId {
    WorkspaceId::parse(text).unwrap()
}

fn tools(tools: Vec<Arc<dyn haft_contract::erased::ErasedTool>>) -> Arc<Registry> {
    let registry = Registry::new();
    registry
        .register(&haft_contract::ProviderId::builtin(), tools)
        .unwrap();
    Arc::new(registry)
}

/// A workspace in memory, where everything is allowed.
fn in_memory(name: &str, registry: &Arc<Registry>) -> (WorkspaceBuilder, MemoryTree) {
    let (operations, tree) = memory::operations();
    let policy = Arc::new(FixedPolicy::allow_all());
    let builder = Workspace::builder(operations, policy)
        .id(id(name))
        .registry(Arc::clone(registry));
    (builder, tree)
}

/// Reads the file `a`.
fn reader() -> Scripted {
    let path = || WorkPath::relative("a").unwrap();
    Scripted::new("look", move |_, cx| async move {
        let file = cx.files().open(&WorkPath::relative("a").unwrap()).await?;
        let bytes = file.read_at(0, 100, Vec::new()).await?;
        Ok(json!(String::from_utf8_lossy(&bytes)))
    })
    .accesses(move |_| vec![Access::read(path())])
}

/// Writes the file `a`, once it may.
fn slow_writer(go: watch::Receiver<bool>, running: &Arc<AtomicUsize>) -> Scripted {
    let running = Arc::clone(running);
    Scripted::new("change", move |_, _| {
        let (mut go, running) = (go.clone(), Arc::clone(&running));
        async move {
            running.fetch_add(1, Ordering::SeqCst);
            go.wait_for(|go| *go).await.unwrap();
            Ok(Value::Null)
        }
    })
    .effects(Effects::CHANGES)
    .accesses(|_| vec![Access::write(WorkPath::relative("a").unwrap())])
}

fn engine(workspaces: Arc<dyn Workspaces>, ledger: &MemoryLedger, limits: &Limits) -> Runtime {
    let builder = Runtime::builder()
        .workspaces(workspaces)
        .ledger(Arc::new(ledger.clone()))
        .limits(*limits);
    builder.build().unwrap()
}

fn request(who: &Arc<Principal>, workspace: &str, tool: &str) -> CallRequest {
    CallRequest::new(tool, json!({}), Arc::clone(who)).in_workspace(id(workspace))
}

fn is_refused(outcome: &Outcome) {
    assert_eq!(
        outcome.terminal,
        Terminal::Denied,
        "{}",
        outcome.model_text()
    );
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
}

#[tokio::test]
async fn a_call_runs_in_the_workspace_it_names() {
    let registry = tools(vec![reader().tool()]);
    let (listed, ledger) = (Arc::new(Listed::default()), MemoryLedger::new());
    let (acme, beta) = (in_tenant("acme"), in_tenant("beta"));
    // Two tenants may give theirs the same id.
    for (who, name, text) in [
        (&acme, "one", "acme one"),
        (&acme, "two", "acme two"),
        (&beta, "one", "beta one"),
    ] {
        let (builder, tree) = in_memory(name, &registry);
        tree.put("a", text);
        listed.add(&who.tenant, builder.owner(who.tenant.clone()).build());
    }
    let runtime = engine(Arc::<Listed>::clone(&listed), &ledger, &Limits::default());
    for (who, name, text) in [
        (&acme, "one", "acme one"),
        (&acme, "two", "acme two"),
        (&beta, "one", "beta one"),
    ] {
        let outcome = runtime.call(request(who, name, "look")).await;
        assert_eq!(outcome.structured, Some(json!(text)));
        let stored = ledger.call(&who.tenant, outcome.call).await.unwrap();
        assert_eq!(stored.unwrap().workspace, id(name));
    }
    // What is not there and what is somebody else's are refused alike, and are on record.
    for name in ["two", "three", "local"] {
        let outcome = runtime.call(request(&beta, name, "look")).await;
        is_refused(&outcome);
        assert_eq!(outcome.error.as_ref().unwrap().kind, ErrorKind::Denied);
        let stored = ledger.call(&beta.tenant, outcome.call).await.unwrap();
        let stored = stored.unwrap();
        assert_eq!(stored.terminal, Some(Terminal::Denied));
        assert_eq!(stored.workspace, id(name), "as it was asked for");
        let planned = runtime.plan(request(&beta, name, "look")).await;
        let refused = planned.unwrap_err();
        is_refused(&refused);
    }
    assert!(ledger.open_calls().is_empty());
}

/// A supplier that hands out a workspace of another tenant, and one that never answers.
#[tokio::test(start_paused = true)]
async fn a_supplier_that_is_mistaken_or_hangs_opens_nothing() {
    struct Hangs;
    impl Workspaces for Hangs {
        fn open<'a>(
            &'a self,
            _: &'a Principal,
            _: &'a WorkspaceId,
        ) -> BoxFuture<'a, Result<Arc<Workspace>, WorkspaceError>> {
            Box::pin(std::future::pending())
        }
    }
    let registry = tools(vec![reader().tool()]);
    let (builder, tree) = in_memory("one", &registry);
    tree.put("a", "secret");
    let theirs = builder.owner(in_tenant("acme").tenant.clone()).build();
    let ledger = MemoryLedger::new();
    for workspaces in [
        Arc::new(OneWorkspace::new(theirs)) as Arc<dyn Workspaces>,
        Arc::new(Hangs),
    ] {
        let runtime = engine(workspaces, &ledger, &Limits::default());
        let beta = in_tenant("beta");
        let outcome = runtime.call(request(&beta, "one", "look")).await;
        is_refused(&outcome);
        assert!(!outcome.model_text().contains("secret"));
        let shown = runtime.workspace(&beta, &id("one")).await;
        assert!(shown.is_err(), "nor are its tools listed");
        assert_eq!(runtime.in_flight(), 0);
    }
}

#[tokio::test]
async fn a_host_with_one_workspace_records_its_id() {
    let harness = Harness::memory().tools(vec![reader().tool()]).build();
    harness.tree.put("a", "here");
    let outcome = harness.succeed("look", json!({})).await;
    let tenant = &harness.principal.tenant;
    let stored = harness.ledger.call(tenant, outcome.call).await.unwrap();
    let of_root = stored.unwrap().workspace;
    assert_ne!(of_root, WorkspaceId::local());
    let by_id = harness.request("look", json!({})).in_workspace(of_root);
    assert!(harness.runtime.call(by_id).await.succeeded());
    let other = harness.request("look", json!({})).in_workspace(id("two"));
    let refused = harness.runtime.call(other).await;
    is_refused(&refused);
}

/// The same relative path in two workspaces is two files: a writer of one does not wait for a writer
/// of the other, also where two tenants gave theirs the same id. In one workspace it does.
#[tokio::test]
async fn workspaces_share_no_lock() {
    let (go, may) = watch::channel(false);
    let running = Arc::new(AtomicUsize::new(0));
    let registry = tools(vec![slow_writer(may, &running).tool()]);
    let listed = Arc::new(Listed::default());
    let (acme, beta) = (in_tenant("acme"), in_tenant("beta"));
    let places = [
        (&acme, "one"),
        (&acme, "two"),
        (&beta, "one"),
        (&beta, "two"),
    ];
    for (who, name) in places {
        let (builder, _) = in_memory(name, &registry);
        listed.add(&who.tenant, builder.owner(who.tenant.clone()).build());
    }
    let runtime = engine(listed, &MemoryLedger::new(), &Limits::default());
    let calls = |times: usize| -> Vec<_> {
        let places = places.iter().cycle().take(times * places.len());
        let calls = places.map(|(who, name)| {
            let (runtime, request) = (runtime.clone(), request(who, name, "change"));
            tokio::spawn(async move { runtime.call(request).await })
        });
        calls.collect()
    };
    let first = calls(1);
    eventually("all four run", || running.load(Ordering::SeqCst) == 4).await;
    let second = calls(1);
    eventually("the next four are there", || runtime.in_flight() == 8).await;
    assert_eq!(running.load(Ordering::SeqCst), 4, "and wait for their turn");
    go.send(true).unwrap();
    for call in first.into_iter().chain(second) {
        assert!(call.await.unwrap().succeeded());
    }
}

/// One tenant, or one workspace, that has as many calls in flight as it may have keeps nobody else
/// from theirs.
#[tokio::test]
async fn caps_are_of_a_tenant_and_of_a_workspace() {
    let (go, may) = watch::channel(false);
    let running = Arc::new(AtomicUsize::new(0));
    let wait = {
        let running = Arc::clone(&running);
        Scripted::new("wait", move |_, _| {
            let (mut may, running) = (may.clone(), Arc::clone(&running));
            async move {
                running.fetch_add(1, Ordering::SeqCst);
                let waited = may.wait_for(|go| *go).await;
                waited.map_err(|_| ToolError::new(ErrorKind::Internal, "gone"))?;
                Ok(Value::Null)
            }
        })
    };
    let registry = tools(vec![wait.tool()]);
    let listed = Arc::new(Listed::default());
    let (acme, beta) = (in_tenant("acme"), in_tenant("beta"));
    for (who, name) in [(&acme, "one"), (&acme, "two"), (&beta, "one")] {
        let (builder, _) = in_memory(name, &registry);
        let builder = builder.owner(who.tenant.clone()).calls_in_flight(2);
        listed.add(&who.tenant, builder.build());
    }
    let limits = Limits {
        calls_in_flight: 100,
        calls_in_flight_per_tenant: 3,
        ..Limits::default()
    };
    let runtime = engine(listed, &MemoryLedger::new(), &limits);
    let start = |who: &Arc<Principal>, name: &str| {
        let (runtime, request) = (runtime.clone(), request(who, name, "wait"));
        tokio::spawn(async move { runtime.call(request).await })
    };
    let mut held = vec![start(&acme, "one"), start(&acme, "one")];
    eventually("two run", || running.load(Ordering::SeqCst) == 2).await;
    let full = runtime.call(request(&acme, "one", "wait")).await;
    assert_eq!(full.terminal, Terminal::Failed);
    assert!(full.model_text().contains("this workspace already has"));
    held.push(start(&acme, "two"));
    eventually("three run", || running.load(Ordering::SeqCst) == 3).await;
    let full = runtime.call(request(&acme, "two", "wait")).await;
    assert!(full.model_text().contains("of this tenant"));
    held.push(start(&beta, "one"));
    eventually("the other tenant's runs", || {
        running.load(Ordering::SeqCst) == 4
    })
    .await;
    go.send(true).unwrap();
    for call in held {
        assert!(call.await.unwrap().succeeded());
    }
    // What has ended no longer counts.
    let again = runtime.call(request(&acme, "one", "wait")).await;
    assert!(again.succeeded(), "{}", again.model_text());
}

/// Each workspace has its own tools and rules: the same name is another tool, or none.
#[tokio::test]
async fn each_workspace_has_its_own_tools_and_rules() {
    let one = tools(vec![
        Scripted::new("say", |_, _| async { Ok(json!("one")) }).tool(),
    ]);
    let two = tools(vec![
        Scripted::new("say", |_, _| async { Ok(json!("two")) }).tool(),
        Scripted::echo("more").tool(),
    ]);
    let listed = Arc::new(Listed::default());
    let who = principal();
    listed.add(&who.tenant, in_memory("one", &one).0.build());
    let (operations, _) = memory::operations();
    let rules = FixedPolicy::per_tool([("say", Verdict::Allow), ("more", Verdict::Deny)]);
    let strict = Workspace::builder(operations, Arc::new(rules)).id(id("two"));
    listed.add(&who.tenant, strict.registry(two).build());
    let runtime = engine(listed, &MemoryLedger::new(), &Limits::default());
    for name in ["one", "two"] {
        let said = runtime.call(request(&who, name, "say")).await;
        assert_eq!(said.structured, Some(json!(name)));
    }
    let unknown = runtime.call(request(&who, "one", "more")).await;
    assert_eq!(unknown.error.as_ref().unwrap().kind, ErrorKind::UnknownTool);
    let denied = runtime.call(request(&who, "two", "more")).await;
    assert_eq!(denied.facts.denied_by, Some(DeniedBy::Policy));
    let two = runtime.workspace(&who, &id("two")).await.unwrap();
    assert_eq!(two.registry().snapshot().len(), 2);
    assert!(runtime.tools_for(&who).is_empty(), "there is no only one");
}

#[test]
fn a_runtime_is_given_one_workspace_or_many() {
    let (operations, _) = memory::operations();
    let builder = Runtime::builder()
        .workspaces(Arc::new(Listed::default()))
        .operations(operations)
        .ledger(Arc::new(MemoryLedger::new()))
        .events(Arc::new(EventLog::new()));
    let error = builder.build().unwrap_err();
    assert_eq!(error, haft_runtime::BuildError::OneAndMany);
}
