//! Connections that are not encrypted, which only a server on this machine has. The driver makes none
//! whose messages have a largest size, so the socket is made here.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use haft_contract::{ErrorKind, ops::OpsError};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_postgres::{
    Client, Connection, NoTls,
    config::{Config, Host},
    tls::NoTlsStream,
};

use super::{
    capped::{Capped, TooLarge},
    failure::unreachable,
};

/// The port where none is named.
const USUAL_PORT: u16 = 5432;

/// A socket to a server on this machine.
pub(super) enum PlainSocket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// Connects and logs in.
pub(super) async fn connect(
    config: &Config,
    too_large: &TooLarge,
) -> Result<(Client, Connection<Capped<PlainSocket>, NoTlsStream>), OpsError> {
    let socket = socket(config).await.map_err(|error| {
        tracing::warn!(%error, "a database cannot be reached");
        OpsError::new(ErrorKind::Unavailable, "the database cannot be reached")
    })?;
    let capped = Capped::new(socket, too_large.clone());
    let connected = config.connect_raw(capped, NoTls).await;
    connected.map_err(|error| unreachable(&error))
}

/// A socket to the first of the hosts that takes one.
pub(super) async fn socket(config: &Config) -> io::Result<PlainSocket> {
    let ports = config.get_ports();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the address has no host");
    for (index, host) in config.get_hosts().iter().enumerate() {
        let port = ports.get(index).or_else(|| ports.first());
        let port = port.copied().unwrap_or(USUAL_PORT);
        let socket = match host {
            Host::Unix(folder) => UnixStream::connect(folder.join(format!(".s.PGSQL.{port}")))
                .await
                .map(PlainSocket::Unix),
            Host::Tcp(name) => TcpStream::connect((name.as_str(), port))
                .await
                .and_then(|socket| socket.set_nodelay(true).map(|()| PlainSocket::Tcp(socket))),
        };
        match socket {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl AsyncRead for PlainSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_read(context, into),
            Self::Unix(socket) => Pin::new(socket).poll_read(context, into),
        }
    }
}

impl AsyncWrite for PlainSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Unix(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_flush(context),
            Self::Unix(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Unix(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}
