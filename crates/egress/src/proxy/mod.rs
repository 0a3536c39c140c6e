//! The way out of a sandbox: a proxy in Haft's own process that programs reach over a Unix socket,
//! and that connects only where the rules allow.
//!
//! A sandbox has no network of its own, so there is no other way out. Each refusal is kept and
//! reported when the child ends. The proxy must not read encrypted content, and it changes nothing
//! but the heads of plain requests.
//!
//! Read next: `session.rs` for one connection; `../admission.rs` for what is allowed.

mod client;
mod forward;
#[cfg(test)]
mod fuzz;
mod head;
mod hello;
mod http;
mod relay;
mod session;
mod socket_directory;
mod socks;
mod tunnel;

use std::{
    env, fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_contract::{
    ErrorKind,
    egress::{EgressRules, Resolve},
    ops::{OpsError, Refusal},
};
use tokio::{
    net::UnixListener,
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
    time::{Duration, sleep},
};

pub use self::session::{Timing, Traffic};
use self::{client::Client, session::ProxyState, socket_directory::SocketDirectory};
use crate::{
    admission::{Admission, AdmissionScope},
    denial::SETTING,
    resolve::SystemResolver,
};

/// How long to pause after accepting failed, which happens when descriptors run out.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// How a proxy is made.
#[derive(Clone)]
pub struct ProxyOptions {
    /// How names are looked up.
    pub resolver: Arc<dyn Resolve>,
    /// The directory in which each proxy makes one for its socket.
    pub beneath: PathBuf,
    /// How long things may take.
    pub timing: Timing,
    /// The most connections of one child at a time; further ones wait.
    pub max_connections: usize,
    /// The name, in messages, of the setting that would allow what is denied, and where it is.
    pub setting: String,
}

impl Default for ProxyOptions {
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver::default()),
            beneath: env::temp_dir(),
            timing: Timing::default(),
            max_connections: 128,
            setting: format!("`{SETTING}` in haft.toml"),
        }
    }
}

impl fmt::Debug for ProxyOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyOptions")
            .field("beneath", &self.beneath)
            .field("timing", &self.timing)
            .field("max_connections", &self.max_connections)
            .finish_non_exhaustive()
    }
}

/// The proxy of one child. Dropping it ends every connection and removes its socket.
pub struct EgressProxy {
    place: SocketDirectory,
    shared: Arc<ProxyState>,
    accepting: AbortHandle,
}

impl EgressProxy {
    /// Starts a proxy. Must be called in a tokio runtime, which then runs it.
    pub fn start(rules: Arc<EgressRules>, options: &ProxyOptions) -> Result<Self, OpsError> {
        let (place, listener) = SocketDirectory::make(&options.beneath).map_err(cannot_start)?;
        listener.set_nonblocking(true).map_err(cannot_start)?;
        let listener = UnixListener::from_std(listener).map_err(cannot_start)?;
        let resolver = Arc::clone(&options.resolver);
        let admission = Admission::new(
            AdmissionScope::Rules(rules),
            resolver,
            options.timing.connect,
        );
        let shared = Arc::new(ProxyState::new(
            admission,
            options.timing,
            options.setting.clone(),
        ));
        let accepting = accept(listener, Arc::clone(&shared), options.max_connections);
        Ok(Self {
            place,
            shared,
            accepting: tokio::spawn(accepting).abort_handle(),
        })
    }

    /// The socket it listens on, to bind into the sandbox.
    pub fn socket(&self) -> &Path {
        self.place.socket()
    }

    /// What was refused so far, each once; at most [`Refusal::MAX`].
    pub fn refusals(&self) -> Vec<Refusal> {
        self.shared.refusals()
    }

    /// The traffic so far.
    pub fn traffic(&self) -> Traffic {
        self.shared.traffic()
    }
}

impl Drop for EgressProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl fmt::Debug for EgressProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressProxy")
            .field("socket", &self.socket())
            .field("traffic", &self.traffic())
            .finish_non_exhaustive()
    }
}

/// Accepts connections as long as the proxy lives; they end with it.
async fn accept(listener: UnixListener, shared: Arc<ProxyState>, max_connections: usize) {
    let places = Arc::new(Semaphore::new(max_connections));
    let mut sessions = JoinSet::new();
    loop {
        // Acquired before accepting, so that excess connections wait in the kernel and cost
        // nothing.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        while sessions.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let shared = Arc::clone(&shared);
                sessions.spawn(async move {
                    session::serve(&shared, Client::new(stream)).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the proxy cannot accept a connection");
                sleep(ACCEPT_REST).await;
            }
        }
    }
}

fn cannot_start(error: io::Error) -> OpsError {
    OpsError::new(
        ErrorKind::Unavailable,
        format!("the proxy for the network cannot be started: {error}"),
    )
}
