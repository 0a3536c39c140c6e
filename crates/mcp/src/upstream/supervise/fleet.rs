//! All mounted servers of a host.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use haft_contract::name::NameError;
use tokio::{
    sync::{Notify, broadcast, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use super::{
    Mount, OfferedResources, SupervisorDefaults,
    offer::{ServerOffer, StockCell},
    requests::{ServerRequests, ServerUsage},
    state::{Phase, ServerStatus, Status},
    supervisor::Supervisor,
    turns::RequestTurns,
};
use crate::{
    mounts::Change,
    name::ServerId,
    upstream::connection::{RequestError, Server},
};

/// How often it is looked whether somebody accepted something in another process.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long all servers together may take to end.
const STOP_WITHIN: Duration = Duration::from_secs(8);

/// All mounted servers of a host. Dropping it ends them; [`Fleet::stop`] waits for that.
pub struct Fleet {
    servers: BTreeMap<ServerId, SupervisedServer>,
    changes: broadcast::Sender<Change>,
    stop: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

/// What happens to a server that never ran, of which nobody knows what it offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnseenServer {
    /// It is started at once, to find out.
    Start,
    /// It offers nothing until somebody has it started.
    Leave,
}

/// One of them.
struct SupervisedServer {
    offer: Arc<ServerOffer>,
    desk: Arc<ServerRequests>,
    posted: watch::Receiver<ServerStatus>,
}

/// Servers could not be mounted together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// Two have one id.
    #[error("two mounted servers have the id `{0}`")]
    Twice(ServerId),
    /// An id gives no provider.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Fleet {
    /// Puts up what every server offered in its last run. Returns at once; must be called within a
    /// Tokio runtime.
    pub fn start(
        mounts: Vec<Mount>,
        shared: &SupervisorDefaults,
        unseen: UnseenServer,
    ) -> Result<Self, FleetError> {
        let stop = CancellationToken::new();
        let mut servers = BTreeMap::new();
        let mut lives = Vec::new();
        for mount in mounts {
            let server = mount.server.clone();
            let (supervised, life) = assemble(mount, shared, &stop)?;
            if servers.insert(server.clone(), supervised).is_some() {
                return Err(FleetError::Twice(server));
            }
            lives.push(life);
        }
        let mut tasks = Vec::new();
        // From before the first look, so that no answer falls between.
        let revision = shared.store.revision();
        for life in lives {
            let begin = life.begin(unseen);
            tasks.push(tokio::spawn(life.run(begin)));
        }
        let offers = servers
            .values()
            .map(|one: &SupervisedServer| Arc::clone(&one.offer));
        tasks.push(tokio::spawn(look_for_answers(
            offers.collect(),
            revision,
            shared.clone(),
            stop.clone(),
        )));
        Ok(Self {
            servers,
            changes: shared.changes.clone(),
            stop,
            tasks: Mutex::new(tasks),
        })
    }

    /// How every server is, by id.
    pub fn status(&self) -> Vec<Status> {
        self.servers
            .iter()
            .map(|(server, one)| one.status(server))
            .collect()
    }

    /// What the servers offer beside tools, by id.
    pub fn offered(&self) -> Vec<(ServerId, OfferedResources)> {
        self.servers
            .iter()
            .map(|(server, one)| (server.clone(), one.offer.stock.get().offered()))
            .collect()
    }

    /// A server, for requests.
    pub fn server(&self, id: &ServerId) -> Option<Arc<dyn Server>> {
        let one = self.servers.get(id)?;
        Some(Arc::clone(&one.desk) as Arc<dyn Server>)
    }

    /// Changes in what is offered, from now on.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Has a server started, as a call would, and waits until it runs or is known not to.
    pub async fn reach(&self, id: &ServerId) -> Result<(), RequestError> {
        match self.servers.get(id) {
            Some(one) => one.desk.ready().await.map(drop),
            None => Err(RequestError::NotSent(format!(
                "no server `{id}` is mounted"
            ))),
        }
    }

    /// Holds what a server offers against what was accepted at once, without waiting for the next look.
    pub async fn refresh(&self, id: &ServerId) {
        let Some(one) = self.servers.get(id) else {
            return;
        };
        let offer = Arc::clone(&one.offer);
        if tokio::task::spawn_blocking(move || offer.refresh())
            .await
            .is_err()
        {
            tracing::error!("an offer could not be held against what was accepted");
        }
    }

    /// Ends every server and waits until they are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let all = futures::future::join_all(tasks);
        if tokio::time::timeout(STOP_WITHIN, all).await.is_err() {
            tracing::warn!("not every mounted server ended in time");
        }
        for one in self.servers.values() {
            one.offer.withdraw();
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl SupervisedServer {
    fn status(&self, server: &ServerId) -> Status {
        let posted = self.posted.borrow().clone();
        let stock = self.offer.stock.get();
        Status {
            server: server.clone(),
            state: posted.phase.state(),
            since: posted.since,
            again: posted.again,
            era: stock.seen.as_ref().map(|seen| seen.era),
            counts: stock.counts(),
            // Who has a turn has not always sent something yet; what was sent had a turn.
            under_way: self.desk.turns.under_way().max(posted.phase.under_way()),
            refused: stock.vetted.refused.clone(),
            lapsed: stock.lapsed.clone(),
            last_error: posted.last_error,
        }
    }
}

fn assemble(
    mount: Mount,
    shared: &SupervisorDefaults,
    stop: &CancellationToken,
) -> Result<(SupervisedServer, Supervisor), FleetError> {
    let (sender, posted) = watch::channel(ServerStatus {
        phase: Phase::Known,
        since: shared.clock.now(),
        again: None,
        last_error: None,
        learned: 0,
    });
    let wanted = Arc::new(Notify::new());
    let outdated = Arc::new(Notify::new());
    let stock = Arc::new(StockCell::default());
    let desk = Arc::new(ServerRequests {
        server: mount.server.clone(),
        call_timeout: mount.options.call_timeout,
        turns: RequestTurns::new(mount.options.concurrency, mount.options.queue),
        posted: posted.clone(),
        wanted: Arc::clone(&wanted),
        outdated: Arc::clone(&outdated),
        stock: Arc::clone(&stock),
        used: ServerUsage::new(),
    });
    let offer = Arc::new(ServerOffer {
        provider: mount.server.provider()?,
        server: mount.server,
        naming: mount.naming,
        filter: mount.filter,
        origin: mount.origin,
        make: mount.make,
        shared: shared.clone(),
        desk: Arc::clone(&desk) as Arc<dyn Server>,
        stock,
        changing: Mutex::new(()),
    });
    let life = Supervisor {
        connect: mount.connect,
        options: mount.options,
        offer: Arc::clone(&offer),
        desk: Arc::clone(&desk),
        posted: sender,
        wanted,
        outdated,
        stop: stop.child_token(),
    };
    let supervised = SupervisedServer {
        offer,
        desk,
        posted,
    };
    Ok((supervised, life))
}

/// Holds every server's offer against the store again whenever somebody accepted or revoked
/// something, which happens in another process.
async fn look_for_answers(
    offers: Vec<Arc<ServerOffer>>,
    mut known: u64,
    shared: SupervisorDefaults,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let now = shared.store.revision();
        if now == known {
            continue;
        }
        known = now;
        for offer in &offers {
            let offer = Arc::clone(offer);
            if tokio::task::spawn_blocking(move || offer.refresh())
                .await
                .is_err()
            {
                tracing::error!("an offer could not be held against what was accepted");
            }
        }
    }
}
