//! The serving side: one workspace of this machine, over one byte stream, until that ends.
//!
//! A frame is handled where it is read; what it asks for runs as a separate task. Must not decide
//! what is allowed: the calling side did, and this side runs as the account that was logged in to.
//! When the stream ends, so does every child (`process.rs`).

mod exchange;
mod files;
mod process;
mod search;
mod session;

use std::{path::PathBuf, sync::Arc, time::Duration};

use haft_contract::{
    ErrorKind,
    ops::{Operations, OpsError},
};
use haft_sandbox::pool::blocking;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    time::timeout,
};
use tokio_util::task::AbortOnDropHandle;

use self::session::Session;
use super::{
    account::Account,
    convert::options_from_wire,
    frame::{Frame, FrameError, FrameReader, Kind, MAGIC},
    outbox::Outbox,
    wire,
};
use crate::local::LocalBackend;

/// How long the caller may take to say what to open.
const OPEN_LIMIT: Duration = Duration::from_secs(30);

/// How long the caller may be silent. A live caller sends something much more often.
const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// How long children and calls may take to end after the stream has.
const END_LIMIT: Duration = Duration::from_secs(3);

/// Serving failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The stream broke, or what it carried is not our protocol.
    #[error("{0}")]
    Stream(String),
    /// The caller was silent for too long.
    #[error("nothing was heard for {} s", SILENCE_LIMIT.as_secs())]
    Silence,
}

impl From<FrameError> for ServeError {
    fn from(error: FrameError) -> Self {
        Self::Stream(error.to_string())
    }
}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> Self {
        Self::Stream(format!("writing failed: {}", error.kind()))
    }
}

/// Serves one workspace over a stream until the stream ends. Every child is gone when this returns.
pub async fn serve(
    reader: impl AsyncRead + Unpin + Send,
    mut writer: impl AsyncWrite + Unpin + Send + 'static,
    account: Account,
) -> Result<(), ServeError> {
    writer.write_all(MAGIC).await?;
    let outbox = Arc::new(Outbox::new());
    let writing = AbortOnDropHandle::new(tokio::spawn({
        let outbox = Arc::clone(&outbox);
        async move { outbox.write_to(writer).await }
    }));
    let mut reader = FrameReader::new(reader);
    let served = open_and_serve(&mut reader, &outbox, account).await;
    outbox.close();
    // A caller that no longer reads must not block this.
    if timeout(END_LIMIT, writing).await.is_err() {
        tracing::debug!("the last frames could not be written");
    }
    served
}

async fn open_and_serve<R: AsyncRead + Unpin>(
    reader: &mut FrameReader<R>,
    outbox: &Arc<Outbox>,
    account: Account,
) -> Result<(), ServeError> {
    let welcome = wire::Welcome {
        protocol: wire::PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    say(outbox, &welcome)?;
    let hello = timeout(OPEN_LIMIT, reader.next())
        .await
        .map_err(|_| ServeError::Silence)??;
    match open(&hello, account).await {
        Err(error) => say(outbox, &wire::OpenReply::Refused((&error).into())),
        Ok(backend) => {
            let identity = backend.root_identity();
            serve_operations(reader, outbox, backend.operations(), identity).await
        }
    }
}

/// Says what was opened, and serves it until the stream ends.
pub(super) async fn serve_operations<R: AsyncRead + Unpin>(
    reader: &mut FrameReader<R>,
    outbox: &Arc<Outbox>,
    operations: Operations,
    (device, inode): (u64, u64),
) -> Result<(), ServeError> {
    say(
        outbox,
        &wire::OpenReply::Opened(wire::OpenedWorkspace {
            root: operations.root.to_string(),
            tiers: operations
                .tiers
                .iter()
                .map(|tier| tier.as_str().to_owned())
                .collect(),
            device,
            inode,
        }),
    )?;
    let session = Arc::new(Session::new(operations, Arc::clone(outbox)));
    let _ends_when_dropped = session.ending();
    let heard = hear(reader, &session).await;
    if !session.end(END_LIMIT).await {
        tracing::warn!("something outlived its connection");
    }
    heard
}

/// Handles frames until the stream ends, which is how a connection is meant to end.
async fn hear<R: AsyncRead + Unpin>(
    reader: &mut FrameReader<R>,
    session: &Arc<Session>,
) -> Result<(), ServeError> {
    loop {
        let frame = tokio::select! {
            frame = timeout(SILENCE_LIMIT, reader.next()) => frame.map_err(|_| ServeError::Silence)?,
            // Nobody receives the answers.
            () = session.unheard() => return Ok(()),
        };
        match frame {
            Err(FrameError::Ended) => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(frame) => session
                .take(frame)
                .map_err(|garbled| ServeError::Stream(garbled.to_string()))?,
        }
    }
}

/// Opens what the caller asks for.
async fn open(hello: &Frame, account: Account) -> Result<LocalBackend, OpsError> {
    let open: wire::OpenWorkspace = match hello.kind {
        Kind::Hello => serde_json::from_slice(&hello.body).ok(),
        _ => None,
    }
    .ok_or_else(|| OpsError::new(ErrorKind::Internal, "the first frame is not an opening"))?;
    if open.protocol != wire::PROTOCOL {
        return Err(OpsError::new(
            ErrorKind::Unavailable,
            format!(
                "the helper uses protocol {}, but the caller uses {}",
                wire::PROTOCOL,
                open.protocol
            ),
        ));
    }
    let root = PathBuf::from(&open.root);
    let options = options_from_wire(open, account);
    blocking(move || {
        let backend = LocalBackend::open(&root, options).map_err(|error| {
            let why = match std::error::Error::source(&error) {
                Some(source) => format!("{error}: {source}"),
                None => error.to_string(),
            };
            OpsError::new(ErrorKind::NotFound, why)
        })?;
        keep_apart(&backend.operations().root)?;
        Ok(backend)
    })
    .await
}

/// Refuses a workspace that contains this program: whoever can write to its file controls the next
/// connection.
fn keep_apart(root: &str) -> Result<(), OpsError> {
    let ours = std::env::current_exe().and_then(std::fs::canonicalize);
    match ours {
        Ok(ours) if !ours.starts_with(root) => Ok(()),
        Ok(_) => Err(OpsError::new(
            ErrorKind::Protected,
            "the workspace holds Haft's own helper, which no tool may reach; choose a directory \
             below it",
        )),
        Err(_) => Err(OpsError::new(
            ErrorKind::Internal,
            "the helper cannot find its own file",
        )),
    }
}

fn say<T: serde::Serialize>(outbox: &Outbox, hello: &T) -> Result<(), ServeError> {
    let broken = |what: &str| ServeError::Stream(what.to_owned());
    let body = serde_json::to_vec(hello).map_err(|_| broken("a greeting cannot be written"))?;
    outbox
        .push(Frame::new(Kind::Hello, 0, body))
        .map_err(|_| broken("the caller is gone"))
}
