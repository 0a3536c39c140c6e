//! Several tenants with several workspaces each, through one host opened from settings.

use std::fs;

use haft_contract::{WorkspaceId, outcome::DeniedBy};
use haft_host::HostErrorKind;
use serde_json::{Value, json};

use crate::configured_host::{ConfiguredHost, principal, tenant};

/// Rules that are not the usual ones.
const CONFIG: &str = r#"
[policy]
preset = "careful"
allow = ["write"]
deny = ["write(secret.txt)"]
"#;

/// A tool whose processes run in another way than usual, and whose tenants differ.
const COMMANDS: &str = r#"
[policy]
allow = ["bash"]

[tools.bash]
sandbox = "off"

[sandbox]
env = { GREETING = "from-settings" }

[tenants.beta]
deny = ["bash"]
"#;

fn notes() -> Value {
    json!({"path": "notes.txt"})
}

#[tokio::test]
async fn two_tenants_call_in_two_added_workspaces_each_under_the_configured_rules() {
    let house = ConfiguredHost::open(CONFIG).await;
    let host = house.served.host();
    let local = WorkspaceId::local();
    let mut all = Vec::new();
    for (of, user) in [("acme", "ann"), ("beta", "bob")] {
        for number in ["one", "two"] {
            let name = format!("{of}-{number}");
            all.push((principal(of, user), house.workspace(of, &name), name));
        }
    }
    for (who, workspace, name) in &all {
        let read = house.call(who, workspace.id(), "read", notes()).await;
        assert!(
            read.text().contains(&format!("this is {name}")),
            "{name}: {read:?}"
        );
        let new = json!({"path": "new.txt", "content": name});
        let written = house.call(who, workspace.id(), "write", new).await;
        assert!(written.succeeded(), "{name}: {written:?}");
        let new = fs::read_to_string(workspace.root().join("new.txt"));
        assert_eq!(new.unwrap(), *name);

        let secret = json!({"path": "secret.txt", "content": "x"});
        let denied = house.call(who, workspace.id(), "write", secret).await;
        assert_eq!(denied.facts.denied_by, Some(DeniedBy::Policy), "{denied:?}");
        assert!(!workspace.root().join("secret.txt").exists());
    }
    // Nobody gets into another tenant's workspace, nor into the one the host was opened with.
    for (who, own, _) in &all {
        for (_, other, name) in all.iter().filter(|(other, ..)| other.tenant != who.tenant) {
            let read = house.call(who, other.id(), "read", notes()).await;
            assert_eq!(read.facts.denied_by, Some(DeniedBy::Workspace), "{name}");
        }
        let read = house.call(who, &local, "read", notes()).await;
        assert_eq!(read.facts.denied_by, Some(DeniedBy::Workspace));
        assert_eq!(own.tenant(), &who.tenant);
    }
    let ada = principal("local", "ada");
    let read = house.call(&ada, &local, "read", notes()).await;
    assert!(read.text().contains("this is own"), "{read:?}");

    let listed = |of: &str| {
        let mut listed: Vec<_> = host
            .workspaces_of(&tenant(of))
            .iter()
            .map(last_name)
            .collect();
        listed.sort();
        listed
    };
    assert_eq!(listed("acme"), ["acme-one", "acme-two"]);
    assert_eq!(listed("beta"), ["beta-one", "beta-two"]);
    assert_eq!(listed("local"), [""; 0], "nothing was added for it");
    all.retain(|(who, _, name)| who.tenant == tenant("beta") || name == "acme-one");
    assert_eq!(listed("acme"), ["acme-one"], "the other handle was dropped");
    assert_eq!(host.tenant(), &tenant("local"));
    host.close().await.unwrap();
}

/// What a workspace's directory is called.
fn last_name(workspace: &std::sync::Arc<haft_host::HostedWorkspace>) -> String {
    let name = workspace.root().file_name().unwrap();
    name.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn commands_run_in_added_workspaces_as_configured() {
    let house = ConfiguredHost::open(COMMANDS).await;
    let command = || json!({"command": "echo $GREETING; pwd"});
    let (ann, bob) = (principal("acme", "ann"), principal("beta", "bob"));
    for name in ["one", "two"] {
        let workspace = house.workspace("acme", name);
        let ran = house.call(&ann, workspace.id(), "bash", command()).await;
        let root = workspace.root().display();
        let expect = format!("from-settings\n{root}");
        assert_eq!(ran.text().trim(), expect, "{ran:?}");
    }
    let workspace = house.workspace("beta", "three");
    let ran = house.call(&bob, workspace.id(), "bash", command()).await;
    assert_eq!(ran.facts.denied_by, Some(DeniedBy::Policy), "{ran:?}");
    house.served.host().close().await.unwrap();
}

/// Where callers of the host's own tenant work on several back ends, it takes workspaces as well.
#[tokio::test]
async fn a_host_whose_callers_work_on_several_back_ends_takes_workspaces() {
    let config = "[ssh.build]\ndestination = \"nobody@127.0.0.1\"\nroot = \"/srv/app\"\nport = 1\n\
                  [agents.builder]\nbackend = \"ssh:build\"\n";
    let house = ConfiguredHost::open(config).await;
    let (ann, ada) = (principal("acme", "ann"), principal("local", "ada"));
    let (local, added) = (WorkspaceId::local(), house.workspace("acme", "acme"));
    let read = house.call(&ann, added.id(), "read", notes()).await;
    assert!(read.text().contains("this is acme"), "{read:?}");
    let read = house.call(&ada, &local, "read", notes()).await;
    assert!(read.text().contains("this is own"), "{read:?}");
    let own = house.workspace("local", "more");
    let read = house.call(&ada, own.id(), "read", notes()).await;
    assert!(read.text().contains("this is more"), "{read:?}");
    for workspace in [&local, own.id()] {
        let read = house.call(&ann, workspace, "read", notes()).await;
        assert_eq!(read.facts.denied_by, Some(DeniedBy::Workspace));
    }
    house.served.host().close().await.unwrap();
}

#[tokio::test]
async fn haft_s_own_files_lie_in_no_added_workspace() {
    let house = ConfiguredHost::open("").await;
    let host = house.served.host();
    for inside in ["", "data", "data/haft", "config", "config/haft"] {
        let added = host.add_workspace(&house.root().join(inside), &tenant("acme"));
        let error = added.expect_err(inside);
        assert_eq!(error.kind(), HostErrorKind::Refused, "{inside}");
        assert!(
            error.message().contains("Haft's own files"),
            "{inside}: {error}"
        );
    }
    host.close().await.unwrap();
}
