//! One thing a plan touches. Policy judges a plan access by access; locks are keyed on accesses;
//! at run time a tool can touch only what its plan named.

use crate::{
    custom_access::{CustomAccess, CustomAccessError},
    ops::{ProcessSignal, TerminalSize, Tier},
    path::WorkPath,
    process_id::ProcessId,
};

/// One thing a call will touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Read or write a path in the workspace.
    Path(PathAccess),
    /// Run a command.
    Command(CommandAccess),
    /// Type into, signal or end a process the session keeps.
    Process(ProcessAccess),
    /// Open a network connection.
    Host {
        /// Name or address as asked for.
        host: String,
        /// The port.
        port: u16,
    },
    /// Query a configured database.
    Database {
        /// The configured source name, never its credentials; after it, with a dot between, what of
        /// it: `crm`, `crm.users`, `crm.users.email`, `crm.users.*`.
        source: String,
        /// Whether the statement may change data.
        writes: bool,
    },
    /// Send a message to a person or a channel.
    Message {
        /// The configured channel.
        channel: String,
        /// The recipient within it.
        target: String,
    },
    /// Call a tool that runs elsewhere.
    RemoteTool {
        /// The provider that runs it.
        provider: String,
        /// The tool's name there.
        tool: String,
    },
    /// Something of a kind that only the tool knows.
    Custom(CustomAccess),
}

/// Access to a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathAccess {
    /// Read or write.
    pub mode: PathMode,
    /// One file, or everything beneath a directory.
    pub scope: PathScope,
    /// The path as the input named it.
    pub path: WorkPath,
    /// The path with every symlink followed. Set by the plan stage, absent in what a tool returns.
    /// Rules are applied to both, and only this one is opened.
    pub resolved: Option<WorkPath>,
    /// Why the back end protects this path (a git directory, for example), if it does.
    pub protected: Option<String>,
}

/// Whether a path is read or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathMode {
    /// Read only.
    Read,
    /// Created, changed, moved or removed.
    Write,
}

/// How much a path access covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathScope {
    /// The named file or directory entry alone.
    File,
    /// Everything beneath the named directory.
    Tree,
}

/// Access to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandAccess {
    /// What will run.
    pub command: Command,
    /// The directory it runs in.
    pub cwd: WorkPath,
    /// Whether it may still run when the call has ended.
    pub stays: bool,
}

/// A command, as a script for a shell or as an argument vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Text for `bash -c`.
    Shell(String),
    /// A program and its arguments; no shell is involved.
    Argv(Vec<String>),
}

/// Access to a process that an earlier call of the session started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessAccess {
    /// Which process.
    pub id: ProcessId,
    /// What is done to it.
    pub act: ProcessAct,
    /// The process's command. Set by the plan stage, absent in what a tool returns, so that rules
    /// and people judge by the command that will read what is typed.
    pub running: Option<RunningCommand>,
}

/// Something done to a running process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessAct {
    /// Write this text to its input.
    Write(String),
    /// Close its input.
    CloseInput,
    /// Resize its terminal.
    Resize(TerminalSize),
    /// Send it a signal.
    Signal(ProcessSignal),
    /// End it and everything it started.
    Kill,
}

/// The command of a process that is already running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningCommand {
    /// The command.
    pub command: Command,
    /// The directory it was started in.
    pub cwd: WorkPath,
    /// How strongly it is confined.
    pub tier: Tier,
}

/// The one kind of thing that a tool touches, where it touches nothing else: a rule about the tool
/// that names none of that kind would match nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SoleAccess {
    /// It connects to hosts.
    Hosts,
    /// It queries databases.
    Databases,
}

impl Access {
    /// Reads one file or directory entry.
    pub fn read(path: WorkPath) -> Self {
        Self::path(PathMode::Read, PathScope::File, path)
    }

    /// Reads everything beneath a directory.
    pub fn read_tree(path: WorkPath) -> Self {
        Self::path(PathMode::Read, PathScope::Tree, path)
    }

    /// Creates, changes, moves or removes one file.
    pub fn write(path: WorkPath) -> Self {
        Self::path(PathMode::Write, PathScope::File, path)
    }

