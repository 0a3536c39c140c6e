//! A thread that swaps a directory and a symlink, over and over, until it is dropped.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

pub(super) struct Swapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Swapper {
    /// Swaps `d` and `link` of a directory.
    pub(super) fn start(root: &Path) -> Self {
        Self::between(&root.join("d"), &root.join("link"), Duration::ZERO)
    }

    /// Swaps two names, with a rest between.
    pub(super) fn between(one: &Path, other: &Path, rest: Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let swaps = Arc::new(AtomicU64::new(0));
        let (one, other) = (one.to_owned(), other.to_owned());
        let thread = std::thread::spawn({
            let (stop, swaps) = (Arc::clone(&stop), Arc::clone(&swaps));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                    swaps.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(rest);
                }
            }
        });
        let swapper = Self {
            stop,
            swaps,
            thread: Some(thread),
        };
        // There is no race before the first swap.
        while swapper.swaps() == 0 {
            std::thread::yield_now();
        }
        swapper
    }

    pub(super) fn swaps(&self) -> u64 {
        self.swaps.load(Ordering::Relaxed)
    }
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
