//! The messages between Haft and the init of a sandbox. The only place that knows these formats;
//! both sides are always the same build, so nothing here is versioned.
//!
//! A [`Description`] is passed in once, in sealed memory. From then on each side sends whole
//! messages over one socket pair. If it is closed, the other side is gone, and the init then ends
//! everything. The command itself holds neither.

use std::{
    ffi::OsString,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStringExt as _,
    },
    path::{Path, PathBuf},
    time::Duration,
};

use haft_contract::ops::{ExitStatus, Layer, Refusal};
use rustix::{
    fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create},
    io::Errno,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
    },
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    jail::FileId,
    landlock::LandlockRules,
    limits::{ProcessLimit, ProcessResource},
    mounts::Mount,
    plan::SandboxPlan,
    request::{Program, Streams},
    seccomp::{CreateCalls, FilterProgram},
};

/// The largest message.
const MAX_MESSAGE: usize = 64 * 1024;

/// The largest description: a command line at the kernel's limit, escaped.
const MAX_DESCRIPTION: u64 = 64 << 20;

/// Everything the init needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Description {
    /// Whether it is process 1 of a namespace, whose end ends all others.
    pub(super) tree: TreeTracking,
    /// The socket to Haft.
    pub(super) channel: i32,
    /// The entrances of the control groups the command joins.
    pub(super) groups: Vec<i32>,
    /// Files that must still be what they were.
    pub(super) identities: Vec<(AnyPath, FileId)>,
    /// The bridge to the proxy.
    pub(super) bridge: Option<BridgeLine>,
    /// What to watch in order to see that a limit is used up.
    pub(super) watched: WatchedLimits,
    /// The command.
    pub(super) command: CommandLine,
}

/// A path whose name need not be UTF-8: what a workspace has was named by anybody.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "PathForm", into = "PathForm")]
pub(super) struct AnyPath(PathBuf);

/// How such a path is written.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum PathForm {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<AnyPath> for PathForm {
    fn from(AnyPath(path): AnyPath) -> Self {
        match path.into_os_string().into_string() {
            Ok(text) => Self::Text(text),
            Err(path) => Self::Bytes(path.into_vec()),
        }
    }
}

impl From<PathForm> for AnyPath {
    fn from(form: PathForm) -> Self {
        match form {
            PathForm::Text(text) => Self(text.into()),
            PathForm::Bytes(bytes) => Self(OsString::from_vec(bytes).into()),
        }
    }
}

impl AsRef<Path> for AnyPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// The ports a bridge listens on, and where they lead.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct BridgeLine {
    /// The port on the sandbox's loopback.
    pub(super) port: u16,
    /// The socket it leads to.
    pub(super) socket: PathBuf,
    /// Ports of the machine's loopback to forward as well, as `HOST:PORT`.
    pub(super) forwards: Vec<String>,
}

/// What the init checks to find out which limit is used up; absent values are not checked.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct WatchedLimits {
    /// File systems that may fill up.
    pub(super) spaces: Vec<AnyPath>,
    /// The most processes and threads allowed.
    pub(super) processes: Option<u64>,
    /// The most files a process may have open.
    pub(super) open_files: Option<u64>,
    /// The most processor time, in milliseconds.
    pub(super) cpu_milliseconds: Option<u64>,
}

impl WatchedLimits {
    /// What to check for a plan.
    fn of(plan: &SandboxPlan) -> Self {
        let Some(limits) = &plan.limits else {
            return Self::default();
        };
        let mounts = plan.namespaces.iter().flat_map(|own| &own.mounts);
        let in_memory = mounts.filter_map(|mount| match mount {
            Mount::Memory { at, .. } => Some(at.clone()),
            _ => None,
        });
        Self {
            spaces: in_memory.chain([plan.root.clone()]).map(AnyPath).collect(),
            // Without namespaces, the machine's other processes count against the limit too.
            processes: plan.namespaces.as_ref().map(|_| limits.processes.into()),
            open_files: Some(limits.open_files.into()),
            cpu_milliseconds: limits.cpu_time.as_millis().try_into().ok(),
        }
    }

    /// Whether there is anything to check.
    pub(super) fn is_anything(&self) -> bool {
        !self.spaces.is_empty() || self.processes.is_some() || self.open_files.is_some()
    }

    /// The most processor time.
    pub(super) fn cpu_time(&self) -> Option<Duration> {
        self.cpu_milliseconds.map(Duration::from_millis)
    }
}

/// How the init finds everything the command started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TreeTracking {
    /// It is everything in its pid namespace.
    Namespace,
    /// It is all its descendants.
    Descendants,
}

