//! Child processes of a local workspace.
//!
//! A child has its own session and an environment built from empty; `handle.rs` is the running
//! child, led by a plain child process (`leader.rs`) or by the init of a sandbox (`confined.rs`).
//! Must not lower a tier: what cannot be confined as asked is refused.

mod child_leader;
mod confined;
pub(crate) mod controls;
mod environment;
mod handle;
pub(crate) mod input;
mod leader;
mod options;
pub(crate) mod orphans;
mod output;
mod program;
mod sandboxed;
pub(crate) mod streams;
pub(crate) mod terminal;
mod tree;
pub(crate) mod waiting;
pub(crate) mod warden;
pub mod watch;

use std::{fmt::Write as _, os::fd::AsFd, path::Path, sync::Arc};

use haft_contract::{
    ErrorKind, Masks,
    future::BoxFuture,
    ops::{OpsError, ProcessHandle, ProcessOps, Spawn, Tier},
};
use rustix::{
    fs::OFlags,
    io::Errno,
    rand::{GetRandomFlags, getrandom},
};

pub use self::{handle::DRAIN_LIMIT, options::ProcessOptions};
use self::{
    handle::LocalProcess,
    leader::Leader,
    streams::{OurEnds, Streams},
};
use crate::{
    detect::Facilities,
    errno,
    jail::{Jail, Lookup},
    masks::MaskSearch,
    owner::Owner,
    plan::SandboxPlan,
    pool::blocking,
    request::MaskedPlaces,
    setup::Sandbox,
    spawn::{self, Launch},
};

/// The processes of a workspace on this machine.
#[derive(Debug)]
pub struct LocalProcesses {
    jail: Arc<Jail>,
    options: Arc<ProcessOptions>,
    sandbox: Arc<Sandbox>,
    masks: Arc<MaskSearch>,
}

impl LocalProcesses {
    /// Finds out what this machine has for the children of a workspace, and ends those that an
    /// earlier Haft left behind.
    pub fn open(jail: Arc<Jail>, options: ProcessOptions) -> Self {
        orphans::sweep_once();
        let sandbox = Sandbox::look(
            &options.sandbox,
            Path::new(jail.shown()),
            Path::new(&options.temporary),
        );
        Self {
            jail,
            options: Arc::new(options),
            sandbox: Arc::new(sandbox),
            masks: Arc::default(),
        }
    }

    /// The processes of another workspace with the same options. What is known about this machine
    /// is shared, not looked up again.
    #[must_use]
    pub fn open_beside(&self, jail: Arc<Jail>) -> Self {
        let root = Path::new(jail.shown());
        let sandbox = if self.sandbox.serves(root) {
            Arc::clone(&self.sandbox)
        } else {
            let temporary = Path::new(&self.options.temporary);
            Arc::new(Sandbox::look(&self.options.sandbox, root, temporary))
        };
        Self {
            jail,
            options: Arc::clone(&self.options),
            sandbox,
            masks: Arc::default(),
        }
    }

    /// Whether the workspace's root, something above it, or something below it is shown to the commands
    /// of every workspace with these options.
    pub fn shows_root(&self) -> bool {
        self.sandbox
            .view()
            .shows_part_of(Path::new(self.jail.shown()))
    }

    /// What this machine has for sandboxes.
    pub fn facilities(&self) -> &Facilities {
        self.sandbox.facilities()
    }

    /// What would confine a child, without starting it. Reads the workspace, so it blocks.
    pub fn plan_sandbox(&self, spawn: &Spawn) -> Result<SandboxPlan, OpsError> {
        plan_sandbox(&self.jail, &self.options, &self.sandbox, spawn)
    }

    async fn spawn_on_host(&self, spawn: Spawn) -> Result<Box<dyn ProcessHandle>, OpsError> {
        check_egress(&spawn)?;
        sandboxed::check_masks(&spawn)?;
        let (jail, options) = (Arc::clone(&self.jail), Arc::clone(&self.options));
        let sandbox = Arc::clone(&self.sandbox);
        // A caller that stops waiting drops the leader, which ends the child.
        let started = blocking(move || start(&jail, &options, &sandbox, &spawn));
        let (leader, streams) = started.await?;
        Ok(Box::new(LocalProcess::new(leader, streams)?))
    }

