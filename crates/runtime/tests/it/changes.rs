//! What commands change in the workspace is on record, or the record says what is missing. A look
//! that fails does not fail the command.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft_contract::{
    Access, BoxFuture, CallEvent, ErrorKind, WorkPath,
    access::Command,
    host::{ArtifactId, ArtifactStore},
    ops::{
        ChangeScan, ChangedFile, Changes, FileVersion, KeptVersion, Operations, OpsError,
        ProcessHandle, ProcessOps, SandboxMode, Spawn, Tier, WorkspaceChanges,
    },
};
use haft_testkit::{Harness, memory};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::scripted::Scripted;

const SCRIPT: &str = "echo hi";

/// What the looks come to.
#[derive(Clone, Copy)]
enum Looks {
    Well,
    NotBefore,
    NotAfter,
}

struct Fake {
    looks: Looks,
    begun: Arc<AtomicUsize>,
}

impl WorkspaceChanges for Fake {
    fn begin(
        &self,
        _: Arc<dyn ArtifactStore>,
        _: CancellationToken,
    ) -> BoxFuture<'_, Result<Box<dyn ChangeScan>, OpsError>> {
        Box::pin(async move {
            self.begun.fetch_add(1, Ordering::SeqCst);
            match self.looks {
                Looks::NotBefore => Err(OpsError::new(ErrorKind::Io, "the disk is gone")),
                looks => Ok(Box::new(FakeScan(looks)) as Box<dyn ChangeScan>),
            }
        })
    }
}

struct FakeScan(Looks);

impl ChangeScan for FakeScan {
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Changes, OpsError>> {
        Box::pin(async move {
            match self.0 {
                Looks::Well => Ok(Changes {
                    files: vec![ChangedFile {
                        path: WorkPath::relative("made").unwrap(),
                        before: None,
                        after: Some(KeptVersion {
                            version: FileVersion::new("1"),
                            artifact: Some(artifact()),
                            mode: 0o644,
                        }),
                    }],
                    looked_at: 7,
                    missed: None,
                }),
                _ => Err(OpsError::new(ErrorKind::Io, "the disk is gone")),
            }
        })
    }
}

fn artifact() -> ArtifactId {
    ArtifactId {
        hash: [1; 32],
        bytes: 1,
    }
}

/// The in-memory shell, said to be a sandbox.
struct SaidToBeConfined(Arc<dyn ProcessOps>);

impl ProcessOps for SaidToBeConfined {
    fn spawn(&self, mut spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        spawn.tier = Tier::Host;
        self.0.spawn(spawn)
    }
}

/// The events about changes of a call that runs two commands, and how often was looked.
async fn check(tier: Tier, looks: Looks) -> (Vec<CallEvent>, usize) {
    let (operations, _) = memory::operations();
    let begun = Arc::new(AtomicUsize::new(0));
    let operations = Operations {
        tiers: vec![tier],
        tier_remedy: None,
        processes: Arc::new(SaidToBeConfined(Arc::clone(&operations.processes))),
        changes: Some(Arc::new(Fake {
            looks,
            begun: Arc::clone(&begun),
        })),
        ..operations
    };
    let shell = Scripted::new("shell", |_, cx| async move {
        for _ in 0..2 {
            let command = Command::Shell(SCRIPT.into());
            let spawn = Spawn::new(command, WorkPath::root(), cx.tier());
            let mut child = cx.processes().spawn(spawn).await?;
            while child.next_chunk().await.is_some() {}
            child.wait().await?;
        }
        Ok(json!("done"))
    })
    .accesses(|_| vec![Access::shell(SCRIPT, WorkPath::root())]);
    let harness = Harness::on(operations)
        .tools(vec![shell.tool()])
        .sandbox("shell", SandboxMode::Off)
        .build();
    let outcome = harness.succeed("shell", json!({})).await;
    let events = harness.events.of(outcome.call).into_iter();
    let about_changes = |event: &CallEvent| {
        matches!(
            event,
            CallEvent::PreimageKept { .. }
                | CallEvent::FileChanged { .. }
                | CallEvent::ChangesScanned { .. }
        )
    };
    (
        events.filter(about_changes).collect(),
        begun.load(Ordering::SeqCst),
    )
}

#[tokio::test]
async fn what_commands_changed_is_recorded_once_for_the_call() {
    for tier in [Tier::T2, Tier::T3] {
        let path = WorkPath::relative("made").unwrap();
        let (events, begun) = check(tier, Looks::Well).await;
        assert_eq!(
            events,
            [
                CallEvent::PreimageKept {
                    path: path.clone(),
                    artifact: None,
                    before: None,
                    mode: None,
                },
                CallEvent::FileChanged {
                    path,
                    after: Some(FileVersion::new("1")),
                    artifact: Some(artifact()),
                },
                CallEvent::ChangesScanned {
                    files: 7,
                    missed: None,
                },
            ]
        );
        assert_eq!(begun, 1);
    }
}

#[tokio::test]
async fn a_look_that_fails_is_told_and_the_command_runs() {
    for looks in [Looks::NotBefore, Looks::NotAfter] {
        let (events, _) = check(Tier::T2, looks).await;
        let [CallEvent::ChangesScanned { files: 0, missed }] = &events[..] else {
            panic!("{events:?}");
        };
        let missed = missed.as_deref().unwrap();
        assert!(missed.contains("the disk is gone"), "{missed}");
    }
}

#[tokio::test]
async fn commands_that_can_change_more_than_the_workspace_are_not_looked_at_and_told() {
    for tier in [Tier::Host, Tier::T1] {
        let (events, begun) = check(tier, Looks::Well).await;
        let [CallEvent::ChangesScanned { files: 0, missed }] = &events[..] else {
            panic!("{events:?}");
        };
        let missed = missed.as_deref().unwrap();
        assert!(missed.contains("are not tracked"), "{missed}");
        assert_eq!(begun, 0);
    }
}
