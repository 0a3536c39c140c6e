//! One host, many workspaces: what each costs, and what two tenants share.

use std::{fs, path::Path};

use haft::{
    HostErrorKind,
    contract::{TenantId, outcome::DeniedBy},
    prelude::*,
};
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
    astray.principal = std::sync::Arc::clone(beta.principal());
    let outcome = host.runtime().call(astray).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
    // Nor is there one for a request that names none.
    let nowhere = CallRequest::new("read", notes(), std::sync::Arc::clone(beta.principal()));
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
    assert!(both.await.unwrap_err().message().contains("both"));
}
