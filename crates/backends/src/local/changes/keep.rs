//! Reads content that is not known yet and puts it into the artifact store, within limits on bytes
//! and time.
//!
//! Every file is opened through the jail and never blocks: a FIFO or a symlink that replaces a file
//! is refused by the very call that opens it.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
    vec,
};

use haft_contract::{
    host::{ArtifactId, ArtifactStore},
    ops::{ChangedFile, FileKind, OpsError},
};
use haft_sandbox::{
    jail::{Jail, Lookup},
    pool::blocking,
};
use rustix::{
    buffer::spare_capacity,
    fs::{OFlags, fstat, readlinkat},
    io::{Errno, pread},
};

use super::{
    missed::{CoverageGaps, GapCause, Reason},
    picture::{Content, FileSystemTime, Identity, OmissionReason, WorkspacePicture},
};
use crate::local::files::AccessList;

/// Files and bytes to read before handing them to the store as one batch.
const BATCH_FILES: usize = 1_024;
const BATCH_BYTES: usize = 8 << 20;

/// How often to reread a file that changed while it was read.
const ATTEMPTS: usize = 3;

/// How long kept content may go unused before the store is asked to keep it longer.
const RENEW_AFTER: Duration = Duration::from_hours(24);

/// How many artifacts to look up to see whether the store is still the same one.
const SAMPLES: usize = 8;

/// How much may be read, and until when.
#[derive(Debug)]
pub(super) struct Budget {
    max_file_bytes: u64,
    bytes: Mutex<u64>,
    deadline: Instant,
}

impl Budget {
    pub(super) fn new(max_file_bytes: u64, max_bytes: u64, deadline: Instant) -> Self {
        Self {
            max_file_bytes,
            bytes: Mutex::new(max_bytes),
            deadline,
        }
    }

    /// Reserves bytes for a file of this size, or returns why not.
    fn take(&self, size: u64) -> Result<(), OmissionReason> {
        if size > self.max_file_bytes {
            return Err(OmissionReason::TooLarge);
        }
        if Instant::now() > self.deadline {
            return Err(OmissionReason::OutOfTime);
        }
        let mut left = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.checked_sub(size).ok_or(OmissionReason::OutOfBytes)?;
        Ok(())
    }
}

/// Reads files and puts their content into the store.
pub(super) struct ContentKeeper {
    reader: Arc<Reader>,
    store: Arc<dyn ArtifactStore>,
}

struct Reader {
    jail: Arc<Jail>,
    budget: Budget,
}

/// A file to read, and where its entry is.
struct FileToKeep {
    directory: usize,
    entry: usize,
    path: Vec<u8>,
}

/// The outcome for one file.
struct KeepResult {
    directory: usize,
    entry: usize,
    identity: Option<Identity>,
    content: Content,
}

/// A file that was read.
struct LoadedFile {
    bytes: Vec<u8>,
    identity: Identity,
    settled: bool,
    mode: u32,
}

type Queue = Arc<Mutex<vec::IntoIter<FileToKeep>>>;

impl ContentKeeper {
    pub(super) fn new(jail: Arc<Jail>, store: Arc<dyn ArtifactStore>, budget: Budget) -> Self {
        Self {
            reader: Arc::new(Reader { jail, budget }),
            store,
        }
    }

    /// Reads and keeps every unread file. Returns how many there were.
    pub(super) async fn run(&self, picture: &mut WorkspacePicture) -> Result<usize, OpsError> {
        let wanted: Vec<FileToKeep> = picture
            .directories()
            .iter()
            .enumerate()
            .flat_map(|(at, directory)| {
                let unread =
                    |(_, entry): &(usize, &super::picture::Entry)| entry.content == Content::Unread;
                let entries = directory.entries.iter().enumerate().filter(unread);
                entries.map(move |(entry, found)| FileToKeep {
                    directory: at,
                    entry,
                    path: directory.path_of(found),
                })
            })
            .collect();
        let count = wanted.len();
        if count == 0 {
            return Ok(0);
        }
        let queue: Queue = Arc::new(Mutex::new(wanted.into_iter()));
        // While one batch is read, another is written.
        let (one, other) = tokio::join!(self.lane(&queue), self.lane(&queue));
        let directories = picture.directories_mut();
        for done in one?.into_iter().chain(other?) {
            let entry = directories
                .get_mut(done.directory)
                .and_then(|directory| directory.entries.get_mut(done.entry));
            if let Some(entry) = entry {
                entry.identity = done.identity.unwrap_or(entry.identity);
                entry.content = done.content;
            }
        }
        picture.drop_gone();
        Ok(count)
    }

