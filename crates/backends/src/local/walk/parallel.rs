//! A walk over several threads. Directories are the unit of work; each worker keeps its own
//! buffers, so nothing is allocated per file.

use std::{
    collections::VecDeque,
    ffi::CStr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_contract::{
    ErrorKind, WorkPath,
    ops::{FileKind, OpsError},
};
use haft_sandbox::jail::{Jail, Lookup};
use rustix::{fs::OFlags, io::Errno};
use tokio_util::sync::CancellationToken;

use super::{DirectoryNames, Globs, IgnoreFiles, IgnoreNode, Ignores};

/// The most threads one walk uses.
const MAX_THREADS: usize = 8;

/// Directories walked on the caller's own thread before others are started: small trees are done
/// before a thread would be running.
const ALONE: usize = 24;

/// Entries of one directory handled as one piece of work; larger ones are split so that threads
/// share a very large directory.
const CHUNK: usize = 1024;

/// The deepest directory walked.
const MAX_DEPTH: usize = 1024;

/// One entry found on a walk.
pub(crate) struct VisitedEntry<'a> {
    /// The directory it is in, open.
    pub(crate) directory: BorrowedFd<'a>,
    /// Its name there.
    pub(crate) name: &'a CStr,
    /// Its path relative to the workspace.
    pub(crate) path: &'a [u8],
    /// What kind of thing it is.
    pub(crate) kind: FileKind,
}

/// What a walk does with what it finds. Every worker has its own.
pub(crate) trait Visit: Send {
    /// Whether anything beneath this directory can matter; `path` is relative to the workspace.
    fn wants_directory(&mut self, path: &[u8]) -> bool;

    /// Handles one entry, directories included.
    fn entry(&mut self, entry: &VisitedEntry<'_>);

    /// The ignore rules of a directory that is entered, if they are respected.
    fn rules(
        &mut self,
        jail: &Jail,
        entered: &EnteredDirectory<'_>,
        above: Option<Arc<IgnoreNode>>,
    ) -> Option<Arc<IgnoreNode>> {
        entered.rules(jail, IgnoreFiles::All, above)
    }

    /// Called for an entry that is withheld, or that these rules leave out.
    fn left_out(&mut self, _path: &[u8], _rules: Option<&IgnoreNode>) {}

    /// Called for a directory that cannot be read, or lies too deep.
    fn passed_over(&mut self, _path: &[u8], _why: Errno) {}
}

/// A directory whose names were read.
pub(crate) struct EnteredDirectory<'a> {
    /// The directory, open.
    pub(crate) directory: BorrowedFd<'a>,
    /// Its path relative to the workspace; empty for the root.
    pub(crate) path: &'a [u8],
    /// Its names.
    pub(crate) names: &'a DirectoryNames,
}

impl EnteredDirectory<'_> {
    /// Its ignore rules, with those above.
    pub(crate) fn rules(
        &self,
        jail: &Jail,
        files: IgnoreFiles<'_>,
        above: Option<Arc<IgnoreNode>>,
    ) -> Option<Arc<IgnoreNode>> {
        IgnoreNode::enter(jail, self.directory, self.path, self.names, files, above)
    }
}

/// Walks everything beneath a directory. Each worker gets a visitor from `visitor`; all of them are
/// returned when the walk is done.
pub(crate) fn walk<V: Visit>(
    jail: &Jail,
    start: &WorkPath,
    globs: &Globs,
    stop: &CancellationToken,
    visitor: impl Fn() -> V + Sync,
) -> Result<Vec<V>, OpsError> {
    let directory = jail.open_directory(start)?;
    let ignores = match globs.ignores {
        Ignores::Respect => IgnoreNode::above(jail, start),
        Ignores::WalkAll => None,
    };
    drop(directory);
    let path = if start.is_root() {
        Vec::new()
    } else {
        start.as_str().as_bytes().to_vec()
    };
    let shared = WalkState {
        jail,
        globs,
        stop,
        queue: Mutex::new(Queue {
            waiting: VecDeque::from([Task {
                path,
                depth: 0,
                ignores,
                part: DirectoryPart::Whole,
            }]),
            busy: 0,
        }),
        changed: Condvar::new(),
        done: AtomicBool::new(false),
    };
    let visitors = shared.run(&visitor)?;
    if stop.is_cancelled() {
        return Err(OpsError::new(
            ErrorKind::Cancelled,
            "the search was stopped",
        ));
    }
    Ok(visitors)
}

