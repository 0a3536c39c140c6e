//! An OpenSSH server of this process: a loopback port, a fresh host key, one authorised key, and an
//! account with a home of its own. It ends with this process.
//!
//! An unprivileged server serves only its own user, with that user's shell and home from the account
//! database. A test user often has neither, so the server gets a database of its own by way of
//! bubblewrap; everything else it sees is the machine as it is.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::{DirBuilderExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

use haft_backends::ssh::{Destination, SshOptions};
use haft_sandbox::helper::Helper;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::place;

const SSHD: &str = "/usr/sbin/sshd";

/// The usual key exchange takes a client 80 ms of processor time, and no test is about it.
const KEY_EXCHANGE: &str = "KexAlgorithms curve25519-sha256\n";

/// How long a server may take to listen.
const START_LIMIT: Duration = haft_testkit::PATIENCE;

pub(crate) struct SshServer {
    directory: TempDir,
    port: u16,
}

impl SshServer {
    /// The one server of this process, started when it is first asked for.
    pub(crate) fn of_this_process() -> &'static Self {
        static SERVER: OnceLock<SshServer> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    /// Options with which a connection succeeds.
    pub(crate) fn options(&self) -> SshOptions {
        let mut options = SshOptions::new(Destination::parse("tester@127.0.0.1").unwrap());
        let file = |name: &str| Some(self.directory.path().join(name));
        options.port = Some(self.port);
        options.identity_file = file("user_key");
        options.known_hosts_file = file("known_hosts");
        options.config_file = file("config");
        options.helper = Helper::Path(place::helper());
        options
    }

    fn start() -> Self {
        assert!(
            Path::new(SSHD).exists(),
            "{SSHD} is missing: apt-get install openssh-server"
        );
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for key in ["host_key", "user_key"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            assert!(keygen.arg(at(key)).status().unwrap().success());
        }
        fs::copy(at("user_key.pub"), at("authorized_keys")).unwrap();
        fs::write(at("config"), KEY_EXCHANGE).unwrap();
        let account = format!(
            "tester:x:{}:{}::{}:/bin/sh\n",
            rustix::process::getuid().as_raw(),
            rustix::process::getgid().as_raw(),
            at("home").display()
        );
        fs::write(at("passwd"), account).unwrap();
        install_helper(&at("home/.cache/haft"));
        let begun = Instant::now();
        loop {
            // Somebody else may take the port before the server does.
            let free = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let log = || fs::read_to_string(at("log")).unwrap_or_default();
            let mut child = listen(directory.path(), port);
            while child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    let key = fs::read_to_string(at("host_key.pub")).unwrap();
                    let line = format!("[127.0.0.1]:{port} {key}");
                    fs::write(at("known_hosts"), line).unwrap();
                    return Self { directory, port };
                }
                assert!(begun.elapsed() < START_LIMIT, "{}", log());
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(begun.elapsed() < START_LIMIT, "{}", log());
        }
    }
}

/// Puts the helper where an upload would: the corpus is not about the upload.
fn install_helper(directory: &Path) {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .unwrap();
    let digest = Sha256::digest(fs::read(place::helper()).unwrap());
    let digits: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let name = format!("helper-{}", digits.concat());
    symlink(place::helper(), directory.join(name)).unwrap();
}

fn listen(directory: &Path, port: u16) -> std::process::Child {
    let keys = directory.join("authorized_keys");
    Command::new("/usr/bin/bwrap")
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
        .stderr(fs::File::create(directory.join("log")).unwrap())
        .spawn()
        .expect("bubblewrap")
}
