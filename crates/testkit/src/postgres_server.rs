//! A PostgreSQL server of a test's own: Debian's programs, on a socket, gone with the test.
#![expect(
    clippy::disallowed_methods,
    reason = "starts a server for a test and prepares its directory"
)]

use std::{
    fs,
    net::Ipv4Addr,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{CpuTime, PATIENCE, certificates::ServerCertificate};

/// Where Debian puts the programs of each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Who the server runs as where the test is root, which it refuses to be.
const NOBODY: u32 = 65_534;

/// The roles of a record's database, and the database.
const ROLES: &str = "CREATE ROLE haft_service NOLOGIN; CREATE ROLE haft_reader NOLOGIN; \
    CREATE ROLE haft_owner LOGIN; CREATE ROLE app LOGIN IN ROLE haft_service; \
    CREATE ROLE auditor LOGIN IN ROLE haft_reader";

/// The size of a small disk: an empty database and a few megabytes.
const SMALL_DISK: &str = "64m";

/// Mounts a file system that only what follows sees.
const WITH_SMALL_DISK: &str = r#"mount -t tmpfs -o "$1" small "$2" && shift 2 && exec "$@""#;

/// A running server with an empty database `haft`, which `haft_owner` owns.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    directory: TempDir,
    server: Mutex<Child>,
    databases: AtomicU32,
    /// Where it listens besides its socket.
    address: Option<Ipv4Addr>,
    /// Where a small file system is mounted that only the server sees.
    small_disk: Option<PathBuf>,
}

/// What a server has besides its socket.
#[derive(Default)]
struct Setup<'a> {
    address: Option<Ipv4Addr>,
    certificate: Option<&'a ServerCertificate>,
    has_small_disk: bool,
}

impl PostgresServer {
    /// Starts one. What a crash of the machine would lose is not tested with it: nothing waits for the
    /// disk.
    pub fn start() -> Self {
        Self::start_with(Setup::default())
    }

    /// Starts one that also listens on a loopback address of its own (`own_address`), and encrypts there if
    /// it has a certificate. Roles need a password there, which is their name; encryption is not required
    /// of them, so that a client that does without it is not refused.
    pub fn start_listening(address: Ipv4Addr, certificate: Option<&ServerCertificate>) -> Self {
        Self::start_with(Setup {
            address: Some(address),
            certificate,
            has_small_disk: false,
        })
    }

    /// A loopback address that no other test uses, whichever process or thread runs it.
    pub fn own_address() -> Ipv4Addr {
        static SERVERS: AtomicU32 = AtomicU32::new(0);
        // A process id has 22 bits. The address of the machine itself begins with 127.0.
        let server = SERVERS.fetch_add(1, Ordering::Relaxed) % 3 + 1;
        let [_, a, b, c] = std::process::id().to_be_bytes();
        let server = u8::try_from(server).unwrap();
        Ipv4Addr::new(127, a << 2 | server, b, c)
    }

    /// Starts one that has a tablespace `small` on a small disk.
    pub fn start_on_a_small_disk() -> Self {
        let server = Self::start_with(Setup {
            has_small_disk: true,
            ..Setup::default()
        });
        let disk = server.small_disk().display();
        let tablespace = format!("CREATE TABLESPACE small LOCATION '{disk}'");
        server.run("postgres", &tablespace);
        server.run("postgres", "GRANT CREATE ON TABLESPACE small TO PUBLIC");
        server
    }

