//! A workspace in a container, from `haft.toml` to the record; and the dev container of a project,
//! which `haft init` finds and never switches to. Against a real, rootless Podman that
//! `.ci/container` prepared.

use std::process::Command;

use haft_testkit::container_engine::directory;

use crate::support::{Ran, Stage};

/// Runs `haft` where Podman's own variables say where it keeps its containers.
fn haft(stage: &Stage, arguments: &[&str]) -> Ran {
    let mut command = stage.command(arguments);
    command
        .env("CONTAINERS_CONF", directory().join("containers.conf"))
        .env("CONTAINERS_STORAGE_CONF", directory().join("storage.conf"))
        .env("XDG_RUNTIME_DIR", directory().join("run"));
    let ran = command.output().unwrap();
    Ran {
        code: ran.status.code().expect("the program ended by itself"),
        stdout: String::from_utf8(ran.stdout).unwrap(),
        stderr: String::from_utf8(ran.stderr).unwrap(),
    }
}

/// `haft.toml` for the container that `.ci/container` started, which sees the workspace at the same
/// path.
fn configuration(stage: &Stage, sandbox: &str) -> String {
    format!(
        "[policy]\nallow = [\"bash\", \"write\"]\n[tools.bash]\nsandbox = \"{sandbox}\"\n\
         [docker]\nprogram = \"podman\"\ncontainer = \"haft-ci\"\nworkspace = \"{}\"\n",
        stage.work.display()
    )
}

#[test]
#[ignore = "ci: needs Podman"]
fn calls_work_in_the_container_and_the_record_names_it() {
    let stage = Stage::bare();
    stage.write("haft.toml", configuration(&stage, "basic"));
    let trusted = haft(&stage, &["trust"]).ok();
    assert!(
        trusted.contains("in the container `haft-ci`, by `podman`"),
        "{trusted}"
    );
    let doctor = haft(&stage, &["doctor"]).stdout;
    assert!(
        doctor.contains("in `haft-ci` answers; tiers there: "),
        "{doctor}"
    );
    haft(&stage, &["call", "write", "path=made", "content=x"]).ok();
    assert_eq!(stage.read("made"), "x");
    let ran = haft(
        &stage,
        &["call", "bash", "command=cat /run/.containerenv; pwd"],
    )
    .ok();
    assert!(ran.contains(stage.work.to_str().unwrap()), "{ran}");
    let shown = haft(&stage, &["show", "last", "--json"]).ok();
    assert!(shown.contains("docker:haft-ci"), "{shown}");
    assert!(shown.contains("\"t1\""), "{shown}");
}

/// Sessions of one kind work in a container, and everybody else here.
#[test]
#[ignore = "ci: needs Podman"]
fn direct_messages_work_in_a_container_and_the_operator_here() {
    let stage = Stage::bare();
    let inside = stage.home.join("inside");
    std::fs::create_dir(&inside).unwrap();
    let text = format!(
        "[policy]\npreset = \"workspace\"\n[docker.box]\nprogram = \"podman\"\n\
         container = \"haft-ci\"\nworkspace = \"{}\"\n\
         [sessions.dm]\nbackend = \"docker:box\"\n",
        inside.display()
    );
    stage.write("haft.toml", text);
    haft(&stage, &["trust"]).ok();
    let write = ["call", "write", "path=same.txt"];
    haft(&stage, &[&write[..], &["content=mine"]].concat()).ok();
    let dm = ["content=theirs", "--session-kind", "dm"];
    haft(&stage, &[&write[..], &dm].concat()).ok();
    let there = || std::fs::read_to_string(inside.join("same.txt"));
    assert_eq!(stage.read("same.txt"), "mine");
    assert_eq!(there().unwrap(), "theirs");
    let log = haft(&stage, &["log", "--jsonl"]).ok();
    assert_eq!(log.lines().count(), 2, "{log}");
    assert!(log.contains("docker:haft-ci#box:"), "{log}");
    haft(&stage, &["undo"]).ok();
    assert!(there().is_err());
    assert_eq!(stage.read("same.txt"), "mine");
}

#[test]
#[ignore = "ci: needs Podman"]
fn a_command_never_runs_in_a_weaker_tier_than_it_asks_for() {
    let stage = Stage::bare();
    stage.write("haft.toml", configuration(&stage, "full"));
    haft(&stage, &["trust"]).ok();
    let ran = haft(&stage, &["call", "bash", "command=touch made"]);
    assert_ne!(ran.code, 0);
    assert!(!stage.exists("made"));
}

#[test]
#[ignore = "ci: needs Podman"]
fn init_offers_the_running_dev_container_and_does_not_switch() {
    let stage = Stage::bare();
    stage.write(".devcontainer/devcontainer.json", "{}");
    let said = haft(&stage, &["init"]).ok();
    assert!(
        said.contains("describes a dev container, and none runs"),
        "{said}"
    );
    std::fs::remove_file(stage.work.join("haft.toml")).unwrap();
    let folder = stage.work.to_str().unwrap();
    let name = "haft-dev-offered";
    let podman = |arguments: &[&str]| {
        let ran = Command::new(directory().join("podman"))
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
    };
    let root = directory().join("template");
    podman(&[
        "run",
        "--detach",
        "--replace",
        "--name",
        name,
        "--userns",
        "keep-id",
        "--network",
        "none",
        "--no-hosts",
        "--ulimit",
        "host",
        "--volume",
        "/usr:/usr:ro",
        "--label",
        &format!("devcontainer.local_folder={folder}"),
        "--volume",
        &format!("{folder}:/workspaces/shop"),
        "--rootfs",
        root.to_str().unwrap(),
        "/usr/bin/sleep",
        "infinity",
    ]);
    let said = haft(&stage, &["init"]);
    podman(&["rm", "--force", "--time", "0", name]);
    let said = said.ok();
    let lines = "[docker]\nprogram = \"podman\"\ncontainer = \"haft-dev-offered\"\nworkspace = \"/workspaces/shop\"\n";
    assert!(said.contains(lines), "{said}");
    // It is an offer: the configuration that was written says nothing of it.
    assert!(!stage.read("haft.toml").contains("[docker]"));
}

/// A container that cannot be reached is told with what to do; rules and tools are looked at without.
#[test]
#[ignore = "ci: needs Podman"]
fn a_container_that_does_not_run_is_told_with_what_to_do() {
    let stage = Stage::bare();
    let text = configuration(&stage, "basic").replace("haft-ci", "there-is-none");
    stage.write("haft.toml", text);
    haft(&stage, &["trust"]).ok();
    let error = haft(&stage, &["call", "list", "path=."]).fails(1);
    assert!(
        error.contains("there is no container `there-is-none`")
            && error.contains("podman ps --all"),
        "{error}"
    );
    haft(&stage, &["tools"]).ok();
    let doctor = haft(&stage, &["doctor"]);
    assert!(
        doctor.stdout.contains("there is no container"),
        "{}",
        doctor.stdout
    );
}
