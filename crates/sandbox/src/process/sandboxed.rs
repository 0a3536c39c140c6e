//! Starting a child in a sandbox: from a spawn to a plan, from a plan to a running command.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_contract::{
    ErrorKind,
    access::Command,
    ops::{Layer, OpsError, Spawn, Tier},
};
use haft_egress::{EgressProxy, Forward, PROXY_PORT, ProxyOptions};
use rustix::fs::{Mode, OFlags, fstat, open};

use super::{
    ProcessOptions,
    confined::{CommandResources, ConfinedLead, KillScope},
    environment, program, random_mark,
    streams::{OurEnds, Streams},
};
use crate::{
    cgroup::Cgroup,
    errno, gvisor,
    jail::{FileId, Jail, Lookup, Mounts},
    launch::{self, LaunchParts},
    limits::LimitKeepers,
    masks::MaskSearch,
    mounts::GIT_SETTINGS,
    orphans::{DirectoryPurpose, PrivateDirectory},
    plan::SandboxPlan,
    protect,
    protected_watch::Deep,
    request::{CoverFile, CoveredMount, Egress, MaskedPlaces, Program, SandboxRequest, Workspace},
    setup::Sandbox,
    submounts,
};

/// Starts a child in a sandbox. Blocks until it runs.
pub(super) fn start(
    jail: &Arc<Jail>,
    options: &ProcessOptions,
    sandbox: &Sandbox,
    search: &MaskSearch,
    spawn: &Spawn,
) -> Result<(ConfinedLead, OurEnds), OpsError> {
    sandbox.check(spawn.tier)?;
    let masked = masked(jail, options, sandbox, search, spawn)?;
    jail.open_at(&spawn.cwd, OFlags::PATH | OFlags::DIRECTORY, Lookup::Full)
        .map_err(|errno| errno::on_path(errno, &spawn.cwd))?;
    let mark = random_mark().map_err(errno::error)?;
    let sockets = match spawn.egress {
        Some(_) => Some(sandbox.private_directory(DirectoryPurpose::Control)?),
        None => None,
    };
    let covers = if needs_cover(sandbox, spawn.tier, &masked) {
        Some(sandbox.private_directory(DirectoryPurpose::Control)?)
    } else {
        None
    };
    let cover = covers.as_ref().map(cover_file).transpose()?;
    let mut belongings = CommandResources {
        private: private_directory(options, sandbox, spawn.tier)?,
        group: sandbox.group()?,
        proxy: proxy(
            sockets.as_ref(),
            spawn,
            options.sandbox.network_setting.as_ref(),
        )?,
        sockets,
        covers,
        watch: None,
        loopback: if options.sandbox.without.is_empty() {
            sandbox.loopback(spawn)?
        } else {
            None
        },
    };
    let private = belongings.private.as_ref().map(PrivateDirectory::path);
    let streams = Streams::open(spawn).map_err(errno::error)?;
    let mut descriptors = streams.for_child();
    let executable = executable(spawn, descriptors.len())?;
    let guarded = !options.sandbox.without.contains(&Layer::Protected);
    let deep = (guarded && spawn.tier == Tier::T3).then(|| Deep::look(jail));
    let plan = plan(
        jail,
        options,
        sandbox,
        &Details {
            spawn,
            mark: &mark,
            private: private.unwrap_or(Path::new("/nonexistent")),
            executable: &executable,
            streams: u32::try_from(descriptors.len()).unwrap_or(u32::MAX),
            egress: egress(spawn, belongings.proxy.as_ref()),
            deep: deep.as_ref(),
            masked: &masked,
            cover,
        },
    )?;
    descriptors.extend(executable.pinned.as_ref().map(AsFd::as_fd));
    if plan.limits.is_none() {
        belongings.group = None;
    }
    if guarded {
        // After looking up what is protected, which may have made an empty hooks directory.
        belongings.watch = Some(sandbox.watch(jail, deep)?);
    }
    let plan = match spawn.tier {
        Tier::T3 => wrap_for_gvisor(sandbox, &plan, private, &mark)?,
        Tier::T1 | Tier::T2 | Tier::Host | Tier::InProcess => plan,
    };
    let group = belongings.group.as_ref();
    let parts = LaunchParts {
        bubblewrap: sandbox.facilities().bubblewrap.clone().ok(),
        helper: sandbox.helper()?,
        streams: descriptors,
        groups: group.map_or_else(Vec::new, |group| group.procs_descriptors().collect()),
        keepers: group.map_or(LimitKeepers::PROCESS, Cgroup::keepers),
        loopback: belongings.loopback.as_deref(),
    };
    let confined = launch::launch(&plan, &parts)?;
    let grip = match plan.namespaces {
        Some(_) => KillScope::Namespace,
        None => KillScope::Descendants,
    };
    let lead = ConfinedLead::new(confined, grip, &mark, belongings)?;
    Ok((lead, streams.ours))
}

