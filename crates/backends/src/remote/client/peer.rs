//! The machine a connection leads to. A lost connection is replaced at the next call, and only if
//! the workspace there is still the same directory; calls in progress are not repeated.

use std::sync::Arc;

use haft_contract::{
    ErrorKind,
    ops::{OpsError, Tier},
};
use tokio::sync::Mutex;

use super::link::Link;
use crate::remote::{
    connect::{Connect, ConnectError},
    convert,
    wire::{OpenWorkspace, OpenedWorkspace},
};

/// How to reach the other side, and the current connection to it.
pub(super) struct Peer {
    name: String,
    connect: Arc<dyn Connect>,
    open: OpenWorkspace,
    /// What the first connection found there.
    opened: OpenedWorkspace,
    tiers: Vec<Tier>,
    link: Mutex<Arc<Link>>,
}

impl Peer {
    pub(super) async fn connect(
        name: &str,
        connect: Arc<dyn Connect>,
        open: OpenWorkspace,
    ) -> Result<Self, ConnectError> {
        let (link, opened) = Link::open(name, &*connect, &open).await?;
        let tiers = opened
            .tiers
            .iter()
            .map(|word| convert::tier(word))
            .collect::<Result<_, _>>()
            .map_err(|garbled| ConnectError::new(garbled.to_string()))?;
        Ok(Self {
            name: name.to_owned(),
            connect,
            open,
            opened,
            tiers,
            link: Mutex::new(link),
        })
    }

    pub(super) fn root(&self) -> &str {
        &self.opened.root
    }

    pub(super) fn tiers(&self) -> &[Tier] {
        &self.tiers
    }

    /// A connection that was alive a moment ago. The first caller to find it lost makes a new one,
    /// and the others wait for that.
    pub(super) async fn link(&self) -> Result<Arc<Link>, OpsError> {
        let mut link = self.link.lock().await;
        if !link.is_lost() {
            return Ok(Arc::clone(&link));
        }
        let opened = Link::open(&self.name, &*self.connect, &self.open).await;
        let (fresh, opened) = opened.map_err(|error| OpsError::from(&error))?;
        if (opened.device, opened.inode) != (self.opened.device, self.opened.inode) {
            return Err(OpsError::new(
                ErrorKind::WorkspaceMoved,
                "the workspace root is no longer the directory that was opened",
            ));
        }
        tracing::info!(peer = %self.name, "connected again");
        *link = Arc::clone(&fresh);
        Ok(fresh)
    }
}
