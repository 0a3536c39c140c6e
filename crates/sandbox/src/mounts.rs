//! The file system a command sees, as an ordered list. Pure; `bubblewrap.rs` mounts it.
//!
//! Order matters and is decided only here: what is mounted later lies on top. So the system comes
//! first, the operator's own places next, then the workspace, then what is protected in it. At the
//! end everything that was only needed to build the rest is sealed.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use crate::{
    limits::Limits,
    profile::{HostView, SANDBOX_HOME},
    request::{CoverFile, CoveredMount, Egress, HiddenPlace, ProtectionHold, Workspace},
};

/// One entry of the file system a command sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mount {
    /// A path of this machine, read-only.
    ReadOnly {
        /// Where it is.
        source: PathBuf,
        /// Where it is shown.
        at: PathBuf,
    },
    /// A path of this machine, writable.
    Writable {
        /// Where it is.
        source: PathBuf,
        /// Where it is shown.
        at: PathBuf,
    },
    /// A symlink.
    Link {
        /// Where it points.
        target: PathBuf,
        /// Where it is.
        at: PathBuf,
    },
    /// An empty file system in memory.
    Memory {
        /// Where it is.
        at: PathBuf,
        /// Its size.
        bytes: u64,
        /// Its mode.
        mode: u32,
    },
    /// A file with this text, read-only.
    File {
        /// Where it is.
        at: PathBuf,
        /// What it holds.
        text: String,
    },
    /// A `/proc` with the processes of the sandbox.
    Processes {
        /// Where they are.
        at: PathBuf,
    },
    /// The harmless devices.
    Devices {
        /// Where they are.
        at: PathBuf,
    },
    /// Makes what was mounted here read-only.
    Seal {
        /// Where.
        at: PathBuf,
    },
}

impl Mount {
    /// Where it is in the sandbox.
    pub(super) fn at(&self) -> &Path {
        match self {
            Self::ReadOnly { at, .. }
            | Self::Writable { at, .. }
            | Self::Link { at, .. }
            | Self::Memory { at, .. }
            | Self::File { at, .. }
            | Self::Processes { at }
            | Self::Devices { at }
            | Self::Seal { at } => at,
        }
    }
}

/// Where the helper is in the sandbox.
pub(super) const INIT: &str = "/run/haft/init";

/// Where the socket of the proxy is in the sandbox.
pub const PROXY_SOCKET: &str = "/run/haft/proxy";

/// Git's settings, below the home.
pub(super) const GIT_SETTINGS: &str = ".gitconfig";

/// The size of an empty file system that covers another one; nothing is ever put there.
const COVER_BYTES: u64 = 4096;

/// Lists in `/proc` that cover the whole machine, whatever namespaces a process is in. They are
/// shown empty.
const LISTS: [&str; 5] = [
    "/proc/keys",
    "/proc/key-users",
    "/proc/timer_list",
    "/proc/sched_debug",
    "/proc/latency_stats",
];

/// Places that belong to the sandbox itself.
const RESERVED: [&str; 5] = ["/proc", "/dev", "/sys", "/run/haft", SANDBOX_HOME];

/// The reserved place that a path covers or lies in: nothing of the machine is ever shown there.
pub fn reserved(path: &Path) -> Option<&'static str> {
    RESERVED
        .into_iter()
        .find(|place| path.starts_with(place) || Path::new(place).starts_with(path))
}

/// Where a command's private home is: at the path of the user's own, so that paths in files that
/// programs keep mean the same inside and outside. Not where the workspace or another shown place
/// contains that path: what is shown there must not become the command's home.
pub(super) fn home<'v>(view: &'v HostView, root: &Path) -> &'v Path {
    let is_free = |home: &Path| {
        let mut above = view.read_only.iter().chain(&view.writable);
        let mut beneath = view.directories.iter().chain(&view.settings);
        reserved(home).is_none()
            && !home.starts_with(root)
            && !above.any(|place| home.starts_with(place))
            && !beneath.any(|place| place.starts_with(home))
            && !Path::new("/tmp").starts_with(home)
    };
    let own = view.home.as_deref().filter(|home| is_free(home));
    own.unwrap_or(Path::new(SANDBOX_HOME))
}