    async fn spawn_confined(&self, spawn: Spawn) -> Result<Box<dyn ProcessHandle>, OpsError> {
        let (jail, options) = (Arc::clone(&self.jail), Arc::clone(&self.options));
        let sandbox = Arc::clone(&self.sandbox);
        let masks = Arc::clone(&self.masks);
        let started = blocking(move || sandboxed::start(&jail, &options, &sandbox, &masks, &spawn));
        let (leader, streams) = started.await?;
        Ok(Box::new(LocalProcess::new(leader, streams)?))
    }
}

impl ProcessOps for LocalProcesses {
    fn spawn(&self, spawn: Spawn) -> BoxFuture<'_, Result<Box<dyn ProcessHandle>, OpsError>> {
        Box::pin(async move {
            match spawn.tier {
                Tier::Host => self.spawn_on_host(spawn).await,
                Tier::T1 | Tier::T2 | Tier::T3 => self.spawn_confined(spawn).await,
                Tier::InProcess => Err(OpsError::new(
                    ErrorKind::TierUnavailable,
                    format!("a process cannot be confined to tier `{}` here", spawn.tier),
                )),
            }
        })
    }

    fn holds(&self, tier: Tier, masks: Masks) -> BoxFuture<'_, Result<Masks, OpsError>> {
        Box::pin(async move {
            if !sandboxed::can_mask(tier) {
                return Ok(Masks::NONE);
            }
            let (jail, sandbox) = (Arc::clone(&self.jail), Arc::clone(&self.sandbox));
            let (search, options) = (Arc::clone(&self.masks), Arc::clone(&self.options));
            blocking(move || {
                let limits = &options.sandbox.masks;
                Ok(search.holds(&jail, sandbox.view(), limits, &masks))
            })
            .await
        })
    }
}

fn plan_sandbox(
    jail: &Jail,
    options: &ProcessOptions,
    sandbox: &Sandbox,
    spawn: &Spawn,
) -> Result<SandboxPlan, OpsError> {
    /// Standard input, output and error.
    const STREAMS: u8 = 3;
    let executable = sandboxed::executable(spawn, STREAMS.into())?;
    sandboxed::plan(
        jail,
        options,
        sandbox,
        &sandboxed::Details {
            spawn,
            mark: "(made for each command)",
            private: &Path::new(&options.temporary).join("haft-(made for each command)"),
            executable: &executable,
            streams: STREAMS.into(),
            egress: None,
            deep: None,
            masked: &MaskedPlaces::default(),
            cover: None,
        },
    )
}

/// A plain child process cannot be restricted to some hosts.
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
fn start(
    jail: &Jail,
    options: &ProcessOptions,
    sandbox: &Sandbox,
    spawn: &Spawn,
) -> Result<(Leader, OurEnds), OpsError> {
    let directory = jail
        .open_at(&spawn.cwd, OFlags::PATH | OFlags::DIRECTORY, Lookup::Full)
        .map_err(|errno| errno::on_path(errno, &spawn.cwd))?;
    let mark = random_mark().map_err(errno::error)?;
    let environment = environment::build(options, &spawn.environment, &mark)?;
    warden::ensure(sandbox.unconfined_helper().ok());
    let streams = Streams::open(spawn).map_err(errno::error)?;
    let mut descriptors = streams.for_child();
    let program = program::find(
        &spawn.command,
        spawn.pinned,
        &options.search_path,
        descriptors.len(),
    )?;
    if program.pinned.is_none() {
        program::check_outside(&program.path, directory.as_fd(), jail.shown())?;
    }
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
    Ok((Leader::new(started, &mark)?, streams.ours))
}

fn launch_error(errno: Errno) -> OpsError {
    let error = errno::error(errno);
    OpsError::new(
        error.kind(),
        format!("the program cannot be started: {error}"),
    )
}

/// The owner, and 128 random bits in hexadecimal.
fn random_mark() -> Result<String, Errno> {
    let mut bytes = [0_u8; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let mut mark = String::with_capacity(32);
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(mark, "{byte:02x}");
    }
    let owner = Owner::this_process().map_err(|_| Errno::SRCH)?;
    Ok(orphans::mark(owner, &mark))
}
