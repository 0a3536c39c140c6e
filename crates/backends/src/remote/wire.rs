//! The JSON bodies of frames. These types are used only here: nothing else derives from them, and
//! `convert/` is the only place that turns them into the contract's types and back.
//!
//! Both sides must use the same [`PROTOCOL`]; the helper is uploaded by the same program that talks
//! to it, so an older one is replaced rather than supported.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of everything in this file and in `frame.rs`. Raised with every change.
pub(crate) const PROTOCOL: u32 = 2;

/// The first frame, from the serving side.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Welcome {
    pub(crate) protocol: u32,
    pub(crate) version: String,
}

/// The second frame, from the calling side: which workspace, and how its children start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OpenWorkspace {
    pub(crate) protocol: u32,
    pub(crate) root: String,
    pub(crate) cross_mounts: bool,
    /// What is absent here comes from the account the helper runs in.
    pub(crate) search_path: Option<String>,
    pub(crate) home: Option<String>,
    pub(crate) temporary: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) sandbox: Sandbox,
}

/// How children are confined. What is absent defaults to the serving machine's values.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sandbox {
    pub(crate) read_only: Vec<String>,
    pub(crate) writable: Vec<String>,
    pub(crate) toolchains: Toolchains,
    pub(crate) processes: Option<u32>,
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) cpu_seconds: Option<u64>,
    pub(crate) cpu_weight: Option<u32>,
    pub(crate) cpu_percent: Option<u32>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) open_files: Option<u32>,
    pub(crate) tmp_bytes: Option<u64>,
}

/// Whose toolchains a sandboxed command sees.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Toolchains {
    Account,
    None,
    In(String),
}

/// The third frame, from the serving side.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum OpenReply {
    Opened(OpenedWorkspace),
    Refused(Failure),
}

/// The opened root, and the tiers available there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenedWorkspace {
    pub(crate) root: String,
    pub(crate) tiers: Vec<String>,
    /// The root's device and inode, to check after reconnecting whether it is still the same.
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Begins an exchange.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) limit_ms: u64,
    /// How many bytes follow as data.
    pub(crate) body_bytes: u64,
    pub(crate) request: Request,
}

/// What a call asks for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    Resolve {
        path: String,
    },
    Stat {
        path: String,
    },
    /// From then on the exchange's number names the open file, until it is cancelled.
    Open {
        path: String,
    },
    Read {
        file: u64,
        offset: u64,
        length: u64,
    },
    Write {
        path: String,
        expected: Expected,
        /// `None` for that of the file that is replaced.
        mode: Option<u32>,
    },
    Append {
        path: String,
    },
    List {
        path: String,
        depth: u64,
        limit: u64,
        respect_ignores: bool,
        withheld: Vec<String>,
    },
    MakeDir {
        path: String,
    },
    Remove {
        path: String,
        scope: RemoveScope,
    },
    Rename {
        from: String,
        to: String,
        overwrite: Overwrite,
    },
    RemoveVersion {
        path: String,
        version: String,
    },
    RenameVersion {
        from: String,
        to: String,
        version: String,
    },
    Copy {
        from: String,
        to: String,
        overwrite: Overwrite,
    },
    Grep(Grep),
    Find(Find),
    /// The exchange lasts as long as the child, and its number names it.
    Spawn(Spawn),
    Stop {
        process: u64,
        grace_ms: u64,
    },
    Input {
        process: u64,
    },
    CloseInput {
        process: u64,
    },
    Resize {
        process: u64,
        rows: u16,
        columns: u16,
    },
    Signal {
        process: u64,
        signal: String,
    },
    WaitsForInput {
        process: u64,
    },
}

/// What must be at a path for a write to happen.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Expected {
    Anything,
    Absent,
    Version(String),
}

/// How much to remove.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RemoveScope {
    File,
    Tree,
}

/// Whether something that exists may be replaced.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Overwrite {
    Never,
    Replace,
}

/// What to search for in file contents.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grep {
    pub(crate) pattern: String,
    pub(crate) path: String,
    pub(crate) glob: Option<String>,
    pub(crate) file_type: Option<String>,
    pub(crate) mode: GrepMode,
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) ignore_case: bool,
    pub(crate) fixed: bool,
    pub(crate) multiline: bool,
    pub(crate) limit: u64,
    pub(crate) offset: u64,
    pub(crate) max_line_bytes: u64,
    pub(crate) withheld: Vec<String>,
}

