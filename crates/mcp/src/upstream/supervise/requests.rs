//! The entry point for requests to a server: checked against what was accepted, given a turn, held
//! until the server runs, then checked again against what the running server offers.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use haft_contract::future::BoxFuture;
use serde_json::Value;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    offer::{StockCell, asked_for},
    state::{Phase, ServerStatus},
    turns::{ClientOfTurn, RequestTurns},
};
use crate::{
    client::Client,
    name::ServerId,
    upstream::{
        asker::Asker,
        connection::{Connection, Request, RequestError, Server},
        owner::CredentialOwner,
    },
};

/// How long past its deadline a transport may take to report it.
const OVERTIME: Duration = Duration::from_secs(2);

/// The entry point for requests to one server.
pub(super) struct ServerRequests {
    pub(super) server: ServerId,
    pub(super) owner: CredentialOwner,
    pub(super) call_timeout: Duration,
    pub(super) turns: Arc<RequestTurns>,
    pub(super) posted: watch::Receiver<ServerStatus>,
    /// Notified when somebody waits for the server to run.
    pub(super) wanted: Arc<Notify>,
    /// Notified when the server says that the known definitions are outdated.
    pub(super) outdated: Arc<Notify>,
    pub(super) stock: Arc<StockCell>,
    pub(super) used: ServerUsage,
}

/// When and how a server was used.
pub(super) struct ServerUsage {
    last: Mutex<Instant>,
    answered: AtomicBool,
}

impl ServerUsage {
    pub(super) fn new() -> Self {
        Self {
            last: Mutex::new(Instant::now()),
            answered: AtomicBool::new(false),
        }
    }

    pub(super) fn touch(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn last(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a request was answered since the last time this was called.
    pub(super) fn take_answered(&self) -> bool {
        self.answered.swap(false, Ordering::AcqRel)
    }
}

impl Server for ServerRequests {
    fn id(&self) -> &ServerId {
        &self.server
    }

    fn request<'a>(
        &'a self,
        request: Request,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Value, RequestError>> {
        Box::pin(self.handle(request, cancel))
    }
}

impl ServerRequests {
    async fn handle(
        &self,
        mut request: Request,
        cancel: &CancellationToken,
    ) -> Result<Value, RequestError> {
        if let Some(why) = self.owner.refuses(&request.principal) {
            return Err(RequestError::OtherOwner(why));
        }
        let until = Instant::now() + request.deadline.min(self.call_timeout);
        let left = || until.saturating_duration_since(Instant::now());
        let asked_for = asked_for(&request);
        let allowed = || self.stock.get().allows(&self.server, asked_for.as_ref());
        allowed()?;
        let turn = self.turns.take(left(), cancel).await?;
        request.client = request.client.take().map(|client| {
            let client: Arc<dyn Client> = Arc::new(ClientOfTurn {
                client: Arc::new(Asker::new(&self.server, client)),
                turn: Arc::clone(&turn),
            });
            client
        });
        let connection = self.connection(left(), cancel).await?;
        // The definitions may have been fetched only now.
        allowed()?;
        request.deadline = left();
        self.used.touch();
        let deadline = request.deadline;
        let learned = self.posted.borrow().learned;
        let answer = tokio::time::timeout(
            deadline.saturating_add(OVERTIME),
            connection.request(request, cancel),
        );
        let result = answer.await.unwrap_or(Err(RequestError::Slow(deadline)));
        if matches!(result, Ok(_) | Err(RequestError::Answered { .. })) {
            self.used.answered.store(true, Ordering::Release);
        }
        self.used.touch();
        if let Err(RequestError::Outdated(_)) = result {
            self.relearned(learned, left(), cancel).await?;
            // Withheld if the definition changed. Not resent either way: the caller saw a different
            // definition than the server has.
            allowed()?;
        }
        result
    }

    /// Waits until the server's definitions were fetched again, or the server is gone.
    async fn relearned(
        &self,
        before: u64,
        within: Duration,
        cancel: &CancellationToken,
    ) -> Result<(), RequestError> {
        self.outdated.notify_one();
        let mut posted = self.posted.clone();
        let learned = posted
            .wait_for(|posted| posted.learned > before || !matches!(posted.phase, Phase::Ready(_)));
        tokio::select! {
            () = cancel.cancelled() => Err(RequestError::Cancelled),
            // However the wait ends, what is known by then decides.
            _ = tokio::time::timeout(within, learned) => Ok(()),
        }
    }

    /// The open connection, once there is one; starts the server if necessary.
    async fn connection(
        &self,
        within: Duration,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Connection>, RequestError> {
        tokio::select! {
            () = cancel.cancelled() => Err(RequestError::Cancelled),
            opened = tokio::time::timeout(within, self.ready()) => opened.unwrap_or_else(|_| {
                Err(RequestError::NotSent(format!(
                    "the server was not ready within {} ms",
                    within.as_millis()
                )))
            }),
        }
    }

    /// Waits for the open connection, up to the server's start timeout.
    pub(super) async fn ready(&self) -> Result<Arc<dyn Connection>, RequestError> {
        let ended = || RequestError::NotSent("the server was ended".to_owned());
        let mut posted = self.posted.clone();
        loop {
            let phase = posted.borrow_and_update().phase.clone();
            let now = Instant::now();
            match phase {
                Phase::Ready(connection) => return Ok(connection),
                Phase::Down { reason, until } if now < until => {
                    let again = until - now;
                    return Err(RequestError::Down { reason, again });
                }
                Phase::LoginNeeded { until } if now < until => {
                    return Err(RequestError::LoginNeeded);
                }
                Phase::Stopped => return Err(ended()),
                Phase::Known | Phase::Down { .. } | Phase::LoginNeeded { .. } => {
                    self.wanted.notify_one();
                }
                Phase::Starting => {}
            }
            posted.changed().await.map_err(|_| ended())?;
        }
    }
}
