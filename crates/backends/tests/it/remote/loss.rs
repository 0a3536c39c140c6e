//! A connection that is lost: what ran is gone, what was asked is told and not asked again, and
//! the next call connects anew.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use haft_contract::{
    ErrorKind,
    access::Command,
    ops::{ExitStatus, ProcessHandle, Spawn, Tier},
};

use super::{
    child::{all_are_gone, running_in},
    fixture::{InProcess, RemoteFixture},
};
use crate::workspace::at;

/// A script that says it is there, and stays if nobody ends it.
fn long_running() -> Spawn {
    let text = "echo ready; sleep 100000";
    Spawn::new(Command::Shell(text.to_owned()), at("."), Tier::Host)
}

async fn until_ready(child: &mut dyn ProcessHandle) {
    let chunk = child.next_chunk().await.expect("output");
    assert_eq!(chunk.bytes, b"ready\n");
}

#[tokio::test]
async fn a_lost_connection_fails_what_is_under_way_and_the_next_call_connects_anew() {
    let connect = Arc::new(InProcess::default());
    let fixture = RemoteFixture::over(Arc::clone(&connect) as _).await;
    let operations = &fixture.operations;
    fixture.place.0.put("file.txt", "content");
    let reader = operations.files.open(&at("file.txt")).await.unwrap();
    let mut child = operations.processes.spawn(long_running()).await.unwrap();
    until_ready(&mut *child).await;

    connect.cut();
    assert_eq!(child.next_chunk().await, None);
    let error = child.wait().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    let error = reader.read_at(0, 10, Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert_eq!(connect.connected.load(Ordering::Relaxed), 1);

    let stat = operations.files.stat(&at("file.txt")).await.unwrap();
    assert_eq!(stat.size, 7);
    assert_eq!(connect.connected.load(Ordering::Relaxed), 2);
    // What was opened over the lost connection stays lost.
    let error = reader.read_at(0, 10, Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}

#[tokio::test]
async fn a_workspace_that_was_replaced_meanwhile_is_not_taken_for_the_same() {
    let connect = Arc::new(InProcess::default());
    let fixture = RemoteFixture::over(Arc::clone(&connect) as _).await;
    let root = &fixture.place.0.root;
    std::fs::rename(root, root.with_extension("moved")).unwrap();
    std::fs::create_dir(root).unwrap();
    connect.cut();
    // The cut may be noticed by the first call or before it.
    let error = loop {
        let error = fixture.operations.files.stat(&at(".")).await.unwrap_err();
        if error.kind() != ErrorKind::Lost {
            break error;
        }
    };
    assert_eq!(error.kind(), ErrorKind::WorkspaceMoved, "{error}");
}

#[tokio::test]
async fn letting_go_of_everything_ends_what_runs() {
    let connect = Arc::new(InProcess::default());
    let fixture = RemoteFixture::over(Arc::clone(&connect) as _).await;
    let place = fixture.place;
    let mut child = fixture
        .operations
        .processes
        .spawn(long_running())
        .await
        .unwrap();
    until_ready(&mut *child).await;
    assert!(!running_in(&place.0.root).is_empty());
    drop(child);
    drop(fixture.operations);
    all_are_gone(&place.0.root).await;
}

/// Back-pressure: a child that floods is held back by a caller that does not read, and other calls
/// go on meanwhile.
#[tokio::test]
async fn a_flood_nobody_reads_does_not_hold_up_others() {
    let fixture = RemoteFixture::over_stream().await;
    let flood = Command::Shell("head -c 50000000 /dev/zero; echo over >&2".to_owned());
    let spawn = Spawn::new(flood, at("."), Tier::Host);
    let mut child = fixture.operations.processes.spawn(spawn).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Held up, it would wait for ever: nobody reads meanwhile.
    fixture.operations.files.stat(&at(".")).await.unwrap();
    let mut bytes = 0;
    let mut errors = Vec::new();
    while let Some(chunk) = child.next_chunk().await {
        match chunk.stream {
            haft_contract::ops::Stream::Stdout => bytes += chunk.bytes.len(),
            _ => errors.extend(chunk.bytes),
        }
    }
    assert_eq!(
        (bytes, errors.as_slice()),
        (50_000_000, b"over\n".as_slice())
    );
    assert_eq!(child.wait().await.unwrap().status, ExitStatus::Code(0));
}
