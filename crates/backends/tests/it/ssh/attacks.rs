//! Names and texts that a shell would obey, large files, and what is to be seen on command lines.

use std::{fs, os::unix::fs::FileExt, time::Instant};

use haft_backends::ssh::SshBackend;
use haft_contract::{
    access::Command,
    ops::{Expected, GrepMode, GrepQuery, Spawn, Tier, WriteFile, WriteMode},
};
use tokio_util::sync::CancellationToken;

use super::server::{SshServer, fixture};
use crate::{
    processes::children,
    workspace::{Workspace, at},
};

/// Names that a shell, an option parser or a line-based protocol would take for something else.
const HOSTILE: [&str; 9] = [
    "'quoted' \"twice\"",
    "line\nfeed\r",
    "$(touch made)",
    "`touch made`",
    "; touch made #",
    "-rf",
    "--",
    "\u{1b}[31mred",
    "*?[a]\\",
];

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn names_that_a_shell_would_obey_are_plain_names() {
    let fixture = fixture().await;
    let operations = &fixture.operations;
    let root = &fixture.place.0.root;
    for name in HOSTILE {
        let path = at(&format!("{name}/{name}"));
        let write = WriteFile {
            bytes: name.as_bytes(),
            expected: Expected::Absent,
            mode: WriteMode::AsItIs,
        };
        operations.files.write(&path, write).await.unwrap();
        assert_eq!(
            fs::read(root.join(name).join(name)).unwrap(),
            name.as_bytes()
        );
        let reader = operations.files.open(&path).await.unwrap();
        let bytes = reader.read_at(0, 100, Vec::new()).await.unwrap();
        assert_eq!(bytes, name.as_bytes());
        let found = operations
            .search
            .grep(GrepQuery {
                pattern: "",
                path: &at(name),
                glob: None,
                file_type: None,
                mode: GrepMode::Files,
                before: 0,
                after: 0,
                ignore_case: false,
                fixed: true,
                multiline: false,
                limit: 10,
                offset: 0,
                max_line_bytes: 100,
                withheld: &[],
                found: None,
                cancel: &CancellationToken::new(),
            })
            .await
            .unwrap();
        assert_eq!(found.files.len(), 1, "{name:?}");
        let argv = Command::Argv(vec!["printf".into(), "%s".into(), name.to_owned()]);
        let spawn = Spawn::new(argv, at(name), Tier::Host);
        let mut child = operations.processes.spawn(spawn).await.unwrap();
        let mut output = Vec::new();
        while let Some(chunk) = child.next_chunk().await {
            output.extend(chunk.bytes);
        }
        // `printf` itself takes `--` for the end of its options only as its first word.
        assert_eq!(output, name.as_bytes());
    }
    let mut names: Vec<_> = fs::read_dir(root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected = HOSTILE.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(names, expected, "a name was obeyed");
}

#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_root_that_a_shell_would_obey_is_a_plain_root() {
    let server = SshServer::start();
    server.install_helper();
    let ws = Workspace::new();
    for name in HOSTILE {
        let root = ws.root.join(name);
        fs::create_dir(&root).unwrap();
        fs::write(root.join("here"), "x").unwrap();
        let root = root.to_str().unwrap();
        let operations = SshBackend::connect(server.options(), root).await.unwrap();
        operations.files.stat(&at("here")).await.unwrap();
        assert_eq!(&*operations.root, root);
    }
    assert_eq!(fs::read_dir(&ws.root).unwrap().count(), HOSTILE.len());
    assert_eq!(fs::read_dir(server.home()).unwrap().count(), 1);
}

