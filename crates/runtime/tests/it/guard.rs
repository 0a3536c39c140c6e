//! What a running tool can touch: only what its plan names. And what is kept before it does.

use haft_contract::{
    Access, CallEvent, Effects, ErrorKind, Terminal, WorkPath,
    access::Command,
    ops::{Expected, RemoveScope, SandboxMode, Spawn, Tier, WriteFile, WriteMode},
    outcome::DeniedBy,
};
use haft_testkit::{FixedPolicy, Harness};
use serde_json::json;

use crate::scripted::Scripted;

fn path(text: &str) -> WorkPath {
    WorkPath::relative(text).unwrap()
}

#[tokio::test]
async fn a_tool_cannot_touch_what_its_plan_does_not_name() {
    let rogue = Scripted::new("rogue", |input, cx| async move {
        let target = path("secret");
        match input["how"].as_str().unwrap() {
            "read" => drop(cx.files().open(&target).await?),
            "write" => {
                let write = WriteFile {
                    bytes: b"x",
                    expected: Expected::Anything,
                    mode: WriteMode::AsItIs,
                };
                drop(cx.files().write(&target, write).await?);
            }
            "write_planned_read" => {
                let write = WriteFile {
                    bytes: b"x",
                    expected: Expected::Anything,
                    mode: WriteMode::AsItIs,
                };
                drop(cx.files().write(&path("fine"), write).await?);
            }
            "remove" => cx.files().remove(&target, RemoveScope::Tree).await?,
            "spawn" => {
                let command = Command::Shell("echo hi".into());
                drop(
                    cx.processes()
                        .spawn(Spawn::new(command, WorkPath::root(), Tier::Host))
                        .await?,
                );
            }
            _ => panic!("unknown"),
        }
        Ok(json!("done"))
    })
    .accesses(|_| vec![Access::read(path("fine"))]);
    let harness = Harness::memory().tools(vec![rogue.tool()]).build();
    harness.tree.put("secret", "canary");
    harness.tree.put("fine", "fine");
    for how in ["read", "write", "write_planned_read", "remove", "spawn"] {
        let outcome = harness.fail("rogue", json!({"how": how})).await;
        assert_eq!(
            outcome.terminal,
            Terminal::Denied,
            "{how}: {}",
            outcome.model_text()
        );
        assert_eq!(
            outcome.error.as_ref().unwrap().kind,
            ErrorKind::NotInPlan,
            "{how}"
        );
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Sandbox));
    }
    assert_eq!(harness.tree.text("secret"), "canary");
    assert_eq!(harness.tree.text("fine"), "fine");
}

#[tokio::test]
async fn a_search_leaves_out_what_policy_withholds() {
    let lister = Scripted::new("lister", |_, cx| async move {
        let query = haft_contract::ops::ListQuery {
            depth: 9,
            limit: 99,
            respect_ignores: false,
            withheld: &[],
            cancel: cx.cancel(),
        };
        let listing = cx.files().list(&WorkPath::root(), query).await?;
        let paths: Vec<_> = listing
            .entries
            .into_iter()
            .map(|entry| entry.path)
            .collect();
        Ok(json!(paths))
    })
    .accesses(|_| vec![Access::read_tree(WorkPath::root())]);
    let harness = Harness::memory()
        .tools(vec![lister.tool()])
        .policy(FixedPolicy::allow_all().withholding(&["**/.env"]))
        .build();
    harness.tree.put("app/.env", "SECRET=1");
    harness.tree.put("app/main.rs", "");
    let outcome = harness.succeed("lister", json!({})).await;
    assert_eq!(outcome.structured, Some(json!(["app", "app/main.rs"])));
}

/// Finding 9 of the security review: a tree in the plan must not open what policy withholds.
#[tokio::test]
async fn what_policy_withholds_cannot_be_opened_by_name_beneath_a_planned_tree() {
    let opener = Scripted::new("opener", |input, cx| async move {
        let target = path(input["path"].as_str().unwrap());
        let reader = cx.files().open(&target).await?;
        let bytes = reader.read_at(0, 99, Vec::new()).await?;
        Ok(json!(String::from_utf8(bytes).unwrap()))
    })
    .accesses(|_| vec![Access::read_tree(WorkPath::root())]);
    let harness = Harness::memory()
        .tools(vec![opener.tool()])
        .policy(FixedPolicy::allow_all().withholding(&["**/.env", "keys/**"]))
        .build();
    harness.tree.put("app/.env", "canary");
    harness.tree.put("app/.env.d", "fine");
    harness.tree.put("keys/deep/id", "canary");
    for denied in ["app/.env", "keys/deep/id"] {
        let outcome = harness.fail("opener", json!({"path": denied})).await;
        assert_eq!(
            outcome.terminal,
            Terminal::Denied,
            "{}",
            outcome.model_text()
        );
        assert!(!outcome.model_text().contains("canary"));
    }
    harness
        .succeed("opener", json!({"path": "app/.env.d"}))
        .await;
}

