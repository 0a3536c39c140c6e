//! File operations over the in-memory tree, following `FileOps` rule by rule.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use haft_contract::{
    BoxFuture, ErrorKind, WorkPath,
    ops::{
        CopyFile, Expected, FileOps, FileReader, FileStat, FileVersion, ListQuery, Listing,
        OpsError, Overwrite, RemoveScope, ResolvedPath, WriteFile, WriteMode, WrittenFile,
    },
};

use super::{
    glob,
    tree::{
        MAX_FILE_BYTES, MAX_LINKS, MemoryTree, NodeKind, SET_ID_BITS, Tree, crosses_a_symlink,
        not_a_regular_file,
    },
};

/// How many bytes a copy moves between two checks of its cancel token.
const COPY_STEP_BYTES: usize = 64 << 10;

/// Files of one tree.
pub(super) struct MemoryFiles {
    tree: MemoryTree,
}

impl MemoryFiles {
    pub(super) fn new(tree: MemoryTree) -> Self {
        Self { tree }
    }
}

impl FileOps for MemoryFiles {
    fn resolve<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<ResolvedPath, OpsError>> {
        Box::pin(async move { resolve(&self.tree.lock(), path) })
    }

    fn stat<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<FileStat, OpsError>> {
        Box::pin(async move { stat(&self.tree.lock(), path) })
    }

    fn open<'a>(
        &'a self,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Box<dyn FileReader>, OpsError>> {
        Box::pin(async move {
            let tree = self.tree.lock();
            let (node, bytes) = tree.file(path)?;
            Ok(Box::new(OpenFile {
                stat: node.stat(),
                bytes: Arc::clone(bytes),
                counter: tree.read_counter(),
            }) as Box<dyn FileReader>)
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a WorkPath,
        write: WriteFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(async move { replace(&mut self.tree.lock(), path, write) })
    }

    fn append<'a>(
        &'a self,
        path: &'a WorkPath,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(async move {
            let mut tree = self.tree.lock();
            let (mut whole, mode) = match tree.locate(path)? {
                None if !path.is_root() => (Vec::new(), None),
                None | Some(_) => {
                    let (node, bytes) = tree.file(path)?;
                    (bytes.to_vec(), Some(node.mode))
                }
            };
            whole.extend_from_slice(bytes);
            check_size(whole.len(), path)?;
            tree.make_parents(path)?;
            let node = tree.insert(path, NodeKind::File(Arc::new(whole)), mode);
            Ok(WrittenFile {
                version: node.version(),
                bytes: bytes.len() as u64,
                created: mode.is_none(),
            })
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a WorkPath,
        query: ListQuery<'a>,
    ) -> BoxFuture<'a, Result<Listing, OpsError>> {
        Box::pin(async move { list(&self.tree.lock(), path, query) })
    }

    fn make_dir<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let mut tree = self.tree.lock();
            if path.is_root() {
                return Ok(());
            }
            match tree.locate(path)?.map(|node| &node.what) {
                Some(NodeKind::Directory) => Ok(()),
                Some(NodeKind::Symlink(_)) => Err(crosses_a_symlink().on(path)),
                Some(NodeKind::File(_) | NodeKind::Other) => {
                    Err(OpsError::new(ErrorKind::AlreadyExists, "a file is there").on(path))
                }
                None => {
                    tree.make_parents(path)?;
                    tree.insert(path, NodeKind::Directory, None);
                    Ok(())
                }
            }
        })
    }

    fn remove<'a>(
        &'a self,
        path: &'a WorkPath,
        scope: RemoveScope,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move { remove(&mut self.tree.lock(), path, scope) })
    }

    fn rename<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        overwrite: Overwrite,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move { rename(&mut self.tree.lock(), from, to, overwrite) })
    }

    fn remove_version<'a>(
        &'a self,
        path: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let mut tree = self.tree.lock();
            is_of(&tree, path, version)?;
            remove(&mut tree, path, RemoveScope::File)
        })
    }

    fn rename_version<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move {
            let mut tree = self.tree.lock();
            is_of(&tree, from, version)?;
            rename(&mut tree, from, to, Overwrite::Never)
        })
    }

    fn copy<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        copy: CopyFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(async move {
            if from == to {
                return Err(OpsError::new(
                    ErrorKind::InvalidInput,
                    "the source and the destination are the same file",
                )
                .on(from));
            }
            let (bytes, mode) = {
                let tree = self.tree.lock();
                destination(&tree, to, copy.overwrite)?;
                let (node, bytes) = tree.file(from)?;
                (Arc::clone(bytes), node.mode & !SET_ID_BITS)
            };
            let mut copied = 0;
            for step in bytes.chunks(COPY_STEP_BYTES) {
                if copy.cancel.is_cancelled() {
                    return Err(OpsError::new(ErrorKind::Cancelled, "the copy was stopped").on(to));
                }
                copied += step.len() as u64;
                (copy.copied)(copied);
                tokio::task::yield_now().await;
            }
            if copy.cancel.is_cancelled() {
                return Err(OpsError::new(ErrorKind::Cancelled, "the copy was stopped").on(to));
            }
            let mut tree = self.tree.lock();
            let created = !destination(&tree, to, copy.overwrite)?;
            tree.make_parents(to)?;
            let node = tree.insert(to, NodeKind::File(bytes), Some(mode));
            Ok(WrittenFile {
                version: node.version(),
                bytes: copied,
                created,
            })
        })
    }
}

