//! What a command changed in a local workspace: a scan before it, a scan after it, and the content
//! of files in the artifact store.
//!
//! Content must be kept before a command changes it, so every file is read once and again only when
//! its identity (inode, size, times, mode) changes; `index.rs` remembers that between processes.
//! Both scans are bounded in files, bytes and time, and what was not covered is reported. Nothing
//! here changes the workspace. Start with `scan.rs`, then `compare.rs`; `repository.rs` does the same
//! for git's refs, which no walk of the workspace sees.

mod compare;
mod format;
mod index;
mod keep;
mod missed;
mod picture;
mod repository;
mod scan;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use haft_contract::{
    future::BoxFuture,
    host::ArtifactStore,
    ops::{ChangeScan, Changes, OpsError, WorkspaceChanges},
};
use haft_sandbox::{jail::Jail, pool::blocking};
use tokio_util::sync::CancellationToken;

use self::{
    compare::Comparison,
    index::Index,
    keep::{Budget, ContentKeeper},
    missed::{CoverageGaps, Reason},
    picture::{FileSystemTime, WorkspacePicture},
    repository::RepositoryBefore,
    scan::{IgnoreCache, Phase, ScanOptions, ScanResult},
};
use super::{
    repository::TrackedFiles,
    walk::{Globs, Ignores},
};

/// How the workspace is compared before and after a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeOptions {
    /// Where Haft keeps its own files. Which content is kept is remembered in `changes` below it.
    /// Nothing in it is captured, should it lie in the workspace.
    pub place: PathBuf,
    /// Globs of paths to leave out, in addition to what ignore files leave out (`scan.rs` says which
    /// of these count).
    pub ignore: Vec<String>,
    /// The most files scanned.
    pub max_files: usize,
    /// The largest file whose content is kept.
    pub max_file_bytes: u64,
    /// The most bytes read and kept before a command, and again after it.
    pub max_bytes: u64,
    /// The most time spent before a command, and again after it.
    pub max_time: Duration,
}

impl ChangeOptions {
    /// The default limits: 200,000 files, 4 MiB of each, 256 MiB and two seconds each time.
    pub fn new(place: impl Into<PathBuf>) -> Self {
        Self {
            place: place.into(),
            ignore: Vec::new(),
            max_files: 200_000,
            max_file_bytes: 4 << 20,
            max_bytes: 256 << 20,
            max_time: Duration::from_secs(2),
        }
    }
}

/// Compares a local workspace before and after commands.
pub(crate) struct LocalChanges {
    inner: Arc<Inner>,
}

struct Inner {
    jail: Arc<Jail>,
    options: ChangeOptions,
    index: Index,
    /// Haft's own files, relative to the workspace, should they lie in it.
    own: Option<Vec<u8>>,
    /// How many commands have begun, to see whether two overlapped.
    begun: AtomicU64,
    ended: AtomicU64,
}

impl LocalChanges {
    pub(crate) fn new(jail: Arc<Jail>, options: ChangeOptions) -> Self {
        let own = real_path(&options.place)
            .strip_prefix(jail.shown())
            .ok()
            .map(|path| path.as_os_str().as_encoded_bytes().to_vec())
            // A workspace that is itself Haft's own directory contains nothing else.
            .filter(|path| !path.is_empty());
        Self {
            inner: Arc::new(Inner {
                index: Index::new(&options.place, jail.shown()),
                jail,
                options,
                own,
                begun: AtomicU64::new(0),
                ended: AtomicU64::new(0),
            }),
        }
    }
}

impl WorkspaceChanges for LocalChanges {
    fn begin(
        &self,
        keep: Arc<dyn ArtifactStore>,
        cancel: CancellationToken,
    ) -> BoxFuture<'_, Result<Box<dyn ChangeScan>, OpsError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move {
            let before = inner.before(&keep, &cancel).await?;
            let running = WatchedCommand::start(Arc::clone(&inner));
            Ok(Box::new(Scan {
                before,
                keep,
                running,
            }) as Box<dyn ChangeScan>)
        })
    }
}

/// Where a directory is or will be, without symlinks.
fn real_path(place: &Path) -> PathBuf {
    let parent = || {
        let parent = std::fs::canonicalize(place.parent()?).ok()?;
        Some(parent.join(place.file_name()?))
    };
    let real = std::fs::canonicalize(place).ok();
    real.or_else(parent).unwrap_or_else(|| place.to_owned())
}

/// The workspace as it was before a command.
struct BeforeCommand {
    picture: Arc<WorkspacePicture>,
    remembered: Arc<IgnoreCache>,
    began: FileSystemTime,
    /// Whether everything was scanned. What was not cannot be distinguished from what is new.
    is_whole: bool,
    /// What git's index names.
    tracked: Arc<TrackedFiles>,
    repository: RepositoryBefore,
    missed: CoverageGaps,
}

struct Scan {
    before: BeforeCommand,
    keep: Arc<dyn ArtifactStore>,
    running: WatchedCommand,
}

impl ChangeScan for Scan {
    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Changes, OpsError>> {
        Box::pin(async move {
            let Self {
                mut before,
                keep,
                running,
            } = *self;
            if running.overlapped() {
                before.missed.add_plain(Reason::Together);
            }
            running.inner.after(before, &keep).await
        })
    }
}

