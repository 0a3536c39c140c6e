//! Reads documents that strangers wrote, each in a process of its own that can do nothing else.
//!
//! The process is the helper (`confine.rs` says what it gives up, `mode.rs` what it does). It gets the
//! document through a pipe and answers through another. If it needs more memory, processor time or
//! time than it may have, or crashes, its call fails and nothing else notices.

mod confine;
mod mode;
mod wire;

use std::{
    ffi::CString,
    io::{Read as _, Write as _},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use haft_contract::{
    BoxFuture, ErrorKind,
    ops::{DocumentOps, DocumentText, OpsError, UntrustedDocument},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid},
};
use tokio::sync::Semaphore;

pub use self::confine::{CPU_TIME, MEMORY_BYTES};
pub(crate) use self::mode::{MODE, run};
use self::wire::{MAX_ANSWER, ReadAnswer, ReadRequest};
use crate::{
    helper::Helper,
    helper_flag::FLAG,
    loopback::EndedOnDrop,
    orphans::{BaseDirectories, TEMPORARY},
    spawn::{self, Launch, StartedChild},
    spawner,
};

/// The most documents that are read at a time; the others wait.
const MAX_READERS: usize = 4;

/// The longest time that reading one may take, whatever the call has left.
const MAX_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether anybody still waits for the answer.
const GLANCE: Duration = Duration::from_millis(100);

/// Reads documents in confined processes.
pub struct ConfinedReader {
    helper: Helper,
    workspace: PathBuf,
    places: Arc<Semaphore>,
}

impl ConfinedReader {
    /// A reader that starts this helper, if it does not lie in this workspace, where a command could
    /// replace it.
    pub fn new(helper: Helper, workspace: &Path) -> Self {
        Self {
            helper,
            workspace: workspace.to_owned(),
            places: Arc::new(Semaphore::new(MAX_READERS)),
        }
    }

    async fn read_confined(
        &self,
        document: UntrustedDocument<'_>,
    ) -> Result<DocumentText, OpsError> {
        let deadline = Instant::now() + document.within.min(MAX_TIME);
        let place =
            tokio::time::timeout_at(deadline.into(), Arc::clone(&self.places).acquire_owned());
        let place = place.await.map_err(|_| too_slow())?;
        let place = place.map_err(|_| unavailable("reading documents has ended"))?;
        let request = ReadRequest::of(&document).bytes(document.bytes);
        let request = request.map_err(|error| unavailable(&error))?;
        let (helper, workspace) = (self.helper.clone(), self.workspace.clone());
        // Dropped with this future when the call is stopped.
        let wanted = AnswerInterest::default();
        let is_wanted = Arc::clone(&wanted.0);
        let reading = tokio::task::spawn_blocking(move || {
            let answer = exchange(&helper, &workspace, &request, deadline, &is_wanted);
            drop(place);
            answer
        });
        let answer = reading
            .await
            .map_err(|_| unavailable("the reader's own thread broke"))??;
        let answer: ReadAnswer = serde_json::from_slice(&answer)
            .map_err(|_| unavailable("the reader's answer makes no sense"))?;
        drop(wanted);
        Ok(answer.into())
    }
}

impl DocumentOps for ConfinedReader {
    fn read<'a>(
        &'a self,
        document: UntrustedDocument<'a>,
    ) -> BoxFuture<'a, Result<DocumentText, OpsError>> {
        Box::pin(self.read_confined(document))
    }
}

impl std::fmt::Debug for ConfinedReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfinedReader").finish_non_exhaustive()
    }
}

/// Whether anybody waits for an answer.
struct AnswerInterest(Arc<AtomicBool>);

