//! What the sandbox masks for a command: what it says it holds is promised in the plan, and the rest
//! of what policy wants reaches it as an attempt.

use std::sync::{Arc, Mutex};

use haft_contract::{
    Access, BoxFuture, ErrorKind, Labels, Masks, Principal, WorkPath,
    access::Command,
    host::{Decision, Policy, PolicyVersion, Question, ToolFacts, Verdict, Visibility},
    ops::{Operations, OpsError, ProcessHandle, ProcessOps, SandboxMode, Spawn, Tier},
};
use haft_testkit::{FixedPolicy, Harness, memory};
use serde_json::json;

use crate::scripted::Scripted;

const SCRIPT: &str = "echo hi";

fn masks(hidden: &[&str], read_only: &[&str]) -> Masks {
    let owned = |globs: &[&str]| globs.iter().map(|glob| (*glob).to_owned()).collect();
    Masks {
        hidden: owned(hidden),
        read_only: owned(read_only),
    }
}

/// Allows everything and wants some of it masked.
pub(crate) struct Masking(pub(crate) FixedPolicy);

impl Policy for Masking {
    fn decide(&self, question: &Question<'_>) -> Arc<Decision> {
        self.0.decide(question)
    }

    fn masks(&self, _: &Principal, _: &ToolFacts<'_>, _: &Labels) -> Masks {
        masks(&["**/.env", "keys/**"], &["**/*.lock"])
    }

    fn visibility(&self, principal: &Principal, tool: &ToolFacts<'_>) -> Visibility {
        self.0.visibility(principal, tool)
    }

    fn version(&self) -> PolicyVersion {
        self.0.version()
    }
}

/// What reached the back end: what must hold, and what is attempted.
type Started = Arc<Mutex<Vec<(Masks, Masks)>>>;

/// The in-memory shell, said to be a sandbox that holds this much.
struct Holding {
    shell: Arc<dyn ProcessOps>,
    held: Option<Masks>,
    started: Started,
}

impl ProcessOps for Holding {
    fn spawn(&self, mut spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        let masks = (spawn.masks.clone(), spawn.attempted_masks.clone());
        self.started.lock().unwrap().push(masks);
        spawn.tier = Tier::Host;
        self.shell.spawn(spawn)
    }

    fn holds(&self, _: Tier, _: Masks) -> BoxFuture<'_, Result<Masks, OpsError>> {
        let held = self.held.clone();
        Box::pin(async move { held.ok_or_else(|| OpsError::new(ErrorKind::Io, "no disk")) })
    }
}

async fn check(held: Option<Masks>, expected: (Masks, Masks)) {
    let (operations, _) = memory::operations();
    let started = Started::default();
    let operations = Operations {
        tiers: vec![Tier::T2],
        tier_remedy: None,
        processes: Arc::new(Holding {
            shell: Arc::clone(&operations.processes),
            held,
            started: Arc::clone(&started),
        }),
        ..operations
    };
    let shell = Scripted::new("shell", |_, cx| async move {
        let command = Command::Shell(SCRIPT.into());
        let spawn = Spawn::new(command, WorkPath::root(), cx.tier());
        let mut child = cx.processes().spawn(spawn).await?;
        while child.next_chunk().await.is_some() {}
        child.wait().await?;
        Ok(json!("done"))
    })
    .accesses(|_| vec![Access::shell(SCRIPT, WorkPath::root())]);
    let harness = Harness::on(operations)
        .tools(vec![shell.tool()])
        .policy(Masking(FixedPolicy::by(|_| Verdict::Allow)))
        .sandbox("shell", SandboxMode::Off)
        .build();
    harness.succeed("shell", json!({})).await;
    assert_eq!(*started.lock().unwrap(), [expected]);
}

#[tokio::test]
async fn what_is_not_held_is_attempted() {
    let held = masks(&["keys/**"], &[]);
    let rest = masks(&["**/.env"], &["**/*.lock"]);
    check(Some(held.clone()), (held, rest)).await;
    let all = masks(&["**/.env", "keys/**"], &["**/*.lock"]);
    check(Some(all.clone()), (all.clone(), Masks::NONE)).await;
    // A back end that cannot say what it holds holds nothing, and tries.
    check(None, (Masks::NONE, all)).await;
}
