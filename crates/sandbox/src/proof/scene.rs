//! Something to attack: a workspace, and outside it a file, sockets that answer, and a process. All
//! of it is ours and is removed with the scene.

use std::{
    fs::{self, DirBuilder},
    io,
    net::TcpListener,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            fs::DirBuilderExt as _,
            net::{SocketAddr, UnixListener},
        },
    },
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use haft_contract::ops::Tier;

use super::cases::words;

/// The kernel accepts at most 108 bytes, including the final null byte.
const MAX_SOCKET_PATH: usize = 107;

/// Distinguishes the scenes of one process.
static SCENES: AtomicU32 = AtomicU32::new(0);

/// What attempts attack.
pub(super) struct AttackScene {
    directory: PathBuf,
    workspace: PathBuf,
    mark: String,
    key: u32,
    socket: PathBuf,
    tcp: TcpListener,
    target: u32,
    _unix: UnixListener,
    _named: UnixListener,
}

impl AttackScene {
    /// Makes everything below a directory.
    pub(super) fn set(place: &Path) -> io::Result<Self> {
        let number = SCENES.fetch_add(1, Ordering::Relaxed);
        let mark = format!("haft-proof-{}-{number}", std::process::id());
        let directory = place.join(&mark);
        let workspace = directory.join("workspace");
        let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(place)?;
        private(&directory)?;
        private(&workspace)?;
        fs::write(directory.join("file"), "outside")?;
        let socket = socket_path(&directory, &mark);
        let unix = UnixListener::bind(&socket)?;
        let named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&mark)?)?;
        Ok(Self {
            // Bubblewrap and Landlock need real paths.
            workspace: fs::canonicalize(workspace)?,
            directory: fs::canonicalize(directory)?,
            key: std::process::id().wrapping_shl(4) | (number & 0xf) | 1,
            mark,
            socket,
            tcp: TcpListener::bind("127.0.0.1:0")?,
            target: 0,
            _unix: unix,
            _named: named,
        })
    }

    /// Sets the process to aim at.
    pub(super) fn with_target(mut self, id: u32) -> Self {
        self.target = id;
        self
    }

    /// The workspace.
    pub(super) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// A word unique to the scene: on a command line, or as a name.
    pub(super) fn mark(&self) -> &str {
        &self.mark
    }

    /// An attempt on the file.
    pub(super) fn on_file(&self, attempt: &str) -> Vec<String> {
        let file = self.directory.join("file");
        vec![attempt.to_owned(), file.display().to_string()]
    }

    /// An attempt on the process.
    pub(super) fn on_target(&self, attempt: &str) -> Vec<String> {
        vec![attempt.to_owned(), self.target.to_string()]
    }

    /// An attempt on the process that keeps the sandbox: its first one, if it has its own
    /// processes, otherwise one outside.
    pub(super) fn on_keeper(&self, attempt: &str, tier: Tier) -> Vec<String> {
        match tier {
            Tier::T2 | Tier::T3 => words([attempt, "1"]),
            Tier::Host | Tier::T1 | Tier::InProcess => self.on_target(attempt),
        }
    }

    /// The key of the shared memory.
    pub(super) fn key(&self) -> String {
        self.key.to_string()
    }

    /// The port that is listened on.
    pub(super) fn port(&self) -> String {
        let address = self.tcp.local_addr();
        address.map_or_else(|_| "0".to_owned(), |address| address.port().to_string())
    }

    /// The path of the socket.
    pub(super) fn socket(&self) -> String {
        self.socket.display().to_string()
    }

    /// What attempts outside set up before the first one.
    pub(super) fn preparations(&self) -> Vec<Vec<String>> {
        vec![words(["sysv-memory-create", &self.key()])]
    }

    /// What attempts outside remove after the last one.
    pub(super) fn clearances(&self) -> Vec<Vec<String>> {
        vec![words(["sysv-memory-remove", &self.key()])]
    }
}

/// Next to the file, unless that path is too long for a socket.
fn socket_path(directory: &Path, mark: &str) -> PathBuf {
    let usual = directory.join("socket");
    if usual.as_os_str().len() < MAX_SOCKET_PATH {
        return usual;
    }
    std::env::temp_dir().join(mark)
}

impl Drop for AttackScene {
    fn drop(&mut self) {
        // What cannot be removed is private and contains nothing.
        let _ = fs::remove_file(&self.socket);
        let _ = fs::remove_dir_all(&self.directory);
        // Succeeds only with the last scene in it.
        let _ = self.directory.parent().map(fs::remove_dir);
    }
}
