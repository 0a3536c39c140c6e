//! The escape attempts on the host, where they must succeed: an attempt that fails everywhere
//! would make every sandbox look good. Each is a process of its own and harms nothing.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    net::{TcpListener, UdpSocket},
    os::{
        linux::net::SocketAddrExt as _,
        unix::net::{SocketAddr, UnixDatagram, UnixListener},
    },
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

use haft_sandbox::probe::{Control, catalogue};
use haft_testkit::helper_program;

/// Makes an attempt and returns `succeeded`, `refused ERRNO` or `unusable`.
fn attempt(arguments: &[&str]) -> (String, String) {
    let made = Command::new(helper_program())
        .args(["__haft-helper", "probe"])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the helper starts");
    let text = String::from_utf8(made.stdout).expect("UTF-8");
    let verdict: serde_json::Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"));
    assert_eq!(verdict["attempt"], arguments[0]);
    let result = verdict["result"].as_str().expect("a result").to_owned();
    let code = match result.as_str() {
        "succeeded" => 0,
        "refused" => 1,
        _ => 2,
    };
    assert_eq!(made.status.code(), Some(code), "{text}");
    let word = match verdict["errno"].as_str() {
        Some(errno) => format!("{result} {errno}"),
        None => result,
    };
    (word, text)
}

fn check(arguments: &[&str], expect: &str) {
    let (word, text) = attempt(arguments);
    assert_eq!(word, expect, "{arguments:?}: {text}");
}

/// A process to aim at, which ends with its input.
struct Target {
    child: Child,
    _input: ChildStdin,
}

impl Target {
    fn start() -> Self {
        let mut child = Command::new(helper_program())
            .args(["__haft-helper", "probe", "hold", "haft-probe-target"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the helper starts");
        let input = child.stdin.take().expect("input");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("output"))
            .read_line(&mut line)
            .expect("its id");
        assert_eq!(line.trim(), child.id().to_string());
        Self {
            child,
            _input: input,
        }
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// What comes, even if the machine is frozen for a while, which interrupts what has a time limit.
fn heard_by(socket: &UdpSocket, heard: &mut [u8]) -> usize {
    loop {
        match socket.recv(heard) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            length => return length.unwrap(),
        }
    }
}

#[test]
fn files_outside_a_sandbox_are_read_and_changed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "canary").unwrap();
    let file = text(&file);
    let (_, read) = attempt(&["read", file]);
    assert!(read.contains("canary"), "{read}");
    for name in [
        "open-write",
        "chown",
        "utimes",
        "setxattr",
        "name-to-handle",
    ] {
        check(&[name, file], "succeeded");
    }
    check(&["append", file, " more"], "succeeded");
    check(&["chmod", file, "600"], "succeeded");
    let (_, ring) = attempt(&["io-uring-open", file]);
    assert!(ring.contains("canary more"), "{ring}");
    check(&["read", "/nowhere"], "refused ENOENT");
    check(&["chmod", file, "word"], "unusable");
}

#[test]
fn a_process_outside_a_sandbox_is_read_traced_and_robbed() {
    let target = Target::start();
    let id = target.id();
    for name in [
        "process-vm-readv",
        "process-vm-writev",
        "proc-mem",
        "ptrace-attach",
        "ptrace-seize",
        "pidfd-getfd",
        "kcmp",
        "perf-event-open",
        "process-madvise",
        "environ",
        "maps",
        "root-of",
        "signal",
    ] {
        check(&[name, &id], "succeeded");
    }
    check(&["find-process", "haft-probe-target"], "succeeded");
    check(&["find-process", "haft-probe-nobody"], "refused");
}

