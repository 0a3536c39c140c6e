//! A mounted server that is a process: started by the back end, with one message per line on its
//! pipes.

mod frame;
#[cfg(test)]
mod fuzz;
mod mailbox;
mod pump;
mod ring;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use haft_contract::{
    ErrorKind, WorkPath,
    access::Command,
    egress::EgressRules,
    future::BoxFuture,
    ops::{Input, ProcessControls, ProcessOps, Spawn, Tier},
};
use serde_json::Value;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use self::{
    mailbox::Pending,
    pump::{PumpState, line, pump},
    ring::Ring,
};
use super::{
    connection::{Connect, ConnectError, Connection, LastWords, ProtocolEra, RequestError},
    limits::{CLOSING, WAITING_MESSAGES},
    session::{self, ClientIntroduction, notices::Notices},
    wire::{DroppedMessages, Exchange, Outgoing, Wire},
};

/// What to start. The back end builds the environment from empty; only the variables listed here
/// are added.
#[derive(Clone)]
pub struct ServerCommand {
    /// The program and its arguments; no shell is involved.
    pub argv: Vec<String>,
    /// The directory it starts in.
    pub cwd: WorkPath,
    /// Its environment variables, including secrets.
    pub environment: BTreeMap<String, String>,
    /// How strongly it is confined.
    pub tier: Tier,
    /// The hosts it may reach; without it, none.
    pub egress: Option<Arc<EgressRules>>,
    /// The required SHA-256 of its program file, if the operator set one.
    pub pinned: Option<[u8; 32]>,
}

impl std::fmt::Debug for ServerCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerCommand")
            .field("argv", &self.argv)
            .field("variables", &self.environment.len())
            .field("tier", &self.tier)
            .finish_non_exhaustive()
    }
}

/// The last output of a server's process, kept while this exists.
#[derive(Debug, Clone, Default)]
pub struct ServerOutput {
    stderr: Arc<Ring>,
    stray: Arc<Ring>,
}

impl ServerOutput {
    /// The output as text.
    pub fn last_words(&self) -> LastWords {
        LastWords {
            stderr: self.stderr.text(),
            stray: self.stray.text(),
        }
    }
}

/// Opens connections to a server that is a process.
pub struct StdioConnector {
    processes: Arc<dyn ProcessOps>,
    command: ServerCommand,
    introduction: ClientIntroduction,
    printed: ServerOutput,
    dropped: Arc<DroppedMessages>,
    /// The era of the last connection, so that an old server is not probed twice.
    era: Mutex<Option<ProtocolEra>>,
}

impl StdioConnector {
    /// A connector for one command.
    pub fn new(
        processes: Arc<dyn ProcessOps>,
        command: ServerCommand,
        introduction: ClientIntroduction,
    ) -> Self {
        Self {
            processes,
            command,
            introduction,
            printed: ServerOutput::default(),
            dropped: Arc::default(),
            era: Mutex::new(None),
        }
    }

    /// Tries this era first.
    #[must_use]
    pub fn knowing(self, era: Option<ProtocolEra>) -> Self {
        Self {
            era: Mutex::new(era),
            ..self
        }
    }

    /// Keeps the server's output in `printed`.
    #[must_use]
    pub fn printing(self, printed: ServerOutput) -> Self {
        Self { printed, ..self }
    }

    /// Counts of the messages that were dropped, over all connections.
    pub fn dropped(&self) -> &DroppedMessages {
        &self.dropped
    }

    async fn start(&self) -> Result<(StdioWire, Arc<Notices>), ConnectError> {
        let spawn = Spawn {
            environment: self.command.environment.clone(),
            input: Input::Open,
            egress: self.command.egress.clone(),
            pinned: self.command.pinned,
            ..Spawn::new(
                Command::Argv(self.command.argv.clone()),
                self.command.cwd.clone(),
                self.command.tier,
            )
        };
        self.printed.stderr.clear();
        self.printed.stray.clear();
        let process = self.processes.spawn(spawn).await;
        let process = process.map_err(|error| {
            let why = error.message();
            ConnectError::Unreachable(match (self.command.pinned, error.kind()) {
                (Some(_), ErrorKind::AccessDenied) => {
                    format!("{why}: the expected hash is `sha256` in its entry")
                }
                (_, _) => why.to_owned(),
            })
        })?;
        let (outbox, letters) = mpsc::channel(WAITING_MESSAGES);
        let notices = Arc::new(Notices::new());
        let shared = Arc::new(PumpState {
            pending: Arc::new(Pending::default()),
            notices: Arc::clone(&notices),
            last_words: Arc::clone(&self.printed.stderr),
            stray: Arc::clone(&self.printed.stray),
            dropped: Arc::clone(&self.dropped),
            outbox,
            stop: CancellationToken::new(),
            gone: CancellationToken::new(),
            why: OnceLock::new(),
        });
        let writer = write(process.controls(), letters, Arc::clone(&shared));
        tokio::spawn(writer);
        tokio::spawn(pump(process, Arc::clone(&shared)));
        Ok((StdioWire { shared }, notices))
    }
}

