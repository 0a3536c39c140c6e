//! An OpenSSH server for a test: a loopback port, a fresh host key, one authorised key, and an account
//! with a home of its own. It ends when it is dropped.
//!
//! An unprivileged server serves only its own user, with that user's shell and home from the account
//! database. A test user often has neither, so the server gets a database of its own by way of
//! bubblewrap; everything else it sees is the machine as it is.
#![expect(
    clippy::disallowed_methods,
    reason = "starts a server for a test and prepares its directory"
)]

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

const SSHD: &str = "/usr/sbin/sshd";

/// The usual key exchange takes a client 80 ms of processor time, and no test is about it.
const KEY_EXCHANGE: &str = "KexAlgorithms curve25519-sha256\n";

/// How long to wait between looks at whether the server listens.
const LOOK: Duration = Duration::from_millis(5);

/// A server that listens.
#[derive(Debug)]
pub struct OpenSshServer {
    directory: TempDir,
    port: u16,
    child: Child,
}

impl OpenSshServer {
    /// Starts one. Panics where OpenSSH or bubblewrap is missing.
    pub fn start() -> Self {
        assert!(
            Path::new(SSHD).exists(),
            "{SSHD} is missing: apt-get install openssh-server"
        );
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("home")).expect("a home");
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            assert!(keygen.arg(at(key)).status().expect("ssh-keygen").success());
        }
        fs::copy(at("user_key.pub"), at("authorized_keys")).expect("a key");
        fs::write(at("config"), KEY_EXCHANGE).expect("a configuration");
        let id = |option: &str| {
            let ran = Command::new("id").arg(option).output().expect("id");
            String::from_utf8_lossy(&ran.stdout).trim().to_owned()
        };
        let (user, group, home) = (id("-u"), id("-g"), at("home"));
        let account = format!("tester:x:{user}:{group}::{}:/bin/sh\n", home.display());
        fs::write(at("passwd"), account).expect("an account");
        let begun = Instant::now();
        loop {
            // Somebody else may take the port before the server does.
            let free = TcpListener::bind("127.0.0.1:0").expect("a port");
            let port = free.local_addr().expect("an address").port();
            drop(free);
            let mut child = listen(directory.path(), port);
            while child.try_wait().expect("a child").is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    let key = fs::read_to_string(at("host_key.pub")).expect("a host key");
                    let line = format!("[127.0.0.1]:{port} {key}");
                    fs::write(at("known_hosts"), line).expect("a known host");
                    return Self {
                        directory,
                        port,
                        child,
                    };
                }
                let log = || fs::read_to_string(at("log")).unwrap_or_default();
                assert!(begun.elapsed() < crate::PATIENCE, "{}", log());
                std::thread::sleep(LOOK);
            }
        }
    }

    /// Where it listens, on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// One of its files: `user_key`, `known_hosts`, `config`, or the account's `home`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The keys of `[ssh]` with which a connection succeeds, as TOML.
    pub fn settings(&self, root: &Path) -> String {
        format!(
            "destination = \"tester@127.0.0.1\"\nroot = '{}'\nport = {}\n\
             identity_file = '{}'\nknown_hosts_file = '{}'\nconfig_file = '{}'\n",
            root.display(),
            self.port,
            self.file("user_key").display(),
            self.file("known_hosts").display(),
            self.file("config").display(),
        )
    }
}

impl Drop for OpenSshServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(directory: &Path, port: u16) -> Child {
    let keys = directory.join("authorized_keys");
    let log = fs::File::create(directory.join("log")).expect("a log");
    let mut server = Command::new("/usr/bin/bwrap");
    server
        .args(["--dev-bind", "/", "/", "--ro-bind"])
        .arg(directory.join("passwd"))
        .args(["/etc/passwd", "--die-with-parent", "--"])
        .args([SSHD, "-D", "-e", "-f", "/dev/null", "-h"])
        .arg(directory.join("host_key"))
        .args(["-p", &port.to_string(), "-o", "ListenAddress=127.0.0.1"])
        .args(["-o", &format!("AuthorizedKeysFile={}", keys.display())])
        .args(["-o", "StrictModes=no", "-o", "UsePAM=no"])
        .args(["-o", "PidFile=none", "-o", "PasswordAuthentication=no"])
        .args(["-o", "Subsystem=sftp internal-sftp"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    server.spawn().expect("bubblewrap")
}
