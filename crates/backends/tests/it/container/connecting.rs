//! Getting there: how the helper is brought into a container, as whom it serves, and every way in
//! which a connection is refused.

use std::os::unix::fs::MetadataExt as _;

use haft_backends::container::{ContainerBackend, ContainerOptions, ContainerUser};
use haft_contract::{
    access::Command,
    ops::{Operations, Spawn, Tier},
};
use haft_testkit::workspace_directory::finish;

use super::engine::{Container, fixture, options, podman};
use crate::{
    processes::{children, name},
    workspace::at,
};

/// Connecting fails with these words.
async fn refused(options: ContainerOptions, root: &str, message: &str, hint: &str) {
    let error = ContainerBackend::connect(options, root).await.unwrap_err();
    assert!(error.message().contains(message), "{error}");
    assert!(
        error.hint_text().unwrap_or_default().contains(hint),
        "{error}"
    );
}

/// What a command prints.
async fn printed(operations: &Operations, text: &str) -> String {
    let spawn = Spawn::new(Command::Shell(text.to_owned()), at("."), Tier::Host);
    let mut child = operations.processes.spawn(spawn).await.unwrap();
    finish(child.as_mut()).await.0
}

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn the_helper_is_brought_once_by_however_many() {
    let container = Container::start(&[]);
    assert_eq!(container.brought(), [""; 0]);
    let connect = || ContainerBackend::connect(options(&container.name), "/home");
    // Several at once find nothing there, and none disturbs another.
    let (one, two, three) = tokio::join!(connect(), connect(), connect());
    for operations in [&one, &two, &three] {
        let operations = operations.as_ref().unwrap();
        operations.files.stat(&at(".")).await.unwrap();
        assert_eq!(
            operations.backend.as_str(),
            format!("docker:{}", container.name)
        );
    }
    let brought = container.brought();
    assert!(
        matches!(&*brought, [only] if only.starts_with("helper-")),
        "{brought:?}"
    );
    let helper = container.root.join(".haft").join(&brought[0]);
    let inode = helper.metadata().unwrap().ino();
    connect().await.unwrap();
    assert_eq!(container.brought(), brought);
    assert_eq!(helper.metadata().unwrap().ino(), inode);
    assert_eq!(
        helper.metadata().unwrap().mode() & 0o222,
        0,
        "nobody writes"
    );
}

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn commands_run_as_the_user_that_is_configured() {
    let container = Container::start(&[]);
    let own = rustix::process::getuid().as_raw().to_string();
    for (user, expect) in [(None, own.as_str()), (Some("0"), "0"), (Some("1:1"), "1")] {
        let mut options = options(&container.name);
        options.user = user.map(|user| ContainerUser::parse(user).unwrap());
        let operations = ContainerBackend::connect(options, "/home").await.unwrap();
        assert_eq!(printed(&operations, "id -u").await.trim(), expect);
    }
}

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn every_way_to_fail_says_what_to_do() {
    refused(
        options("there-is-none"),
        "/home",
        "there is no container `there-is-none`",
        "ps --all",
    )
    .await;
    let container = Container::start(&[]);
    let here = || options(&container.name);
    refused(here(), "home", "is not an absolute path", "/workspace").await;
    refused(here(), "/nosuch", "nosuch", "").await;
    // The helper is in there, and whoever can write to it controls the next connection.
    refused(here(), "/", "holds Haft's own helper", "").await;
    let mut other = here();
    other.user = Some(ContainerUser::parse("nobody-at-all").unwrap());
    refused(other, "/home", "has no user `nobody-at-all`", "docker.user").await;
    podman(&["stop", "--time", "0", &container.name]);
    let start = format!("podman start {}", container.name);
    refused(here(), "/home", "does not run", &start).await;
}

#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn a_read_only_container_is_told_apart() {
    let container = Container::start(&["--read-only"]);
    refused(
        options(&container.name),
        "/home",
        "is read-only",
        "without `--read-only`",
    )
    .await;
}

/// Neither the root nor a path, a command or its input is on the command line of Podman.
#[tokio::test]
#[ignore = "ci: needs Podman"]
async fn nothing_of_a_call_is_on_a_command_line() {
    const MARK: &str = "canary_5f1d";
    let fixture = fixture().await;
    let text = format!("{MARK}=1; echo ready; sleep 300");
    let spawn = Spawn::new(Command::Shell(text), at("."), Tier::Host);
    let mut child = fixture.operations.processes.spawn(spawn).await.unwrap();
    assert_eq!(child.next_chunk().await.unwrap().bytes, b"ready\n");
    let mut waiting = vec![std::process::id()];
    let mut seen = 0;
    while let Some(parent) = waiting.pop() {
        for pid in children(parent) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let root = fixture.place.0.root.to_str().unwrap();
            assert!(!line.contains(MARK) && !line.contains(root), "{line}");
            seen += usize::from(name(pid) == "podman");
            waiting.push(pid);
        }
    }
    assert!(seen >= 1, "podman");
}
