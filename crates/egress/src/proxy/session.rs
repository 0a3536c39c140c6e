//! One program's connection to the proxy: its first byte shows the protocol, SOCKS5 or HTTP. Also
//! holds everything a connection shares with the others of the same child.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{egress::Host, ops::Refusal};
use tokio::time::{Instant, timeout_at};

use super::{client::Client, http, socks};
use crate::{
    admission::{Admission, AdmittedConnection, ConnectError},
    denial::Denial,
};

/// The first byte of SOCKS5.
const SOCKS5: u8 = 5;

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// From a connection to a complete request, and from a tunnel to the first bytes in it.
    pub request: Duration,
    /// To look up a name, and again to connect to one of its addresses.
    pub connect: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// For a whole connection.
    pub total: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(10),
            connect: Duration::from_secs(15),
            idle: Duration::from_mins(5),
            total: Duration::from_hours(4),
        }
    }
}

/// What went through a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Connections made to hosts.
    pub connections: u64,
    /// Bytes sent to hosts.
    pub sent: u64,
    /// Bytes received from hosts.
    pub received: u64,
}

/// What the connections of one child share.
pub(super) struct ProxyState {
    admission: Admission,
    pub(super) timing: Timing,
    pub(super) counters: Counters,
    /// The name of the setting that would allow what is denied.
    pub(super) setting: String,
    refusals: Mutex<Vec<Refusal>>,
}

/// The live counts behind [`Traffic`].
#[derive(Default)]
pub(super) struct Counters {
    connections: AtomicU64,
    pub(super) sent: AtomicU64,
    pub(super) received: AtomicU64,
}

impl ProxyState {
    pub(super) fn new(admission: Admission, timing: Timing, setting: String) -> Self {
        Self {
            admission,
            timing,
            setting,
            counters: Counters::default(),
            refusals: Mutex::default(),
        }
    }

    /// Connects to a host if that is allowed.
    pub(super) async fn connect(
        &self,
        host: &Host,
        port: u16,
    ) -> Result<AdmittedConnection, ConnectError> {
        let admitted = self.admission.admit(host, port).await?;
        self.counters.connections.fetch_add(1, Ordering::Relaxed);
        Ok(admitted)
    }

    /// Records a denial before the program gets the answer, so that it is known when the program
    /// ends.
    pub(super) fn note(&self, denial: &Denial) {
        let refusal = denial.refusal(&self.setting);
        tracing::info!(what = refusal.what, why = refusal.why, "egress refused");
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() < Refusal::MAX && !refusals.contains(&refusal) {
            refusals.push(refusal);
        }
    }

    pub(super) fn refusals(&self) -> Vec<Refusal> {
        let refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        refusals.clone()
    }

    pub(super) fn traffic(&self) -> Traffic {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic {
            connections: read(&self.counters.connections),
            sent: read(&self.counters.sent),
            received: read(&self.counters.received),
        }
    }
}

/// Serves one connection until it ends; a failure affects no other connection.
pub(super) async fn serve(shared: &ProxyState, client: Client) {
    let until = Instant::now() + shared.timing.total;
    match timeout_at(until, speak(shared, client)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a connection to the proxy ended early"),
        Err(_) => tracing::debug!("a connection to the proxy took too long"),
    }
}

async fn speak(shared: &ProxyState, mut client: Client) -> io::Result<()> {
    let until = Instant::now() + shared.timing.request;
    timeout_at(until, client.reader.more()).await??;
    match client.reader.seen() {
        [SOCKS5, ..] => socks::serve(shared, client, until).await,
        _ => http::serve(shared, client, until).await,
    }
}
