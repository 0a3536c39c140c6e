//! What one connection has in progress: requests being answered, open files, running children.
//!
//! Each table has a cap, and everything in them is dropped with the connection.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use haft_contract::{
    ErrorKind,
    ops::{FileReader, Operations, OpsError},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use super::{
    exchange::{Body, Exchange},
    files,
    process::{self, RunningChild},
    search,
};
use crate::remote::{
    convert::MalformedMessage,
    credit::{Charged, MAX_REQUEST_FRAMES},
    frame::{Frame, Kind},
    outbox::Outbox,
    wire::{Call, Reply, Request},
};

/// The most requests answered at once, including running children.
const MAX_EXCHANGES: usize = 1024;

/// The most files one connection holds open.
const MAX_FILES: usize = 1024;

/// One connection.
pub(super) struct Session {
    pub(super) operations: Operations,
    outbox: Arc<Outbox>,
    live: Mutex<LiveRequests>,
    ending: CancellationToken,
    tasks: TaskTracker,
}

/// What is in progress. A number is in at most one table.
#[derive(Default)]
struct LiveRequests {
    exchanges: HashMap<u64, RequestInProgress>,
    files: HashMap<u64, Arc<dyn FileReader>>,
    processes: HashMap<u64, RunningChild>,
}

/// A request being answered.
struct RequestInProgress {
    exchange: Arc<Exchange>,
    /// Where its body is delivered, until it is complete.
    body: Option<mpsc::Sender<Charged<Vec<u8>>>>,
}