    async fn lane(&self, queue: &Queue) -> Result<Vec<KeepResult>, OpsError> {
        let mut all = Vec::new();
        let mut broken = false;
        loop {
            let (reader, queue) = (Arc::clone(&self.reader), Arc::clone(queue));
            let (mut done, loaded) = blocking(move || Ok(reader.batch(&queue))).await?;
            if done.is_empty() && loaded.is_empty() {
                return Ok(all);
            }
            let (places, contents): (Vec<_>, Vec<_>) = loaded
                .into_iter()
                .map(|(wanted, loaded)| {
                    let (identity, settled) = (loaded.identity, loaded.settled);
                    ((wanted, identity, settled, loaded.mode), loaded.bytes)
                })
                .unzip();
            // A store that failed once is not asked again: every file would wait for it.
            let ids = if broken || contents.is_empty() {
                Vec::new()
            } else {
                self.store.keep_all(contents).await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "what files hold before a command could not be kept");
                    broken = true;
                    Vec::new()
                })
            };
            let hour = FileSystemTime::get().hour();
            let mut ids = ids.into_iter();
            for (wanted, identity, settled, mode) in places {
                let content = match ids.next() {
                    Some(ArtifactId { hash, .. }) => Content::Kept {
                        hash,
                        hour,
                        settled,
                        mode,
                    },
                    None => Content::NotKept(OmissionReason::Store),
                };
                done.push(wanted.done(Some(identity), content));
            }
            all.extend(done);
        }
    }
}

impl FileToKeep {
    fn done(&self, identity: Option<Identity>, content: Content) -> KeepResult {
        KeepResult {
            directory: self.directory,
            entry: self.entry,
            identity,
            content,
        }
    }
}

impl Reader {
    /// Reads the next files: those that are done without the store, and those it must keep.
    fn batch(&self, queue: &Queue) -> (Vec<KeepResult>, Vec<(FileToKeep, LoadedFile)>) {
        let (mut done, mut loaded) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        while done.len() + loaded.len() < BATCH_FILES && bytes < BATCH_BYTES {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(wanted) = next else {
                break;
            };
            match self.read(&wanted.path) {
                Read::Bytes(read) => {
                    bytes += read.bytes.len();
                    loaded.push((wanted, read));
                }
                Read::Other(identity, content) => done.push(wanted.done(identity, content)),
            }
        }
        (done, loaded)
    }

    fn read(&self, path: &[u8]) -> Read {
        for _ in 0..ATTEMPTS {
            match self.attempt(path) {
                Ok(Some(read)) => return read,
                Ok(None) => {}
                Err(Errno::NOENT | Errno::NOTDIR) => return Read::Other(None, Content::Gone),
                // A symlink has replaced it; it is treated as one.
                Err(Errno::LOOP) => match self.link(path) {
                    Ok(read) => return read,
                    Err(Errno::NOENT) => return Read::Other(None, Content::Gone),
                    Err(_) => {}
                },
                Err(Errno::NXIO | Errno::NODEV) => return not_kept(OmissionReason::NotAFile),
                Err(_) => return not_kept(OmissionReason::Unreadable),
            }
        }
        not_kept(OmissionReason::Changing)
    }

    /// Reads a file once; `None` if it changed meanwhile.
    fn attempt(&self, path: &[u8]) -> Result<Option<Read>, Errno> {
        // Inspected before it is opened: opening a device may have effects.
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let found = fstat(self.jail.open_bytes(path, flags, Lookup::Full)?)?;
        let identity = Identity::of(&found);
        match identity.kind() {
            FileKind::File => {}
            FileKind::Symlink => return self.link(path).map(Some),
            FileKind::Directory => return Ok(Some(Read::Other(None, Content::Gone))),
            FileKind::Other => return Ok(Some(other(identity, OmissionReason::NotAFile))),
        }
        if self.jail.links_elsewhere(&found) {
            return Ok(Some(other(identity, OmissionReason::Unreadable)));
        }
        let size = u64::try_from(identity.size).unwrap_or(0);
        if let Err(why) = self.budget.take(size) {
            return Ok(Some(other(identity, why)));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let now = FileSystemTime::get();
        let file = match self.jail.open_bytes(path, flags, Lookup::Full) {
            Err(Errno::ACCESS | Errno::PERM) => {
                return Ok(Some(other(identity, OmissionReason::Unreadable)));
            }
            other => other?,
        };
        if Identity::of(&fstat(&file)?) != identity {
            return Ok(None);
        }
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // One byte more than expected, to see that it ends there.
        let mut bytes = Vec::with_capacity(size.saturating_add(1));
        while bytes.len() <= size {
            let at = bytes.len() as u64;
            if pread(&file, spare_capacity(&mut bytes), at)? == 0 {
                break;
            }
        }
        if bytes.len() != size || Identity::of(&fstat(&file)?) != identity {
            return Ok(None);
        }
        Ok(Some(Read::Bytes(LoadedFile {
            bytes,
            settled: identity.is_settled(now),
            mode: AccessList::of(&file).own_mode(identity.mode & 0o7777),
            identity,
        })))
    }

    fn link(&self, path: &[u8]) -> Result<Read, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        let link = self.jail.open_bytes(path, flags, Lookup::Full)?;
        let identity = Identity::of(&fstat(&link)?);
        if identity.kind() != FileKind::Symlink {
            return Err(Errno::AGAIN);
        }
        let target = readlinkat(&link, c"", Vec::new())?;
        let hash = *blake3::hash(target.as_bytes()).as_bytes();
        Ok(Read::Other(Some(identity), Content::Link(hash)))
    }
}