/// The first directory on the way from the home to a workspace in it. It is shown empty and
/// read-only: what is written beside the workspace would vanish, and nobody would be told.
fn way_to(root: &Path, home: &Path) -> Option<PathBuf> {
    let first = root.strip_prefix(home).ok()?.components().next()?;
    let way = home.join(first);
    (way != root).then_some(way)
}

/// Everything a command sees, in the order it is mounted.
pub(super) fn mounts(
    view: &HostView,
    workspace: &Workspace,
    cover_file: Option<&CoverFile>,
    egress: Option<&Egress>,
    limits: &Limits,
    helper: &Path,
    user: &str,
) -> Vec<Mount> {
    let home = home(view, &workspace.root);
    let way = way_to(&workspace.root, home);
    let mut mounts = Vec::new();
    mounts.extend(view.directories.iter().map(|place| read_only(place, place)));
    mounts.extend(view.links.iter().map(|(at, target)| Mount::Link {
        target: target.clone(),
        at: at.clone(),
    }));
    mounts.extend(view.settings.iter().map(|place| read_only(place, place)));
    mounts.extend(accounts(view, user, home));
    mounts.extend([Mount::Processes { at: "/proc".into() }]);
    let lists = LISTS.iter().filter(|list| Path::new(list).exists());
    mounts.extend(lists.map(|list| read_only(Path::new("/dev/null"), Path::new(list))));
    mounts.extend([
        Mount::Devices { at: "/dev".into() },
        memory(Path::new("/dev/shm"), limits.tmp_bytes, 0o1777),
        Mount::Seal { at: "/dev".into() },
        memory(Path::new("/tmp"), limits.tmp_bytes, 0o1777),
        memory(home, limits.tmp_bytes, 0o700),
    ]);
    mounts.extend(view.git_settings.iter().map(|text| Mount::File {
        at: home.join(GIT_SETTINGS),
        text: text.clone(),
    }));
    mounts.extend(way.iter().map(|way| memory(way, COVER_BYTES, 0o755)));
    mounts.extend(view.toolchains.iter().map(|place| read_only(place, place)));
    let caches = view.caches.iter().filter(|_| egress.is_none());
    mounts.extend(caches.map(|place| read_only(place, place)));
    mounts.extend(credentials(view, cover_file));
    mounts.extend(view.read_only.iter().map(|place| read_only(place, place)));
    mounts.extend(view.writable.iter().map(|place| Mount::Writable {
        source: place.clone(),
        at: place.clone(),
    }));
    mounts.push(Mount::Writable {
        source: workspace.root.clone(),
        at: workspace.root.clone(),
    });
    mounts.extend(workspace.protected.iter().map(|protected| {
        let place = workspace.root.join(&protected.path);
        match protected.hold {
            ProtectionHold::ReadOnly => read_only(&place, &place),
            ProtectionHold::InPlace => Mount::Writable {
                source: place.clone(),
                at: place,
            },
        }
    }));
    // After what is protected, because binding a directory again would uncover what is mounted in it.
    mounts.extend(workspace.covered.iter().flat_map(cover));
    mounts.extend(
        workspace
            .hidden
            .iter()
            .flat_map(|hidden| hide(hidden, cover_file)),
    );
    mounts.push(read_only(helper, Path::new(INIT)));
    mounts.extend(egress.map(|egress| read_only(&egress.socket, Path::new(PROXY_SOCKET))));
    mounts.extend(way.map(|at| Mount::Seal { at }));
    mounts.push(Mount::Seal { at: "/".into() });
    mounts
}

