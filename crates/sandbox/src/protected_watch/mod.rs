//! Moves protected names that appear in a workspace while a command runs away at once, and again
//! when everything it started is dead.
//!
//! The sandbox mounts names that already exist read-only, and its init refuses calls that name an
//! absent one. But the init reads the name from memory the command can change meanwhile, so this is
//! what holds against a race. Only the root of the workspace and its `.git` are watched. Deeper
//! down only the init refuses; T3, which has no such init, scans everything after the command has
//! ended (`deep.rs`).
//!
//! What may be moved: only what was absent when the first of the commands now running in the
//! workspace began. So concurrent commands share one [`WorkspaceWatch`], a second Haft process that
//! began later leaves the first one's finds to it, and of two that both move one file, one finds
//! nothing. If someone creates such a name by hand meanwhile, they find it under the name in the
//! refusal.

mod deep;
mod names;
mod quarantine;
mod todo;

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use haft_contract::ops::{Layer, Refusal};
use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, eventfd, poll},
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};

pub(crate) use self::{deep::Deep, quarantine::Quarantine};
use self::{
    names::{BareGitParts, GUARDED, PlaceLookup},
    quarantine::QuarantineLocation,
    todo::Todo,
};
use crate::{
    jail::Jail,
    linked_trees::{self, LinkedTrees},
};

/// Most moved things that are kept for one set of commands; a flood beyond that is deleted.
const MAX_MOVED: usize = Refusal::MAX;

/// Bytes of events read at once.
const EVENT_BYTES: usize = 4096;

/// Running watches by workspace, each with the number of commands it serves.
static RUNNING: Mutex<BTreeMap<Identity, (Arc<WorkspaceWatch>, usize)>> =
    Mutex::new(BTreeMap::new());

/// Device and inode of a workspace's root.
type Identity = (u64, u64);

/// The watch over a workspace, on behalf of one command.
pub(crate) struct ProtectedWatch {
    shared: Arc<WorkspaceWatch>,
    identity: Identity,
    /// What was moved before this command began does not concern it.
    began: usize,
    /// What existed below the root, in tier T3.
    deep: Option<Deep>,
    /// Whether the last look has been taken.
    finished: bool,
}

/// A workspace cannot be watched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WatchError {
    /// The operating system refused.
    #[error(
        "the workspace cannot be watched for protected names ({}); \
         `sysctl -w fs.inotify.max_user_instances=1024` allows more watches",
        .0.kind()
    )]
    Io(#[from] io::Error),
    /// It has more linked work trees than are read, so a change to one could go unnoticed.
    #[error(
        "git knows more than {max} linked work trees of the workspace, too many to be watched; \
         `git worktree prune` forgets those that are gone, `git worktree remove` removes others",
        max = linked_trees::MAX_TREES
    )]
    TooManyTrees,
}

impl From<Errno> for WatchError {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

/// What the commands running in one workspace share.
struct WorkspaceWatch {
    jail: Arc<Jail>,
    quarantine: Arc<Quarantine>,
    /// What each guarded place was when the first command began.
    before: Vec<PlaceLookup>,
    bare_before: BareGitParts,
    todo_before: Todo,
    /// Git's directories for linked trees.
    trees_before: BTreeSet<PathBuf>,
    /// What led git away from this `.git` before, each with what it said, if it is a link.
    suspects_before: BTreeMap<PathBuf, Option<Vec<u8>>>,
    /// The `.git` files of linked trees. A command can make git forget a tree and then change them,
    /// or put a directory in their place.
    links_before: Vec<PathBuf>,
    events: OwnedFd,
    /// Readable once nobody watches any more.
    stop: OwnedFd,
    findings: Mutex<Findings>,
}

#[derive(Default)]
struct Findings {
    moved: Vec<Refusal>,
    /// Nobody watches any more: no command made what appears now.
    ended: bool,
}

impl ProtectedWatch {
    /// Starts watching. Call it before the command starts.
    pub(crate) fn begin(
        jail: &Arc<Jail>,
        quarantine: &Arc<Quarantine>,
        deep: Option<Deep>,
    ) -> Result<Self, WatchError> {
        let stat = rustix::fs::fstat(names::open(jail, ".")?)?;
        let identity = (stat.st_dev, stat.st_ino);
        let mut running = lock(&RUNNING);
        let shared = match running.entry(identity) {
            Entry::Occupied(mut entry) => {
                let (shared, commands) = entry.get_mut();
                *commands += 1;
                Arc::clone(shared)
            }
            Entry::Vacant(entry) => {
                let shared = WorkspaceWatch::start(Arc::clone(jail), Arc::clone(quarantine))?;
                Arc::clone(&entry.insert((shared, 1)).0)
            }
        };
        let began = lock(&shared.findings).moved.len();
        Ok(Self {
            shared,
            identity,
            began,
            deep,
            finished: false,
        })
    }