struct WalkState<'a> {
    jail: &'a Jail,
    globs: &'a Globs,
    stop: &'a CancellationToken,
    queue: Mutex<Queue>,
    changed: Condvar,
    done: AtomicBool,
}

struct Queue {
    waiting: VecDeque<Task>,
    busy: usize,
}

/// A directory to walk, or part of one.
struct Task {
    path: Vec<u8>,
    depth: usize,
    ignores: Option<Arc<IgnoreNode>>,
    part: DirectoryPart,
}

/// Which part of a directory a task covers.
enum DirectoryPart {
    /// All of it; a very large one is split.
    Whole,
    /// The entries that are not directories, among at most [`CHUNK`] from this position on.
    Files(usize, Arc<Listing>),
}

/// A very large directory, read once for all workers that share it.
struct Listing {
    directory: OwnedFd,
    names: DirectoryNames,
}

impl WalkState<'_> {
    fn run<V: Visit>(&self, visitor: &(impl Fn() -> V + Sync)) -> Result<Vec<V>, OpsError> {
        let mut first = Worker::new(self, visitor());
        for _ in 0..ALONE {
            let Some((task, _busy)) = self.take() else {
                break;
            };
            first.task(task);
        }
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(MAX_THREADS);
        let more_to_do = !lock(&self.queue).waiting.is_empty();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .filter(|_| more_to_do)
                .map(|_| {
                    scope.spawn(|| {
                        let mut worker = Worker::new(self, visitor());
                        worker.run();
                        worker.visitor
                    })
                })
                .collect();
            first.run();
            let mut visitors = vec![first.visitor];
            for other in others {
                let visitor = other.join().map_err(|_| {
                    OpsError::new(
                        ErrorKind::Internal,
                        "internal error in the search; see the log for details",
                    )
                })?;
                visitors.push(visitor);
            }
            Ok(visitors)
        })
    }

    /// The next task; waits while others may still add some. `None` when the walk is over.
    fn take(&self) -> Option<(Task, BusyTask<'_>)> {
        let mut queue = lock(&self.queue);
        loop {
            if self.done.load(Ordering::Relaxed) || self.stop.is_cancelled() {
                return None;
            }
            // Last in, first out keeps the queue small: it holds siblings of one path.
            if let Some(task) = queue.waiting.pop_back() {
                queue.busy += 1;
                return Some((task, BusyTask(&self.queue, &self.changed)));
            }
            if queue.busy == 0 {
                self.done.store(true, Ordering::Relaxed);
                self.changed.notify_all();
                return None;
            }
            queue = self
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn add(&self, tasks: &mut Vec<Task>) {
        if tasks.is_empty() {
            return;
        }
        lock(&self.queue).waiting.extend(tasks.drain(..).rev());
        self.changed.notify_all();
    }
}

/// A task being worked on. Also ends it if its worker panics, so that the others do not wait
/// forever.
struct BusyTask<'a>(&'a Mutex<Queue>, &'a Condvar);

impl Drop for BusyTask<'_> {
    fn drop(&mut self) {
        let mut queue = lock(self.0);
        queue.busy -= 1;
        if queue.busy == 0 {
            self.1.notify_all();
        }
    }
}

struct Worker<'a, V> {
    shared: &'a WalkState<'a>,
    visitor: V,
    names: DirectoryNames,
    path: Vec<u8>,
    found: Vec<Task>,
}

impl<'a, V: Visit> Worker<'a, V> {
    fn new(shared: &'a WalkState<'a>, visitor: V) -> Self {
        Self {
            shared,
            visitor,
            names: DirectoryNames::new(),
            path: Vec::new(),
            found: Vec::new(),
        }
    }

    fn run(&mut self) {
        while let Some((task, _busy)) = self.shared.take() {
            self.task(task);
        }
    }