/// The accounts a program may look up: its own, root, and nobody, who owns what is not shown.
fn accounts(view: &HostView, user: &str, home: &Path) -> [Mount; 3] {
    let home = home.display();
    let (uid, gid) = (view.user, view.group);
    let root = if uid == 0 {
        String::new()
    } else {
        "root:x:0:0:root:/root:/usr/sbin/nologin\n".to_owned()
    };
    let root_group = if gid == 0 { "" } else { "root:x:0:\n" };
    [
        file(
            "/etc/passwd",
            format!(
                "{root}{user}:x:{uid}:{gid}:{user}:{home}:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        file(
            "/etc/group",
            format!("{root_group}{user}:x:{gid}:\nnogroup:x:65534:\n"),
        ),
        file(
            "/etc/hosts",
            "127.0.0.1 localhost haft\n::1 localhost haft\n".to_owned(),
        ),
    ]
}

/// Covers files with credentials in toolchains. One that is gone meanwhile cannot be mounted over.
fn credentials<'m>(
    view: &'m HostView,
    cover: Option<&'m CoverFile>,
) -> impl Iterator<Item = Mount> + 'm {
    let known = view.credentials.iter().filter(|file| file.is_file());
    known.map(move |file| read_only(cover_source(cover), file))
}

/// What lies over a hidden file: without an empty file, a device, which cannot be opened.
fn cover_source(cover: Option<&CoverFile>) -> &Path {
    cover.map_or(Path::new("/dev/null"), |cover| &cover.path)
}

/// Covers something mounted inside the workspace. A device bound as a file cannot be opened.
fn cover(covered: &CoveredMount) -> Vec<Mount> {
    match covered {
        CoveredMount::Directory(at) => empty_directory(at, 0o555),
        CoveredMount::File(at) => vec![read_only(Path::new("/dev/null"), at)],
    }
}

/// Hides something from a command. A file looks empty, so that searches of a tree go on without an
/// error; a directory cannot be opened, so that git takes no tracked file in it for deleted.
fn hide(hidden: &HiddenPlace, cover: Option<&CoverFile>) -> Vec<Mount> {
    match hidden {
        HiddenPlace::Directory { at, .. } => empty_directory(at, 0o000),
        HiddenPlace::File { at, .. } => vec![read_only(cover_source(cover), at)],
    }
}

fn empty_directory(at: &Path, mode: u32) -> Vec<Mount> {
    let memory = Mount::Memory {
        at: at.to_owned(),
        bytes: COVER_BYTES,
        mode,
    };
    vec![memory, Mount::Seal { at: at.to_owned() }]
}

fn read_only(source: &Path, at: &Path) -> Mount {
    Mount::ReadOnly {
        source: source.to_owned(),
        at: at.to_owned(),
    }
}

fn memory(at: &Path, bytes: u64, mode: u32) -> Mount {
    Mount::Memory {
        at: at.to_owned(),
        bytes,
        mode,
    }
}

fn file(at: &str, text: String) -> Mount {
    Mount::File {
        at: at.into(),
        text,
    }
}

impl fmt::Display for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly { source, at } if source == at => {
                write!(f, "read-only  {}", at.display())
            }
            Self::ReadOnly { source, at } => {
                write!(f, "read-only  {}  from {}", at.display(), source.display())
            }
            Self::Writable { source, at } if source == at => {
                write!(f, "writable   {}", at.display())
            }
            Self::Writable { source, at } => {
                write!(f, "writable   {}  from {}", at.display(), source.display())
            }
            Self::Link { target, at } => {
                write!(f, "link       {}  to {}", at.display(), target.display())
            }
            Self::Memory { at, bytes, .. } => {
                write!(f, "in memory  {}  {} MiB", at.display(), bytes >> 20)
            }
            Self::File { at, .. } => write!(f, "made up    {}", at.display()),
            Self::Processes { at } => write!(f, "own        {}  its own processes", at.display()),
            Self::Devices { at } => {
                write!(f, "own        {}  null, zero, random, tty", at.display())
            }
            Self::Seal { at } => write!(f, "sealed     {}", at.display()),
        }
    }
}
