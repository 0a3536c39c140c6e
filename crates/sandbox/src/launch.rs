//! Carries out a plan: starts bubblewrap or the init itself, and waits until the command runs or
//! cannot.
//!
//! Blocks; runs on the blocking pool, and starts the child on the permanent thread (`spawner.rs`).
//! Whatever fails here fails the call: no layer can be bypassed.

use std::{
    ffi::CString,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use haft_contract::{
    ErrorKind,
    ops::{OpsError, Refusal, Tier},
    surface::NextStep,
};
use rustix::{
    fs::{MemfdFlags, Mode, OFlags, fcntl_setfl, memfd_create},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
    pipe::{PipeFlags, pipe_with},
    process::{Signal, pidfd_send_signal},
};

use crate::{
    bubblewrap::{self, NetworkNamespace},
    errno, helper_flag,
    limits::{LimitKeepers, ProcessLimit},
    loopback::{self, HeldLoopback},
    missing_facility::MissingFacility,
    mounts::Mount,
    plan::SandboxPlan,
    readable::readable,
    spawn::{self, Launch, StartedChild},
    spawner,
    wire::{self, Description, DescriptorNumbers, Notice, Step},
};

/// How long a sandbox may take to be set up.
const START_LIMIT: Duration = Duration::from_secs(20);

/// How long to wait for bubblewrap to say why it failed.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The most bytes read of that message.
const MAX_WORDS: usize = 1024;

/// Parts of bubblewrap's message if the kernel, AppArmor or a container denies it namespaces.
const WITHOUT_NAMESPACES: [&str; 4] = [
    "new namespace",
    "uid map",
    "RTM_NEWADDR",
    "max_user_namespaces",
];

/// What a command is started with in addition to its plan.
pub(crate) struct LaunchParts<'a> {
    /// Bubblewrap.
    pub(crate) bubblewrap: Option<PathBuf>,
    /// The helper's path on this machine.
    pub(crate) helper: PathBuf,
    /// The command's own descriptors, which get the numbers from 0 up.
    pub(crate) streams: Vec<BorrowedFd<'a>>,
    /// The entrances of the control groups it joins.
    pub(crate) groups: Vec<BorrowedFd<'a>>,
    /// What enforces its limits.
    pub(crate) keepers: LimitKeepers,
    /// The loopback it shares with others, if it shares one.
    pub(crate) loopback: Option<&'a HeldLoopback>,
}

/// A command that runs in a sandbox.
pub(crate) struct ConfinedCommand {
    /// The process that was started: bubblewrap, or the init itself. Ours to reap.
    pub(crate) outer: StartedChild,
    /// The init.
    pub(crate) init: OwnedFd,
    /// The command itself, unless it has already ended.
    pub(crate) command: Option<OwnedFd>,
    /// The socket to the init; closing it ends everything.
    pub(crate) channel: OwnedFd,
    /// Refusals reported before the command ran.
    pub(crate) refusals: Vec<Refusal>,
}

