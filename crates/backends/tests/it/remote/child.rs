//! A real helper process behind pipes: what it started is gone when it is, however it ends.

use std::{
    fs,
    process::Stdio,
    sync::{Arc, Mutex},
};

use haft_backends::remote::{Carrier, Connect, ConnectError, Connection};
use haft_contract::{
    access::Command,
    future::BoxFuture,
    ops::{ProcessHandle, Spawn, Tier},
};
use haft_testkit::{eventually, until_none};
use tokio::process;

use super::fixture::RemoteFixture;
use crate::{processes::kill, workspace::at};

/// Leaves its session, is given away to whoever reaps, and has an empty environment: nothing that
/// looks for marks, groups or descendants of the shell finds it.
const HIDDEN: &str = "(setsid env -i /bin/sleep 4321 & exec 1>&- 2>&-); echo ready; sleep 100000";

/// Starts the helper program.
#[derive(Default)]
pub(crate) struct HelperProcess {
    pids: Arc<Mutex<Vec<u32>>>,
}

struct Kept(#[expect(dead_code, reason = "killed when dropped")] process::Child);

impl Carrier for Kept {
    fn last_words(&self) -> BoxFuture<'_, Option<ConnectError>> {
        Box::pin(std::future::ready(None))
    }
}

impl Connect for HelperProcess {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>> {
        Box::pin(async {
            let mut child = process::Command::new(env!("CARGO_BIN_EXE_haft-helper"))
                .args(["__haft-helper", "serve"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            self.pids.lock().unwrap().push(child.id().unwrap());
            Ok(Connection {
                reader: Box::new(child.stdout.take().unwrap()),
                writer: Box::new(child.stdin.take().unwrap()),
                carrier: Box::new(Kept(child)),
            })
        })
    }
}

pub(crate) async fn fixture() -> RemoteFixture {
    RemoteFixture::over(Arc::new(HelperProcess::default())).await
}

/// The ids of processes that were started in this directory and still run.
pub(crate) fn running_in(root: &std::path::Path) -> Vec<u32> {
    fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(root))
        })
        .collect()
}

pub(crate) async fn start_hidden(fixture: &RemoteFixture) -> Box<dyn ProcessHandle> {
    let hidden = Command::Shell(HIDDEN.to_owned());
    let spawn = Spawn::new(hidden, at("."), Tier::Host);
    let mut child = fixture.operations.processes.spawn(spawn).await.unwrap();
    assert_eq!(child.next_chunk().await.unwrap().bytes, b"ready\n");
    let root = &fixture.place.0.root;
    // The control: both run, the shell and what hides from it.
    eventually("both run", || {
        running_in(root).into_iter().any(is_hidden) && running_in(root).len() >= 2
    })
    .await;
    child
}

fn is_hidden(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("4321"))
}

pub(crate) async fn all_are_gone(root: &std::path::Path) {
    until_none("all are gone", || running_in(root)).await;
}

/// The processes of the helper: the supervisor, and the server it started.
fn helpers(connect: &HelperProcess) -> (u32, u32) {
    let supervisor = *connect.pids.lock().unwrap().first().unwrap();
    let children = format!("/proc/{supervisor}/task/{supervisor}/children");
    let server = fs::read_to_string(children).unwrap();
    (
        supervisor,
        server.split(' ').next().unwrap().parse().unwrap(),
    )
}

#[tokio::test]
async fn when_the_stream_ends_even_what_hides_is_gone() {
    let connect = Arc::new(HelperProcess::default());
    let fixture = RemoteFixture::over(Arc::clone(&connect) as _).await;
    let child = start_hidden(&fixture).await;
    let root = fixture.place.0.root.clone();
    drop(child);
    drop(fixture.operations);
    all_are_gone(&root).await;
}

#[tokio::test]
async fn when_the_server_is_killed_everything_it_started_is_gone() {
    let connect = Arc::new(HelperProcess::default());
    let fixture = RemoteFixture::over(Arc::clone(&connect) as _).await;
    let _child = start_hidden(&fixture).await;
    kill(helpers(&connect).1);
    all_are_gone(&fixture.place.0.root).await;
}

/// A server that hangs does not keep anything alive past its stream.
#[tokio::test]
async fn when_the_server_hangs_and_the_stream_ends_everything_is_gone() {
    let connect = Arc::new(HelperProcess::default());
    let fixture = RemoteFixture::over(Arc::clone(&connect) as _).await;
    let child = start_hidden(&fixture).await;
    let (_, server) = helpers(&connect);
    let pid = rustix::process::Pid::from_raw(i32::try_from(server).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let root = fixture.place.0.root.clone();
    drop(child);
    drop(fixture.operations);
    all_are_gone(&root).await;
}
