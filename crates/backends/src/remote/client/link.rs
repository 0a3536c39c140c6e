//! One connection: frames in, frames out, and who waits for what.
//!
//! It is lost once, for one reason, and everybody who waits gets that reason. Both sides send
//! regularly: a connection that is silent for a while counts as lost.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{ErrorKind, ops::OpsError};
use tokio::{
    io::AsyncRead,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::exchange::{Event, Exchange, reply_allowance};
use crate::remote::{
    connect::{Carrier, Connect, ConnectError, Connection},
    convert::{MalformedMessage, chunk_from_wire},
    credit::{Allowance, Charged, MAX_REPLY_FRAMES, REQUEST_WINDOW, Window},
    frame::{Frame, FrameError, FrameReader, Kind, MAX_FRAME_BYTES},
    outbox::Outbox,
    wire::{self, OpenReply, OpenWorkspace, OpenedWorkspace, Reply, Welcome},
};

/// How long the other side may take to greet and to open the workspace.
const GREETING_LIMIT: Duration = Duration::from_secs(30);

/// How often a ping is sent.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How long the other side may be silent.
const SILENCE_LIMIT: Duration = Duration::from_secs(20);

/// The most requests in progress at once; further ones wait. Fewer than the other side accepts.
const MAX_EXCHANGES: usize = 512;

/// How long the carrier may take to report why a stream ended.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(2);

/// The most bytes of a request's JSON, leaving room for the frame around it.
const MAX_REQUEST_BYTES: usize = MAX_FRAME_BYTES - 1024;

/// The most events of an exchange that wait to be handled: all that its credit allows, and some of
/// those that cost none.
const MAX_EVENTS: usize = MAX_REPLY_FRAMES + 64;

/// A connection.
pub(super) struct Link {
    shared: Arc<LinkState>,
    _tasks: [AbortOnDropHandle<()>; 3],
}

/// What the connection's tasks, its exchanges and its owner share.
pub(super) struct LinkState {
    name: String,
    pub(super) outbox: Outbox,
    live: Mutex<HashMap<u64, Port>>,
    next: AtomicU64,
    slots: Arc<Semaphore>,
    lost: CancellationToken,
    why: OnceLock<ConnectError>,
    /// Whether anything was received since the last check.
    heard: AtomicBool,
}

/// Where the frames of an exchange are delivered.
struct Port {
    events: mpsc::Sender<Event>,
    window: Arc<Window>,
    /// What the other side may still send.
    allowance: Arc<Allowance>,
}

impl Link {
    /// Connects and opens the workspace.
    pub(super) async fn open(
        name: &str,
        connect: &dyn Connect,
        open: &OpenWorkspace,
    ) -> Result<(Arc<Self>, OpenedWorkspace), ConnectError> {
        let Connection {
            reader,
            writer,
            carrier,
        } = connect.connect().await?;
        let mut reader = FrameReader::new(reader);
        let shared = Arc::new(LinkState::new(name));
        let writing = AbortOnDropHandle::new(tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                if let Err(error) = shared.outbox.write_to(writer).await {
                    tracing::debug!(%error, "writing to a connection failed");
                }
            }
        }));
        let greeting = greet(&mut reader, &shared.outbox, open);
        let opened = match timeout(GREETING_LIMIT, greeting).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(LinkOpenError::Refused(error))) => return Err(error),
            // The carrier knows better why nothing arrived.
            Ok(Err(LinkOpenError::Broken(error))) => {
                let broken = || ConnectError::new(error.to_string());
                return Err(last_words(&*carrier).await.unwrap_or_else(broken));
            }
            Err(_) => {
                return Err(ConnectError::new(format!(
                    "`{name}` did not answer within {} s",
                    GREETING_LIMIT.as_secs()
                )));
            }
        };
        let reading = AbortOnDropHandle::new(tokio::spawn({
            let shared = Arc::clone(&shared);
            async move { shared.read(reader, carrier).await }
        }));
        let beating = AbortOnDropHandle::new(tokio::spawn({
            let shared = Arc::clone(&shared);
            async move { shared.beat().await }
        }));
        let link = Self {
            shared,
            _tasks: [writing, reading, beating],
        };
        Ok((Arc::new(link), opened))
    }

    /// Whether this connection is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.shared.lost.is_cancelled()
    }

    /// Sends a request; its body follows with [`Exchange::send_body`].
    pub(super) async fn begin(
        self: &Arc<Self>,
        request: wire::Request,
        body_bytes: usize,
        limit: Duration,
    ) -> Result<Exchange, OpsError> {
        let shared = &self.shared;
        let slot: OwnedSemaphorePermit = tokio::select! {
            slot = Arc::clone(&shared.slots).acquire_owned() => slot.map_err(|_| shared.loss())?,
            () = shared.lost.cancelled() => return Err(shared.loss()),
        };
        let call = wire::Call {
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            body_bytes: body_bytes as u64,
            request,
        };
        let body = serde_json::to_vec(&call)
            .map_err(|_| OpsError::new(ErrorKind::Internal, "the request cannot be written"))?;
        if body.len() > MAX_REQUEST_BYTES {
            return Err(OpsError::new(
                ErrorKind::LimitExceeded,
                format!(
                    "the request has {} bytes, at most {MAX_REQUEST_BYTES} can be carried",
                    body.len()
                ),
            ));
        }
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let (events, received) = mpsc::channel(MAX_EVENTS);
        let window = Arc::new(Window::new(REQUEST_WINDOW));
        let allowance = Arc::new(reply_allowance());
        shared.live().insert(
            number,
            Port {
                events,
                window: Arc::clone(&window),
                allowance: Arc::clone(&allowance),
            },
        );
        // From here on, dropping it removes it from the table and notifies the other side.
        let exchange = Exchange::new(number, Arc::clone(self), received, window, allowance, slot);
        let frame = Frame::new(Kind::Request, number, body);
        let sent = shared.outbox.send(frame).await;
        sent.map_err(|_| shared.loss())?;
        // Lost in between: the table was cleared before this exchange was added.
        if self.is_lost() {
            return Err(shared.loss());
        }
        Ok(exchange)
    }

    pub(super) fn shared(&self) -> &LinkState {
        &self.shared
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Its tasks end with it, the streams with the tasks, and the carrier too.
        self.shared.lose(ConnectError::new("it was closed"));
    }
}