/// What the init starts, and under which restrictions.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CommandLine {
    /// The root of the workspace.
    pub(super) root: PathBuf,
    /// The directory to start in, below it.
    pub(super) cwd: PathBuf,
    /// Which file to execute.
    pub(super) file: File,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// Its environment, as `NAME=value`.
    pub(super) environment: Vec<String>,
    /// Its own descriptors, by their numbers in the init; it gets them numbered from 0.
    pub(super) streams: Vec<i32>,
    /// Whether its standard output becomes its controlling terminal.
    pub(super) takes_terminal: bool,
    /// What Landlock allows.
    pub(super) landlock: Option<LandlockRules>,
    /// The system call filter, whose program comes after the description.
    pub(super) filter: Option<Filter>,
    /// Limits the kernel enforces for each process.
    pub(super) limits: Vec<Rlimit>,
}

/// Which file to execute.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum File {
    /// This path.
    Path(String),
    /// The first program of this name in these directories.
    Named(String, Vec<String>),
}

/// A system call filter.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Filter {
    /// Its length in instructions.
    pub(super) length: usize,
    /// Whether calls that create names are checked.
    pub(super) watches_names: bool,
}

/// One limit of each process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Rlimit {
    resource: String,
    soft: u64,
    hard: u64,
}

/// What Haft orders the init to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Order {
    /// Signal the command's process group.
    SignalGroup(i32),
    /// Signal everything.
    SignalAll(i32),
    /// Kill everything, then exit.
    End,
}

/// What the init reports to Haft.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Notice {
    /// The init runs. Carries a descriptor for its own process.
    Ready,
    /// The command runs. Carries a descriptor for its process, unless it has already ended.
    Started,
    /// The command could not be started.
    Failed {
        /// Which part of the sandbox failed, or that the program did.
        step: Step,
        /// The kernel's error.
        errno: i32,
        /// More detail, if there is any.
        detail: String,
    },
    /// Something was refused.
    Refused(RefusalMessage),
    /// A limit was used up, by its word. Only the first one is reported.
    Exceeded(String),
    /// The command itself has ended.
    Ended {
        /// How it ended.
        status: Status,
        /// Whether nothing that it started still runs.
        alone: bool,
    },
}

/// The step of a start that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// Reading the description.
    Description,
    /// A file is not what it was when the plan was made.
    Identity,
    /// The bridge to the proxy.
    Bridge,
    /// The process of the command.
    Process,
    /// Its control groups.
    Group,
    /// Its limits.
    Limits,
    /// Its directory.
    Directory,
    /// Its terminal.
    Terminal,
    /// Landlock.
    Landlock,
    /// The system call filter.
    Filter,
    /// The program itself: it does not exist, or cannot be executed.
    Program,
}

/// A refusal on the wire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusalMessage {
    layer: String,
    what: String,
    why: String,
}

/// How a process ended, on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// With a code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

/// The descriptor numbers in the init.
#[derive(Debug)]
pub(super) struct DescriptorNumbers {
    pub(super) streams: Vec<i32>,
    pub(super) channel: i32,
    pub(super) groups: Vec<i32>,
}

impl Description {
    /// The description of a plan.
    pub(super) fn of(
        plan: &SandboxPlan,
        limits: &[ProcessLimit],
        numbers: DescriptorNumbers,
        program: Option<&FilterProgram>,
    ) -> Self {
        let file = match &plan.program {
            Program::Path(path) => File::Path(path.clone()),
            Program::Descriptor(number) => File::Path(format!("/proc/self/fd/{number}")),
            Program::Named(name) => File::Named(name.clone(), search_path(plan)),
        };
        Self {
            tree: match plan.namespaces {
                Some(_) => TreeTracking::Namespace,
                None => TreeTracking::Descendants,
            },
            channel: numbers.channel,
            groups: numbers.groups,
            identities: plan
                .identities
                .iter()
                .map(|(path, identity)| (AnyPath(path.clone()), *identity))
                .collect(),
            watched: WatchedLimits::of(plan),
            bridge: plan.egress.as_ref().map(|egress| BridgeLine {
                port: egress.port,
                socket: super::mounts::PROXY_SOCKET.into(),
                forwards: egress.forwards.clone(),
            }),
            command: CommandLine {
                root: plan.root.clone(),
                cwd: plan.cwd.clone(),
                file,
                arguments: plan.arguments.clone(),
                environment: plan
                    .environment
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect(),
                streams: numbers.streams,
                takes_terminal: matches!(plan.streams, Streams::Terminal),
                landlock: plan.landlock.clone(),
                filter: program.zip(plan.seccomp).map(|(program, rules)| Filter {
                    length: program.0.len(),
                    watches_names: rules.creating == CreateCalls::Watched,
                }),
                limits: limits
                    .iter()
                    .map(|limit| Rlimit {
                        resource: limit.resource.as_str().to_owned(),
                        soft: limit.soft,
                        hard: limit.hard,
                    })
                    .collect(),
            },
        }
    }

