//! The one thread that starts sandboxes.
//!
//! A child that is to die with its parent dies with the *thread* that started it. Threads of an
//! async runtime come and go, so sandboxes are started from a thread that stays for as long as the
//! process does.

use std::sync::{
    OnceLock,
    mpsc::{SyncSender, sync_channel},
};

use rustix::io::Errno;

/// The most starts that wait for their turn.
const QUEUE: usize = 256;

type Job = Box<dyn FnOnce() + Send>;

/// Runs work on the thread that stays, and waits for it. Blocks; not for an async thread.
pub(super) fn run<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Errno> + Send + 'static,
) -> Result<T, Errno> {
    static THREAD: OnceLock<Option<SyncSender<Job>>> = OnceLock::new();
    let thread = THREAD.get_or_init(start).as_ref().ok_or(Errno::AGAIN)?;
    let (answer, answered) = sync_channel(1);
    let job: Job = Box::new(move || {
        // Whoever asked may be gone; then the result is dropped, which ends what was started.
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
