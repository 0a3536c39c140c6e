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

/// How often to check whether another process accepted something.
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

/// What to do with a server that never ran, so that its offer is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnseenServer {
    /// Start it at once to find out.
    Start,
    /// Offer nothing until somebody starts it.
    Leave,
}

struct SupervisedServer {
    offer: Arc<ServerOffer>,
    desk: Arc<ServerRequests>,
    posted: watch::Receiver<ServerStatus>,
}

/// Why servers could not be mounted together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// Two servers have the same id.
    #[error("two mounted servers have the id `{0}`")]
    Twice(ServerId),
    /// An id is not a valid provider name.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Fleet {
    /// Registers what every server offered in its last run. Returns at once; must be called within
    /// a Tokio runtime.
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
        // Read before the first check, so that no change in between is missed.
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

    /// The status of every server, by id.
    pub fn status(&self) -> Vec<Status> {
        self.servers
            .iter()
            .map(|(server, one)| one.status(server))
            .collect()
    }

    /// What the servers offer besides tools, by id.
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

    /// Starts a server as a call would, and waits until it runs or has failed.
    pub async fn reach(&self, id: &ServerId) -> Result<(), RequestError> {
        match self.servers.get(id) {
            Some(one) => one.desk.ready().await.map(drop),
            None => Err(RequestError::NotSent(format!(
                "no server `{id}` is mounted"
            ))),
        }
    }

    /// Compares a server's offer with what is accepted now, without waiting for the next check.
    pub async fn refresh(&self, id: &ServerId) {
        let Some(one) = self.servers.get(id) else {
            return;
        };
        let offer = Arc::clone(&one.offer);
        if tokio::task::spawn_blocking(move || offer.refresh())
            .await
            .is_err()
        {
            tracing::error!("an offer could not be compared with what was accepted");
        }
    }

    /// Ends every server and waits until they are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let all = futures_util::future::join_all(tasks);
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
            // A turn is taken before its request is sent, and every sent request had a turn.
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
    let tenant = mount.owner.tenant().clone();
    let desk = Arc::new(ServerRequests {
        server: mount.server.clone(),
        owner: mount.owner,
        call_timeout: mount.options.call_timeout,
        turns: Arc::new(RequestTurns::new(
            mount.options.concurrency,
            mount.options.queue,
        )),
        posted: posted.clone(),
        wanted: Arc::clone(&wanted),
        outdated: Arc::clone(&outdated),
        stock: Arc::clone(&stock),
        used: ServerUsage::new(),
    });
    let offer = Arc::new(ServerOffer {
        tenant,
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

/// Compares every server's offer with the store again when somebody accepted or revoked something,
/// which happens in another process.
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
                tracing::error!("an offer could not be compared with what was accepted");
            }
        }
    }
}
