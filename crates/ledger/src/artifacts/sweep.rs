//! When a machine last removed old artifacts, and what it left half written.

use std::{
    io::{self, Read as _, Seek as _, Write as _},
    os::unix::fs::MetadataExt as _,
    time::Duration,
};

use haft_contract::host::Timestamp;

use crate::directory::PrivateDirectory;

/// A partial artifact older than this was left by a process that is gone.
const ABANDONED_AFTER: Duration = Duration::from_hours(24);

/// How often old artifacts are removed. Not at every start: a command line opens the ledger for
/// each call.
pub(super) const SWEEP_EVERY: Duration = Duration::from_hours(24);

/// Holds the time of the last sweep, in microseconds since 1970. Its name begins with a dot, which
/// no artifact's does.
const SWEPT: &str = ".swept";

/// Whether a sweep is due in this directory; if so, marks it as done.
pub(super) fn take_sweep(root: &PrivateDirectory, now: Timestamp) -> io::Result<bool> {
    let mut stamp = root.open_or_create(SWEPT)?;
    let mut text = Vec::new();
    (&stamp).take(32).read_to_end(&mut text)?;
    let last = String::from_utf8_lossy(&text).parse::<i64>();
    // A sweep only ever writes a number.
    let last = last.unwrap_or(i64::MIN);
    // A stamp from the future, written before the clock was set back, must not stop sweeping.
    if last > before(now, SWEEP_EVERY) && last <= now.0 {
        return Ok(false);
    }
    stamp.rewind()?;
    stamp.set_len(0)?;
    stamp.write_all(now.0.to_string().as_bytes())?;
    Ok(true)
}

/// Removes what processes that are gone were writing.
pub(super) fn remove_abandoned(writing: &PrivateDirectory, now: Timestamp) -> io::Result<()> {
    for name in writing.names()? {
        // If it is gone by now, it was finished.
        if let Ok(file) = writing.open_existing(&name)
            && written_at(&file.metadata()?) < before(now, ABANDONED_AFTER)
        {
            writing.remove(&name)?;
        }
    }
    Ok(())
}

/// When a file was last written, in microseconds since 1970.
pub(super) fn written_at(metadata: &std::fs::Metadata) -> i64 {
    metadata
        .mtime()
        .saturating_mul(1_000_000)
        .saturating_add(metadata.mtime_nsec() / 1_000)
}

/// A moment this long before now, in microseconds since 1970.
pub(super) fn before(now: Timestamp, duration: Duration) -> i64 {
    now.0
        .saturating_sub(i64::try_from(duration.as_micros()).unwrap_or(i64::MAX))
}
