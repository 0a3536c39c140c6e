//! Workspaces that are not on this machine, opened from code: over a real OpenSSH server, and in a
//! container of a real Podman.

use std::{fs, path::PathBuf};

use haft::{Container, HostErrorKind, Ssh, contract::outcome::DeniedBy, prelude::*};
use haft_testkit::{container_engine, openssh_server::OpenSshServer};
use tempfile::TempDir;

use crate::attacks::helper;

/// A directory of the server's account that has one file.
fn directory(server: &OpenSshServer, name: &str) -> PathBuf {
    let root = server.file("home").join(name);
    fs::create_dir(&root).unwrap();
    fs::write(root.join("notes.txt"), format!("this is {name}")).unwrap();
    root.canonicalize().unwrap()
}

/// What connects to the server.
pub(crate) fn machine(server: &OpenSshServer, root: &str) -> Ssh {
    Ssh::new("tester@127.0.0.1", root)
        .port(server.port())
        .identity_file(server.file("user_key"))
        .known_hosts_file(server.file("known_hosts"))
        .config_file(server.file("config"))
        .helper(helper())
}

fn notes() -> Value {
    json!({"path": "notes.txt"})
}

async fn host() -> Host {
    let builder = Host::builder().in_memory().allow("write");
    builder.build().await.unwrap()
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn one_workspace_over_ssh_is_a_host_that_takes_others() {
    let server = OpenSshServer::start();
    directory(&server, "app");
    let here = TempDir::new().unwrap();
    fs::write(here.path().join("notes.txt"), "this is here").unwrap();
    // Below the directory that a login starts in.
    let haft = Haft::open(machine(&server, "~/app"))
        .in_memory()
        .allow("write");
    let haft = haft.build().await.unwrap();
    let read = haft.call("read", notes()).await;
    assert!(read.text().contains("this is app"), "{read:?}");
    let backend = read.facts.backend.as_ref().unwrap();
    assert_eq!(backend.as_str(), "ssh:127.0.0.1");
    let written = json!({"path": "new.txt", "content": "from here"});
    assert!(haft.call("write", written).await.succeeded());
    let new = fs::read_to_string(server.file("home/app/new.txt"));
    assert_eq!(new.unwrap(), "from here");

    let local = haft.host().workspace(here.path()).haft().unwrap();
    let read = local.call("read", notes()).await;
    assert!(read.text().contains("this is here"), "{read:?}");
    haft.close().await.unwrap();
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_host_has_workspaces_here_and_on_machines_and_connects_at_the_first_call() {
    let server = OpenSshServer::start();
    let (app, site) = (directory(&server, "app"), directory(&server, "site"));
    let host = host().await;
    let open = |root: &PathBuf, tenant: &str| {
        let machine = machine(&server, root.to_str().unwrap()).name("build");
        host.workspace(machine).tenant(tenant).haft()
    };
    let (acme, beta) = (open(&app, "acme").unwrap(), open(&site, "beta").unwrap());
    // At once, to show that they share a connection.
    let reads = (0..4).map(|_| acme.request("read", notes())).collect();
    for read in host.runtime().batch(reads).await {
        assert!(read.text().contains("this is app"), "{read:?}");
        let backend = read.facts.backend.as_ref().unwrap();
        assert_eq!(backend.as_str(), "ssh:127.0.0.1#build");
    }
    let read = beta.call("read", notes()).await;
    assert!(read.text().contains("this is site"), "{read:?}");
    // What one tenant has is not there for another.
    let mut astray = acme.request("read", notes());
    astray.principal = std::sync::Arc::clone(beta.principal());
    let outcome = host.runtime().call(astray).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
    for taken in [app.clone(), app.join("inner"), app.parent().unwrap().into()] {
        let error = open(&taken, "beta").unwrap_err();
        assert_eq!(error.kind(), HostErrorKind::Refused, "{taken:?}");
    }
    // It is undone over there.
    let note = json!({"path": "notes.txt", "content": "changed"});
    let written = acme.call("write", note).await;
    assert!(written.succeeded(), "{written:?}");
    let undo = open(&app, "acme").unwrap().undo(written.call).await;
    // Nobody is there to be asked.
    assert!(!undo.unwrap().is_complete());
    host.close().await.unwrap();
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_directory_there_is_named_as_it_is_there() {
    let server = OpenSshServer::start();
    let app = directory(&server, "app");
    std::os::unix::fs::symlink(&app, server.file("home/link")).unwrap();
    let host = host().await;
    let link = server.file("home").canonicalize().unwrap().join("link");
    let linked = machine(&server, link.to_str().unwrap());
    let linked = host.workspace(linked).tenant("beta").haft().unwrap();
    let outcome = linked.call("read", notes()).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
    assert!(
        outcome.model_text().contains("has to be named so"),
        "{outcome:?}"
    );
    let relative = host.workspace(machine(&server, "~/app")).haft();
    let error = relative.unwrap_err();
    assert!(error.message().contains("not an absolute path"), "{error}");
    // The same address with other options may be another machine.
    let root = app.to_str().unwrap();
    let _one = host.workspace(machine(&server, root)).haft().unwrap();
    let other = machine(&server, root).port(1);
    let error = host.workspace(other.clone()).haft().unwrap_err();
    assert!(
        error.message().contains("reached in another way"),
        "{error}"
    );
    let other = host.workspace(other.name("other")).haft().unwrap();
    // Nothing listens there, and every call that waits is told.
    let gone = (0..3).map(|_| other.request("read", notes())).collect();
    for outcome in host.runtime().batch(gone).await {
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
    }
    host.close().await.unwrap();
}

#[tokio::test]
async fn what_is_no_machine_or_container_is_an_error_of_the_builder() {
    let check = async |haft: haft::HaftBuilder, expect: &str| {
        let error = haft.in_memory().build().await.unwrap_err();
        assert_eq!(error.kind(), HostErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(expect), "{error}");
        assert!(!error.to_string().contains("haft.toml"), "{error}");
    };
    check(
        Haft::open(Ssh::new("-oProxyCommand=x", "/srv")),
        "is not an SSH destination",
    )
    .await;
    check(
        Haft::open(Ssh::new("build", "/srv").name("a b")),
        "is not a name of a back end",
    )
    .await;
    check(
        Haft::open(Container::docker("--privileged", "/app")),
        "is not a container",
    )
    .await;
    check(
        Haft::open(Container::docker("web", "/app").user("-x")),
        "is not a user",
    )
    .await;
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_machine_that_does_not_answer_is_never_replaced_by_this_one() {
    let server = OpenSshServer::start();
    let root = directory(&server, "app");
    let machine = machine(&server, root.to_str().unwrap());
    let host = host().await;
    let haft = host.workspace(machine.clone()).haft().unwrap();
    drop(server);
    let error = Haft::open(machine).in_memory().build().await.unwrap_err();
    assert_eq!(error.kind(), HostErrorKind::Unavailable, "{error}");
    assert!(!error.to_string().contains("haft.toml"), "{error}");
    let note = json!({"path": "new.txt", "content": "x"});
    let outcome = haft.call("write", note).await;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Workspace));
    assert!(!root.join("new.txt").exists());
    host.close().await.unwrap();
}

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn a_workspace_in_a_container() {
    let shared = TempDir::new().unwrap();
    fs::write(shared.path().join("notes.txt"), "this is shared").unwrap();
    let root = shared.path().canonicalize().unwrap();
    let container = Container::podman(container_engine::SHARED, root.to_str().unwrap())
        .program(container_engine::program())
        .helper(helper());
    let host = host().await;
    let haft = host.workspace(container).tenant("acme").haft().unwrap();
    let read = haft.call("read", notes()).await;
    assert!(read.text().contains("this is shared"), "{read:?}");
    let backend = read.facts.backend.as_ref().unwrap();
    assert_eq!(
        backend.as_str(),
        format!("docker:{}", container_engine::SHARED)
    );
    host.close().await.unwrap();
}