impl Session {
    pub(super) fn new(operations: Operations, outbox: Arc<Outbox>) -> Self {
        Self {
            operations,
            outbox,
            live: Mutex::default(),
            ending: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Handles one frame. One that is out of order ends the connection.
    pub(super) fn take(self: &Arc<Self>, frame: Frame) -> Result<(), MalformedMessage> {
        const BEYOND: MalformedMessage = MalformedMessage("body beyond its credit");
        match frame.kind {
            Kind::Request => self.begin(&frame)?,
            Kind::Data => {
                // The caller may not know yet that the exchange is over.
                if let Some(answering) = self.live().exchanges.get(&frame.exchange) {
                    let body = answering.body.as_ref().ok_or(MalformedMessage("body"))?;
                    let piece = answering.exchange.allowance.admit(frame);
                    match body.try_send(piece.map_err(|_| BEYOND)?) {
                        Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
                        Err(mpsc::error::TrySendError::Full(_)) => return Err(BEYOND),
                    }
                }
            }
            Kind::Finish => {
                if let Some(answering) = self.live().exchanges.get_mut(&frame.exchange) {
                    answering.body = None;
                }
            }
            Kind::Credit => {
                let granted = frame.granted().ok_or(MalformedMessage("credit"))?;
                if let Some(answering) = self.live().exchanges.get(&frame.exchange) {
                    let window = &answering.exchange.window;
                    window
                        .give(granted)
                        .map_err(|_| MalformedMessage("credit"))?;
                }
            }
            Kind::Cancel => {
                let mut live = self.live();
                live.files.remove(&frame.exchange);
                if let Some(answering) = live.exchanges.get(&frame.exchange) {
                    answering.exchange.cancel.cancel();
                }
            }
            Kind::Ping => {
                // A failure to send is noticed elsewhere.
                let _ = self.outbox.push(Frame::bare(Kind::Pong, 0));
            }
            Kind::Hello | Kind::Reply | Kind::Note | Kind::Output | Kind::Pong => {
                return Err(MalformedMessage("frame"));
            }
        }
        Ok(())
    }

    /// Completes when nobody receives the answers any more.
    pub(super) async fn unheard(&self) {
        self.outbox.closed().await;
    }

    /// Ends everything when dropped.
    pub(super) fn ending(&self) -> DropGuard {
        self.ending.clone().drop_guard()
    }

    /// Ends everything; returns whether it ended in time.
    pub(super) async fn end(&self, limit: Duration) -> bool {
        self.ending.cancel();
        self.live().files.clear();
        self.tasks.close();
        timeout(limit, self.tasks.wait()).await.is_ok()
    }

    /// Keeps a file open under the number of the exchange that opened it.
    pub(super) fn keep_file(
        &self,
        exchange: &Exchange,
        file: Box<dyn FileReader>,
    ) -> Result<(), OpsError> {
        let mut live = self.live();
        if live.files.len() >= MAX_FILES {
            return Err(OpsError::new(
                ErrorKind::LimitExceeded,
                format!("{MAX_FILES} files are open over this connection already"),
            ));
        }
        // If a cancel came earlier, it found nothing to remove.
        if !exchange.cancel.is_cancelled() {
            live.files.insert(exchange.number, Arc::from(file));
        }
        Ok(())
    }

    /// An open file.
    pub(super) fn file(&self, number: u64) -> Option<Arc<dyn FileReader>> {
        self.live().files.get(&number).cloned()
    }

    /// Registers a running child, so that its controls can be found.
    pub(super) fn keep_process(&self, number: u64, running: RunningChild) {
        self.live().processes.insert(number, running);
    }

    /// A running child; `None` once it has ended.
    pub(super) fn process(&self, number: u64) -> Option<RunningChild> {
        self.live().processes.get(&number).cloned()
    }

    /// Removes a child that has ended.
    pub(super) fn forget_process(&self, number: u64) {
        self.live().processes.remove(&number);
    }

    fn begin(self: &Arc<Self>, frame: &Frame) -> Result<(), MalformedMessage> {
        let call: Call =
            serde_json::from_slice(&frame.body).map_err(|_| MalformedMessage("request"))?;
        let cancel = self.ending.child_token();
        let outbox = Arc::clone(&self.outbox);
        let exchange = Arc::new(Exchange::new(frame.exchange, cancel, outbox));
        let (sender, body) = mpsc::channel(MAX_REQUEST_FRAMES);
        {
            let mut live = self.live();
            if live.exchanges.contains_key(&frame.exchange) {
                return Err(MalformedMessage("request"));
            }
            if live.exchanges.len() >= MAX_EXCHANGES {
                exchange.reply(Err(OpsError::new(
                    ErrorKind::LimitExceeded,
                    format!("{MAX_EXCHANGES} calls are under way over this connection already"),
                )));
                return Ok(());
            }
            let answering = RequestInProgress {
                exchange: Arc::clone(&exchange),
                body: (call.body_bytes > 0).then_some(sender),
            };
            live.exchanges.insert(frame.exchange, answering);
        }
        let session = Arc::clone(self);
        self.tasks.spawn(async move {
            let work = tokio::spawn(answer(
                Arc::clone(&session),
                Arc::clone(&exchange),
                call,
                body,
            ));
            let outcome = work.await.unwrap_or_else(|error| {
                tracing::error!(%error, "answering a call failed");
                Err(OpsError::new(
                    ErrorKind::Internal,
                    "internal error; see the log of the remote side for details",
                ))
            });
            session.live().exchanges.remove(&exchange.number);
            exchange.reply(outcome);
        });
        Ok(())
    }

    fn live(&self) -> MutexGuard<'_, LiveRequests> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Carries out a call, within its time limit.
async fn answer(
    session: Arc<Session>,
    exchange: Arc<Exchange>,
    call: Call,
    body: Body,
) -> Result<Reply, OpsError> {
    let limit = Duration::from_millis(call.limit_ms);
    let until = Instant::now() + limit;
    let late = |_| {
        // Stops what still runs for it.
        exchange.cancel.cancel();
        OpsError::new(
            ErrorKind::TimedOut,
            format!("the operation took longer than {} s", limit.as_secs()),
        )
    };
    let body = async { exchange.collect(body, call.body_bytes).await };
    let body = timeout_at(until, body).await.map_err(late)??;
    match call.request {
        // The limit applies to the start; the child then lives as long as its caller wants.
        Request::Spawn(spawn) => process::run(&session, &exchange, spawn, body, until).await,
        request => {
            let work = dispatch(&session, &exchange, request, &body);
            timeout_at(until, work).await.map_err(late)?
        }
    }
}

async fn dispatch(
    session: &Session,
    exchange: &Exchange,
    request: Request,
    body: &[u8],
) -> Result<Reply, OpsError> {
    let files = &*session.operations.files;
    match request {
        Request::Resolve { path } => files::resolve(files, &path).await,
        Request::Stat { path } => files::stat(files, &path).await,
        Request::Open { path } => files::open(session, exchange, &path).await,
        Request::Read {
            file,
            offset,
            length,
        } => files::read(session, exchange, file, offset, length).await,
        Request::Write {
            path,
            expected,
            mode,
        } => files::write(files, &path, &expected, mode, body).await,
        Request::Append { path } => files::append(files, &path, body).await,
        Request::List {
            path,
            depth,
            limit,
            respect_ignores,
            withheld,
        } => {
            let shape = (depth, limit, respect_ignores);
            files::list(files, exchange, &path, shape, &withheld).await
        }
        Request::MakeDir { path } => files::make_dir(files, &path).await,
        Request::Remove { path, scope } => files::remove(files, &path, scope).await,
        Request::Rename {
            from,
            to,
            overwrite,
        } => files::rename(files, &from, &to, overwrite).await,
        Request::RemoveVersion { path, version } => {
            files::remove_version(files, &path, version).await
        }
        Request::RenameVersion { from, to, version } => {
            files::rename_version(files, &from, &to, version).await
        }
        Request::Copy {
            from,
            to,
            overwrite,
        } => files::copy(files, exchange, &from, &to, overwrite).await,
        Request::Grep(grep) => search::grep(&*session.operations.search, exchange, grep).await,
        Request::Find(find) => search::find(&*session.operations.search, exchange, find).await,
        Request::Spawn(_) => Err(MalformedMessage("request").into()),
        Request::Stop { process, grace_ms } => process::stop(session, process, grace_ms).await,
        Request::Input { process } => process::input(session, process, body).await,
        Request::CloseInput { process } => process::close_input(session, process).await,
        Request::Resize {
            process,
            rows,
            columns,
        } => process::resize(session, process, rows, columns).await,
        Request::Signal { process, signal } => process::signal(session, process, &signal).await,
        Request::WaitsForInput { process } => process::waits_for_input(session, process).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a body that nobody collects: its task does not run before the test waits.
    #[tokio::test]
    async fn a_body_beyond_its_credit_ends_the_session_and_no_more_is_kept() {
        fn check(bytes: usize) {
            let (operations, _) = haft_testkit::memory::operations();
            let session = Arc::new(Session::new(operations, Arc::new(Outbox::new())));
            let call = Call {
                limit_ms: 60_000,
                body_bytes: 100 * 1024 * 1024,
                request: Request::Append {
                    path: "file".to_owned(),
                },
            };
            let call = serde_json::to_vec(&call).unwrap();
            session.take(Frame::new(Kind::Request, 1, call)).unwrap();
            let allowed = 256 * 1024 / (bytes + 64);
            let piece = || Frame::new(Kind::Data, 1, vec![0; bytes]);
            let kept = (0..4 * (allowed + 1))
                .take_while(|_| session.take(piece()).is_ok())
                .count();
            assert_eq!(kept, allowed, "pieces of {bytes} bytes");
            assert_eq!(
                session.take(piece()),
                Err(MalformedMessage("body beyond its credit"))
            );
        }
        check(0);
        check(1000);
        check(64 * 1024 - 64);
        check(256 * 1024 - 64);
        check(256 * 1024 - 63);
        check(4 * 1024 * 1024 - 1024);
    }
}