impl LinkState {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            outbox: Outbox::new(),
            live: Mutex::default(),
            next: AtomicU64::new(1),
            slots: Arc::new(Semaphore::new(MAX_EXCHANGES)),
            lost: CancellationToken::new(),
            why: OnceLock::new(),
            heard: AtomicBool::new(false),
        }
    }

    /// The error for a call over this lost connection.
    pub(super) fn loss(&self) -> OpsError {
        let why = self
            .why
            .get()
            .map_or_else(|| "it was closed".to_owned(), ToString::to_string);
        OpsError::new(
            ErrorKind::Lost,
            format!(
                "the connection to `{}` is lost: {why}; what ran there has ended, and Haft does not know whether this call took effect, so look before you repeat it",
                self.name
            ),
        )
    }

    /// Removes an exchange from the table.
    pub(super) fn forget(&self, number: u64) {
        self.live().remove(&number);
    }

    /// Notifies everybody, once.
    fn lose(&self, why: ConnectError) {
        // Only the first reason counts.
        let _ = self.why.set(why);
        self.lost.cancel();
        self.outbox.close();
        self.slots.close();
        for (_, port) in self.live().drain() {
            port.window.close();
        }
    }

    /// Delivers frames until the stream ends.
    async fn read<R: AsyncRead + Unpin>(
        &self,
        mut reader: FrameReader<R>,
        carrier: Box<dyn Carrier>,
    ) {
        let why = loop {
            let frame = tokio::select! {
                frame = reader.next() => frame,
                () = self.lost.cancelled() => return,
            };
            self.heard.store(true, Ordering::Relaxed);
            match frame {
                Ok(frame) => {
                    if let Err(garbled) = self.hand_out(frame) {
                        break ConnectError::new(garbled.to_string());
                    }
                }
                Err(FrameError::Ended) => {
                    let ended = || ConnectError::new(FrameError::Ended.to_string());
                    break last_words(&*carrier).await.unwrap_or_else(ended);
                }
                Err(error) => break ConnectError::new(error.to_string()),
            }
        };
        tracing::warn!(peer = %self.name, %why, "a connection is lost");
        self.lose(why);
    }

    /// Sends pings, and notices when the other side is silent.
    async fn beat(&self) {
        let mut ticks = interval(HEARTBEAT);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last = Instant::now();
        while !self.lost.is_cancelled() {
            ticks.tick().await;
            if self.heard.swap(false, Ordering::Relaxed) {
                last = Instant::now();
            } else if last.elapsed() > SILENCE_LIMIT {
                self.lose(ConnectError::new(format!(
                    "nothing was heard for {} s",
                    SILENCE_LIMIT.as_secs()
                )));
            }
            if self.outbox.push(Frame::bare(Kind::Ping, 0)).is_err() {
                return;
            }
        }
    }

    fn hand_out(&self, frame: Frame) -> Result<(), MalformedMessage> {
        let number = frame.exchange;
        match frame.kind {
            Kind::Data => self.deliver(frame, |body| Ok(Event::Data(body))),
            Kind::Output => self.deliver(frame, |body| {
                let chunk = body.try_map(|body| chunk_from_wire(&body))?;
                Ok(Event::Output(chunk))
            }),
            Kind::Note => {
                let note =
                    serde_json::from_slice(&frame.body).map_err(|_| MalformedMessage("note"))?;
                if let Some(port) = self.live().get(&number) {
                    // Notes cost no credit. Where too many wait, the next ones are left out.
                    let _ = port.events.try_send(Event::Note(note));
                }
                Ok(())
            }
            Kind::Reply => {
                let reply: Reply =
                    serde_json::from_slice(&frame.body).map_err(|_| MalformedMessage("reply"))?;
                // Nothing comes after it, so a body that is still being sent can stop.
                if let Some(port) = self.live().remove(&number) {
                    port.window.close();
                    // The exchange may have been dropped.
                    let _ = port.events.try_send(Event::Reply(reply));
                }
                Ok(())
            }
            Kind::Credit => {
                let granted = frame.granted().ok_or(MalformedMessage("credit"))?;
                if let Some(port) = self.live().get(&number) {
                    port.window
                        .give(granted)
                        .map_err(|_| MalformedMessage("credit"))?;
                }
                Ok(())
            }
            Kind::Pong => Ok(()),
            Kind::Hello | Kind::Request | Kind::Finish | Kind::Cancel | Kind::Ping => {
                Err(MalformedMessage("frame"))
            }
        }
    }

    /// Delivers a frame that costs credit, as the event it is.
    fn deliver(
        &self,
        frame: Frame,
        event: impl FnOnce(Charged<Vec<u8>>) -> Result<Event, MalformedMessage>,
    ) -> Result<(), MalformedMessage> {
        const BEYOND: MalformedMessage = MalformedMessage("result beyond its credit");
        let live = self.live();
        // The other side may not know yet that nobody waits; then nothing is kept.
        let Some(port) = live.get(&frame.exchange) else {
            return Ok(());
        };
        let body = port.allowance.admit(frame).map_err(|_| BEYOND)?;
        match port.events.try_send(event(body)?) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(BEYOND),
        }
    }

    fn live(&self) -> MutexGuard<'_, HashMap<u64, Port>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why the workspace could not be opened.