/// What a plan is made from in addition to the workspace.
pub(super) struct Details<'a> {
    pub(super) spawn: &'a Spawn,
    pub(super) mark: &'a str,
    pub(super) private: &'a Path,
    pub(super) executable: &'a Executable,
    pub(super) streams: u32,
    pub(super) egress: Option<Egress>,
    /// What is protected below the root, in a tier that does not refuse by name.
    pub(super) deep: Option<&'a Deep>,
    /// What deny rules keep from it.
    pub(super) masked: &'a MaskedPlaces,
    /// What covers hidden files.
    pub(super) cover: Option<CoverFile>,
}

/// What is mounted inside the workspace, unless the operator vouches for it.
fn covered(jail: &Jail) -> Result<Vec<CoveredMount>, OpsError> {
    match jail.mounts() {
        Mounts::Cross => Ok(Vec::new()),
        Mounts::Refuse => submounts::beneath(Path::new(jail.shown())).map_err(|error| {
            OpsError::new(
                ErrorKind::TierUnavailable,
                format!("the mounts inside the workspace cannot be listed: {error}"),
            )
        }),
    }
}

/// What deny rules keep from a spawn.
fn masked(
    jail: &Jail,
    options: &ProcessOptions,
    sandbox: &Sandbox,
    search: &MaskSearch,
    spawn: &Spawn,
) -> Result<MaskedPlaces, OpsError> {
    check_masks(spawn)?;
    let (held, attempted) = (&spawn.masks, &spawn.attempted_masks);
    if held.is_empty() && (attempted.is_empty() || !can_mask(spawn.tier)) {
        return Ok(MaskedPlaces::default());
    }
    let limits = &options.sandbox.masks;
    search.places(jail, sandbox.view(), limits, held, attempted)
}

/// Whether a command needs an empty file over others.
fn needs_cover(sandbox: &Sandbox, tier: Tier, masked: &MaskedPlaces) -> bool {
    can_mask(tier) && !(masked.hidden.is_empty() && sandbox.view().credentials.is_empty())
}

/// Makes the empty file that covers hidden ones.
fn cover_file(directory: &PrivateDirectory) -> Result<CoverFile, OpsError> {
    let path = directory.path().join("empty");
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDONLY | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o444);
    let stat = open(&path, flags, mode)
        .and_then(fstat)
        .map_err(errno::error)?;
    let identity = FileId {
        device: stat.st_dev,
        inode: stat.st_ino,
    };
    Ok(CoverFile { path, identity })
}

/// Fails for masks in a tier that cannot hold them.
pub(super) fn check_masks(spawn: &Spawn) -> Result<(), OpsError> {
    if spawn.masks.is_empty() || can_mask(spawn.tier) {
        return Ok(());
    }
    Err(OpsError::new(
        ErrorKind::TierUnavailable,
        format!("tier `{}` cannot hide paths from a command", spawn.tier),
    ))
}

/// Whether a tier mounts what a command sees.
pub(super) fn can_mask(tier: Tier) -> bool {
    match tier {
        Tier::T2 | Tier::T3 => true,
        Tier::T1 | Tier::Host | Tier::InProcess => false,
    }
}

/// Works out the sandbox of a spawn. Reads the workspace; starts nothing.
pub(super) fn plan(
    jail: &Jail,
    options: &ProcessOptions,
    sandbox: &Sandbox,
    details: &Details<'_>,
) -> Result<SandboxPlan, OpsError> {
    let spawn = details.spawn;
    let variables = environment::variables(options, &spawn.environment, details.mark)?;
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let mut protected = protect::look(jail).map_err(errno::error)?;
    if let Some(deep) = details.deep {
        protect::hold_below(jail, deep.protected(), &mut protected).map_err(errno::error)?;
    }
    let mut workspace = Workspace {
        root: PathBuf::from(jail.shown()),
        identity: jail.identity(),
        protected,
        covered: covered(jail)?,
        hidden: Vec::new(),
    };
    if *details.masked != MaskedPlaces::default() {
        workspace.mask(details.masked);
    }
    SandboxPlan::new(SandboxRequest {
        tier: spawn.tier,
        view: sandbox.view(),
        workspace,
        cover: details.cover.clone(),
        private: details.private.to_owned(),
        egress: details.egress.clone(),
        limits: &options.sandbox.limits,
        helper: &sandbox.helper()?,
        program: details.executable.program.clone(),
        arguments: details.executable.arguments.clone(),
        environment: variables.into_iter().map(owned).collect(),
        cwd: PathBuf::from(spawn.cwd.as_str()),
        streams: match spawn.terminal {
            Some(_) => crate::request::Streams::Terminal,
            None => crate::request::Streams::Pipes(details.streams),
        },
        without: &options.sandbox.without,
    })
}

/// What to execute in a sandbox.
pub(super) struct Executable {
    program: Program,
    arguments: Vec<String>,
    /// The checked copy of a pinned program.
    pinned: Option<OwnedFd>,
}

