//! Connections that a program of the user's own carries: `ssh` to another machine, `docker` or
//! `podman` into a container.
//!
//! The program starts Haft's helper at the other end, by its hash, and its standard streams are the
//! connection (`remote/`). If the helper is not there yet, it is brought there once. What differs
//! between the programs is a [`HelperPlace`]; see `ssh/` and `container/`. Must not fall back to
//! anything less: no helper, no workspace.

mod connect;
mod payload;
mod running;
mod words;

#[cfg(feature = "ssh")]
pub(crate) use connect::SILENT_TRIES;
pub(crate) use connect::{ClientEnd, HelperPlace, ProgramConnect};
pub(crate) use payload::Digest;
pub(crate) use running::{Launch, RunningClient, find_program, random_name};
pub(crate) use words::last_line;
