//! Answers to requests about files, from the local back end.

use haft_contract::{
    ErrorKind,
    ops::{CopyFile, Expected, FileOps, FileVersion, ListQuery, OpsError, WriteFile, WriteMode},
};

use super::{exchange::Exchange, session::Session};
use crate::remote::{
    convert::{path, size},
    wire::{self, Reply, WireNote},
};

/// The most bytes one read returns; callers ask for pieces no larger than this.
const MAX_READ_BYTES: usize = 4 * 1024 * 1024;

pub(super) async fn resolve(files: &dyn FileOps, at: &str) -> Result<Reply, OpsError> {
    let resolved = files.resolve(&path(at)?).await?;
    Ok(Reply::Resolved(resolved.into()))
}

pub(super) async fn stat(files: &dyn FileOps, at: &str) -> Result<Reply, OpsError> {
    Ok(Reply::Stat(files.stat(&path(at)?).await?.into()))
}

pub(super) async fn open(
    session: &Session,
    exchange: &Exchange,
    at: &str,
) -> Result<Reply, OpsError> {
    let file = session.operations.files.open(&path(at)?).await?;
    let (stat, own_mode) = (file.stat().clone().into(), file.own_mode());
    session.keep_file(exchange, file)?;
    Ok(Reply::Opened { stat, own_mode })
}

pub(super) async fn read(
    session: &Session,
    exchange: &Exchange,
    file: u64,
    offset: u64,
    length: u64,
) -> Result<Reply, OpsError> {
    let file = session
        .file(file)
        .ok_or_else(|| OpsError::new(ErrorKind::Internal, "the file is not open"))?;
    let length = size(length).min(MAX_READ_BYTES);
    let bytes = file.read_at(offset, length, Vec::new()).await?;
    exchange.send(&bytes).await?;
    Ok(Reply::Done)
}

pub(super) async fn write(
    files: &dyn FileOps,
    at: &str,
    expected: &wire::Expected,
    mode: Option<u32>,
    bytes: &[u8],
) -> Result<Reply, OpsError> {
    let version;
    let expected = match expected {
        wire::Expected::Anything => Expected::Anything,
        wire::Expected::Absent => Expected::Absent,
        wire::Expected::Version(token) => {
            version = FileVersion::new(token);
            Expected::Version(&version)
        }
    };
    let write = WriteFile {
        bytes,
        expected,
        mode: mode.map_or(WriteMode::AsItIs, WriteMode::Exactly),
    };
    Ok(Reply::Written(files.write(&path(at)?, write).await?.into()))
}

pub(super) async fn append(files: &dyn FileOps, at: &str, bytes: &[u8]) -> Result<Reply, OpsError> {
    Ok(Reply::Written(
        files.append(&path(at)?, bytes).await?.into(),
    ))
}

/// Takes depth, limit and whether ignore files are respected as one tuple.
pub(super) async fn list(
    files: &dyn FileOps,
    exchange: &Exchange,
    at: &str,
    (depth, limit, respect_ignores): (u64, u64, bool),
    withheld: &[String],
) -> Result<Reply, OpsError> {
    let query = ListQuery {
        depth: size(depth),
        limit: size(limit),
        respect_ignores,
        withheld,
        cancel: &exchange.cancel,
    };
    let listing = files.list(&path(at)?, query).await?;
    exchange.send_json(&wire::Listing::from(listing)).await?;
    Ok(Reply::Done)
}

pub(super) async fn make_dir(files: &dyn FileOps, at: &str) -> Result<Reply, OpsError> {
    files.make_dir(&path(at)?).await?;
    Ok(Reply::Done)
}

pub(super) async fn remove(
    files: &dyn FileOps,
    at: &str,
    scope: wire::RemoveScope,
) -> Result<Reply, OpsError> {
    files.remove(&path(at)?, scope.into()).await?;
    Ok(Reply::Done)
}

pub(super) async fn rename(
    files: &dyn FileOps,
    from: &str,
    to: &str,
    overwrite: wire::Overwrite,
) -> Result<Reply, OpsError> {
    files
        .rename(&path(from)?, &path(to)?, overwrite.into())
        .await?;
    Ok(Reply::Done)
}

pub(super) async fn remove_version(
    files: &dyn FileOps,
    at: &str,
    version: String,
) -> Result<Reply, OpsError> {
    let version = FileVersion::new(version);
    files.remove_version(&path(at)?, &version).await?;
    Ok(Reply::Done)
}

pub(super) async fn rename_version(
    files: &dyn FileOps,
    from: &str,
    to: &str,
    version: String,
) -> Result<Reply, OpsError> {
    let version = FileVersion::new(version);
    files
        .rename_version(&path(from)?, &path(to)?, &version)
        .await?;
    Ok(Reply::Done)
}

pub(super) async fn copy(
    files: &dyn FileOps,
    exchange: &Exchange,
    from: &str,
    to: &str,
    overwrite: wire::Overwrite,
) -> Result<Reply, OpsError> {
    let copy = CopyFile {
        overwrite: overwrite.into(),
        copied: &|bytes| exchange.note(&WireNote::Copied(bytes)),
        cancel: &exchange.cancel,
    };
    let written = files.copy(&path(from)?, &path(to)?, copy).await?;
    Ok(Reply::Written(written.into()))
}