/// A command that runs between two scans.
struct WatchedCommand {
    inner: Arc<Inner>,
    /// How many had begun, including it, and how many had ended before it.
    begun: u64,
    ended: u64,
}

impl WatchedCommand {
    fn start(inner: Arc<Inner>) -> Self {
        let ended = inner.ended.load(Ordering::SeqCst);
        let begun = inner.begun.fetch_add(1, Ordering::SeqCst) + 1;
        Self {
            inner,
            begun,
            ended,
        }
    }

    /// Whether another one ran at any time during it.
    fn overlapped(&self) -> bool {
        self.begun - 1 != self.ended || self.inner.begun.load(Ordering::SeqCst) != self.begun
    }
}

impl Drop for WatchedCommand {
    fn drop(&mut self) {
        self.inner.ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Inner {
    fn look(
        &self,
        phase: Phase,
        tracked: &Arc<TrackedFiles>,
        deadline: Instant,
    ) -> Result<ScanOptions, OpsError> {
        Ok(ScanOptions {
            jail: Arc::clone(&self.jail),
            globs: Globs::new(&self.options.ignore, Ignores::Respect)?,
            own: self.own.clone(),
            tracked: Arc::clone(tracked),
            phase,
            max_files: self.options.max_files,
            deadline,
        })
    }

    fn keeping(&self, keep: &Arc<dyn ArtifactStore>, deadline: Instant) -> ContentKeeper {
        let budget = Budget::new(
            self.options.max_file_bytes,
            self.options.max_bytes,
            deadline,
        );
        ContentKeeper::new(Arc::clone(&self.jail), Arc::clone(keep), budget)
    }

    /// Scans, and keeps what is not kept yet.
    async fn before(
        self: &Arc<Self>,
        keep: &Arc<dyn ArtifactStore>,
        cancel: &CancellationToken,
    ) -> Result<BeforeCommand, OpsError> {
        let (repository, tracked) = repository::look(&self.jail).await?;
        let tracked = Arc::new(tracked);
        let deadline = Instant::now() + self.options.max_time;
        let inner = Arc::clone(self);
        let loaded = blocking(move || Ok(inner.index.load())).await?;
        let known = keep::still_kept(Arc::clone(&loaded), keep).await;
        let stop = cancel.child_token();
        let _stop_when_dropped = stop.clone().drop_guard();
        let look = self.look(Phase::Before, &tracked, deadline)?;
        let (reference, stopped) = (Arc::clone(&known), stop.clone());
        let seen = blocking(move || {
            let mut seen = look.run(&reference, &IgnoreCache::default(), &stopped)?;
            look.add_ignored(&reference, &mut seen);
            Ok(seen)
        })
        .await?;
        let ScanResult {
            mut picture,
            remembered,
            is_whole,
            missed,
            ..
        } = seen;
        let read = self.keeping(keep, deadline).run(&mut picture).await?;
        // Taken after the scan: what changes from here on was changed by the command.
        let began = FileSystemTime::get();
        let picture = Arc::new(picture);
        let is_renewed = !Arc::ptr_eq(&known, &loaded);
        if read > 0 || is_renewed || picture.files() != known.files() {
            self.remember(Arc::clone(&picture)).await?;
        }
        Ok(BeforeCommand {
            picture,
            remembered: Arc::new(remembered),
            began,
            is_whole,
            tracked,
            repository,
            missed,
        })
    }

    /// Scans again and compares.
    async fn after(
        self: &Arc<Self>,
        before: BeforeCommand,
        keep: &Arc<dyn ArtifactStore>,
    ) -> Result<Changes, OpsError> {
        let deadline = Instant::now() + self.options.max_time;
        let look = self.look(Phase::After, &before.tracked, deadline)?;
        let stop = CancellationToken::new();
        let _stop_when_dropped = stop.clone().drop_guard();
        let (reference, rules) = (Arc::clone(&before.picture), Arc::clone(&before.remembered));
        let seen = blocking(move || {
            let mut seen = look.run(&reference, &rules, &stop)?;
            look.fill_in(&reference, &mut seen);
            Ok(seen)
        })
        .await?;
        let mut after = seen.picture;
        let read = self.keeping(keep, deadline).run(&mut after).await?;
        let mut missed = before.missed;
        missed.append(seen.missed);
        let comparison = Comparison {
            before: &before.picture,
            after: &after,
            began: before.began,
            before_is_whole: before.is_whole,
        };
        let mut files = comparison.run(&mut missed);
        let all_kept = keep::check_pre_images(&mut files, keep, &mut missed).await;
        files.extend(repository::compare(&self.jail, before.repository, keep, &mut missed).await?);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let looked_at = seen.looked_at;
        if !all_kept {
            let inner = Arc::clone(self);
            blocking(move || {
                inner.index.forget();
                Ok(())
            })
            .await?;
        } else if read > 0 || after.files() != before.picture.files() {
            self.remember(Arc::new(after)).await?;
        }
        Ok(Changes {
            files,
            looked_at,
            missed: missed.text(),
        })
    }

    async fn remember(self: &Arc<Self>, picture: Arc<WorkspacePicture>) -> Result<(), OpsError> {
        let inner = Arc::clone(self);
        blocking(move || {
            inner.index.save(picture);
            Ok(())
        })
        .await
    }
}