    /// Walks one directory, or a part of a large one.
    fn task(&mut self, task: Task) {
        if !task.path.is_empty() && !self.visitor.wants_directory(&task.path) {
            return;
        }
        match &task.part {
            DirectoryPart::Whole => self.whole(&task),
            DirectoryPart::Files(from, listing) => {
                // The task already has the rules of its own directory.
                let entries = listing.names.part(*from, from + CHUNK);
                let files = entries.filter(|(_, kind)| *kind != FileKind::Directory);
                self.entries(
                    listing.directory.as_fd(),
                    files,
                    &task,
                    task.ignores.as_ref(),
                );
            }
        }
        self.shared.add(&mut self.found);
    }

    /// Walks a directory. One that vanished or became a link since it was found is skipped.
    fn whole(&mut self, task: &Task) {
        let jail = self.shared.jail;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let path: &[u8] = if task.path.is_empty() {
            b"."
        } else {
            &task.path
        };
        let mut names = std::mem::replace(&mut self.names, DirectoryNames::new());
        let directory = match jail.open_bytes(path, flags, Lookup::Full).and_then(|open| {
            names.read(open.as_fd())?;
            Ok(open)
        }) {
            Ok(directory) => directory,
            Err(errno) => {
                self.names = names;
                return self.visitor.passed_over(&task.path, errno);
            }
        };
        let ignores = match self.shared.globs.ignores {
            Ignores::Respect => {
                let entered = EnteredDirectory {
                    directory: directory.as_fd(),
                    path: &task.path,
                    names: &names,
                };
                self.visitor.rules(jail, &entered, task.ignores.clone())
            }
            Ignores::WalkAll => None,
        };
        let first = names.part(0, CHUNK);
        let deeper = names.part(CHUNK, usize::MAX);
        let directories = deeper.filter(|(_, kind)| *kind == FileKind::Directory);
        let mine = first.chain(directories);
        self.entries(directory.as_fd(), mine, task, ignores.as_ref());
        if names.len() <= CHUNK {
            self.names = names;
            return;
        }
        let listing = Arc::new(Listing { directory, names });
        for from in (CHUNK..listing.names.len()).step_by(CHUNK) {
            self.found.push(Task {
                path: task.path.clone(),
                depth: task.depth,
                ignores: ignores.clone(),
                part: DirectoryPart::Files(from, Arc::clone(&listing)),
            });
        }
    }

    fn entries<'n>(
        &mut self,
        directory: BorrowedFd<'_>,
        entries: impl Iterator<Item = (&'n CStr, FileKind)>,
        task: &Task,
        ignores: Option<&Arc<IgnoreNode>>,
    ) {
        let rules = ignores.map(Arc::as_ref);
        self.path.clear();
        self.path.extend_from_slice(&task.path);
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        let prefix = self.path.len();
        for (position, (name, kind)) in entries.enumerate() {
            if position % 64 == 63 && self.shared.stop.is_cancelled() {
                return;
            }
            self.path.truncate(prefix);
            self.path.extend_from_slice(name.to_bytes());
            let globs = self.shared.globs;
            if globs.leaves_out(&self.path, name, kind, rules) {
                self.visitor.left_out(&self.path, rules);
                continue;
            }
            self.visitor.entry(&VisitedEntry {
                directory,
                name,
                path: &self.path,
                kind,
            });
            if kind != FileKind::Directory {
                continue;
            }
            if task.depth < MAX_DEPTH {
                self.found.push(Task {
                    path: self.path.clone(),
                    depth: task.depth + 1,
                    ignores: ignores.cloned(),
                    part: DirectoryPart::Whole,
                });
            } else {
                self.visitor.passed_over(&self.path, Errno::NAMETOOLONG);
            }
        }
    }
}

impl Globs {
    /// Whether an entry is left out: withheld, ignored, or `.git` where ignores are respected.
    pub(crate) fn leaves_out(
        &self,
        path: &[u8],
        name: &CStr,
        kind: FileKind,
        ignores: Option<&IgnoreNode>,
    ) -> bool {
        if self.withholds(path) {
            return true;
        }
        match self.ignores {
            Ignores::WalkAll => false,
            Ignores::Respect => {
                name.to_bytes() == b".git"
                    || ignores.is_some_and(|rules| rules.ignores(path, kind == FileKind::Directory))
            }
        }
    }
}

/// A panic in a visitor must not hide what the others found.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
