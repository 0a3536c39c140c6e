//! Files of a remote workspace.
//!
//! Paths are sent unchanged and resolved on the other side. An open file belongs to the connection
//! it was opened over, and is lost with it.

use std::sync::Arc;

use haft_contract::{
    WorkPath,
    future::BoxFuture,
    ops::{
        CopyFile, FileOps, FileReader, FileStat, FileVersion, ListQuery, Listing, OpsError,
        Overwrite, RemoveScope, ResolvedPath, WriteFile, WriteMode, WrittenFile,
    },
};

use super::{LONG_LIMIT, QUICK_LIMIT, exchange::RoundTrip, link::Link, peer::Peer};
use crate::remote::{
    convert::MalformedMessage,
    frame::{Frame, Kind},
    wire::{self, Reply, Request, WireNote},
};

/// The most bytes requested at once; the other side sends no more.
const READ_PIECE: usize = 1024 * 1024;

/// The largest listing.
const MAX_LISTING_BYTES: usize = 64 * 1024 * 1024;

/// The files of a remote workspace.
pub(super) struct RemoteFiles {
    peer: Arc<Peer>,
}

impl RemoteFiles {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        Self { peer }
    }

    async fn quick(&self, request: Request) -> Result<Reply, OpsError> {
        RoundTrip::new(request, QUICK_LIMIT).of(&self.peer).await
    }

    async fn long(&self, request: Request) -> Result<Reply, OpsError> {
        RoundTrip::new(request, LONG_LIMIT).of(&self.peer).await
    }
}

impl FileOps for RemoteFiles {
    fn resolve<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<ResolvedPath, OpsError>> {
        Box::pin(async move {
            match self.quick(Request::Resolve { path: text(path) }).await? {
                Reply::Resolved(resolved) => Ok(resolved.try_into()?),
                _ => Err(strange()),
            }
        })
    }

    fn stat<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<FileStat, OpsError>> {
        Box::pin(async move {
            match self.quick(Request::Stat { path: text(path) }).await? {
                Reply::Stat(stat) => Ok(stat.into()),
                _ => Err(strange()),
            }
        })
    }

    fn open<'a>(
        &'a self,
        path: &'a WorkPath,
    ) -> BoxFuture<'a, Result<Box<dyn FileReader>, OpsError>> {
        Box::pin(async move {
            let link = self.peer.link().await?;
            let file = RemoteFile::open(&link, path).await?;
            Ok(Box::new(file) as Box<dyn FileReader>)
        })
    }

    fn write<'a>(
        &'a self,
        path: &'a WorkPath,
        write: WriteFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        let request = Request::Write {
            path: text(path),
            expected: write.expected.into(),
            mode: match write.mode {
                WriteMode::AsItIs => None,
                WriteMode::Exactly(mode) => Some(mode),
            },
        };
        Box::pin(async move {
            let ask = RoundTrip::new(request, LONG_LIMIT).body(write.bytes);
            written(ask.of(&self.peer).await?)
        })
    }

    fn append<'a>(
        &'a self,
        path: &'a WorkPath,
        bytes: &'a [u8],
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        let request = Request::Append { path: text(path) };
        Box::pin(async move {
            let ask = RoundTrip::new(request, LONG_LIMIT).body(bytes);
            written(ask.of(&self.peer).await?)
        })
    }

    fn list<'a>(
        &'a self,
        path: &'a WorkPath,
        query: ListQuery<'a>,
    ) -> BoxFuture<'a, Result<Listing, OpsError>> {
        let request = Request::List {
            path: text(path),
            depth: query.depth as u64,
            limit: query.limit as u64,
            respect_ignores: query.respect_ignores,
            withheld: query.withheld.to_vec(),
        };
        Box::pin(async move {
            let mut data = Vec::new();
            let ask = RoundTrip::new(request, LONG_LIMIT).result(MAX_LISTING_BYTES);
            ask.unless(query.cancel, &self.peer, &mut data, &|_| {})
                .await?;
            let listing: wire::Listing =
                serde_json::from_slice(&data).map_err(|_| MalformedMessage("listing"))?;
            Ok(listing.into())
        })
    }

    fn make_dir<'a>(&'a self, path: &'a WorkPath) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async move { done(self.quick(Request::MakeDir { path: text(path) }).await?) })
    }

    fn remove<'a>(
        &'a self,
        path: &'a WorkPath,
        scope: RemoveScope,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        let request = Request::Remove {
            path: text(path),
            scope: scope.into(),
        };
        Box::pin(async move { done(self.long(request).await?) })
    }

    fn rename<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        overwrite: Overwrite,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        let request = Request::Rename {
            from: text(from),
            to: text(to),
            overwrite: overwrite.into(),
        };
        Box::pin(async move { done(self.quick(request).await?) })
    }

    fn remove_version<'a>(
        &'a self,
        path: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        let request = Request::RemoveVersion {
            path: text(path),
            version: version.as_str().to_owned(),
        };
        Box::pin(async move { done(self.quick(request).await?) })
    }

    fn rename_version<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        version: &'a FileVersion,
    ) -> BoxFuture<'a, Result<(), OpsError>> {
        let request = Request::RenameVersion {
            from: text(from),
            to: text(to),
            version: version.as_str().to_owned(),
        };
        Box::pin(async move { done(self.quick(request).await?) })
    }

    fn copy<'a>(
        &'a self,
        from: &'a WorkPath,
        to: &'a WorkPath,
        copy: CopyFile<'a>,
    ) -> BoxFuture<'a, Result<WrittenFile, OpsError>> {
        let request = Request::Copy {
            from: text(from),
            to: text(to),
            overwrite: copy.overwrite.into(),
        };
        Box::pin(async move {
            let noted = |note: &WireNote| match note {
                WireNote::Copied(bytes) => (copy.copied)(*bytes),
                WireNote::Started | WireNote::OutputEnded => {}
            };
            let ask = RoundTrip::new(request, LONG_LIMIT);
            let reply = ask
                .unless(copy.cancel, &self.peer, &mut Vec::new(), &noted)
                .await?;
            written(reply)
        })
    }
}