/// What a grep reports.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum GrepMode {
    Content,
    Files,
    Count,
}

/// Which files to find.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Find {
    pub(crate) pattern: String,
    pub(crate) path: String,
    pub(crate) kind: Option<FileKind>,
    pub(crate) sort: FindSort,
    pub(crate) respect_ignores: bool,
    pub(crate) limit: u64,
    pub(crate) offset: u64,
    pub(crate) withheld: Vec<String>,
}

/// The order of find results.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FindSort {
    Path,
    Modified,
    Size,
}

/// What to start. Bytes for its standard input follow as data.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Spawn {
    pub(crate) command: Command,
    pub(crate) cwd: String,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) tier: String,
    pub(crate) input: Input,
    /// Rows and columns.
    pub(crate) terminal: Option<(u16, u16)>,
    pub(crate) egress: Option<Egress>,
    #[serde(default)]
    pub(crate) hosts_named_in: Option<String>,
    #[serde(default)]
    pub(crate) loopback: Option<String>,
    pub(crate) progress_channel: bool,
    pub(crate) pinned: Option<[u8; 32]>,
}

/// A command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Command {
    Shell(String),
    Argv(Vec<String>),
}

/// What a child finds on standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Input {
    Closed,
    /// The body of the request.
    Body,
    Open,
}

/// The hosts a child may reach.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Egress {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
}

/// How an exchange ends. Results that may be large are sent before it, as data.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    /// Success, with nothing more to report.
    Done,
    Resolved(WireResolvedPath),
    Stat(FileStat),
    /// A file was opened. Its mode is also given without what an access control list grants.
    Opened {
        stat: FileStat,
        own_mode: u32,
    },
    Written(WireWrittenFile),
    Exit(WireChildExit),
    Answer(bool),
    Failed(Failure),
}

/// A message before the end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WireNote {
    /// Bytes copied so far.
    Copied(u64),
    /// The child runs.
    Started,
    /// The child's streams have ended.
    OutputEnded,
}

/// An operation failed.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) kind: String,
    pub(crate) message: String,
    pub(crate) path: Option<String>,
}

/// Where a path leads.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireResolvedPath {
    pub(crate) path: String,
    pub(crate) stat: Option<FileStat>,
    pub(crate) protected: Option<String>,
}

/// What is at a path.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FileStat {
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) version: String,
    pub(crate) modified_ms: i64,
}

/// What kind of thing is at a path.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FileKind {
    File,
    Directory,
    Symlink,
    Other,
}

/// A finished write.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireWrittenFile {
    pub(crate) version: String,
    pub(crate) bytes: u64,
    pub(crate) created: bool,
}

/// A listing.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Listing {
    pub(crate) entries: Vec<Entry>,
    pub(crate) omitted: u64,
}

/// One entry of a listing or a find.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) path: String,
    pub(crate) escaped: bool,
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    pub(crate) modified_ms: i64,
}

/// What a grep found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GrepResults {
    pub(crate) lines: Vec<GrepLine>,
    pub(crate) files: Vec<GrepFile>,
    pub(crate) more: bool,
    pub(crate) searched: u64,
}

/// A line of a grep result.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GrepLine {
    pub(crate) path: String,
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) matched: bool,
    pub(crate) cut: u64,
}

/// A file of a grep result.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GrepFile {
    pub(crate) path: String,
    pub(crate) count: u64,
}

/// What a find found.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct FindResults {
    pub(crate) entries: Vec<Entry>,
    pub(crate) total: u64,
}

/// How a child ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WireChildExit {
    pub(crate) status: ExitStatus,
    pub(crate) exceeded: Option<String>,
    pub(crate) refusals: Vec<Refusal>,
}

/// A code or a signal.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExitStatus {
    Code(i32),
    Signal(i32),
}

/// One thing a sandbox refused.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Refusal {
    pub(crate) layer: String,
    pub(crate) what: String,
    pub(crate) why: String,
}
