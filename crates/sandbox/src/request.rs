//! What a plan is made from: the workspace, the program and its streams, the way to the network.
//! Only data; `plan.rs` says what comes of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use haft_contract::ops::{Layer, Tier};

use crate::{jail::FileId, limits::Limits, profile::HostView};

/// Everything a plan is made from.
#[derive(Debug, Clone)]
pub struct SandboxRequest<'a> {
    /// How strongly to confine.
    pub tier: Tier,
    /// What the profile shows of this machine.
    pub view: &'a HostView,
    /// The workspace.
    pub workspace: Workspace,
    /// A directory of this command's own, for tiers that cannot give it a file system of its own.
    pub private: PathBuf,
    /// How it reaches the network, if at all.
    pub egress: Option<Egress>,
    /// What it may use.
    pub limits: &'a Limits,
    /// The program that sets up the sandbox from inside.
    pub helper: &'a Path,
    /// What to run.
    pub program: Program,
    /// Its arguments, the name first.
    pub arguments: Vec<String>,
    /// Its environment, before the sandbox's own places are put in.
    pub environment: BTreeMap<String, String>,
    /// The directory it starts in, below the root of the workspace.
    pub cwd: PathBuf,
    /// What its standard streams are.
    pub streams: Streams,
    /// Layers left out, to show which of them stops what. Empty except in tests.
    pub without: &'a BTreeSet<Layer>,
}

/// A workspace as a sandbox shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its root, without symlinks.
    pub root: PathBuf,
    /// Which directory that must be.
    pub identity: FileId,
    /// What in it may not be changed, as it was found, parents before children.
    pub protected: Vec<ProtectedPlace>,
    /// What is mounted inside it and may not be seen.
    pub covered: Vec<CoveredMount>,
}

/// A mount point inside a workspace that a command does not see through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoveredMount {
    /// A directory: an empty one lies over it.
    Directory(PathBuf),
    /// A file: nothing can be read there.
    File(PathBuf),
}

impl CoveredMount {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory(path) | Self::File(path) => path,
        }
    }
}

/// A place in a workspace that a command may not change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedPlace {
    /// Where it is below the root.
    pub path: PathBuf,
    /// Which file that must be.
    pub identity: FileId,
    /// How it is kept.
    pub hold: ProtectionHold,
}

/// How a protected place is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectionHold {
    /// Nothing in it can be changed.
    ReadOnly,
    /// It can be neither moved nor removed; what is in it is decided by other entries.
    InPlace,
}

/// How a command reaches Haft's proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The proxy's Unix socket on this machine.
    pub socket: PathBuf,
    /// The port on the sandbox's own loopback that leads to it.
    pub port: u16,
    /// Ports of the machine's loopback that the same ports of the sandbox's lead to, as
    /// `HOST:PORT`.
    pub forwards: Vec<String>,
}

/// Which file to execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// This path, relative to the working directory if it does not start with a slash.
    Path(String),
    /// The first program of this name in the search path, as the sandbox sees it.
    Named(String),
    /// The open file with this number, checked already.
    Descriptor(u32),
}

/// What a command's standard streams are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Pipes; how many descriptors from 0 the command gets.
    Pipes(u32),
    /// A terminal as standard output and error, which becomes its controlling one.
    Terminal,
}