    /// Puts the description and the filter into memory that nobody can change any more.
    pub(super) fn seal(&self, program: Option<&FilterProgram>) -> Result<OwnedFd, Errno> {
        let text = serde_json::to_vec(self).map_err(|_| Errno::INVAL)?;
        let memory = memfd_create(
            "haft-sandbox",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        write_all(memory.as_fd(), &(text.len() as u64).to_ne_bytes())?;
        write_all(memory.as_fd(), &text)?;
        if let Some(FilterProgram(program)) = program {
            let bytes: Vec<u8> = program.iter().flat_map(|i| i.to_ne_bytes()).collect();
            write_all(memory.as_fd(), &bytes)?;
        }
        fcntl_add_seals(
            &memory,
            SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
        )?;
        Ok(memory)
    }

    /// Reads the description and the filter back.
    pub(super) fn read(memory: BorrowedFd<'_>) -> Result<(Self, Option<FilterProgram>), Errno> {
        let size = rustix::fs::fstat(memory)?.st_size;
        let size = u64::try_from(size).map_err(|_| Errno::INVAL)?;
        if size > MAX_DESCRIPTION {
            return Err(Errno::FBIG);
        }
        let mut bytes = vec![0_u8; usize::try_from(size).map_err(|_| Errno::FBIG)?];
        let mut got = 0;
        while let Some(rest) = bytes.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(memory, rest, got as u64)? {
                0 => return Err(Errno::INVAL),
                more => got += more,
            }
        }
        let (length, rest) = bytes.split_first_chunk().ok_or(Errno::INVAL)?;
        let length = usize::try_from(u64::from_ne_bytes(*length)).map_err(|_| Errno::INVAL)?;
        let (text, program) = rest.split_at_checked(length).ok_or(Errno::INVAL)?;
        let description: Self = serde_json::from_slice(text).map_err(|_| Errno::INVAL)?;
        let program = match description.command.filter {
            None => None,
            Some(filter) => {
                let (instructions, _) = program.as_chunks::<8>();
                if instructions.len() != filter.length {
                    return Err(Errno::INVAL);
                }
                let instructions = instructions.iter().map(|bytes| u64::from_ne_bytes(*bytes));
                Some(FilterProgram(instructions.collect()))
            }
        };
        Ok((description, program))
    }
}

impl Rlimit {
    /// The limit in the form the kernel takes.
    pub(super) fn limit(&self) -> Option<ProcessLimit> {
        Some(ProcessLimit {
            resource: ProcessResource::parse(&self.resource)?,
            soft: self.soft,
            hard: self.hard,
        })
    }
}

impl RefusalMessage {
    pub(super) fn new(layer: Layer, what: String, why: &str) -> Self {
        Self {
            layer: layer.as_str().to_owned(),
            what,
            why: why.to_owned(),
        }
    }

    /// What was refused.
    pub(super) fn what(&self) -> &str {
        &self.what
    }

    /// The refusal; `None` for an unknown layer.
    pub(crate) fn refusal(self) -> Option<Refusal> {
        Some(Refusal {
            layer: Layer::parse(&self.layer)?,
            what: self.what,
            why: self.why,
        })
    }
}

impl From<Status> for ExitStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::Code(code) => Self::Code(code),
            Status::Signal(signal) => Self::Signal(signal),
        }
    }
}

/// Sends one message, with or without a descriptor.
pub(crate) fn send<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    descriptor: Option<BorrowedFd<'_>>,
) -> Result<(), Errno> {
    let text = serde_json::to_vec(message).map_err(|_| Errno::INVAL)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors: Vec<BorrowedFd<'_>> = descriptor.into_iter().collect();
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    }
    let flags = SendFlags::NOSIGNAL;
    rustix::io::retry_on_intr(|| {
        sendmsg(
            socket.as_fd(),
            &[IoSlice::new(&text)],
            &mut ancillary,
            flags,
        )
    })?;
    Ok(())
}

/// Receives one message and its descriptor, if it has one; `None` when the other side is gone.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> ReceivedMessage<T> {
    receive_with(socket.as_fd(), RecvFlags::CMSG_CLOEXEC)
}

/// Like [`receive`], but fails with `EAGAIN` if there is none yet.
pub(crate) fn receive_now<T: DeserializeOwned>(socket: impl AsFd) -> ReceivedMessage<T> {
    receive_with(
        socket.as_fd(),
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )
}

type ReceivedMessage<T> = Result<Option<(T, Option<OwnedFd>)>, Errno>;

fn receive_with<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
    flags: RecvFlags,
) -> ReceivedMessage<T> {
    let mut text = vec![0_u8; MAX_MESSAGE];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut text)],
            &mut ancillary,
            flags,
        )
    })?;
    if got.bytes == 0 {
        return Ok(None);
    }
    let mut descriptor = None;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            descriptor = descriptors.next();
        }
    }
    let text = text.get(..got.bytes).unwrap_or_default();
    let message = serde_json::from_slice(text).map_err(|_| Errno::BADMSG)?;
    Ok(Some((message, descriptor)))
}

fn search_path(plan: &SandboxPlan) -> Vec<String> {
    plan.environment
        .get("PATH")
        .map(|path| path.split(':').filter(|dir| dir.starts_with('/')))
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect()
}

fn write_all(to: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let written = rustix::io::write(to, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    Ok(())
}
