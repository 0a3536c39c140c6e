//! The operations of a workspace in which there is nothing: no files, no search, no processes. Each
//! says so. For programs whose tools only reach their own services.

use super::{
    CopyFile, FileOps, FileReader, FileStat, FileVersion, FindQuery, FindResults, GrepQuery,
    GrepResults, ListQuery, Listing, OpsError, Overwrite, ProcessHandle, ProcessOps, RemoveScope,
    ResolvedPath, SearchOps, Spawn, WriteFile, WrittenFile,
};
use crate::{error::ErrorKind, future::BoxFuture, path::WorkPath};

/// Refuses everything.
pub(super) struct EmptyWorkspace;

type RefusedFuture<'a, T> = BoxFuture<'a, Result<T, OpsError>>;

fn absent(what: &str) -> OpsError {
    OpsError::new(
        ErrorKind::Unavailable,
        format!("this workspace has no {what}"),
    )
}

fn refused<'a, T: Send + 'a>(what: &'static str) -> RefusedFuture<'a, T> {
    Box::pin(async move { Err(absent(what)) })
}

const FILES: &str = "files";

impl FileOps for EmptyWorkspace {
    fn resolve<'a>(&'a self, _: &'a WorkPath) -> RefusedFuture<'a, ResolvedPath> {
        refused(FILES)
    }

    fn stat<'a>(&'a self, _: &'a WorkPath) -> RefusedFuture<'a, FileStat> {
        refused(FILES)
    }

    fn open<'a>(&'a self, _: &'a WorkPath) -> RefusedFuture<'a, Box<dyn FileReader>> {
        refused(FILES)
    }

    fn write<'a>(&'a self, _: &'a WorkPath, _: WriteFile<'a>) -> RefusedFuture<'a, WrittenFile> {
        refused(FILES)
    }

    fn append<'a>(&'a self, _: &'a WorkPath, _: &'a [u8]) -> RefusedFuture<'a, WrittenFile> {
        refused(FILES)
    }

    fn list<'a>(&'a self, _: &'a WorkPath, _: ListQuery<'a>) -> RefusedFuture<'a, Listing> {
        refused(FILES)
    }

    fn make_dir<'a>(&'a self, _: &'a WorkPath) -> RefusedFuture<'a, ()> {
        refused(FILES)
    }

    fn remove<'a>(&'a self, _: &'a WorkPath, _: RemoveScope) -> RefusedFuture<'a, ()> {
        refused(FILES)
    }

    fn rename<'a>(
        &'a self,
        _: &'a WorkPath,
        _: &'a WorkPath,
        _: Overwrite,
    ) -> RefusedFuture<'a, ()> {
        refused(FILES)
    }

    fn remove_version<'a>(&'a self, _: &'a WorkPath, _: &'a FileVersion) -> RefusedFuture<'a, ()> {
        refused(FILES)
    }

    fn rename_version<'a>(
        &'a self,
        _: &'a WorkPath,
        _: &'a WorkPath,
        _: &'a FileVersion,
    ) -> RefusedFuture<'a, ()> {
        refused(FILES)
    }

    fn copy<'a>(
        &'a self,
        _: &'a WorkPath,
        _: &'a WorkPath,
        _: CopyFile<'a>,
    ) -> RefusedFuture<'a, WrittenFile> {
        refused(FILES)
    }
}

impl ProcessOps for EmptyWorkspace {
    fn spawn(&self, _: Spawn) -> RefusedFuture<'_, Box<dyn ProcessHandle>> {
        refused("processes")
    }
}

impl SearchOps for EmptyWorkspace {
    fn grep<'a>(&'a self, _: GrepQuery<'a>) -> RefusedFuture<'a, GrepResults> {
        refused(FILES)
    }

    fn find<'a>(&'a self, _: FindQuery<'a>) -> RefusedFuture<'a, FindResults> {
        refused(FILES)
    }

    fn withholds(&self, _: &[String], _: &WorkPath) -> Result<bool, OpsError> {
        Err(absent(FILES))
    }
}