/// A file that is open on the other side.
struct RemoteFile {
    link: Arc<Link>,
    number: u64,
    stat: FileStat,
    own_mode: u32,
}

impl RemoteFile {
    async fn open(link: &Arc<Link>, path: &WorkPath) -> Result<Self, OpsError> {
        let ask = RoundTrip::new(Request::Open { path: text(path) }, QUICK_LIMIT);
        let (number, reply) = ask.numbered(link, &mut Vec::new()).await?;
        match reply {
            Reply::Opened { stat, own_mode } => Ok(Self {
                link: Arc::clone(link),
                number,
                stat: stat.into(),
                own_mode,
            }),
            _ => Err(strange()),
        }
    }

    /// Reads one piece, which is short only at the end of the file.
    async fn read(&self, offset: u64, length: usize, buffer: &mut Vec<u8>) -> Result<(), OpsError> {
        let request = Request::Read {
            file: self.number,
            offset,
            length: length as u64,
        };
        let before = buffer.len();
        let ask = RoundTrip::new(request, QUICK_LIMIT).result(before + length);
        done(ask.over(&self.link, buffer).await?)
    }
}

impl FileReader for RemoteFile {
    fn stat(&self) -> &FileStat {
        &self.stat
    }

    fn own_mode(&self) -> u32 {
        self.own_mode
    }

    fn read_at(
        &self,
        offset: u64,
        len: usize,
        mut buffer: Vec<u8>,
    ) -> BoxFuture<'_, Result<Vec<u8>, OpsError>> {
        Box::pin(async move {
            buffer.clear();
            while buffer.len() < len {
                let piece = (len - buffer.len()).min(READ_PIECE);
                let have = buffer.len();
                let at = offset.saturating_add(have as u64);
                self.read(at, piece, &mut buffer).await?;
                if buffer.len() < have + piece {
                    break;
                }
            }
            Ok(buffer)
        })
    }
}

impl Drop for RemoteFile {
    fn drop(&mut self) {
        let close = Frame::bare(Kind::Cancel, self.number);
        // A lost connection has already closed it.
        let _ = self.link.shared().outbox.push(close);
    }
}

fn text(path: &WorkPath) -> String {
    path.as_str().to_owned()
}

fn done(reply: Reply) -> Result<(), OpsError> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(strange()),
    }
}

fn written(reply: Reply) -> Result<WrittenFile, OpsError> {
    match reply {
        Reply::Written(written) => Ok(written.into()),
        _ => Err(strange()),
    }
}

fn strange() -> OpsError {
    MalformedMessage("reply").into()
}