enum Read {
    Bytes(LoadedFile),
    Other(Option<Identity>, Content),
}

fn not_kept(why: OmissionReason) -> Read {
    Read::Other(None, Content::NotKept(why))
}

fn other(identity: Identity, why: OmissionReason) -> Read {
    Read::Other(Some(identity), Content::NotKept(why))
}

/// The remembered picture, minus what the store no longer has. Content kept a day or more ago is
/// renewed; otherwise a few artifacts are looked up, to see whether the store is still the same.
pub(super) async fn still_kept(
    known: Arc<WorkspacePicture>,
    store: &Arc<dyn ArtifactStore>,
) -> Arc<WorkspacePicture> {
    let old = FileSystemTime::get()
        .hour()
        .saturating_sub(hours(RENEW_AFTER));
    let ids = |picture: &WorkspacePicture, wanted: &dyn Fn(u32) -> bool| -> Vec<ArtifactId> {
        let entries = picture
            .directories()
            .iter()
            .flat_map(|directory| &directory.entries);
        entries
            .filter(|entry| matches!(entry.content, Content::Kept { hour, .. } if wanted(hour)))
            .filter_map(super::picture::Entry::artifact)
            .collect()
    };
    let stale = ids(&known, &|hour| hour <= old);
    let mut sample = stale.clone();
    if sample.is_empty() {
        let step = known.files() / SAMPLES + 1;
        let entries = known
            .directories()
            .iter()
            .flat_map(|directory| &directory.entries);
        sample.extend(
            entries
                .step_by(step)
                .filter_map(super::picture::Entry::artifact),
        );
    }
    match store.renew(sample).await {
        Ok(here) if here.iter().all(|here| *here) && stale.is_empty() => known,
        _ => renewed(&known, store).await,
    }
}

/// Looks up everything that is remembered, and keeps only what the store has.
async fn renewed(
    known: &WorkspacePicture,
    store: &Arc<dyn ArtifactStore>,
) -> Arc<WorkspacePicture> {
    let mut picture = known.copy();
    let all: Vec<ArtifactId> = picture
        .directories()
        .iter()
        .flat_map(|directory| &directory.entries)
        .filter_map(super::picture::Entry::artifact)
        .collect();
    let here = store.renew(all).await.unwrap_or_default();
    let mut here = here.into_iter();
    let now = FileSystemTime::get().hour();
    for entry in picture
        .directories_mut()
        .iter_mut()
        .flat_map(|directory| &mut directory.entries)
    {
        if let Content::Kept { hour, .. } = &mut entry.content {
            if here.next().unwrap_or(false) {
                *hour = now;
            } else {
                entry.content = Content::Unread;
            }
        }
    }
    Arc::new(picture)
}

/// Marks earlier content that is no longer in the store as not kept. Returns whether all was there.
pub(super) async fn check_pre_images(
    files: &mut [ChangedFile],
    store: &Arc<dyn ArtifactStore>,
    missed: &mut CoverageGaps,
) -> bool {
    let mut kept: Vec<_> = files
        .iter_mut()
        .filter_map(|file| {
            let before = file.before.as_mut()?;
            Some((&file.path, before.artifact?, &mut before.artifact))
        })
        .collect();
    if kept.is_empty() {
        return true;
    }
    let ids = kept.iter().map(|(_, id, _)| *id).collect();
    let here = store.renew(ids).await.unwrap_or_default();
    let mut here = here.into_iter();
    let mut all = true;
    for (path, _, artifact) in &mut kept {
        if !here.next().unwrap_or(false) {
            all = false;
            **artifact = None;
            missed.add(
                Reason::NoPreImage(GapCause::Expired),
                path.as_str().as_bytes(),
            );
        }
    }
    all
}

fn hours(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs() / 3_600).unwrap_or(u32::MAX)
}