impl Default for AnswerInterest {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Drop for AnswerInterest {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Starts a reader, gives it the document and takes its answer. Blocks.
fn exchange(
    helper: &Helper,
    workspace: &Path,
    request: &[u8],
    deadline: Instant,
    wanted: &AtomicBool,
) -> Result<Vec<u8>, OpsError> {
    // Held while it starts: a copy of it is removed with this.
    let found = helper.for_workspace(workspace, &BaseDirectories::new(None, Path::new(TEMPORARY)));
    let found = found
        .map_err(|missing| unavailable(&format!("{}; {}", missing.reason(), missing.remedy())))?;
    let program = CString::new(found.path().as_os_str().as_bytes())
        .map_err(|_| unavailable("the helper has no name"))?;
    let failed = |errno: Errno| unavailable(&format!("the reader cannot be started: {errno}"));
    let (their_input, our_end) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let (our_input, their_output) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    let started = spawner::run(move || start(&program, &their_input, &their_output));
    // Ended when this function is done, whatever became of it.
    let reader = EndedOnDrop(started.map_err(failed)?);
    rustix::io::ioctl_fionbio(&our_end, true).map_err(failed)?;
    let answer = pump(request, our_end, our_input, deadline, wanted)?;
    how_it_ended(&reader.0, deadline)?;
    Ok(answer)
}

fn start(program: &CString, input: &OwnedFd, output: &OwnedFd) -> Result<StartedChild, Errno> {
    let words = ["haft", FLAG, MODE].map(|word| CString::new(word).map_err(|_| Errno::INVAL));
    let words = words.into_iter().collect::<Result<Vec<_>, _>>()?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let root = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    spawn::launch(&Launch {
        program,
        arguments: &words,
        environment: &[],
        directory: root.as_fd(),
        descriptors: &[input.as_fd(), output.as_fd(), nothing.as_fd()],
        terminal: None,
    })
}

/// Writes the request and reads the answer, both until their ends.
fn pump(
    mut request: &[u8],
    to: OwnedFd,
    from: OwnedFd,
    deadline: Instant,
    wanted: &AtomicBool,
) -> Result<Vec<u8>, OpsError> {
    let mut to = Some(std::fs::File::from(to));
    let mut from = std::fs::File::from(from);
    let (mut answer, mut piece) = (Vec::new(), vec![0; 64 * 1024]);
    loop {
        if !wanted.load(Ordering::Relaxed) {
            return Err(OpsError::new(
                ErrorKind::Cancelled,
                "nobody waits for it any more",
            ));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(too_slow());
        }
        if request.is_empty() {
            to = None;
        }
        let mut ready = vec![PollFd::new(&from, PollFlags::IN)];
        ready.extend(to.as_ref().map(|to| PollFd::new(to, PollFlags::OUT)));
        let within = Timespec::try_from(left.min(GLANCE)).map_err(|_| too_slow())?;
        match poll(&mut ready, Some(&within)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(unavailable(&errno.to_string())),
        }
        let may_read = ready.first().is_some_and(|one| !one.revents().is_empty());
        let may_write = ready.get(1).is_some_and(|one| !one.revents().is_empty());
        drop(ready);
        if let (true, Some(pipe)) = (may_write, &mut to) {
            match pipe.write(request) {
                Ok(written) => request = request.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // It is gone; how it ended says why.
                Err(_) => request = &[],
            }
        }
        if may_read {
            match from.read(&mut piece) {
                Ok(0) => return Ok(answer),
                Ok(read) => answer.extend_from_slice(piece.get(..read).unwrap_or_default()),
                Err(error) => return Err(unavailable(&error.to_string())),
            }
            if answer.len() > MAX_ANSWER {
                return Err(limit("its text is too long"));
            }
        }
    }
}

/// Fails unless a reader ended as one that has answered does.
fn how_it_ended(reader: &StartedChild, deadline: Instant) -> Result<(), OpsError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(|_| too_slow())?;
    let _ = poll(
        &mut [PollFd::new(&reader.pidfd, PollFlags::IN)],
        Some(&left),
    );
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let ended = waitid(WaitId::PidFd(reader.pidfd.as_fd()), options);
    let Ok(Some(status)) = ended else {
        return Err(too_slow());
    };
    if status.exit_status() == Some(0) {
        return Ok(());
    }
    Err(ended_by(&status))
}

fn ended_by(status: &WaitIdStatus) -> OpsError {
    let signal = status.terminating_signal().and_then(Signal::from_named_raw);
    if signal == Some(Signal::XCPU) || signal == Some(Signal::KILL) {
        return limit(&format!(
            "it takes more than {} s of processor time",
            CPU_TIME.as_secs()
        ));
    }
    if signal == Some(Signal::ABORT) || status.exit_status() == Some(mode::TOO_LARGE.into()) {
        return limit(&format!(
            "it takes more than {} MiB of memory",
            MEMORY_BYTES >> 20
        ));
    }
    if signal == Some(Signal::SYS) {
        return unavailable("its reader tried something that reading needs not, and was ended");
    }
    unavailable("its reader broke")
}

fn unavailable(why: &str) -> OpsError {
    OpsError::new(
        ErrorKind::Unavailable,
        format!("the document cannot be read: {why}"),
    )
}

fn limit(why: &str) -> OpsError {
    OpsError::new(
        ErrorKind::LimitExceeded,
        format!("the document is not read: {why}"),
    )
}

fn too_slow() -> OpsError {
    OpsError::new(ErrorKind::TimedOut, "reading the document took too long")
}
