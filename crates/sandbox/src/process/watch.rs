//! Waiting for a descriptor to become ready, without a thread.
#![expect(unsafe_code, reason = "tokio asks for a promise about the descriptor")]

use std::{io, os::fd::OwnedFd};

use tokio::io::{Interest, unix::AsyncFd};

/// Watches a descriptor with the runtime's own poller.
pub fn watch(descriptor: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open and keeps its number until it is dropped, and nobody else
    // closes it; the `AsyncFd` takes it over and deregisters it first.
    unsafe { AsyncFd::register_with_interest(descriptor, interest) }.map_err(io::Error::from)
}