    /// Runs a shell script in a directory.
    pub fn shell(script: impl Into<String>, cwd: WorkPath) -> Self {
        Self::Command(CommandAccess {
            command: Command::Shell(script.into()),
            cwd,
            stays: false,
        })
    }

    /// Runs a shell script that may still run when the call has ended.
    pub fn staying_shell(script: impl Into<String>, cwd: WorkPath) -> Self {
        Self::Command(CommandAccess {
            command: Command::Shell(script.into()),
            cwd,
            stays: true,
        })
    }

    /// Runs a program with arguments in a directory, without a shell.
    pub fn argv(argv: Vec<String>, cwd: WorkPath) -> Self {
        Self::Command(CommandAccess {
            command: Command::Argv(argv),
            cwd,
            stays: false,
        })
    }

    /// Acts on a process the session keeps.
    pub fn process(id: ProcessId, act: ProcessAct) -> Self {
        Self::Process(ProcessAccess {
            id,
            act,
            running: None,
        })
    }

    /// Something of a kind of the tool's own, by a kind and a target that rules name as
    /// `KIND:TARGET` and people read: `Access::custom("payment", "eur/120 to acme")`. The running
    /// tool claims it with [`CallContext::claim`](crate::CallContext::claim).
    pub fn custom(kind: &str, target: &str) -> Result<Self, CustomAccessError> {
        CustomAccess::new(kind, target).map(Self::Custom)
    }

    fn path(mode: PathMode, scope: PathScope, path: WorkPath) -> Self {
        Self::Path(PathAccess {
            mode,
            scope,
            path,
            resolved: None,
            protected: None,
        })
    }

    /// The name of this kind of access in rules and output.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Path(PathAccess {
                mode: PathMode::Read,
                ..
            }) => "read",
            Self::Path(PathAccess {
                mode: PathMode::Write,
                ..
            }) => "write",
            Self::Command(_) => "command",
            Self::Process(_) => "process",
            Self::Host { .. } => "connect",
            Self::Database { .. } => "database",
            Self::Message { .. } => "message",
            Self::RemoteTool { .. } => "remote_tool",
            Self::Custom(_) => "custom",
        }
    }
}

impl PathAccess {
    /// The path that will actually be opened: the resolved one, once the plan stage has run.
    pub fn target(&self) -> &WorkPath {
        self.resolved.as_ref().unwrap_or(&self.path)
    }
}

impl ProcessAccess {
    /// The access in words: `type "y\n" into p1, which runs: npm init`.
    pub fn text(&self) -> String {
        let (verb, what) = self.in_words();
        format!("{verb} {what}")
    }

    /// The same, split into a verb and its object.
    pub fn in_words(&self) -> (&'static str, String) {
        let id = self.id;
        let (verb, mut what) = match &self.act {
            ProcessAct::Write(text) => ("type", format!("{text:?} into {id}")),
            ProcessAct::CloseInput => ("close the input of", id.to_string()),
            ProcessAct::Resize(size) => (
                "resize",
                format!("{id} to {} x {}", size.columns, size.rows),
            ),
            ProcessAct::Signal(signal) => ("signal", format!("{id} with {}", signal.as_str())),
            ProcessAct::Kill => ("end", id.to_string()),
        };
        if let Some(running) = &self.running {
            what = format!("{what}, which runs: {}", running.command.text());
        }
        (verb, what)
    }
}

impl ProcessAct {
    /// The name used in records.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Write(_) => "write",
            Self::CloseInput => "close_input",
            Self::Resize(_) => "resize",
            Self::Signal(_) => "signal",
            Self::Kill => "kill",
        }
    }
}

impl Command {
    /// The command as one line of text: the script itself, or the arguments quoted for reading.
    pub fn text(&self) -> String {
        match self {
            Self::Shell(script) => script.clone(),
            Self::Argv(argv) => argv
                .iter()
                .map(|word| quote(word))
                .collect::<Vec<_>>()
                .join(" "),
        }
    }
}

/// Quotes a word so that two different argument vectors never read the same.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
