//! The input of a plan: the workspace, the program and its streams, the way to the network. Only
//! data; `plan.rs` turns it into a plan.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use haft_contract::ops::{Layer, Tier};

use crate::{jail::FileId, limits::Limits, profile::HostView};

/// The input of [`SandboxPlan::new`](crate::SandboxPlan::new).
#[derive(Debug, Clone)]
pub struct SandboxRequest<'a> {
    /// How strongly to confine.
    pub tier: Tier,
    /// What the profile shows of this machine.
    pub view: &'a HostView,
    /// The workspace.
    pub workspace: Workspace,
    /// A directory for this command alone, for tiers that cannot give it its own file system.
    pub private: PathBuf,
    /// How it reaches the network, if at all.
    pub egress: Option<Egress>,
    /// How much of the machine it may use.
    pub limits: &'a Limits,
    /// The program that sets up the sandbox from inside.
    pub helper: &'a Path,
    /// What to run.
    pub program: Program,
    /// Its arguments, starting with its name.
    pub arguments: Vec<String>,
    /// Its environment, before the sandbox's own paths are added.
    pub environment: BTreeMap<String, String>,
    /// The directory it starts in, below the root of the workspace.
    pub cwd: PathBuf,
    /// What its standard streams are.
    pub streams: Streams,
    /// Layers left out, to show which layer stops what. Empty except in tests.
    pub without: &'a BTreeSet<Layer>,
}

/// A workspace as a sandbox shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its root, without symlinks.
    pub root: PathBuf,
    /// The directory it must still be.
    pub identity: FileId,
    /// What in it may not be changed, as found, parents before children.
    pub protected: Vec<ProtectedPlace>,
    /// What is mounted inside it and must not be visible.
    pub covered: Vec<CoveredMount>,
}

/// A mount point inside a workspace that is hidden from a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CoveredMount {
    /// A directory: covered by an empty one.
    Directory(PathBuf),
    /// A file: covered so that it cannot be read.
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
    /// The file it must still be.
    pub identity: FileId,
    /// How it is protected.
    pub hold: ProtectionHold,
}

/// How a protected place is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProtectionHold {
    /// Nothing in it can be changed.
    ReadOnly,
    /// It can be neither moved nor removed; other entries decide about its contents.
    InPlace,
}

/// How a command reaches Haft's proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Egress {
    /// The proxy's Unix socket on this machine.
    pub socket: PathBuf,
    /// The port on the sandbox's own loopback that leads to it.
    pub port: u16,
    /// Ports of the machine's loopback that are reachable on the same ports of the sandbox's, as
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
    /// The open file with this number, already checked.
    Descriptor(u32),
}

/// What a command's standard streams are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Pipes: how many descriptors the command gets, counted from 0.
    Pipes(u32),
    /// A terminal as standard output and error, which becomes its controlling terminal.
    Terminal,
}
