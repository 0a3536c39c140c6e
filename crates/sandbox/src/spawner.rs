//! The one thread that starts sandboxes.
//!
//! A child that is to die with its parent dies with the *thread* that started it. Threads of an
//! async runtime come and go, so sandboxes are started from a thread that lives as long as the
//! process.

use std::sync::{
    OnceLock,
    mpsc::{SyncSender, sync_channel},
};

use rustix::io::Errno;

/// The most starts that may be queued.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// Runs work on the permanent thread, and waits for it. Blocks; not for an async thread.
pub(super) fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Errno> + Send + 'static,
) -> Result<T, Errno> {
    static THREAD: OnceLock<Option<SyncSender<Job>>> = OnceLock::new();
    let thread = THREAD.get_or_init(start).as_ref().ok_or(Errno::AGAIN)?;
    let (answer, answered) = sync_channel(1);
    let job: Job = Box::new(move || {
        // The requester may be gone; then the result is dropped, which ends what was started.
        let _ = answer.send(work());
    });
    thread.send(job).map_err(|_| Errno::AGAIN)?;
    answered.recv().map_err(|_| Errno::AGAIN)?
}

fn start() -> Option<SyncSender<Job>> {
    let (thread, jobs) = sync_channel::<Job>(QUEUE);
    std::thread::Builder::new()
        .name("haft-spawner".to_owned())
        .spawn(move || {
            for job in jobs {
                job();
            }
        })
        .ok()?;
    Some(thread)
}