/// Neither the root nor a path, a command, its input or a file's content is ever on a command line
/// that another user of either machine could read.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn nothing_of_a_call_is_on_a_command_line() {
    const MARK: &str = "canary-5f1c";
    let server = SshServer::start();
    server.install_helper();
    let ws = Workspace::new();
    let root = ws.root.join(MARK);
    fs::create_dir(&root).unwrap();
    let operations = SshBackend::connect(server.options(), root.to_str().unwrap())
        .await
        .unwrap();
    let write = WriteFile {
        bytes: MARK.as_bytes(),
        expected: Expected::Absent,
        mode: WriteMode::AsItIs,
    };
    operations.files.write(&at(MARK), write).await.unwrap();
    let mut spawn = Spawn::new(
        Command::Shell(format!("{MARK}=1; read line; echo $line; sleep 300")),
        at("."),
        Tier::Host,
    );
    spawn.input = haft_contract::ops::Input::Bytes(format!("{MARK}\n").into_bytes());
    let mut child = operations.processes.spawn(spawn).await.unwrap();
    child.next_chunk().await.unwrap();
    let mut seen = 0;
    let mut waiting = vec![std::process::id()];
    waiting.extend(server.sessions());
    while let Some(parent) = waiting.pop() {
        for pid in children(parent) {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            // The command itself is where it has to be: on the line of its own shell.
            if line.starts_with("bash") || line.starts_with("/bin/bash") || line.contains("/bash ")
            {
                assert!(line.contains(MARK), "the control: {line}");
                continue;
            }
            seen += 1;
            assert!(!line.contains(MARK), "{line}");
            waiting.push(pid);
        }
    }
    assert!(seen >= 4, "ssh, sshd, supervisor and server: {seen}");
}

/// A large file is read piece by piece, and neither side holds more than a piece.
#[tokio::test]
#[ignore = "ci: needs OpenSSH"]
async fn a_large_file_is_read_in_pieces_without_being_held() {
    const SIZE: u64 = 100 * 1024 * 1024;
    const PIECE: usize = 256 * 1024;
    let fixture = fixture().await;
    let path = fixture.place.0.root.join("large");
    let file = fs::File::create(&path).unwrap();
    file.set_len(SIZE).unwrap();
    for at in (0..SIZE).step_by(1 << 20) {
        file.write_all_at(&at.to_be_bytes(), at).unwrap();
    }
    let reader = fixture.operations.files.open(&at("large")).await.unwrap();
    assert_eq!(reader.stat().size, SIZE);
    let server = fixture.kept::<SshServer>();
    let memory = || {
        let helpers: Vec<u64> = helpers(server).into_iter().map(resident).collect();
        (
            resident(std::process::id()),
            helpers.into_iter().sum::<u64>(),
        )
    };
    let mut buffer = reader.read_at(0, PIECE, Vec::new()).await.unwrap();
    let before = memory();
    let begun = Instant::now();
    let mut offset = 0;
    let mut most = before;
    while offset < SIZE {
        buffer = reader.read_at(offset, PIECE, buffer).await.unwrap();
        assert_eq!(buffer.len(), PIECE);
        if offset % (1 << 20) == 0 {
            assert_eq!(buffer[..8], offset.to_be_bytes());
        }
        if offset % (8 << 20) == 0 {
            let now = memory();
            most = (most.0.max(now.0), most.1.max(now.1));
        }
        offset += PIECE as u64;
    }
    let took = begun.elapsed();
    println!("100 MB in {took:?}; kB before {before:?}, at most {most:?}");
    assert!(most.0 < before.0 + 16 * 1024, "here: {before:?} {most:?}");
    assert!(most.1 < before.1 + 16 * 1024, "there: {before:?} {most:?}");
    assert!(
        reader
            .read_at(SIZE, 10, Vec::new())
            .await
            .unwrap()
            .is_empty()
    );
}

/// The helper's processes below the server's sessions.
fn helpers(server: &SshServer) -> Vec<u32> {
    let mut found = Vec::new();
    let mut waiting = server.sessions();
    while let Some(parent) = waiting.pop() {
        for child in children(parent) {
            let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            if line.contains("__haft-helper") {
                found.push(child);
                waiting.push(child);
            }
        }
    }
    assert_eq!(found.len(), 2, "supervisor and server");
    found
}

/// Resident memory in kB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
