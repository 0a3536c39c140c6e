//! An OpenSSH server of one's own: a loopback port, a fresh host key, one authorised key, and an
//! account with a home of its own.
//!
//! An unprivileged server serves only its own user, with that user's shell and home from the
//! account database. A test user often has neither, so the server gets an account database of its
//! own, by way of bubblewrap; everything else it sees is the machine as it is.

use std::{
    fmt::Write as _,
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use haft_backends::ssh::{Destination, SshBackend, SshOptions};
use haft_sandbox::helper::Helper;
use sha2::{Digest, Sha256};

use crate::{
    processes::{children, kill, name},
    remote::fixture::RemoteFixture,
    suites::LocalFixture,
};

const SSHD: &str = "/usr/sbin/sshd";

/// The usual key exchange takes a client 80 ms of processor time, and no test is about it.
const KEY_EXCHANGE: &str = "KexAlgorithms curve25519-sha256\n";

/// How long a server may take to listen.
const START_LIMIT: Duration = haft_testkit::PATIENCE;

pub(crate) struct SshServer {
    directory: tempfile::TempDir,
    pub(crate) port: u16,
    child: Child,
}

impl SshServer {
    pub(crate) fn start() -> Self {
        assert!(
            Path::new(SSHD).exists(),
            "{SSHD} is missing: apt-get install openssh-server"
        );
        let directory = tempfile::tempdir().unwrap();
        let server = directory.path();
        make_private(&server.join("home"));
        for key in ["host_key", "user_key", "other_key"] {
            make_key(&server.join(key));
        }
        fs::copy(server.join("user_key.pub"), server.join("authorized_keys")).unwrap();
        fs::write(server.join("config"), KEY_EXCHANGE).unwrap();
        let user = rustix::process::getuid().as_raw();
        let group = rustix::process::getgid().as_raw();
        let home = server.join("home");
        let account = format!("tester:x:{user}:{group}::{}:/bin/sh\n", home.display());
        fs::write(server.join("passwd"), account).unwrap();
        let begun = Instant::now();
        loop {
            // Somebody else may take the port before the server does.
            let port = TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| listener.local_addr())
                .unwrap()
                .port();
            let mut child = start_server(server, port);
            while child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    let this = Self {
                        directory,
                        port,
                        child,
                    };
                    this.know_host_key("host_key");
                    return this;
                }
                assert!(begun.elapsed() < START_LIMIT, "{}", this_log(server));
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(begun.elapsed() < START_LIMIT, "{}", this_log(server));
        }
    }

    /// Options with which a connection succeeds.
    pub(crate) fn options(&self) -> SshOptions {
        let mut options = SshOptions::new(Destination::parse("tester@127.0.0.1").unwrap());
        options.port = Some(self.port);
        options.identity_file = Some(self.file("user_key"));
        options.known_hosts_file = Some(self.file("known_hosts"));
        options.config_file = Some(self.file("config"));
        options.helper = Helper::Path(env!("CARGO_BIN_EXE_haft-helper").into());
        options
    }

    /// A file of the fixture.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.file("home")
    }

    /// The only host key that is known from now on.
    pub(crate) fn know_host_key(&self, key: &str) {
        let public = fs::read_to_string(self.file(&format!("{key}.pub"))).unwrap();
        let line = format!("[127.0.0.1]:{} {public}", self.port);
        fs::write(self.file("known_hosts"), line).unwrap();
    }

    /// Puts the helper where an upload would, for tests that are not about the upload.
    pub(crate) fn install_helper(&self) {
        let program = env!("CARGO_BIN_EXE_haft-helper");
        make_private(&self.home().join(".cache/haft"));
        symlink(program, self.helper_path(Path::new(program))).unwrap();
    }

    /// Where a helper lies in the account's home.
    pub(crate) fn helper_path(&self, program: &Path) -> PathBuf {
        let digest = Sha256::digest(fs::read(program).unwrap());
        let mut name = "helper-".to_owned();
        for byte in digest {
            write!(name, "{byte:02x}").unwrap();
        }
        self.home().join(".cache/haft").join(name)
    }

    /// The ids of the server's processes for connections: everything below it that is a server.
    pub(crate) fn sessions(&self) -> Vec<u32> {
        let mut found = Vec::new();
        let mut waiting = vec![self.child.id()];
        while let Some(parent) = waiting.pop() {
            for child in children(parent) {
                if name(child) == "sshd" {
                    waiting.push(child);
                    found.push(child);
                }
            }
        }
        // The first one below bubblewrap listens.
        found.into_iter().skip(1).collect()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        for session in self.sessions() {
            kill(session);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A workspace over SSH, with the helper in place.
pub(crate) async fn fixture() -> RemoteFixture {
    let server = SshServer::start();
    server.install_helper();
    over(server).await
}

pub(crate) async fn over(server: SshServer) -> RemoteFixture {
    let place = LocalFixture::new();
    let root = place.0.root.to_str().unwrap();
    let operations = SshBackend::connect(server.options(), root).await.unwrap();
    RemoteFixture::with(place, operations, Box::new(server))
}

fn start_server(server: &Path, port: u16) -> Child {
    let log = fs::File::create(server.join("log")).unwrap();
    let of = |name: &str| server.join(name).display().to_string();
    Command::new("/usr/bin/bwrap")
        .args(["--dev-bind", "/", "/", "--ro-bind"])
        .arg(server.join("passwd"))
        .args(["/etc/passwd", "--die-with-parent", "--"])
        .args([SSHD, "-D", "-e", "-f", "/dev/null", "-h"])
        .arg(server.join("host_key"))
        .args(["-p", &port.to_string()])
        .args(["-o", "ListenAddress=127.0.0.1"])
        .args([
            "-o",
            &format!("AuthorizedKeysFile={}", of("authorized_keys")),
        ])
        .args(["-o", "StrictModes=no", "-o", "UsePAM=no"])
        .args(["-o", "PidFile=none", "-o", "PasswordAuthentication=no"])
        .args(["-o", "KbdInteractiveAuthentication=no"])
        .args(["-o", "Subsystem=sftp internal-sftp"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("bubblewrap")
}

fn make_private(directory: &Path) {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .unwrap();
}

fn make_key(path: &Path) {
    let made = Command::new("/usr/bin/ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

fn this_log(server: &Path) -> String {
    fs::read_to_string(server.join("log")).unwrap_or_default()
}