/// Starts a command as planned. Returns once it runs.
pub(crate) fn launch(
    plan: &SandboxPlan,
    parts: &LaunchParts<'_>,
) -> Result<ConfinedCommand, OpsError> {
    let filter = match plan.seccomp {
        None => None,
        Some(rules) => Some(
            rules
                .program()
                .map_err(|error| OpsError::new(ErrorKind::TierUnavailable, error.to_string()))?,
        ),
    };
    let limits: Vec<ProcessLimit> = plan
        .limits
        .as_ref()
        .map(|limits| limits.per_process(parts.keepers))
        .unwrap_or_default();
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(errno::error)?;

    let (errors, their_errors) = pipe_with(PipeFlags::CLOEXEC).map_err(errno::error)?;
    fcntl_setfl(&errors, OFlags::NONBLOCK).map_err(errno::error)?;

    let mut handed = HandedDescriptors::new(their_errors).map_err(errno::error)?;
    let streams = parts
        .streams
        .iter()
        .map(|stream| handed.add(*stream))
        .collect::<Result<_, _>>()
        .map_err(errno::error)?;
    let channel = handed.add(theirs.as_fd()).map_err(errno::error)?;
    let groups = parts
        .groups
        .iter()
        .map(|group| handed.add(*group))
        .collect::<Result<_, _>>()
        .map_err(errno::error)?;
    let numbers = DescriptorNumbers {
        streams,
        channel,
        groups,
    };
    let description = Description::of(plan, &limits, numbers, filter.as_ref())
        .seal(filter.as_ref())
        .map_err(errno::error)?;
    let description = handed.add(description.as_fd()).map_err(errno::error)?;
    let (program, arguments) = match &plan.namespaces {
        None => (parts.helper.clone(), init_arguments(description)),
        Some(namespaces) => {
            let bubblewrap = parts.bubblewrap.clone().ok_or_else(|| {
                OpsError::new(ErrorKind::TierUnavailable, "bubblewrap is not installed")
            })?;
            let files = handed.add_files(&namespaces.mounts).map_err(errno::error)?;
            let network = match parts.loopback {
                None => NetworkNamespace::Own,
                Some(_) => NetworkNamespace::Entered,
            };
            let arguments =
                bubblewrap::arguments(namespaces, plan.streams, &files, description, network);
            match parts.loopback {
                None => (bubblewrap, arguments),
                Some(loopback) => {
                    let [user, network] = loopback.namespaces().map(|one| handed.add(one));
                    let entering = arguments.and_then(|arguments| {
                        loopback::entering([user?, network?], &bubblewrap, arguments)
                    });
                    (parts.helper.clone(), entering)
                }
            }
        }
    };
    let arguments = arguments.map_err(errno::error)?;
    let outer = spawner::run(move || start(&program, &arguments, handed))
        .map_err(|errno| unavailable(plan.tier, &errno::error(errno).to_string()))?;
    drop(theirs);
    let mut setup = Setup {
        tier: plan.tier,
        outer,
        channel: ours,
        errors,
        refusals: Vec::new(),
    };
    match setup.wait_until_it_runs() {
        Ok((init, command)) => Ok(ConfinedCommand {
            outer: setup.outer,
            init,
            command,
            channel: setup.channel,
            refusals: setup.refusals,
        }),
        Err(error) => {
            setup.abandon();
            Err(error)
        }
    }
}

fn init_arguments(description: i32) -> Result<Vec<CString>, Errno> {
    ["haft", helper_flag::FLAG, "init", &description.to_string()]
        .into_iter()
        .map(|word| CString::new(word).map_err(|_| Errno::INVAL))
        .collect()
}

