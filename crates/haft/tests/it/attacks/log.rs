//! Keeps what Haft logs, so that it can be searched for secrets.

use std::{
    io,
    sync::{Mutex, PoisonError},
};

use tracing_subscriber::EnvFilter;

/// What is kept: everything of Haft's own, and what its libraries say beside their wire protocols.
const FILTER: &str = "debug,haft_backends=trace,haft_egress=trace,haft_sandbox=trace,haft_ledger=trace,haft_policy=trace,\
                      haft_runtime=trace,haft_tools=trace";

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// Begins to keep the log of this process.
pub(crate) fn keep() {
    let kept = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(FILTER))
        .with_ansi(false)
        .with_writer(|| Keep)
        .try_init();
    // Another group of this process began already.
    drop(kept);
}

/// Everything logged so far.
pub(crate) fn everything() -> Vec<u8> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

struct Keep;

impl io::Write for Keep {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The control of the search: what is logged is kept.
#[test]
fn what_is_logged_is_kept() {
    keep();
    tracing::warn!(secret = "canary+log/1=", "a line");
    let log = String::from_utf8(everything()).unwrap();
    assert!(log.contains("canary+log/1="), "{log}");
}
