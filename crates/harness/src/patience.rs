//! Waiting in tests: for a condition, never for a fixed time.
//!
//! The only limit here turns a hang into a failure with a name. It says nothing about how long
//! anything takes, so no machine is too slow for it. That a stopped tree is gone in time is
//! measured in `crates/haft/tests/it/wall_time.rs`.

use std::{
    fmt::Debug,
    time::{Duration, Instant},
};

/// When a test gives up waiting for something that must happen.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// The pause between two checks.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Waits until a condition holds.
pub async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Waits until nothing is left; names what is left if that never happens.
pub async fn until_none<T: Debug>(what: &str, mut left: impl FnMut() -> Vec<T>) {
    let begun = Instant::now();
    loop {
        let left = left();
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{what}, still: {left:?}");
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