impl Connect for StdioConnector {
    fn connect<'a>(
        &'a self,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async move {
            let known = *self.era.lock().unwrap_or_else(PoisonError::into_inner);
            let open = async {
                let (wire, notices) = self.start().await?;
                session::open_pipe(wire, notices, &self.introduction, known).await
            };
            let opened = tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(ConnectError::Cancelled),
                opened = open => opened,
            };
            // A server that dies on the newer era's probe is sent the older one's next time.
            let era = match &opened {
                Ok(session) => session.era(),
                Err(_) => ProtocolEra::Legacy,
            };
            let known = match (&opened, known) {
                (Err(_), Some(ProtocolEra::Legacy)) => None,
                (_, _) => Some(era),
            };
            *self.era.lock().unwrap_or_else(PoisonError::into_inner) = known;
            opened.map(|session| Arc::new(session) as Arc<dyn Connection>)
        })
    }

    fn known_era(&self) -> Option<ProtocolEra> {
        *self.era.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_words(&self) -> LastWords {
        self.printed.last_words()
    }
}

impl std::fmt::Debug for StdioConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StdioConnector")
            .field("command", &self.command)
            .finish_non_exhaustive()
    }
}

/// Writes messages one after the other, each whole: a partial one would break all that follow.
async fn write(
    controls: Arc<dyn ProcessControls>,
    mut letters: mpsc::Receiver<Vec<u8>>,
    shared: Arc<PumpState>,
) {
    loop {
        let letter = tokio::select! {
            biased;
            () = shared.stop.cancelled() => return,
            letter = letters.recv() => letter,
        };
        let Some(letter) = letter else {
            return;
        };
        if let Err(error) = controls.write(&letter).await {
            // How a process ended and what it printed says more than that it stopped reading.
            if timeout(CLOSING, shared.gone.cancelled()).await.is_err() {
                shared.fail(&RequestError::Lost(error.message().to_owned()));
            }
            return;
        }
    }
}

/// The pipes of one process. The process ends when this is dropped.
struct StdioWire {
    shared: Arc<PumpState>,
}

impl StdioWire {
    async fn post(&self, message: String) -> Result<(), RequestError> {
        let sent = self.shared.outbox.send(line(message)).await;
        sent.map_err(|_| {
            let why = self
                .shared
                .why
                .get()
                .map_or("the server is gone", String::as_str);
            RequestError::NotSent(why.to_owned())
        })
    }
}

impl Wire for StdioWire {
    fn open(&self, outgoing: Outgoing) -> BoxFuture<'_, Result<Box<dyn Exchange>, RequestError>> {
        Box::pin(async move {
            let exchange = self.shared.pending.begin(&outgoing)?;
            self.post(outgoing.message).await?;
            Ok(Box::new(exchange) as Box<dyn Exchange>)
        })
    }

    fn send(&self, message: Value) -> BoxFuture<'_, Result<(), RequestError>> {
        Box::pin(async move { self.post(message.to_string()).await })
    }

    fn tell(&self, message: Value) {
        self.shared.tell(&message);
    }

    fn under_way(&self) -> usize {
        self.shared.pending.calls()
    }

    fn closing_cancels(&self) -> bool {
        false
    }

    fn has_headers(&self) -> bool {
        false
    }

    fn agreed(&self, _: ProtocolEra, _: &str) {}

    fn closed(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            self.shared.gone.cancelled().await;
            let why = self.shared.why.get().map_or("it ended", String::as_str);
            why.to_owned()
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _ = self.shared.why.set("it was closed".to_owned());
            self.shared.stop.cancel();
            self.shared.gone.cancelled().await;
        })
    }
}

impl Drop for StdioWire {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