#[test]
fn listeners_outside_a_sandbox_hear_what_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port().to_string();
    check(&["tcp-connect", "127.0.0.1", &port, "canary"], "succeeded");
    let mut heard = String::new();
    tcp.accept().unwrap().0.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "canary");

    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let port = udp.local_addr().unwrap().port().to_string();
    let mut heard = [0; 64];
    check(&["udp-send", "127.0.0.1", &port, "canary"], "succeeded");
    assert_eq!(heard_by(&udp, &mut heard), "canary".len());
    check(
        &["dns-query", "127.0.0.1", &port, "canary.test"],
        "succeeded",
    );
    let length = heard_by(&udp, &mut heard);
    assert!(heard[..length].ends_with(b"\x06canary\x04test\0\0\x01\0\x01"));

    let path = directory.path().join("stream");
    let _stream = UnixListener::bind(&path).unwrap();
    check(&["unix-connect", text(&path)], "succeeded");
    check(&["descriptor-send", text(&path)], "succeeded");
    let path = directory.path().join("datagram");
    let datagram = UnixDatagram::bind(&path).unwrap();
    check(&["unix-send", text(&path), "canary"], "succeeded");
    assert_eq!(datagram.recv(&mut heard).unwrap(), "canary".len());
    let name = format!("haft-probe-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _named = UnixListener::bind_addr(&address).unwrap();
    check(&["abstract-connect", &name], "succeeded");
}

#[test]
fn namespaces_outside_a_sandbox_are_made_and_mounted_in() {
    let directory = tempfile::tempdir().unwrap();
    let place = text(directory.path());
    for kind in ["user", "mount", "pid", "net", "ipc", "uts"] {
        check(&["unshare", kind], "succeeded");
        check(&["clone", kind], "succeeded");
        check(&["clone3", kind], "succeeded");
    }
    for inner in [
        &["mount-tmpfs", place][..],
        &["mount-bind", "/", place],
        &["umount", place],
        &["pivot-root", place],
        &["chroot", place],
        &["open-tree", "/"],
        &["move-mount"],
        &["fsopen", "tmpfs"],
        &["mount-setattr", "/"],
        &["reboot"],
        &["sethostname"],
        &["add-address"],
        &["icmp-send", "127.0.0.1"],
        &["socket", "packet"],
        &["socket", "raw"],
    ] {
        let outer: Vec<&str> = ["in-user-namespace"].iter().chain(inner).copied().collect();
        check(&outer, "succeeded");
    }
}

#[test]
fn everything_that_needs_nothing_and_that_anyone_may_do_succeeds() {
    let free = catalogue()
        .filter(|attempt| attempt.control == Control::Anyone && attempt.arguments.is_empty())
        // The one is for a process to aim at; what the other finds depends on who started the tests.
        .filter(|attempt| !["hold", "inherited-descriptors"].contains(&attempt.name));
    for attempt in free {
        check(&[attempt.name], "succeeded");
    }
}

#[test]
fn memory_and_queues_outside_a_sandbox_are_shared() {
    let id = std::process::id();
    let name = format!("/haft-probe-{id}");
    check(&["posix-memory", &name], "refused ENOENT");
    check(&["posix-memory-create", &name], "succeeded");
    check(&["posix-memory", &name], "succeeded");
    check(&["posix-memory-remove", &name], "succeeded");
    let key = id.to_string();
    check(&["sysv-memory", &key], "refused ENOENT");
    check(&["sysv-memory-create", &key], "succeeded");
    check(&["sysv-memory", &key], "succeeded");
    check(&["sysv-memory-remove", &key], "succeeded");
}

#[test]
fn a_process_left_behind_outlives_its_call() {
    let mark = format!("haft-probe-left-{}", std::process::id());
    check(&["daemon", &mark, "2"], "succeeded");
    check(&["find-process", &mark], "succeeded");
    check(&["daemon", &mark, "100000"], "unusable");
}

#[test]
fn a_program_in_memory_runs_and_one_that_belongs_to_root_becomes_root() {
    check(&["memfd-exec", "/bin/true"], "succeeded");
    check(&["set-user-id", "/usr/bin/su", "-c", "true"], "succeeded");
    check(&["set-user-id", "/bin/cat"], "refused");
}