    fn start_with(setup: Setup<'_>) -> Self {
        let Setup {
            address,
            certificate,
            has_small_disk,
        } = setup;
        let programs = programs();
        let directory = tempfile::Builder::new().prefix("pg").tempdir().unwrap();
        let data = directory.path().join("data");
        own(directory.path());
        let copied = Command::new("cp")
            .args(["-a"])
            .arg(template(&programs))
            .arg(&data)
            .status();
        assert!(copied.unwrap().success(), "the template is copied");
        if address.is_some() {
            let entries = fs::read_to_string(data.join("pg_hba.conf")).unwrap();
            let entries = format!("host all all 127.0.0.0/8 scram-sha-256\n{entries}");
            fs::write(data.join("pg_hba.conf"), entries).unwrap();
        }
        if let Some(certificate) = certificate {
            for (from, to) in [
                (&certificate.chain, "server.crt"),
                (&certificate.key, "server.key"),
            ] {
                let to = data.join(to);
                fs::copy(from, &to).unwrap();
                fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).unwrap();
                own(&to);
            }
            let settings = fs::read_to_string(data.join("postgresql.conf")).unwrap();
            fs::write(
                data.join("postgresql.conf"),
                format!("{settings}\nssl = on\n"),
            )
            .unwrap();
        }
        let small_disk = has_small_disk.then(|| directory.path().join("small"));
        if let Some(disk) = &small_disk {
            fs::create_dir(disk).unwrap();
            own(disk);
        }
        let server = start(
            &programs,
            directory.path(),
            &data,
            address,
            small_disk.as_deref(),
        );
        let server = Self {
            programs,
            directory,
            server: Mutex::new(server),
            databases: AtomicU32::new(1),
            address,
            small_disk,
        };
        server.wait_until_ready();
        server.run("postgres", ROLES);
        if address.is_some() {
            let passwords = ["haft_owner", "app", "auditor"]
                .map(|role| format!("ALTER ROLE {role} PASSWORD '{role}'"));
            server.run("postgres", &passwords.join("; "));
        }
        server.run("postgres", "CREATE DATABASE haft OWNER haft_owner");
        server
    }

    /// The address of the database, for one of its roles: `haft_owner`, `app`, `auditor` or `postgres`.
    pub fn url(&self, role: &str) -> String {
        self.url_of(role, "haft")
    }

    /// The address of another database of the server.
    pub fn url_of(&self, role: &str, database: &str) -> String {
        let socket = self.directory.path().display().to_string();
        format!(
            "postgres://{role}@{}/{database}",
            socket.replace('/', "%2F")
        )
    }

    /// Makes another empty database; returns its name.
    pub fn new_database(&self) -> String {
        self.new_database_on("pg_default")
    }

    /// The same on a tablespace.
    pub fn new_database_on(&self, tablespace: &str) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("haft{number}");
        self.run(
            "postgres",
            &format!("CREATE DATABASE {name} OWNER haft_owner TABLESPACE {tablespace}"),
        );
        name
    }

    /// Copies a database, whoever is connected to it.
    pub fn copy_database(&self, from: &str, to: &str) {
        self.end_connections(from);
        let copy = format!("CREATE DATABASE {to} TEMPLATE {from} OWNER haft_owner");
        self.run("postgres", &copy);
    }

    /// Renames a database, whoever is connected to it.
    pub fn rename_database(&self, from: &str, to: &str) {
        self.end_connections(from);
        self.run("postgres", &format!("ALTER DATABASE {from} RENAME TO {to}"));
    }

    fn end_connections(&self, database: &str) {
        let end = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname =";
        self.run("postgres", &format!("{end} '{database}'"));
    }

    /// Has the server log every statement with its values, each after `@@role/database `.
    pub fn log_statements(&self) {
        for setting in [
            "log_min_duration_statement = 0",
            "log_line_prefix = '@@%u/%d '",
        ] {
            self.set(setting);
        }
    }

    /// Changes a setting of the server while it runs.
    pub fn set(&self, setting: &str) {
        self.run("postgres", &format!("ALTER SYSTEM SET {setting}"));
        self.run("postgres", "SELECT pg_reload_conf()");
    }

    /// Leaves no byte free on the small disk.
    pub fn fill_small_disk(&self) {
        let disk = self.small_disk().display();
        self.run_program(&format!("head -c 1G /dev/zero > {disk}/ballast; true"));
    }

    /// Makes room again.
    pub fn clear_small_disk(&self) {
        let disk = self.small_disk().display();
        self.run_program(&format!("rm {disk}/ballast"));
    }

    fn small_disk(&self) -> &Path {
        let disk = self.small_disk.as_deref();
        disk.expect("a server that was started on a small disk")
    }

    /// Runs a program where the server runs, which alone sees its mounts.
    fn run_program(&self, script: &str) {
        let copy = format!("COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; {script}'");
        self.run("postgres", &copy);
    }

    /// The server's log.
    pub fn log_file(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// Where its databases are.
    pub fn data_directory(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Processor time of all its processes so far.
    pub fn processor_time(&self) -> Duration {
        let server = self.child().id().to_string();
        let of = format!("/proc/{server}/task/{server}/children");
        let children = fs::read_to_string(of).unwrap_or_default();
        let children = children.split_whitespace().map(CpuTime::of_process);
        CpuTime::of_process(&server) + children.sum::<Duration>()
    }

    /// Runs statements as the superuser in the database `haft`, and returns what `psql` prints.
    pub fn sql(&self, statements: &str) -> String {
        self.run("haft", statements)
    }

    /// The same in another database.
    pub fn sql_in(&self, database: &str, statements: &str) -> String {
        self.run(database, statements)
    }

    /// Kills the server as `kill -9` of all its processes would, and starts it again on the same data.
    pub fn crash(&self) {
        self.kill();
        let data = self.data_directory();
        let _ = fs::remove_file(data.join("postmaster.pid"));
        let (address, disk) = (self.address, self.small_disk.as_deref());
        *self.child() = start(&self.programs, self.directory.path(), &data, address, disk);
        self.wait_until_ready();
    }

    /// Ends the server at once.
    pub fn kill(&self) {
        // SIGQUIT is the server's own word for ending all its processes without finishing anything.
        let mut server = self.child();
        let id = server.id().to_string();
        let _ = Command::new("kill").args(["-QUIT", &id]).status();
        let _ = server.wait();
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.server.lock().unwrap()
    }

    fn run(&self, database: &str, statements: &str) -> String {
        let output = Command::new(self.programs.join("psql"))
            .args([
                "-X",
                "-q",
                "-A",
                "-t",
                "-v",
                "ON_ERROR_STOP=1",
                "-U",
                "postgres",
                "-h",
            ])
            .arg(self.directory.path())
            .args(["-d", database, "-c", statements])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{statements}: {said}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn wait_until_ready(&self) {
        let began = Instant::now();
        loop {
            let ready = Command::new(self.programs.join("pg_isready"))
                .args(["-q", "-h"])
                .arg(self.directory.path())
                .status();
            if ready.unwrap().success() {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "the server starts");
            sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn programs() -> PathBuf {
    let versions = fs::read_dir(VERSIONS).expect("PostgreSQL is installed (Debian: postgresql)");
    let newest = versions.map(|version| version.unwrap().path()).max();
    newest.expect("a version of PostgreSQL").join("bin")
}

fn start(
    programs: &Path,
    socket: &Path,
    data: &Path,
    address: Option<Ipv4Addr>,
    small_disk: Option<&Path>,
) -> Child {
    let mut server = match small_disk {
        Some(disk) => as_server_with(disk),
        None => as_server(),
    };
    let listens = address.map_or_else(String::new, |address| address.to_string());
    server
        .args(["--pdeathsig", "QUIT"])
        .arg(programs.join("postgres"))
        .arg("-D")
        .arg(data)
        .arg("-k")
        .arg(socket)
        .arg("-c")
        .arg(format!("listen_addresses={listens}"))
        .args(["-c", "fsync=off", "-c", "shared_buffers=32MB"])
        .args(["-c", "max_connections=60", "-c", "log_min_messages=warning"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(socket.join("log")).unwrap());
    let (started, child) = mpsc::channel();
    // It ends with the thread that started it, and that one ends with the test, however the test does.
    std::thread::spawn(move || {
        started.send(server.spawn().unwrap()).unwrap();
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

/// The same with a small file system at this place. Whoever is not root may mount one among mounts and
/// users of its own, and is its own user again after that, because the server refuses to be root.
fn as_server_with(small_disk: &Path) -> Command {
    let mut command = Command::new("unshare");
    let (user, group) = if is_root() {
        (NOBODY, NOBODY)
    } else {
        command.args(["--user", "--map-root-user"]);
        (0, 0)
    };
    let options = format!("size={SMALL_DISK},mode=700,uid={user},gid={group}");
    command
        .args(["--mount", "sh", "-c", WITH_SMALL_DISK, "sh", &options])
        .arg(small_disk);
    let server = as_server();
    if !is_root() {
        let (user, group) = own_ids();
        command.args([
            "unshare",
            "--user",
            "--map-user",
            &user,
            "--map-group",
            &group,
        ]);
    }
    command.arg(server.get_program()).args(server.get_args());
    command
}

fn own_ids() -> (String, String) {
    use std::os::unix::fs::MetadataExt as _;
    let own = fs::metadata("/proc/self").unwrap();
    (own.uid().to_string(), own.gid().to_string())
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Makes a directory the server's.
fn own(directory: &Path) {
    if is_root() {
        chown(directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

/// An empty cluster, made once for all tests: making one takes seconds.
fn template(programs: &Path) -> PathBuf {
    let version = programs.parent().and_then(Path::file_name).unwrap();
    let name = format!("haft-postgres-{}", version.to_string_lossy());
    let home = std::env::temp_dir().join(name);
    fs::create_dir_all(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    own(&home);
    let lock = fs::File::create(home.join("lock")).unwrap();
    lock.lock().unwrap();
    let made = home.join("cluster");
    if !made.join("PG_VERSION").exists() {
        let making = home.join("making");
        let _ = fs::remove_dir_all(&making);
        let output = as_server()
            .arg(programs.join("initdb"))
            .args([
                "-A",
                "trust",
                "-U",
                "postgres",
                "-N",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "-D",
            ])
            .arg(&making)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        fs::rename(&making, &made).unwrap();
    }
    made
}
