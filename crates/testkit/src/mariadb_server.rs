//! A MariaDB server of a test's own: Debian's programs, on a socket, gone with the test.
#![expect(
    clippy::disallowed_methods,
    reason = "starts a server for a test and prepares its directory"
)]

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{PATIENCE, certificates::ServerCertificate};

/// Where Debian puts the server, which is on few people's path.
const SERVER: &str = "/usr/sbin/mariadbd";

/// Who the server runs as where the test is root.
const NOBODY: u32 = 65_534;

/// A running server. Its `root` logs in through the socket without a password.
#[derive(Debug)]
pub struct MariaDbServer {
    directory: TempDir,
    server: Mutex<Child>,
    databases: AtomicU32,
}

impl MariaDbServer {
    /// Starts one. Nothing waits for the disk.
    pub fn start() -> Self {
        Self::start_with(None, None, &[])
    }

    /// The same with more settings of the server: `--lower-case-table-names=1`.
    pub fn start_set(settings: &[&str]) -> Self {
        Self::start_with(None, None, settings)
    }

    /// Starts one that also listens on a loopback address, and encrypts there if it has a certificate.
    pub fn start_listening(address: Ipv4Addr, certificate: Option<&ServerCertificate>) -> Self {
        Self::start_with(Some(address), certificate, &[])
    }

    fn start_with(
        address: Option<Ipv4Addr>,
        certificate: Option<&ServerCertificate>,
        settings: &[&str],
    ) -> Self {
        let directory = tempfile::Builder::new().prefix("my").tempdir().unwrap();
        let data = directory.path().join("data");
        own(directory.path());
        let copied = Command::new("cp")
            .args(["-a", "--sparse=always"])
            .arg(template())
            .arg(&data)
            .status();
        assert!(copied.unwrap().success(), "the template is copied");
        // A server that starts removes temporary tables wherever it would make its own, and with them
        // those of another one that runs.
        let temporary = directory.path().join("tmp");
        fs::create_dir(&temporary).unwrap();
        own(&temporary);
        let mut command = as_server();
        command
            .args(["--pdeathsig", "KILL", SERVER, "--no-defaults"])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--tmpdir={}", temporary.display()))
            .arg(format!("--socket={}", directory.path().join("s").display()))
            .arg(format!("--pid-file={}", data.join("pid").display()))
            .args(ENGINE)
            .args([
                "--innodb-flush-log-at-trx-commit=0",
                "--innodb-buffer-pool-size=16M",
                "--innodb-doublewrite=0",
                "--performance-schema=0",
                "--max-connections=60",
            ])
            .args(settings);
        match address {
            None => command.arg("--skip-networking"),
            Some(address) => command
                .arg(format!("--bind-address={address}"))
                .arg("--port=3306"),
        };
        if let Some(certificate) = certificate {
            for (from, to, setting) in [
                (&certificate.chain, "server.crt", "--ssl-cert"),
                (&certificate.key, "server.key", "--ssl-key"),
            ] {
                let to = directory.path().join(to);
                fs::copy(from, &to).unwrap();
                fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
                own(&to);
                command.arg(format!("{setting}={}", to.display()));
            }
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(directory.path().join("log")).unwrap());
        let server = Self {
            directory,
            server: Mutex::new(spawned(command)),
            databases: AtomicU32::new(1),
        };
        server.wait_until_ready();
        server
    }

    /// The address of a database for a role, by the server's socket.
    pub fn url_of(&self, role: &str, database: &str) -> String {
        let socket = self.directory.path().join("s");
        format!(
            "mariadb://{role}@localhost/{database}?socket={}",
            socket.display()
        )
    }

    /// Makes an empty database; returns its name.
    pub fn new_database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("haft{number}");
        self.sql(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
        name
    }

    /// Runs statements as `root`, and returns what the client prints: rows in lines, columns behind tabs.
    pub fn sql(&self, statements: &str) -> String {
        self.run("", statements)
    }

    /// The same in a database.
    pub fn sql_in(&self, database: &str, statements: &str) -> String {
        self.run(database, statements)
    }

    fn run(&self, database: &str, statements: &str) -> String {
        let mut command = self.client("mariadb");
        command.args([
            "--batch",
            "--skip-column-names",
            "--default-character-set=utf8mb4",
            "-e",
            statements,
        ]);
        if !database.is_empty() {
            command.arg(database);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statements}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let socket = self.directory.path().join("s");
        command.args(["--no-defaults", "-uroot"]);
        command.arg(format!("--socket={}", socket.display()));
        command
    }

    fn wait_until_ready(&self) {
        let began = Instant::now();
        loop {
            let ready = self.client("mariadb-admin").arg("ping").output().unwrap();
            if ready.status.success() {
                return;
            }
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            assert!(began.elapsed() < PATIENCE, "the server starts: {log}");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for MariaDbServer {
    fn drop(&mut self) {
        let mut server = self.server.lock().unwrap();
        let _ = server.kill();
        let _ = server.wait();
    }
}

/// Files of a size that is copied fast.
const ENGINE: [&str; 2] = [
    "--innodb-log-file-size=8M",
    "--innodb-data-file-path=ibdata1:12M:autoextend",
];

/// Starts the server on a thread that it ends with, and which ends with the test.
fn spawned(mut command: Command) -> Child {
    let (started, child) = mpsc::channel();
    std::thread::spawn(move || {
        started.send(command.spawn().unwrap()).unwrap();
        loop {
            std::thread::park();
        }
    });
    child.recv().unwrap()
}

/// A command of the server's user.
fn as_server() -> Command {
    let mut command = Command::new("setpriv");
    if is_root() {
        let nobody = NOBODY.to_string();
        command.args(["--reuid", &nobody, "--regid", &nobody, "--clear-groups"]);
    }
    command
}

fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Makes a directory the server's.
fn own(directory: &Path) {
    if is_root() {
        chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// A server's empty files, made once for all tests: making them takes seconds.
fn template() -> PathBuf {
    assert!(
        Path::new(SERVER).exists(),
        "MariaDB is installed (Debian: mariadb-server)"
    );
    let home = std::env::temp_dir().join("haft-mariadb");
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    own(&home);
    let lock = fs::File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    let made = home.join("files");
    if !made.join("mysql").exists() {
        let making = home.join("making");
        let _ = fs::remove_dir_all(&making);
        let output = as_server()
            .args([
                "mariadb-install-db",
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ])
            .arg(format!("--datadir={}", making.display()))
            .args(ENGINE)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        fs::rename(&making, &made).unwrap();
    }
    made
}