#[tokio::test]
async fn the_content_before_a_change_is_kept_and_versions_are_noted() {
    let writer = Scripted::new("writer", |_, cx| async move {
        let write = WriteFile {
            bytes: b"new",
            expected: Expected::Anything,
            mode: WriteMode::AsItIs,
        };
        let written = cx.files().write(&path("a"), write).await?;
        let seen = cx.seen().last_seen(&path("a")).await?;
        assert_eq!(seen, Some(written.version));
        cx.files().write(&path("b"), write).await?;
        Ok(json!("done"))
    })
    .effects(Effects::REPLACES)
    .accesses(|_| vec![Access::write(path("a")), Access::write(path("b"))]);
    let harness = Harness::memory().tools(vec![writer.tool()]).build();
    harness.tree.put("a", "old");
    let outcome = harness.succeed("writer", json!({})).await;
    let kept: Vec<_> = harness
        .events
        .of(outcome.call)
        .into_iter()
        .filter_map(|event| match event {
            CallEvent::PreimageKept { path, artifact, .. } => Some((path, artifact)),
            _ => None,
        })
        .collect();
    assert_eq!(kept.len(), 2);
    assert_eq!(kept[0].0, path("a"));
    let artifacts = haft_contract::host::Ledger::artifacts(&harness.ledger);
    let preimage = artifacts.open(kept[0].1.unwrap()).await.unwrap();
    assert_eq!(preimage.read_at(0, 99).await.unwrap(), b"old");
    assert_eq!(
        (&kept[1].0, kept[1].1),
        (&path("b"), None),
        "there was nothing to keep"
    );
}

/// R22: the sandbox mode a tool needs is met or the call is refused, never lowered.
#[tokio::test]
async fn r22_a_tier_that_is_not_there_is_refused_not_lowered() {
    let shell = || {
        Scripted::new(
            "shell",
            |_, cx| async move { Ok(json!(cx.tier().as_str())) },
        )
        .effects(Effects::UNKNOWN)
        .accesses(|_| vec![Access::shell("true", WorkPath::root())])
        .tool()
    };
    for mode in [SandboxMode::Basic, SandboxMode::Full] {
        let harness = Harness::memory()
            .tools(vec![shell()])
            .sandbox("shell", mode)
            .build();
        let outcome = harness.fail("shell", json!({})).await;
        assert_eq!(outcome.terminal, Terminal::Denied);
        assert_eq!(
            outcome.error.as_ref().unwrap().kind,
            ErrorKind::TierUnavailable
        );
        assert!(
            outcome.model_text().contains("sandbox = \"off\""),
            "{}",
            outcome.model_text()
        );
    }
    let harness = Harness::memory()
        .tools(vec![shell()])
        .sandbox("shell", SandboxMode::Off)
        .build();
    let outcome = harness.succeed("shell", json!({})).await;
    assert_eq!(outcome.structured, Some(json!("host")));
    assert_eq!(
        outcome.facts.tier,
        Some(Tier::Host),
        "the tier used is in the result"
    );
}

#[tokio::test]
async fn a_plan_that_writes_is_never_read_only_whatever_the_tool_says() {
    let liar = Scripted::echo("liar")
        .effects(Effects::READ_ONLY)
        .accesses(|_| vec![Access::write(path("a"))]);
    let harness = Harness::memory().tools(vec![liar.tool()]).build();
    let before = harness.ledger.durable_commits();
    harness.succeed("liar", json!({})).await;
    assert!(
        harness.ledger.durable_commits() > before,
        "its intent was made durable"
    );
}

/// Promise 4: what was started and lost is unknown, and says so. Looking has no effect to doubt.
#[tokio::test]
async fn a_connection_lost_on_the_way_leaves_a_change_unknown_and_a_look_failed() {
    for (effects, expect) in [
        (Effects::CHANGES, Terminal::Unknown),
        (Effects::READ_ONLY, Terminal::Failed),
    ] {
        let lost = Scripted::new("lost", |_, _| async {
            Err(haft_contract::ToolError::new(ErrorKind::Lost, "it is lost"))
        })
        .effects(effects);
        let harness = Harness::memory().tools(vec![lost.tool()]).build();
        let outcome = harness.fail("lost", json!({})).await;
        assert_eq!(outcome.terminal, expect, "{outcome:?}");
    }
}