enum LinkOpenError {
    /// The other side gave a reason, or sent something that is no greeting of this version.
    Refused(ConnectError),
    /// The stream ended, or carried something that is not our protocol.
    Broken(FrameError),
}

impl From<FrameError> for LinkOpenError {
    fn from(error: FrameError) -> Self {
        Self::Broken(error)
    }
}

/// The greeting: they identify themselves, we say what to open, they say what they found.
async fn greet<R: AsyncRead + Unpin>(
    reader: &mut FrameReader<R>,
    outbox: &Outbox,
    open: &OpenWorkspace,
) -> Result<OpenedWorkspace, LinkOpenError> {
    reader.find_magic().await?;
    let welcome: Welcome = hello(&reader.next().await?)?;
    if welcome.protocol != wire::PROTOCOL {
        return Err(LinkOpenError::Refused(ConnectError::new(format!(
            "the helper there is from Haft {} and uses protocol {}, this one uses {}",
            welcome.version,
            welcome.protocol,
            wire::PROTOCOL
        ))));
    }
    let body = serde_json::to_vec(open)
        .map_err(|_| LinkOpenError::Refused(ConnectError::new("the opening cannot be written")))?;
    let sent = outbox.send(Frame::new(Kind::Hello, 0, body)).await;
    sent.map_err(|_| FrameError::Ended)?;
    match hello(&reader.next().await?)? {
        OpenReply::Opened(opened) => Ok(opened),
        OpenReply::Refused(failure) => Err(LinkOpenError::Refused(
            ConnectError::new(failure.message)
                .hint("check the path, and that this account may open it"),
        )),
    }
}

fn hello<T: serde::de::DeserializeOwned>(frame: &Frame) -> Result<T, FrameError> {
    match frame.kind {
        Kind::Hello => serde_json::from_slice(&frame.body).ok(),
        _ => None,
    }
    .ok_or(FrameError::Magic)
}

async fn last_words(carrier: &dyn Carrier) -> Option<ConnectError> {
    timeout(LAST_WORDS_LIMIT, carrier.last_words())
        .await
        .ok()
        .flatten()
}
