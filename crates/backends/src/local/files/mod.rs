//! File operations of a local workspace. One file per verb; this one only decides where the work
//! runs: inline if everything is cached, otherwise on the blocking pool.

mod append;
mod aside;
mod copy;
mod list;
mod read;
mod rename;
mod resolve;
mod rights;
mod stat;
mod temporary;
mod write;

use std::sync::Arc;

use haft_contract::{
    WorkPath,
    future::BoxFuture,
    ops::{
        CopyFile, Expected, FileOps, FileReader, FileStat, FileVersion, ListQuery, Listing,
        OpsError, Overwrite, RemoveScope, ResolvedPath, WriteFile, WrittenFile,
    },
};
use haft_sandbox::{jail::Jail, pool::blocking, remove};

pub(crate) use self::{
    list::entry,
    rights::AccessList,
    stat::{modified_ms, version_of},
};
use crate::protected;

/// The files of a local workspace.
#[derive(Debug)]
pub(crate) struct LocalFiles {
    jail: Arc<Jail>,
}

impl LocalFiles {
    pub(crate) fn new(jail: Arc<Jail>) -> Self {
        Self { jail }
    }

    /// Runs blocking work with the jail and an owned path.
    async fn run<T, F>(&self, path: &WorkPath, work: F) -> Result<T, OpsError>
    where
        T: Send + 'static,
        F: FnOnce(&Jail, &WorkPath) -> Result<T, OpsError> + Send + 'static,
    {
        let jail = Arc::clone(&self.jail);
        let path = path.clone();
        blocking(move || work(&jail, &path)).await
    }

    /// Runs blocking work that puts something at a path, unless that is protected by now.
    async fn change<T, F>(&self, path: &WorkPath, work: F) -> Result<T, OpsError>
    where
        T: Send + 'static,
        F: FnOnce(&Jail, &WorkPath) -> Result<T, OpsError> + Send + 'static,
    {
        self.run(path, move |jail, path| {
            let _turn = protected::take_turn(jail, path)?;
            work(jail, path)
        })
        .await
    }
}

impl FileOps for LocalFiles {
    fn resolve<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<ResolvedPath, OpsError>> {
        Box::pin(async move {
            self.jail.check_root()?;
            match resolve::cached(&self.jail, path) {
                Some(result) => result,
                None => self.run(path, resolve::full).await,
            }
        })
    }

    fn stat<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<FileStat, OpsError>> {
        Box::pin(async move {
            match stat::cached(&self.jail, path) {
                Some(result) => result,
                None => self.run(path, stat::full).await,
            }
        })
    }

    fn open<'a>(
        &'a self,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Box<dyn FileReader>, OpsError>> {
        Box::pin(async move {
            let reader = match read::cached(&self.jail, path) {
                Some(result) => result?,
                None => self.run(path, read::full).await?,
            };
            Ok(Box::new(reader) as Box<dyn FileReader>)
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a WorkPath,
        write: WriteFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(async move {
            let bytes = write.bytes.to_vec();
            let (expected, mode) = (OwnedExpected::from(write.expected), write.mode);
            self.change(path, move |jail, path| {
                write::write(jail, path, &bytes, &expected, mode)
            })
            .await
        })
    }

    fn append<'a>(
        &'a self,
        path: &'a WorkPath,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(async move {
            let bytes = bytes.to_vec();
            self.change(path, move |jail, path| append::append(jail, path, &bytes))
                .await
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a WorkPath,
        query: ListQuery<'a>,
    ) -> BoxFuture<'a, Result<Listing, OpsError>> {
        Box::pin(async move {
            // Cancelled with the caller's token, and also when the caller stops waiting.
            let stop = query.cancel.child_token();
            let _stop_when_dropped = stop.clone().drop_guard();
            let job = list::ListJob::new(&query, stop)?;
            self.run(path, move |jail, path| job.run(jail, path)).await
        })
    }

    fn make_dir<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(self.change(path, |jail, path| jail.make_directories(path).map(drop)))
    }

    fn remove<'a>(
        &'a self,
        path: &'a WorkPath,
        scope: RemoveScope,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(self.run(path, move |jail, path| match scope {
            RemoveScope::File => remove::file(jail, path),
            RemoveScope::Tree => remove::tree(jail, path),
        }))
    }

    fn rename<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        overwrite: Overwrite,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        let from = from.clone();
        Box::pin(self.change(to, move |jail, to| {
            rename::rename(jail, &from, to, overwrite)
        }))
    }

    fn remove_version<'a>(
        &'a self,
        path: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        let version = version.clone();
        Box::pin(self.run(path, move |jail, path| aside::remove(jail, path, &version)))
    }

    fn rename_version<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        let (from, version) = (from.clone(), version.clone());
        Box::pin(self.change(to, move |jail, to| aside::rename(jail, &from, to, &version)))
    }

    fn copy<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        copy: CopyFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        Box::pin(copy::copy(Arc::clone(&self.jail), from, to, copy))
    }
}

/// [`Expected`], owned for the blocking pool.
enum OwnedExpected {
    Anything,
    Absent,
    Version(FileVersion),
}

impl From<Expected<'_>> for OwnedExpected {
    fn from(expected: Expected<'_>) -> Self {
        match expected {
            Expected::Anything => Self::Anything,
            Expected::Absent => Self::Absent,
            Expected::Version(version) => Self::Version(version.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::{ErrorKind, ops::WriteMode};

    use super::*;
    use haft_sandbox::jail::Mounts;

    /// SL-05: a hard link to somebody else's file, made before the workspace was opened. Giving a
    /// file away takes root, so here we play somebody else.
    #[tokio::test]
    async fn sl_05_a_hard_link_to_another_users_file_is_refused() {
        let temp = tempfile::tempdir().expect("a directory");
        let root = temp.path().join("ws");
        std::fs::create_dir(&root).expect("a workspace");
        std::fs::write(temp.path().join("secret"), "secret").expect("a file outside");
        std::fs::hard_link(temp.path().join("secret"), root.join("link")).expect("a link");
        std::fs::write(root.join("own"), "one name only").expect("a file");
        let jail = Jail::open(&root, Mounts::Refuse).expect("the jail");
        let link = WorkPath::relative("link").expect("a path");
        let own = WorkPath::relative("own").expect("a path");

        // Benign twin: our own file with two names.
        let ours = LocalFiles::new(Arc::new(jail));
        assert!(ours.open(&link).await.is_ok());

        let jail = Jail::open(&root, Mounts::Refuse).expect("the jail");
        let theirs = LocalFiles::new(Arc::new(jail.of_another_user()));
        assert!(theirs.open(&own).await.is_ok(), "one name is no risk");
        let kind = theirs
            .open(&link)
            .await
            .map(drop)
            .map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::AccessDenied));
        let write = WriteFile {
            bytes: b"x",
            expected: Expected::Anything,
            mode: WriteMode::AsItIs,
        };
        let kind = theirs
            .write(&link, write)
            .await
            .map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::AccessDenied));
        let kind = theirs
            .append(&link, b"x")
            .await
            .map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::AccessDenied));
        let text = std::fs::read_to_string(temp.path().join("secret")).expect("the file");
        assert_eq!(text, "secret");
    }
}
