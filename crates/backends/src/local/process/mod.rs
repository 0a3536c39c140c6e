//! Child processes of a local workspace.
//!
//! A child has a session of its own and an environment built from empty; `handle.rs` is the
//! running child. Must not confine anything: a tier above `host` is refused here and comes with
//! the sandbox back end.

pub(crate) mod controls;
mod environment;
mod handle;
pub(crate) mod input;
mod leader;
mod output;
mod program;
mod spawn;
pub(crate) mod streams;
pub(crate) mod terminal;
mod tree;
pub(crate) mod waiting;
pub(crate) mod watch;

use std::{fmt::Write as _, os::fd::AsFd, sync::Arc};

use haft_contract::{
    ErrorKind,
    future::BoxFuture,
    ops::{OpsError, ProcessHandle, ProcessOps, Spawn, Tier},
};
use rustix::{
    fs::OFlags,
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

pub use self::handle::DRAIN_LIMIT;
use self::{
    handle::{Child, LocalProcess},
    leader::Leader,
    spawn::Launch,
    streams::Streams,
};
use super::{LocalOptions, pool::blocking};
use crate::{
    errno,
    jail::{Jail, Lookup},
};

/// The processes of a local workspace.
#[derive(Debug)]
pub(crate) struct LocalProcesses {
    jail: Arc<Jail>,
    options: Arc<LocalOptions>,
}

impl LocalProcesses {
    pub(crate) fn new(jail: Arc<Jail>, options: Arc<LocalOptions>) -> Self {
        Self { jail, options }
    }
}

impl ProcessOps for LocalProcesses {
    fn spawn(&self, spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        Box::pin(async move {
            check_tier(spawn.tier)?;
            check_egress(&spawn)?;
            let jail = Arc::clone(&self.jail);
            let options = Arc::clone(&self.options);
            let child = blocking(move || start(&jail, &options, spawn)).await?;
            Ok(Box::new(LocalProcess::new(child)?) as Box<dyn ProcessHandle>)
        })
    }
}

fn check_tier(tier: Tier) -> Result<(), OpsError> {
    match tier {
        Tier::Host => Ok(()),
        Tier::T1 | Tier::T2 | Tier::T3 | Tier::InProcess => Err(OpsError::new(
            ErrorKind::TierUnavailable,
            format!(
                "the local back end cannot confine a process to tier `{tier}`; it comes with the \
                 sandbox, or the operator can allow this tool to run unconfined"
            ),
        )),
    }
}

/// Nothing keeps a plain child process to some hosts.
fn check_egress(spawn: &Spawn) -> Result<(), OpsError> {
    match spawn.egress {
        None => Ok(()),
        Some(_) => Err(OpsError::new(
            ErrorKind::TierUnavailable,
            "a process on the host cannot be given a network limited to some hosts",
        )),
    }
}

/// Starts a child: finds its directory and program, builds its environment, connects its streams.
fn start(jail: &Jail, options: &LocalOptions, spawn: Spawn) -> Result<Child, OpsError> {
    let directory = jail
        .open_at(&spawn.cwd, OFlags::PATH | OFlags::DIRECTORY, Lookup::Full)
        .map_err(|errno| errno::on_path(errno, &spawn.cwd))?;
    let mark = random_mark().map_err(errno::error)?;
    let environment = environment::build(options, &spawn.environment, &mark)?;
    let streams = Streams::open(&spawn).map_err(errno::error)?;
    let mut descriptors = streams.for_child();
    let program = program::find(
        &spawn.command,
        spawn.pinned,
        &options.search_path,
        descriptors.len(),
    )?;
    descriptors.extend(program.pinned.as_ref().map(AsFd::as_fd));
    let started = spawn::launch(&Launch {
        program: &program.path,
        arguments: &program.arguments,
        environment: &environment,
        directory: directory.as_fd(),
        descriptors: &descriptors,
        terminal: streams.terminal_path(),
    })
    .map_err(launch_error)?;
    Ok(Child {
        leader: Leader::new(started, &mark),
        streams: streams.ours,
    })
}

fn launch_error(errno: Errno) -> OpsError {
    let error = errno::error(errno);
    OpsError::new(
        error.kind(),
        format!("the program cannot be started: {error}"),
    )
}

/// 128 random bits in hexadecimal.
fn random_mark() -> Result<String, Errno> {
    let mut bytes = [0_u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let mut mark = String::with_capacity(32);
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(mark, "{byte:02x}");
    }
    Ok(mark)
}
