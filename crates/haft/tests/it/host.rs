//! One host, many workspaces: what each costs, and what two tenants share.

use std::{fs, path::Path, sync::Arc};

use haft::{
    HostErrorKind,
    contract::{BoxFuture, TenantId, outcome::DeniedBy},
    prelude::*,
    store::{Connection, NamedStore, OpenError, Scope, Store, StoreError},
};
use haft_backends::LocalOptions;
use tempfile::TempDir;

/// Workspaces of one host.
const WORKSPACES: usize = 1_000;

/// What each may cost in memory.
const MAX_BYTES: u64 = 64 * 1024;

/// What a process has open and running.
#[derive(Debug, Clone, Copy)]
struct Cost {
    resident: u64,
    descriptors: usize,
    threads: usize,
}

impl Cost {
    fn now() -> Self {
        let count = |path| fs::read_dir(path).unwrap().count();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS"));
        let kilobytes: u64 = line
            .unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        Self {
            resident: kilobytes << 10,
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
        }
    }
}

fn workspace(parent: &Path, name: &str) -> std::path::PathBuf {
    let root = parent.join(name);
    fs::create_dir(&root).unwrap();
    fs::write(root.join("notes.txt"), format!("this is {name}")).unwrap();
    root
}

fn notes() -> Value {
    json!({"path": "notes.txt"})
}

/// How many files a data directory has that could be databases.
fn databases(data: &Path) -> usize {
    let files = fs::read_dir(data.join("record")).unwrap().flatten();
    files
        .filter(|file| file.path().extension().is_some_and(|end| end == "db"))
        .count()
}

async fn host(data: &TempDir) -> Host {
    Host::builder().data_dir(data.path()).build().await.unwrap()
}

#[tokio::test]
async fn a_thousand_workspaces_cost_no_thread_descriptor_or_database_each() {
    let (parent, data) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let host = host(&data).await;
    let open = |number: usize| {
        let root = workspace(parent.path(), &number.to_string());
        let handle = host
            .workspace(root)
            .tenant(format!("tenant-{}", number % 10));
        handle
            .agent("writer")
            .session(format!("s{number}"))
            .haft()
            .unwrap()
    };
    // What every process needs once is there before anything is measured.
    let first = open(WORKSPACES);
    assert!(first.call("read", notes()).await.succeeded());
    let before = Cost::now();
    let mut handles = Vec::with_capacity(WORKSPACES);
    handles.extend((0..WORKSPACES).map(open));
    let idle = Cost::now();
    for (number, haft) in handles.iter().enumerate() {
        let outcome = haft.call("read", notes()).await;
        assert!(
            outcome.text().contains(&format!("this is {number}")),
            "{outcome:?}"
        );
    }
    let used = Cost::now();
    let each = |after: Cost| after.resident.saturating_sub(before.resident) / WORKSPACES as u64;
    println!("{WORKSPACES} workspaces, before: {before:?}");
    println!("opened: {} bytes each, {idle:?}", each(idle));
    println!("after a call in each: {} bytes each, {used:?}", each(used));
    assert!(each(idle) <= MAX_BYTES && each(used) <= MAX_BYTES);
    assert_eq!(idle.descriptors, before.descriptors);
    assert!(used.descriptors <= before.descriptors + haft_host::MAX_OPEN_WORKSPACES + 16);
    assert!(used.threads <= before.threads + 16, "{used:?}");
    assert_eq!(databases(data.path()), 1);
    // One that was closed meanwhile opens again.
    assert!(handles[0].call("read", notes()).await.succeeded());
    drop(handles);
    let gone = Cost::now();
    assert!(gone.descriptors <= before.descriptors + 16, "{gone:?}");
    host.close().await.unwrap();
}

#[tokio::test]
async fn a_directory_is_one_tenants_and_nothing_in_it_is_anothers() {
    let (parent, data) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let host = host(&data).await;
    let root = workspace(parent.path(), "acme");
    fs::create_dir(root.join("inner")).unwrap();
    let beside = workspace(parent.path(), "acme-2");
    let acme = host.workspace(&root).tenant("acme").haft().unwrap();
    // Its own handles share it, and it may divide it.
    host.workspace(&root)
        .tenant("acme")
        .agent("other")
        .haft()
        .unwrap();
    host.workspace(root.join("inner"))
        .tenant("acme")
        .haft()
        .unwrap();
    for taken in [root.clone(), root.join("inner"), parent.path().to_owned()] {
        let error = host.workspace(&taken).tenant("beta").haft().unwrap_err();
        assert_eq!(error.kind(), HostErrorKind::Refused, "{taken:?}");
        assert!(!error.to_string().contains("tenant acme"), "{error}");
    }
    let beta = host.workspace(&beside).tenant("beta").haft().unwrap();
    assert!(beta.call("read", notes()).await.succeeded());

    // A request of one tenant that names the other's workspace finds none.
    let mut astray = acme.request("read", notes());
    astray.principal = Arc::clone(beta.principal());
    let outcome = host.runtime().call(astray).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
    // Nor is there one for a request that names none.
    let nowhere = CallRequest::new("read", notes(), Arc::clone(beta.principal()));
    let outcome = host.runtime().call(nowhere).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));

    // Once nobody holds it, it may be another's.
    drop(acme);
    host.workspace(&root).tenant("beta").haft().unwrap();
    host.close().await.unwrap();
}