/// What a spawn executes, as seen from inside the sandbox. `descriptor` is the number a pinned
/// program will have.
pub(super) fn executable(spawn: &Spawn, descriptor: usize) -> Result<Executable, OpsError> {
    let found = match (&spawn.command, spawn.pinned) {
        (Command::Argv(argv), None) => return named(argv),
        // Both are checked the same way for every tier, and found outside the sandbox.
        (Command::Shell(_), _) | (Command::Argv(_), Some(_)) => {
            program::find(&spawn.command, spawn.pinned, "", descriptor)?
        }
    };
    let text = |string: &std::ffi::CString| string.to_string_lossy().into_owned();
    let number = u32::try_from(descriptor).unwrap_or(u32::MAX);
    Ok(Executable {
        program: match found.pinned {
            Some(_) => Program::Descriptor(number),
            None => Program::Path(text(&found.path)),
        },
        arguments: found.arguments.iter().map(text).collect(),
        pinned: found.pinned,
    })
}

fn named(argv: &[String]) -> Result<Executable, OpsError> {
    let invalid = |message| OpsError::new(ErrorKind::InvalidInput, message);
    let name = argv
        .first()
        .ok_or_else(|| invalid("the command is empty"))?;
    if argv.iter().any(|word| word.contains('\0')) {
        return Err(invalid("the command contains a NUL byte; remove it"));
    }
    Ok(Executable {
        program: if name.contains('/') {
            Program::Path(name.clone())
        } else {
            Program::Named(name.clone())
        },
        arguments: argv.to_vec(),
        pinned: None,
    })
}

/// The proxy of a command that may reach some hosts. Runs on this thread's runtime.
fn proxy(
    directory: Option<&PrivateDirectory>,
    spawn: &Spawn,
    setting: Option<&String>,
) -> Result<Option<EgressProxy>, OpsError> {
    let Some(rules) = &spawn.egress else {
        return Ok(None);
    };
    match spawn.tier {
        Tier::T2 => {}
        Tier::Host | Tier::T1 | Tier::T3 | Tier::InProcess => {
            return Err(OpsError::new(
                ErrorKind::TierUnavailable,
                format!(
                    "a command in tier `{}` cannot be given a network limited to some hosts",
                    spawn.tier
                ),
            ));
        }
    }
    let usual = ProxyOptions::default();
    let proxy = ProxyOptions {
        setting: spawn
            .hosts_named_in
            .as_ref()
            .or(setting)
            .unwrap_or(&usual.setting)
            .clone(),
        beneath: directory
            .map_or(Path::new("/nonexistent"), PrivateDirectory::path)
            .to_owned(),
        ..usual
    };
    EgressProxy::start(Arc::clone(rules), &proxy).map(Some)
}

fn egress(spawn: &Spawn, proxy: Option<&EgressProxy>) -> Option<Egress> {
    let rules = spawn.egress.as_ref()?;
    Some(Egress {
        socket: proxy?.socket().to_owned(),
        port: PROXY_PORT,
        forwards: Forward::of(rules)
            .iter()
            .map(|forward| format!("{}:{}", forward.host, forward.port))
            .collect(),
    })
}

/// A directory for the command alone, if it has no file system of its own or needs something
/// written for it.
fn private_directory(
    options: &ProcessOptions,
    sandbox: &Sandbox,
    tier: Tier,
) -> Result<Option<PrivateDirectory>, OpsError> {
    let (purpose, places): (_, &[&str]) = match tier {
        Tier::T2 if options.sandbox.without.is_empty() => return Ok(None),
        Tier::T3 => (DirectoryPurpose::Control, &[]),
        Tier::T1 | Tier::T2 | Tier::Host | Tier::InProcess => {
            (DirectoryPurpose::Files, &["home", "tmp"])
        }
    };
    let directory = sandbox.private_directory(purpose)?;
    directory.make(places).map_err(errno::error)?;
    if let (Some(text), [home, ..]) = (&sandbox.view().git_settings, places) {
        let path = directory.path().join(home).join(GIT_SETTINGS);
        std::fs::write(path, text).map_err(|error| {
            let why = format!("git's settings cannot be written: {}", error.kind());
            OpsError::new(ErrorKind::TierUnavailable, why)
        })?;
    }
    Ok(Some(directory))
}

/// The plan that makes gVisor carry out another plan.
fn wrap_for_gvisor(
    sandbox: &Sandbox,
    plan: &SandboxPlan,
    directory: Option<&Path>,
    mark: &str,
) -> Result<SandboxPlan, OpsError> {
    let unavailable = || {
        OpsError::new(
            ErrorKind::TierUnavailable,
            "gVisor's `runsc` is not installed",
        )
    };
    let gvisor = sandbox.facilities().gvisor.as_ref();
    let runsc = gvisor.map_err(|_| unavailable())?;
    let directory = directory.ok_or_else(unavailable)?;
    gvisor::wrap(plan, runsc, directory, mark)
}