fn start(
    program: &Path,
    arguments: &[CString],
    handed: HandedDescriptors,
) -> Result<StartedChild, Errno> {
    use std::os::unix::ffi::OsStrExt as _;
    let program = CString::new(program.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
    let root = rustix::fs::open(
        "/",
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let descriptors: Vec<BorrowedFd<'_>> = handed.0.iter().map(AsFd::as_fd).collect();
    spawn::launch(&Launch {
        program: &program,
        arguments,
        // None of our variables: bubblewrap's environment can be read from inside.
        environment: &[],
        directory: root.as_fd(),
        descriptors: &descriptors,
        terminal: None,
    })
}

/// Descriptors for the child; each one's index is its number there.
struct HandedDescriptors(Vec<OwnedFd>);

impl HandedDescriptors {
    /// Standard streams first. They are not the command's: bubblewrap holds them until it ends, and
    /// whoever reads the command's output would wait for that.
    fn new(errors: OwnedFd) -> Result<Self, Errno> {
        let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let again = rustix::io::fcntl_dupfd_cloexec(&nothing, 0)?;
        Ok(Self(vec![nothing, again, errors]))
    }

    fn add(&mut self, descriptor: BorrowedFd<'_>) -> Result<i32, Errno> {
        let number = i32::try_from(self.0.len()).map_err(|_| Errno::MFILE)?;
        self.0.push(rustix::io::fcntl_dupfd_cloexec(descriptor, 0)?);
        Ok(number)
    }

    /// Adds the plan's generated files, as memory to read them from.
    fn add_files(&mut self, mounts: &[Mount]) -> Result<Vec<i32>, Errno> {
        let mut numbers = Vec::new();
        for mount in mounts {
            if let Mount::File { text, .. } = mount {
                let memory = memfd_create("haft-file", MemfdFlags::CLOEXEC)?;
                rustix::io::pwrite(&memory, text.as_bytes(), 0)?;
                numbers.push(self.add(memory.as_fd())?);
            }
        }
        Ok(numbers)
    }
}

/// A sandbox that is being set up.
struct Setup {
    tier: Tier,
    outer: StartedChild,
    channel: OwnedFd,
    /// Bubblewrap's error output.
    errors: OwnedFd,
    refusals: Vec<Refusal>,
}

impl Setup {
    /// Waits until the command runs; returns its init and the command.
    fn wait_until_it_runs(&mut self) -> Result<(OwnedFd, Option<OwnedFd>), OpsError> {
        let deadline = Instant::now() + START_LIMIT;
        let mut init = None;
        loop {
            self.wait_for_word(deadline)?;
            let word = wire::receive::<Notice>(&self.channel)
                .map_err(|errno| self.fail(&errno::error(errno).to_string()))?;
            match (word, init.take()) {
                (None, _) => return Err(self.ended_early()),
                (Some((Notice::Ready, found @ Some(_))), None) => init = found,
                (Some((Notice::Started, command)), Some(init)) => return Ok((init, command)),
                (Some((Notice::Refused(refusal), _)), held) => {
                    self.refusals.extend(refusal.refusal());
                    init = held;
                }
                (
                    Some((
                        Notice::Failed {
                            step,
                            errno,
                            detail,
                        },
                        _,
                    )),
                    _,
                ) => return Err(self.failed(step, Errno::from_raw_os_error(errno), &detail)),
                (
                    Some((
                        Notice::Ready
                        | Notice::Started
                        | Notice::Ended { .. }
                        | Notice::Exceeded(_),
                        _,
                    )),
                    _,
                ) => {
                    return Err(self.fail("its init violated the protocol"));
                }
            }
        }
    }

    fn wait_for_word(&self, deadline: Instant) -> Result<(), OpsError> {
        match readable(self.channel.as_fd(), deadline) {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.fail(&format!("it took more than {} s", START_LIMIT.as_secs()))),
            Err(errno) => Err(self.fail(&errno::error(errno).to_string())),
        }
    }

    /// Why the init never reported: bubblewrap failed, and has said why.
    fn ended_early(&self) -> OpsError {
        let _ = readable(self.outer.pidfd.as_fd(), Instant::now() + LAST_WORDS);
        let mut words = [0_u8; MAX_WORDS];
        let got = rustix::io::read(&self.errors, &mut words).unwrap_or(0);
        let words = String::from_utf8_lossy(words.get(..got).unwrap_or_default());
        // They contain paths of the machine, which are for the operator and not for a model.
        tracing::warn!(tier = %self.tier, words = %words.escape_debug(), "a sandbox was not set up");
        if WITHOUT_NAMESPACES.iter().any(|said| words.contains(said)) {
            let missing = MissingFacility::UserNamespaces;
            return self.fail(&format!("{} (fix: {})", missing.reason(), missing.remedy()));
        }
        self.fail("it ended before it was ready; the log says why")
    }

    fn failed(&self, step: Step, errno: Errno, detail: &str) -> OpsError {
        let what = match step {
            Step::Program => {
                let error = errno::error(errno);
                return OpsError::new(
                    error.kind(),
                    format!("the program cannot be started: {error}"),
                );
            }
            Step::Identity => {
                return OpsError::new(
                    ErrorKind::WorkspaceMoved,
                    "the workspace was moved or replaced while the command was being started; \
                     try again",
                );
            }
            Step::Directory => return errno::error(errno),
            Step::Description => "its description",
            Step::Bridge => "the way to the proxy",
            Step::Process => "its process",
            Step::Group => "its control group",
            Step::Limits => "its limits",
            Step::Terminal => "its terminal",
            Step::Landlock => "Landlock",
            Step::Filter => "the system call filter",
        };
        let why = if detail.is_empty() {
            errno.to_string()
        } else {
            detail.to_owned()
        };
        self.fail(&format!("{what} failed: {why}"))
    }

    fn fail(&self, why: &str) -> OpsError {
        unavailable(self.tier, why)
    }

    /// Kills and reaps what was started.
    fn abandon(self) {
        // Without namespaces the init must live to end what it started; closing this makes it do
        // so.
        drop(self.channel);
        match self.tier {
            Tier::T1 | Tier::T3 => {
                let _ = readable(self.outer.pidfd.as_fd(), Instant::now() + START_LIMIT);
            }
            Tier::Host | Tier::T2 | Tier::InProcess => {}
        }
        let _ = pidfd_send_signal(&self.outer.pidfd, Signal::KILL);
        self.outer.reap();
    }
}

fn unavailable(tier: Tier, why: &str) -> OpsError {
    OpsError::new(
        ErrorKind::TierUnavailable,
        format!(
            "the sandbox of tier `{tier}` could not be set up: {why}; {}",
            NextStep::CheckSandbox(None).words()
        ),
    )
}