    /// Looks once more and reports what was moved away since this command began. Call it when
    /// everything the command started is dead; reads and renames files.
    pub(crate) fn finish(mut self) -> Vec<Refusal> {
        self.look_once_more();
        self.finished = true;
        let deep = self.look_below();
        let findings = lock(&self.shared.findings);
        let mine = findings.moved.get(self.began..).unwrap_or_default();
        mine.iter().cloned().chain(deep).collect()
    }

    /// Moves away what has appeared below the root, and clears bits that were set.
    fn look_below(&self) -> Vec<Refusal> {
        let Some(before) = &self.deep else {
            return Vec::new();
        };
        let shared = &self.shared;
        let now = Deep::look(&shared.jail);
        let mut told = Vec::new();
        for (path, reason) in before.appeared(&now) {
            shared.move_away(Path::new(&path), reason, &mut told);
        }
        told.extend(before.clear(&shared.jail, &now));
        told.extend(now.missed());
        told
    }

    fn look_once_more(&self) {
        let last = self.is_last();
        self.shared.sweep();
        if last {
            self.shared.end();
        }
    }

    /// Unregisters this command. Returns whether it was the last of its workspace; a command that
    /// begins after this starts its own watch.
    fn is_last(&self) -> bool {
        match lock(&RUNNING).entry(self.identity) {
            Entry::Vacant(_) => false,
            Entry::Occupied(mut entry) => {
                let (_, commands) = entry.get_mut();
                *commands -= 1;
                let last = *commands == 0;
                if last {
                    entry.remove();
                }
                last
            }
        }
    }
}

impl Drop for ProtectedWatch {
    fn drop(&mut self) {
        if !self.finished {
            self.look_once_more();
            self.look_below();
        }
    }
}

impl WorkspaceWatch {
    fn start(jail: Arc<Jail>, quarantine: Arc<Quarantine>) -> Result<Arc<Self>, WatchError> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
        watch_directories(&events, &jail)?;
        watch_linked_trees(&events, &jail, &LinkedTrees::look(&jail))?;
        // After the watch, so that one of the two sees what appears in between.
        let before = names::look(&jail);
        let bare_before = BareGitParts::look(&jail);
        let found = LinkedTrees::look(&jail);
        if !found.unread.is_empty() {
            return Err(WatchError::TooManyTrees);
        }
        let todo_before = Todo::look(&jail, &found.trees);
        let is_file = |link: &&PathBuf| !linked_trees::is_directory(&jail, link);
        let links_before = found.links().filter(is_file).cloned().collect();
        let suspects_before = found
            .suspects()
            .map(|path| (path.clone(), linked_trees::leading_text(&jail, path)))
            .collect();
        let trees_before = found.trees.into_iter().map(|tree| tree.directory).collect();
        let shared = Arc::new(Self {
            jail,
            quarantine,
            before,
            bare_before,
            todo_before,
            trees_before,
            suspects_before,
            links_before,
            stop,
            events,
            findings: Mutex::default(),
        });
        let followed = Arc::clone(&shared);
        thread::Builder::new()
            .name("haft-protected".to_owned())
            .spawn(move || follow(&followed))?;
        Ok(shared)
    }

    /// Moves away everything that has appeared.
    fn sweep(&self) {
        // Locked throughout: of two sweeps, the second finds what the first left.
        let mut findings = lock(&self.findings);
        if findings.ended {
            return;
        }
        let moved = &mut findings.moved;
        let now = names::look(&self.jail);
        for (guarded, (before, now)) in GUARDED.iter().zip(self.before.iter().zip(now)) {
            let path = match (before, now) {
                (PlaceLookup::There, _)
                | (_, PlaceLookup::Absent)
                | (PlaceLookup::Cloaked, PlaceLookup::Cloaked) => None,
                (PlaceLookup::Absent | PlaceLookup::Cloaked, PlaceLookup::There) => {
                    Some(guarded.path.as_str())
                }
                (PlaceLookup::Absent, PlaceLookup::Cloaked) => guarded.cloak(),
            };
            if let Some(path) = path {
                self.move_away(Path::new(path), guarded.reason, moved);
            }
        }
        if let Some(path) = self
            .bare_before
            .completed_by(BareGitParts::look(&self.jail))
        {
            let reason = "with it git takes the workspace's root for a repository of its own and \
                          runs what it names";
            self.move_away(Path::new(path), reason, moved);
        }
        self.sweep_linked_trees(moved);
    }

