//! SL-07 and SL-08 against a remote workspace: the helper resolves beneath a held directory, so a
//! swap over there changes nothing. The control does what SFTP offers, `realpath` and then `open`,
//! and loses the same race: that is why workspaces are not served over SFTP.

use std::{os::unix::fs::symlink, time::Instant};

use haft_contract::ops::{CopyFile, Expected, Overwrite, RemoveScope, WriteFile, WriteMode};
use russh_sftp::client::SftpSession;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::server::{SshServer, fixture};
use crate::{
    races::{Race, Swapper},
    remote::fixture::RemoteFixture,
    workspace::{SECRET, Workspace, at},
};

/// Rounds of each race, in CI and in the soak: fewer than locally, as each is a round trip or several.
const FEW: u64 = 300;
const MANY: u64 = 2_000;

/// `d` is a directory with a harmless file called `secret`; `link` leads to the real one.
fn prepare(ws: &Workspace) {
    ws.put("d/secret", "harmless");
    std::fs::write(ws.outside.join("secret"), SECRET).unwrap();
    symlink(&ws.outside, ws.root.join("link")).unwrap();
}

async fn prepared() -> RemoteFixture {
    let fixture = fixture().await;
    prepare(&fixture.place.0);
    fixture
}

async fn reads(rounds: u64) {
    let fixture = prepared().await;
    let files = &fixture.operations.files;
    let swapper = Swapper::start(&fixture.place.0.root);
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        if let Ok(resolved) = files.resolve(&at("d/secret")).await {
            assert_eq!(resolved.path.as_str(), "d/secret");
        }
        if let Ok(file) = files.open(&at("d/secret")).await {
            let bytes = file.read_at(0, 100, Vec::new()).await.unwrap();
            assert_eq!(bytes, b"harmless");
            race.worked += 1;
        }
    }
    race.report("remote read", &swapper);
}

async fn writes(rounds: u64) {
    let fixture = prepared().await;
    let files = &fixture.operations.files;
    let swapper = Swapper::start(&fixture.place.0.root);
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        let round = race.rounds;
        let text = round.to_string();
        let write = WriteFile {
            bytes: text.as_bytes(),
            expected: Expected::Anything,
            mode: WriteMode::AsItIs,
        };
        race.worked += u64::from(files.write(&at("d/new"), write).await.is_ok());
    }
    race.report("remote write", &swapper);
    drop(swapper);
    fixture.place.0.outside_is_untouched();
    fixture.place.0.no_leftovers();
}

async fn directories(rounds: u64) {
    let fixture = prepared().await;
    fixture.place.0.put("source", "copied");
    let files = &fixture.operations.files;
    let swapper = Swapper::start(&fixture.place.0.root);
    let mut race = Race::default();
    while race.goes_on(rounds, &swapper) {
        let round = race.rounds;
        let made = format!("d/{}/{}", round % 7, round % 11);
        race.worked += u64::from(files.make_dir(&at(&made)).await.is_ok());
        let copy = CopyFile {
            overwrite: Overwrite::Replace,
            copied: &|_| {},
            cancel: &CancellationToken::new(),
        };
        let _ = files.copy(&at("source"), &at("d/copy"), copy).await;
        let _ = files.remove(&at(&made), RemoveScope::Tree).await;
    }
    race.report("remote make_dir", &swapper);
    drop(swapper);
    fixture.place.0.outside_is_untouched();
    fixture.place.0.no_leftovers();
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn sl_07_remote_reads_never_escape() {
    reads(FEW).await;
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn sl_08_remote_writes_never_escape() {
    writes(FEW).await;
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn sl_08_remote_directories_copies_and_removals_never_escape() {
    directories(FEW).await;
}

/// The same for long.
mod soak {
    use super::MANY;

    #[tokio::test]
    #[ignore = "soak: 2,000 rounds of a race over SSH"]
    async fn sl_07_remote_reads_never_escape() {
        super::reads(MANY).await;
    }

    #[tokio::test]
    #[ignore = "soak: 2,000 rounds of a race over SSH"]
    async fn sl_08_remote_writes_never_escape() {
        super::writes(MANY).await;
    }

    #[tokio::test]
    #[ignore = "soak: 2,000 rounds of a race over SSH"]
    async fn sl_08_remote_directories_copies_and_removals_never_escape() {
        super::directories(MANY).await;
    }
}

/// The control: a careful client of plain SFTP, which asks where the path leads, sees that it is
/// inside, and only then opens it.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn sl_07_control_sftp_realpath_then_open_loses() {
    const MOST: u64 = 200_000;
    let server = SshServer::start();
    let ws = Workspace::in_memory();
    prepare(&ws);
    let sftp = sftp(&server).await;
    let path = ws.root.join("d/secret").to_str().unwrap().to_owned();
    let swapper = Swapper::start(&ws.root);
    let begun = Instant::now();
    let (mut rounds, mut escapes) = (0, 0);
    while rounds < MOST && (escapes == 0 || rounds < FEW) {
        rounds += 1;
        let Ok(real) = sftp.canonicalize(&path).await else {
            continue;
        };
        if !real.starts_with(ws.root.to_str().unwrap()) {
            continue;
        }
        let Ok(mut file) = sftp.open(&path).await else {
            continue;
        };
        let mut text = String::new();
        if file.read_to_string(&mut text).await.is_ok() && text == SECRET {
            escapes += 1;
        }
    }
    println!(
        "control: plain SFTP lost {escapes} of {rounds} rounds in {:?}, {} swaps",
        begun.elapsed(),
        swapper.swaps()
    );
    assert!(escapes > 0, "the control never lost; the race is not real");
}

/// Plain SFTP to the same server.
async fn sftp(server: &SshServer) -> SftpSession {
    let options = server.options();
    let mut child = tokio::process::Command::new("/usr/bin/ssh")
        .args(["-o", "BatchMode=yes", "-F"])
        .arg(options.config_file.unwrap())
        .arg("-o")
        .arg(format!(
            "UserKnownHostsFile={}",
            options.known_hosts_file.unwrap().display()
        ))
        .arg("-i")
        .arg(options.identity_file.unwrap())
        .args(["-p", &server.port.to_string(), "-s", "--"])
        .args(["tester@127.0.0.1", "sftp"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let stream = tokio::io::join(child.stdout.take().unwrap(), child.stdin.take().unwrap());
    // It ends when its input does.
    SftpSession::new(stream).await.unwrap()
}