#[tokio::test]
async fn a_directory_that_was_replaced_is_not_opened() {
    let (parent, data) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let host = host(&data).await;
    let root = workspace(parent.path(), "w");
    let haft = host.workspace(&root).haft().unwrap();
    fs::rename(&root, parent.path().join("elsewhere")).unwrap();
    workspace(parent.path(), "w");
    let outcome = haft.call("read", notes()).await;
    assert!(outcome.model_text().contains("replaced"), "{outcome:?}");
    // Adding it again means the directory that is there now.
    let again = host.workspace(&root).haft().unwrap();
    assert!(again.call("read", notes()).await.succeeded());
    host.close().await.unwrap();
}

#[tokio::test]
async fn the_record_of_a_host_lies_in_no_workspace() {
    let parent = TempDir::new().unwrap();
    let data = TempDir::new_in(parent.path()).unwrap();
    let host = host(&data).await;
    let error = host.workspace(parent.path()).haft().unwrap_err();
    assert!(error.message().contains("inside the workspace"), "{error}");
    let error = host
        .workspace(parent.path())
        .tenant("a b/c")
        .haft()
        .unwrap_err();
    assert_eq!(error.kind(), HostErrorKind::Invalid);
    host.close().await.unwrap();
}

#[tokio::test]
async fn one_workspace_is_a_host_that_takes_others() {
    let (parent, data) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (one, two) = (
        workspace(parent.path(), "one"),
        workspace(parent.path(), "two"),
    );
    let haft = Haft::open(&one)
        .data_dir(data.path())
        .build()
        .await
        .unwrap();
    let other = haft.host().workspace(&two).haft().unwrap();
    assert!(
        haft.call("read", notes())
            .await
            .text()
            .contains("this is one")
    );
    assert!(
        other
            .call("read", notes())
            .await
            .text()
            .contains("this is two")
    );
    assert_eq!(haft.tools().len(), other.tools().len());
    assert!(!other.tools().is_empty());
    haft.close().await.unwrap();
    let refused = other.call("read", notes()).await;
    assert!(
        refused.model_text().contains("shutting down"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn the_workspace_a_host_was_opened_with_is_the_machines_own() {
    let (parent, data) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (one, two) = (
        workspace(parent.path(), "one"),
        workspace(parent.path(), "two"),
    );
    fs::create_dir(one.join("inner")).unwrap();
    let haft = Haft::open(&one).data_dir(data.path()).build().await;
    let haft = haft.unwrap();
    for taken in [one.clone(), one.join("inner"), parent.path().to_owned()] {
        let error = haft.host().workspace(&taken).tenant("beta").haft();
        assert_eq!(
            error.unwrap_err().kind(),
            HostErrorKind::Refused,
            "{taken:?}"
        );
    }
    // It may be divided, and found again, by whom it belongs to.
    let again = haft.host().workspace(&one).haft().unwrap();
    let inner = haft.host().workspace(one.join("inner")).haft().unwrap();
    drop((again, inner));
    assert!(haft.call("read", notes()).await.succeeded());
    // Neither by name nor without one does another tenant get into it.
    let beta = haft.host().workspace(&two).tenant("beta").haft().unwrap();
    assert!(beta.call("read", notes()).await.succeeded());
    let named = haft.request("read", notes());
    let unnamed = CallRequest::new("read", notes(), Arc::clone(beta.principal()));
    for mut request in [named, unnamed] {
        request.principal = Arc::clone(beta.principal());
        let outcome = haft.host().runtime().call(request).await;
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
    }
    haft.close().await.unwrap();
}

/// What is shown read-only to commands is shown to all of them.
#[tokio::test]
async fn no_workspace_is_shown_to_the_commands_of_another_tenant() {
    let (shown, apart) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let data = TempDir::new().unwrap();
    let (one, two) = (
        workspace(shown.path(), "one"),
        workspace(shown.path(), "two"),
    );
    let other = workspace(apart.path(), "other");
    let mut options = LocalOptions::default();
    options
        .sandbox
        .profile
        .read_only
        .push(shown.path().canonicalize().unwrap());
    let host = Host::builder().data_dir(data.path()).local(options);
    let host = host.build().await.unwrap();
    // One tenant may have all of them.
    let acme = host.workspace(&one).tenant("acme").haft().unwrap();
    assert!(acme.call("read", notes()).await.succeeded());
    let same = host.workspace(&two).tenant("acme").haft().unwrap();
    for refused in [&two, &other] {
        let error = host.workspace(refused).tenant("beta").haft().unwrap_err();
        assert_eq!(error.kind(), HostErrorKind::Refused, "{refused:?}");
    }
    drop((acme, same));
    let beta = host.workspace(&other).tenant("beta").haft().unwrap();
    assert!(beta.call("read", notes()).await.succeeded());
    let error = host.workspace(&one).tenant("acme").haft().unwrap_err();
    assert!(error.message().contains("every tenant see"), "{error}");
    host.close().await.unwrap();
}

/// A process outlives the handle that started it, and so does what is whose.
#[tokio::test]
async fn a_directory_is_passed_on_once_nothing_of_its_tenant_runs_there() {
    let (parent, data) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let root = workspace(parent.path(), "passed-on");
    let host = Host::builder()
        .data_dir(data.path())
        .allow("bash")
        .sandbox("bash", SandboxMode::Off)
        .build()
        .await
        .unwrap();
    let acme = host.workspace(&root).tenant("acme").haft().unwrap();
    let principal = Arc::clone(acme.principal());
    let command = json!({"command": "while sleep 0.1; do echo x > left; done", "background": true});
    let started = acme.call("bash", command).await;
    assert!(started.succeeded(), "{started:?}");
    assert_eq!(host.runtime().processes(), 1);
    drop(acme);
    let take = || host.workspace(&root).tenant("beta").haft();
    assert_eq!(take().unwrap_err().kind(), HostErrorKind::Refused);
    // Its own tenant finds it again.
    drop(host.workspace(&root).tenant("acme").haft().unwrap());
    assert_eq!(take().unwrap_err().kind(), HostErrorKind::Refused);
    host.runtime().end_session(&principal).await;
    haft_testkit::eventually("the process has ended", || host.runtime().processes() == 0).await;
    let beta = take().unwrap();
    assert!(beta.call("read", notes()).await.succeeded());
    let error = host.workspace(&root).tenant("acme").haft().unwrap_err();
    assert_eq!(error.kind(), HostErrorKind::Refused);
    host.close().await.unwrap();
}

#[tokio::test]
async fn a_record_in_memory_is_whole_and_leaves_no_file() {
    let parent = TempDir::new().unwrap();
    let root = workspace(parent.path(), "w");
    let haft = Haft::open(&root)
        .in_memory()
        .allow("write")
        .build()
        .await
        .unwrap();
    let note = json!({"path": "a.txt", "content": "a"});
    let written = haft.call("write", note).await;
    assert!(written.succeeded(), "{written:?}");
    let local = TenantId::local();
    let stored = haft.ledger().call(&local, written.call).await.unwrap();
    assert_eq!(stored.unwrap().terminal, Some(Terminal::Succeeded));
    let verified = haft.ledger().verify(&local).await.unwrap();
    assert!(
        matches!(verified, haft::contract::host::Verification::Intact { records } if records > 0),
        "{verified:?}"
    );
    haft.close().await.unwrap();
    let mut left: Vec<_> = fs::read_dir(&root)
        .unwrap()
        .flatten()
        .map(|f| f.file_name())
        .collect();
    left.sort();
    assert_eq!(left, ["a.txt", "notes.txt"]);
    let both = Haft::open(&root)
        .in_memory()
        .database("postgres://x@y/z")
        .build();
    assert!(both.await.unwrap_err().message().contains("one place"));
}

/// A database that is not there.
struct Unreachable;

impl Store for Unreachable {
    fn open(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, OpenError>> {
        Box::pin(async { Err(OpenError::Database(gone())) })
    }

    fn writer(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async { Err(gone()) })
    }

    fn reader<'a>(
        &'a self,
        _: Scope<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>> {
        Box::pin(async { Err(gone()) })
    }

    fn close(&self) {}
}

fn gone() -> StoreError {
    StoreError::Unreachable("nobody listens at port 9".to_owned())
}

/// What such a database can do once it is there is shown by the suite of records, in `haft-ledger`.
#[tokio::test]
async fn a_record_in_a_programs_own_database_names_it_when_it_cannot_be_opened() {
    let data_dir = tempfile::tempdir().unwrap();
    let ours = || NamedStore::new("ours", Arc::new(Unreachable));
    let builder = || Host::builder().data_dir(data_dir.path()).store(ours());
    let error = builder().build().await.unwrap_err();
    assert_eq!(error.kind(), HostErrorKind::Record);
    for part in ["in the store `ours`", "nobody listens at port 9"] {
        assert!(error.message().contains(part), "{error}");
    }
    let error = builder().in_memory().build().await.unwrap_err();
    assert_eq!(error.kind(), HostErrorKind::Config);
    assert!(error.to_string().contains("one place"), "{error}");
}