    /// Moves away what leads git elsewhere in a linked work tree, and what git would run when an
    /// operation continues, there or in the workspace itself.
    fn sweep_linked_trees(&self, moved: &mut Vec<Refusal>) {
        let found = LinkedTrees::look_known_first(&self.jail, &self.trees_before);
        let todo = Todo::look(&self.jail, &found.trees);
        for path in self.todo_before.added(&todo) {
            self.move_away(&path, todo::REASON, moved);
        }
        let read: BTreeSet<&PathBuf> = found.links().collect();
        let links = self.links_before.iter().filter(|link| {
            linked_trees::is_directory(&self.jail, link)
                || (!read.contains(link) && linked_trees::is_misleading(&self.jail, link))
        });
        // What was not read comes last, so that no flood of it hides the others from the report.
        for path in links.chain(found.suspects()) {
            let said = linked_trees::leading_text(&self.jail, path);
            if self.suspects_before.get(path) != Some(&said) {
                self.move_away(path, linked_trees::REASON, moved);
            }
        }
    }

    /// Moves nothing from now on; the thread ends.
    fn end(&self) {
        lock(&self.findings).ended = true;
        // Cannot fail: the counter is 0.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }

    fn move_away(&self, path: &Path, reason: &str, moved: &mut Vec<Refusal>) {
        if moved.len() >= MAX_MOVED {
            // Whether it worked or not, the refusals reported so far are enough.
            let _ = self.quarantine.discard(&self.jail, path);
            return;
        }
        // A command chooses some of these names, and a person reads them on a terminal.
        let path_text = path.to_string_lossy();
        let shown = path_text.escape_debug();
        let fate = match self.quarantine.take(&self.jail, path) {
            Ok(None) => return,
            Ok(Some(QuarantineLocation::Apart(name))) => {
                format!("it was moved to Haft's quarantine as `{name}`")
            }
            Ok(Some(QuarantineLocation::Renamed(name))) => format!("it was renamed to `{name}`"),
            Err(errno) => {
                tracing::error!(
                    path = %shown,
                    %errno,
                    "a protected name appeared and cannot be moved away"
                );
                "it cannot be moved away; remove it by hand".to_owned()
            }
        };
        moved.push(Refusal {
            layer: Layer::Protected,
            what: format!("create {shown}"),
            why: format!("{reason}; it appeared while the command ran, and {fate}"),
        });
    }
}

/// Handles events until nobody watches any more.
fn follow(shared: &WorkspaceWatch) {
    loop {
        let mut ready = [
            PollFd::new(&shared.events, PollFlags::IN),
            PollFd::new(&shared.stop, PollFlags::IN),
        ];
        match poll(&mut ready, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [_, stop] = &ready;
        if !stop.revents().is_empty() {
            return;
        }
        if has_suspect(&shared.events) {
            // Also watch a directory that has just appeared.
            let _ = watch_directories(&shared.events, &shared.jail);
            shared.sweep();
        }
    }
}

/// Whether any pending event is worth a look.
fn has_suspect(events: &OwnedFd) -> bool {
    let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
    let mut reader = inotify::Reader::new(events, &mut buffer);
    let mut found = false;
    while let Ok(event) = reader.next() {
        found |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
            || event
                .file_name()
                .is_some_and(|name| names::is_suspect(name.to_bytes()));
    }
    found
}

/// Watches every existing directory in which a guarded name can appear. Watching one twice has no
/// effect.
fn watch_directories(events: &OwnedFd, jail: &Jail) -> Result<(), Errno> {
    for directory in names::directories() {
        let kinds = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        watch(events, jail, Path::new(directory), kinds)?;
    }
    Ok(())
}

/// Watches the linked trees that exist, in which a file that is already there can be changed to
/// lead git away. What a command itself adds is looked at when it ends.
fn watch_linked_trees(events: &OwnedFd, jail: &Jail, found: &LinkedTrees) -> Result<(), Errno> {
    let kinds =
        WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE | WatchFlags::ONLYDIR;
    let homes = found.links().filter_map(|link| link.parent());
    let directories = found.trees.iter().map(|tree| tree.directory.as_path());
    for directory in directories.chain(homes) {
        watch(events, jail, directory, kinds)?;
    }
    Ok(())
}

/// Watches a directory if it exists.
fn watch(events: &OwnedFd, jail: &Jail, directory: &Path, kinds: WatchFlags) -> Result<(), Errno> {
    let Ok(held) = names::open(jail, directory) else {
        return Ok(());
    };
    // By descriptor, so that it is exactly the directory that was looked up.
    let path = format!("/proc/self/fd/{}", held.as_fd().as_raw_fd());
    inotify::add_watch(events, path, kinds).map(drop)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
