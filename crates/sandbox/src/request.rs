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
    /// The empty file that covers hidden files, if there are any.
    pub cover: Option<CoverFile>,
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
    /// What deny rules hide in it; none lies in another.
    pub hidden: Vec<HiddenPlace>,
}

impl Workspace {
    /// Adds what deny rules keep from a command. What lies in something hidden goes with it, and
    /// what lies in something that cannot change needs no hold of its own, which would open it
    /// again.
    pub(crate) fn mask(&mut self, masked: &MaskedPlaces) {
        self.hidden.clone_from(&masked.hidden);
        let hidden = |path: &Path| {
            let mut hidden = masked.hidden.iter();
            hidden.any(|place| path.starts_with(place.path()))
        };
        let mut held: BTreeMap<PathBuf, ProtectedPlace> = BTreeMap::new();
        for place in self.protected.drain(..).chain(masked.held.iter().cloned()) {
            let stronger = held.get(&place.path).is_none_or(|known| {
                known.hold == ProtectionHold::InPlace && place.hold == ProtectionHold::ReadOnly
            });
            if stronger && !hidden(&self.root.join(&place.path)) {
                held.insert(place.path.clone(), place);
            }
        }
        let unchanging: Vec<PathBuf> = held
            .values()
            .filter(|place| place.hold == ProtectionHold::ReadOnly)
            .map(|place| place.path.clone())
            .collect();
        let is_needed = |place: &ProtectedPlace| match place.hold {
            ProtectionHold::ReadOnly => true,
            ProtectionHold::InPlace => {
                !unchanging.iter().any(|above| place.path.starts_with(above))
            }
        };
        // In this order a directory comes before what is in it.
        self.protected = held.into_values().filter(is_needed).collect();
        self.covered.retain(|covered| !hidden(covered.path()));
    }
}

/// What the masks of a command cover.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct MaskedPlaces {
    /// What it cannot read.
    pub(crate) hidden: Vec<HiddenPlace>,
    /// What it cannot change, and directories that must stay where they are.
    pub(crate) held: Vec<ProtectedPlace>,
}

/// An empty file of this machine that is shown in place of hidden ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoverFile {
    /// Where it is.
    pub path: PathBuf,
    /// Which file it is.
    pub identity: FileId,
}

/// A place in a workspace that a deny rule hides from a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HiddenPlace {
    /// A directory: covered by one that cannot be opened.
    Directory {
        /// Where it is.
        at: PathBuf,
        /// The directory it must still be.
        identity: FileId,
    },
    /// Anything else: covered by an empty file.
    File {
        /// Where it is.
        at: PathBuf,
        /// The file it must still be.
        identity: FileId,
    },
}

impl HiddenPlace {
    /// Where it is.
    pub fn path(&self) -> &Path {
        match self {
            Self::Directory { at, .. } | Self::File { at, .. } => at,
        }
    }
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
