//! The calling side: implements the three operations by requests over a connection.
//!
//! `link.rs` is one connection, `peer.rs` the machine it leads to and how a lost one is replaced,
//! `exchange.rs` one request. Nothing here repeats a request that was sent.

mod exchange;
mod files;
mod link;
mod peer;
mod process;
mod search;

use std::{sync::Arc, time::Duration};

use haft_contract::ops::{BackendId, Operations, World};

use self::{files::RemoteFiles, peer::Peer, process::RemoteProcesses, search::RemoteSearch};
use super::{
    connect::{Connect, ConnectError, RemoteOptions},
    convert::open_to_wire,
};

/// How long reading or changing a single file may take on the other side.
const QUICK_LIMIT: Duration = Duration::from_mins(1);

/// How long work on a whole tree or a large file may take. Most callers have their own shorter
/// deadlines; this is for those that do not.
const LONG_LIMIT: Duration = Duration::from_hours(1);

/// A workspace on the other end of a byte stream.
#[derive(Debug, Clone, Copy)]
pub struct RemoteBackend;

impl RemoteBackend {
    /// Connects and opens a workspace. `root` is a path on the other machine.
    pub async fn connect(
        backend: BackendId,
        connect: Arc<dyn Connect>,
        root: &str,
        options: RemoteOptions,
    ) -> Result<Operations, ConnectError> {
        let open = open_to_wire(root, options);
        let peer = Arc::new(Peer::connect(backend.as_str(), connect, open).await?);
        Ok(Operations {
            backend,
            root: Arc::from(peer.root()),
            tiers: peer.tiers().to_vec(),
            tier_remedy: None,
            files: Arc::new(RemoteFiles::new(Arc::clone(&peer))),
            processes: Arc::new(RemoteProcesses::new(Arc::clone(&peer))),
            search: Arc::new(RemoteSearch::new(peer)),
            changes: None,
            repository: None,
            world: World::none(),
        })
    }
}
