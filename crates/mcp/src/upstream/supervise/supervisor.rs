//! The lifecycle of one server, as one task that owns its connection: started, attended, ended,
//! started again. Everything else only reads what it publishes.

use std::{sync::Arc, time::Duration};

use haft_contract::host::Timestamp;
use tokio::{
    sync::{Notify, broadcast, watch},
    time::{Instant, sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Options,
    backoff::Backoff,
    fleet::UnseenServer,
    offer::ServerOffer,
    requests::ServerRequests,
    state::{Phase, ServerStatus},
};
use crate::{
    foreign::{last_of, shown},
    mounts::Change,
    pin::SeenDefinitions,
    upstream::connection::{
        Connect, ConnectError, Connection, Definitions, RequestError, ServerChange,
    },
};

/// A connection that lived this long was no failure, even without any requests.
const LIVED: Duration = Duration::from_secs(30);

/// How long closing a connection may take; the transport drops what is left then.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// How long to wait before retrying a server that needs a login.
const LOGIN_AGAIN: Duration = Duration::from_secs(3);

pub(super) struct Supervisor {
    pub(super) connect: Arc<dyn Connect>,
    pub(super) options: Options,
    pub(super) offer: Arc<ServerOffer>,
    pub(super) desk: Arc<ServerRequests>,
    pub(super) posted: watch::Sender<ServerStatus>,
    pub(super) wanted: Arc<Notify>,
    /// Notified when the server says that the known definitions are outdated.
    pub(super) outdated: Arc<Notify>,
    pub(super) stop: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartMode {
    /// On demand: its offer is known.
    WhenWanted,
    /// At once: its offer is unknown.
    AtOnce,
}

struct OpenConnection {
    connection: Arc<dyn Connection>,
    changes: broadcast::Receiver<ServerChange>,
}

/// Why there is no open connection.
enum NotOpen {
    Stopped,
    Login,
    Failed(String),
}

/// Why a connection is no longer attended.
enum DetachReason {
    Stopped,
    Idle,
    Login,
    Lost(String),
}

impl Supervisor {
    /// Publishes what the server offered in its last run; returns how to begin.
    pub(super) fn begin(&self, unseen: UnseenServer) -> StartMode {
        if self.offer.load() || unseen == UnseenServer::Leave {
            return StartMode::WhenWanted;
        }
        self.post(Phase::Starting, None);
        StartMode::AtOnce
    }

    /// Runs until stopped.
    pub(super) async fn run(self, begin: StartMode) {
        let backoff = Backoff {
            first: self.options.first_backoff,
            longest: self.options.longest_backoff,
        };
        let mut failures = 0_u32;
        let mut wait = begin == StartMode::WhenWanted;
        loop {
            if wait && !self.until_wanted().await {
                break;
            }
            wait = false;
            self.post(Phase::Starting, None);
            let left = match self.open().await {
                Ok(open) => self.attend(open, &mut failures).await,
                Err(NotOpen::Stopped) => DetachReason::Stopped,
                Err(NotOpen::Login) => DetachReason::Login,
                Err(NotOpen::Failed(why)) => DetachReason::Lost(why),
            };
            match left {
                DetachReason::Stopped => break,
                DetachReason::Idle => wait = true,
                DetachReason::Login => {
                    let until = Instant::now() + LOGIN_AGAIN;
                    self.post(Phase::LoginNeeded { until }, Some(LOGIN_AGAIN));
                    if !self.pause(until).await {
                        break;
                    }
                    wait = true;
                }
                DetachReason::Lost(why) => {
                    failures = failures.saturating_add(1);
                    let delay = backoff.delay(failures);
                    let until = Instant::now() + delay;
                    let reason = self.with_last_words(&why);
                    tracing::warn!(server = %self.offer.server, failures, %reason, "a mounted server failed");
                    self.post(Phase::Down { reason, until }, Some(delay));
                    if !self.pause(until).await {
                        break;
                    }
                }
            }
        }
        self.post(Phase::Stopped, None);
    }

    /// Waits until somebody wants the server; false if it should stop.
    async fn until_wanted(&self) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = self.wanted.notified() => true,
        }
    }

    /// Waits until a moment; false if it should stop.
    async fn pause(&self, until: Instant) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = sleep_until(until) => true,
        }
    }

    /// Opens a connection and fetches the server's definitions, within its start timeout.
    async fn open(&self) -> Result<OpenConnection, NotOpen> {
        let until = Instant::now() + self.options.start_timeout;
        let slow = || NotOpen::Failed(ConnectError::Slow(self.options.start_timeout).to_string());
        let opened = tokio::select! {
            () = self.stop.cancelled() => return Err(NotOpen::Stopped),
            opened = tokio::time::timeout_at(until, self.connect.connect(&self.stop)) => opened,
        };
        let connection = match opened {
            Err(_) => return Err(slow()),
            Ok(Err(ConnectError::LoginNeeded)) => return Err(NotOpen::Login),
            Ok(Err(ConnectError::Cancelled)) if self.stop.is_cancelled() => {
                return Err(NotOpen::Stopped);
            }
            Ok(Err(error)) => return Err(NotOpen::Failed(shown(&error.to_string()))),
            Ok(Ok(connection)) => connection,
        };
        // Subscribed before the first fetch, so that no change in between is missed.
        let changes = connection.changes();
        let left = until.saturating_duration_since(Instant::now());
        let learned = self.learn(&connection, left).await;
        match learned {
            Ok(()) => Ok(OpenConnection {
                connection,
                changes,
            }),
            Err(why) => {
                close(&connection).await;
                Err(why)
            }
        }
    }

    /// Fetches what the server offers now and publishes it.
    async fn learn(
        &self,
        connection: &Arc<dyn Connection>,
        within: Duration,
    ) -> Result<(), NotOpen> {
        let fetched = tokio::select! {
            () = self.stop.cancelled() => return Err(NotOpen::Stopped),
            fetched = timeout(within, connection.definitions(&self.stop)) => fetched,
        };
        let definitions = match fetched {
            Err(_) => {
                let slow = "it did not say what it offers within the time it has to start";
                return Err(NotOpen::Failed(slow.to_owned()));
            }
            Ok(Err(RequestError::LoginNeeded)) => return Err(NotOpen::Login),
            Ok(Err(error)) => return Err(NotOpen::Failed(shown(&error.to_string()))),
            Ok(Ok(definitions)) => definitions,
        };
        self.take(connection, definitions).await
    }

    async fn take(
        &self,
        connection: &Arc<dyn Connection>,
        definitions: Definitions,
    ) -> Result<(), NotOpen> {
        let seen = SeenDefinitions {
            at: self.now(),
            era: connection.era(),
            definitions,
        };
        let offer = Arc::clone(&self.offer);
        // Hashing thousands of definitions and writing them to disk would block this thread.
        match tokio::task::spawn_blocking(move || offer.take(seen)).await {
            Ok(Ok(())) => {
                self.posted.send_modify(|posted| posted.learned += 1);
                Ok(())
            }
            Ok(Err(unfit)) => Err(NotOpen::Failed(unfit.to_string())),
            Err(_) => Err(NotOpen::Failed(
                "its definitions could not be read".to_owned(),
            )),
        }
    }

    /// Keeps an open connection until it ends or should end. The caller closes it.
    async fn attend(&self, open: OpenConnection, failures: &mut u32) -> DetachReason {
        let OpenConnection {
            connection,
            mut changes,
        } = open;
        let began = Instant::now();
        self.desk.used.take_answered();
        self.desk.used.touch();
        self.post(Phase::Ready(Arc::clone(&connection)), None);
        let left = self.watch(&connection, &mut changes).await;
        close(&connection).await;
        if self.desk.used.take_answered() || began.elapsed() >= LIVED {
            *failures = 0;
        }
        left
    }

    async fn watch(
        &self,
        connection: &Arc<dyn Connection>,
        changes: &mut broadcast::Receiver<ServerChange>,
    ) -> DetachReason {
        let mut refetch: Option<Instant> = None;
        let mut listening = true;
        let far = Duration::from_hours(24);
        loop {
            let refetch_at = refetch.unwrap_or_else(|| Instant::now() + far);
            let idle_at = match self.options.idle {
                Some(idle) => self.desk.used.last() + idle,
                None => Instant::now() + far,
            };
            tokio::select! {
                () = self.stop.cancelled() => return DetachReason::Stopped,
                why = connection.closed() => return DetachReason::Lost(shown(&why)),
                noticed = changes.recv(), if listening => match noticed {
                    Ok(ServerChange::Resource(uri)) => {
                        let uri = self.offer.make.uri(&self.offer.server, &uri);
                        // An error only means that nobody listens.
                        let _ = self.offer.shared.changes.send(Change::Resource(uri));
                    }
                    // A missed change may have been to a list.
                    Ok(ServerChange::Definitions) | Err(broadcast::error::RecvError::Lagged(_)) => {
                        // The first of a burst sets the time, so that a flood cannot delay it.
                        refetch.get_or_insert_with(|| Instant::now() + self.options.debounce);
                    }
                    Err(broadcast::error::RecvError::Closed) => listening = false,
                },
                () = self.outdated.notified() => {
                    refetch.get_or_insert_with(|| Instant::now() + self.options.debounce);
                }
                () = sleep_until(refetch_at), if refetch.is_some() => {
                    refetch = None;
                    let learned = tokio::select! {
                        why = connection.closed() => return DetachReason::Lost(shown(&why)),
                        learned = self.learn(connection, self.options.start_timeout) => learned,
                    };
                    match learned {
                        Ok(()) => {}
                        Err(NotOpen::Stopped) => return DetachReason::Stopped,
                        Err(NotOpen::Login) => return DetachReason::Login,
                        // What it offers is no longer known, so nothing of it can be called.
                        Err(NotOpen::Failed(why)) => return DetachReason::Lost(why),
                    }
                }
                () = sleep_until(idle_at), if self.options.idle.is_some() => {
                    if self.desk.used.last() + self.options.idle.unwrap_or(far) > Instant::now() {
                        continue;
                    }
                    if self.desk.turns.under_way() > 0 {
                        self.desk.used.touch();
                        continue;
                    }
                    self.post(Phase::Known, None);
                    // A caller may have taken a turn, and this connection, just before.
                    if self.desk.turns.under_way() == 0 {
                        return DetachReason::Idle;
                    }
                    self.post(Phase::Ready(Arc::clone(connection)), None);
                }
            }
        }
    }

    /// A reason plus the server's last output, for people and models alike.
    fn with_last_words(&self, why: &str) -> String {
        let words = self.connect.last_words();
        let mut whole = why.to_owned();
        for (lead, text) in [
            ("it printed last", &words.stderr),
            (
                "it printed to standard output, which is for MCP messages only",
                &words.stray,
            ),
        ] {
            if !text.trim().is_empty() {
                whole = format!("{whole}; {lead}: {}", last_of(text));
            }
        }
        whole
    }

    fn post(&self, phase: Phase, again: Option<Duration>) {
        let now = self.now();
        self.posted.send_modify(|posted| {
            match &phase {
                Phase::Down { reason, .. } => posted.last_error = Some(reason.clone()),
                Phase::LoginNeeded { .. } => {
                    posted.last_error = Some(ConnectError::LoginNeeded.to_string());
                }
                Phase::Ready(_) => posted.last_error = None,
                Phase::Known | Phase::Starting | Phase::Stopped => {}
            }
            posted.phase = phase;
            posted.since = now;
            posted.again = again.map(|again| now.after(again));
        });
    }

    fn now(&self) -> Timestamp {
        self.offer.shared.clock.now()
    }
}

async fn close(connection: &Arc<dyn Connection>) {
    if timeout(CLOSE_WITHIN, connection.close()).await.is_err() {
        tracing::warn!("a mounted server's connection did not close in time");
    }
}