/// An open file: the bytes as they were when it was opened.
struct OpenFile {
    stat: FileStat,
    bytes: Arc<Vec<u8>>,
    counter: Arc<AtomicU64>,
}

impl FileReader for OpenFile {
    fn stat(&self) -> &FileStat {
        &self.stat
    }

    fn read_at(
        &self,
        offset: u64,
        len: usize,
        mut buffer: Vec<u8>,
    ) -> BoxFuture<'_, Result<Vec<u8>, OpsError>> {
        Box::pin(async move {
            buffer.clear();
            let start = usize::try_from(offset)
                .unwrap_or(usize::MAX)
                .min(self.bytes.len());
            let end = start.saturating_add(len).min(self.bytes.len());
            buffer.extend_from_slice(&self.bytes[start..end]);
            let read = buffer.len() as u64;
            self.counter.fetch_add(read, Ordering::SeqCst);
            Ok(buffer)
        })
    }
}

fn stat(tree: &Tree, path: &WorkPath) -> Result<FileStat, OpsError> {
    if path.is_root() {
        return Ok(root_stat());
    }
    let found = tree.locate(path)?.map(super::tree::Node::stat);
    found.ok_or_else(|| OpsError::new(ErrorKind::NotFound, "there is nothing there").on(path))
}

fn root_stat() -> FileStat {
    FileStat {
        kind: haft_contract::ops::FileKind::Directory,
        size: 0,
        mode: 0o755,
        version: FileVersion::new("memory-root"),
        modified_ms: 0,
    }
}

/// Walks component by component and replaces each symlink with its target, as the kernel does.
fn resolve(tree: &Tree, path: &WorkPath) -> Result<ResolvedPath, OpsError> {
    let leaves = || {
        OpsError::new(
            ErrorKind::OutsideWorkspace,
            "the path leads out of the workspace",
        )
        .on(path)
    };
    let mut ahead: Vec<String> = path.components().rev().map(str::to_owned).collect();
    let mut here = WorkPath::root();
    let mut followed = 0;
    while let Some(component) = ahead.pop() {
        match component.as_str() {
            "" | "." => continue,
            ".." => {
                here = here.parent().ok_or_else(leaves)?;
                continue;
            }
            _ => {}
        }
        let next = here
            .join(&component)
            .map_err(|error| OpsError::new(ErrorKind::InvalidPath, error.to_string()).on(path))?;
        match tree.get(&next).map(|node| &node.what) {
            Some(NodeKind::Symlink(target)) => {
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(
                        OpsError::new(ErrorKind::Symlink, "too many symlinks in a row").on(path),
                    );
                }
                if target.starts_with('/') {
                    return Err(leaves());
                }
                ahead.extend(target.split('/').rev().map(str::to_owned));
            }
            Some(NodeKind::File(_) | NodeKind::Other) if !ahead.is_empty() => {
                return Err(OpsError::new(
                    ErrorKind::NotDirectory,
                    format!("`{next}` is not a directory"),
                )
                .on(path));
            }
            Some(NodeKind::File(_) | NodeKind::Other | NodeKind::Directory) | None => here = next,
        }
    }
    let stat = if here.is_root() {
        Some(root_stat())
    } else {
        tree.get(&here).map(super::tree::Node::stat)
    };
    Ok(ResolvedPath {
        path: here,
        stat,
        protected: None,
    })
}

fn replace(
    tree: &mut Tree,
    path: &WorkPath,
    write: WriteFile<'_>,
) -> Result<WrittenFile, OpsError> {
    check_size(write.bytes.len(), path)?;
    let conflict =
        || OpsError::new(ErrorKind::Conflict, "the file changed since it was read").on(path);
    let mode = match tree.locate(path)? {
        None if !path.is_root() => match write.expected {
            Expected::Anything | Expected::Absent => None,
            Expected::Version(_) => return Err(conflict()),
        },
        None | Some(_) => {
            let (node, _) = tree.file(path)?;
            match write.expected {
                Expected::Anything => {}
                Expected::Absent => {
                    return Err(OpsError::new(ErrorKind::AlreadyExists, "the file exists").on(path));
                }
                Expected::Version(version) if *version == node.version() => {}
                Expected::Version(_) => return Err(conflict()),
            }
            Some(node.mode & !SET_ID_BITS)
        }
    };
    tree.make_parents(path)?;
    let created = mode.is_none();
    let mode = match write.mode {
        WriteMode::AsItIs => mode,
        WriteMode::Exactly(mode) => Some(mode & !SET_ID_BITS),
    };
    let node = tree.insert(path, NodeKind::File(Arc::new(write.bytes.to_vec())), mode);
    Ok(WrittenFile {
        version: node.version(),
        bytes: write.bytes.len() as u64,
        created,
    })
}

