//! Reduces an input that breaks a property to what is needed to break it.

use std::{cell::Cell, panic, sync::Once};

/// The most attempts to shorten one input.
const ATTEMPTS: usize = 4_000;

/// Removes parts, large ones first, as long as the rest still fails. Returns what is left and why
/// it fails.
pub(super) fn shrink(
    mut input: Vec<u8>,
    mut why: String,
    mut fails: impl FnMut(&[u8]) -> Option<String>,
) -> (Vec<u8>, String) {
    let mut attempts = 0;
    let mut size = input.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let mut shorter = false;
        while at < input.len() && attempts < ATTEMPTS {
            attempts += 1;
            let end = (at + size).min(input.len());
            let rest = [&input[..at], &input[end..]].concat();
            match fails(&rest) {
                Some(failure) => {
                    (input, why) = (rest, failure);
                    shorter = true;
                }
                None => at = end,
            }
        }
        // A cut may have made room for another of the same size.
        if !shorter {
            size /= 2;
        }
    }
    (input, why)
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs something with its panic messages silenced; the caller reports the panic once.
pub(super) fn quietly<T>(doing: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                loud(panic);
            }
        }));
    });
    QUIET.set(true);
    let done = doing();
    QUIET.set(false);
    done
}