fn list(tree: &Tree, path: &WorkPath, query: ListQuery<'_>) -> Result<Listing, OpsError> {
    tree.directory(path)?;
    let withheld = glob::withheld(query.withheld)?;
    let base = path.components().count();
    let mut listing = Listing {
        entries: Vec::new(),
        omitted: 0,
    };
    for (name, node) in tree.beneath(path) {
        if query.cancel.is_cancelled() {
            return Err(OpsError::new(ErrorKind::Cancelled, "the listing was stopped").on(path));
        }
        let depth = name.split('/').count() - base;
        if depth > query.depth
            || withheld.is_match(name)
            || (query.respect_ignores && glob::is_ignored(tree, name))
        {
            continue;
        }
        if listing.entries.len() < query.limit {
            listing.entries.push(node.entry(name));
        } else {
            listing.omitted += 1;
        }
    }
    Ok(listing)
}

/// Fails unless a file of this version is there.
fn is_of(tree: &Tree, path: &WorkPath, version: &FileVersion) -> Result<(), OpsError> {
    let (node, _) = tree.file(path)?;
    if node.version() == *version {
        return Ok(());
    }
    Err(OpsError::new(ErrorKind::Conflict, "it changed since it was read").on(path))
}

fn remove(tree: &mut Tree, path: &WorkPath, scope: RemoveScope) -> Result<(), OpsError> {
    if path.is_root() {
        return Err(OpsError::new(
            ErrorKind::InvalidInput,
            "the workspace itself cannot be removed",
        )
        .on(path));
    }
    let node = tree
        .locate(path)?
        .ok_or_else(|| OpsError::new(ErrorKind::NotFound, "there is nothing there").on(path))?;
    match (&node.what, scope) {
        (NodeKind::Directory, RemoveScope::File) => Err(not_a_regular_file().on(path)),
        (NodeKind::Directory, RemoveScope::Tree)
        | (
            NodeKind::File(_) | NodeKind::Symlink(_) | NodeKind::Other,
            RemoveScope::File | RemoveScope::Tree,
        ) => {
            tree.remove(path.as_str());
            Ok(())
        }
    }
}

fn rename(
    tree: &mut Tree,
    from: &WorkPath,
    to: &WorkPath,
    overwrite: Overwrite,
) -> Result<(), OpsError> {
    if from.is_root() || to.is_root() || (from != to && from.contains(to)) {
        return Err(OpsError::new(
            ErrorKind::InvalidInput,
            "a directory cannot be moved beneath itself",
        )
        .on(from));
    }
    let moved = tree.existing(from)?.what.kind();
    if from == to {
        return Ok(());
    }
    match (tree.locate(to)?.map(|node| &node.what), overwrite) {
        (None, Overwrite::Never | Overwrite::Replace) => {}
        (Some(_), Overwrite::Never) => {
            return Err(OpsError::new(ErrorKind::AlreadyExists, "something is there").on(to));
        }
        (Some(NodeKind::Symlink(_)), Overwrite::Replace) => return Err(crosses_a_symlink().on(to)),
        (Some(what), Overwrite::Replace) if what.kind() == moved => {
            if matches!(what, NodeKind::Directory) && tree.beneath(to).next().is_some() {
                return Err(
                    OpsError::new(ErrorKind::AlreadyExists, "the directory is not empty").on(to),
                );
            }
        }
        (Some(_), Overwrite::Replace) => return Err(not_a_regular_file().on(to)),
    }
    tree.make_parents(to)?;
    tree.rename(from, to);
    Ok(())
}

/// Checks a copy's destination; returns whether a file is already there.
fn destination(tree: &Tree, to: &WorkPath, overwrite: Overwrite) -> Result<bool, OpsError> {
    if tree.locate(to)?.is_none() && !to.is_root() {
        return Ok(false);
    }
    tree.file(to)?;
    match overwrite {
        Overwrite::Replace => Ok(true),
        Overwrite::Never => {
            Err(OpsError::new(ErrorKind::AlreadyExists, "the destination exists").on(to))
        }
    }
}

fn check_size(bytes: usize, path: &WorkPath) -> Result<(), OpsError> {
    if bytes <= MAX_FILE_BYTES {
        return Ok(());
    }
    Err(OpsError::new(
        ErrorKind::LimitExceeded,
        format!("a file may hold at most {MAX_FILE_BYTES} bytes here"),
    )
    .on(path))
}
