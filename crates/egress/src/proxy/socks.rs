//! SOCKS5 (RFC 1928), only the part that connects: no authentication, no UDP, no listening. Names
//! and addresses are checked the same way as in HTTP.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr},
};

use haft_contract::egress::Host;
use tokio::{
    io::{AsyncRead, AsyncWriteExt as _},
    time::{Instant, timeout_at},
};

use super::{
    client::{Client, PeekReader},
    session::ProxyState,
    tunnel,
};
use crate::{
    admission::ConnectError,
    denial::{Denial, Reason},
};

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// The reply codes we send.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(super) enum Reply {
    Succeeded = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    Refused = 5,
    UnknownCommand = 7,
    UnknownAddress = 8,
}

/// The requested destination, before it is parsed as a host.
pub(super) enum Destination {
    Host(Host),
    Text(Vec<u8>),
}

/// Serves one connection.
pub(super) async fn serve(
    shared: &ProxyState,
    mut client: Client,
    until: Instant,
) -> io::Result<()> {
    if !timeout_at(until, greet(&mut client.reader)).await?? {
        return client.end_with(&[VERSION, NO_METHOD]).await;
    }
    client
        .writer
        .write_all(&[VERSION, NO_AUTHENTICATION])
        .await?;
    let (asked, port) = match timeout_at(until, read_request(&mut client.reader)).await?? {
        Ok(request) => request,
        Err((reply, what)) => {
            let why = "the proxy speaks SOCKS5 CONNECT to names and addresses only";
            shared.note(&Denial::of_text(what.as_bytes(), Reason::Protocol(why)));
            return client.end_with(&message(reply)).await;
        }
    };
    let host = match read_host(&asked) {
        Ok(host) if port != 0 => host,
        Ok(host) => return deny(shared, client, &Denial::of(&host, port, Reason::Port)).await,
        Err(denial) => return deny(shared, client, &denial).await,
    };
    match shared.connect(&host, port).await {
        Ok(admitted) => {
            client.writer.write_all(&message(Reply::Succeeded)).await?;
            tunnel::run(shared, client, admitted, &host, port).await
        }
        Err(ConnectError::Denied(denial)) => deny(shared, client, &denial).await,
        Err(ConnectError::Unreachable(error)) => {
            let reply = match error.kind() {
                io::ErrorKind::ConnectionRefused => Reply::Refused,
                _ => Reply::HostUnreachable,
            };
            client.end_with(&message(reply)).await
        }
    }
}

async fn deny(shared: &ProxyState, client: Client, denial: &Denial) -> io::Result<()> {
    shared.note(denial);
    client.end_with(&message(Reply::NotAllowed)).await
}

/// Whether the program accepts a connection without authentication.
pub(super) async fn greet(reader: &mut PeekReader<impl AsyncRead + Unpin>) -> io::Result<bool> {
    let head = reader.exactly(2).await?;
    let count = head.last().copied().unwrap_or_default();
    let methods = reader.exactly(usize::from(count)).await?;
    Ok(methods.contains(&NO_AUTHENTICATION))
}

pub(super) type Request = Result<(Destination, u16), (Reply, &'static str)>;

pub(super) async fn read_request(
    reader: &mut PeekReader<impl AsyncRead + Unpin>,
) -> io::Result<Request> {
    let head = reader.exactly(4).await?;
    let &[version, command, reserved, kind] = head.as_slice() else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if version != VERSION || reserved != 0 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if command != CONNECT {
        return Ok(Err((
            Reply::UnknownCommand,
            "SOCKS5 command other than CONNECT",
        )));
    }
    let asked = match kind {
        1 => {
            let bytes = reader.exactly(4).await?;
            let bytes: [u8; 4] = bytes.try_into().unwrap_or_default();
            Destination::Host(Host::Address(Ipv4Addr::from(bytes).into()))
        }
        3 => {
            let count = reader.exactly(1).await?;
            let count = count.first().copied().unwrap_or_default();
            Destination::Text(reader.exactly(usize::from(count)).await?)
        }
        4 => {
            let bytes = reader.exactly(16).await?;
            let bytes: [u8; 16] = bytes.try_into().unwrap_or_default();
            Destination::Host(Host::Address(Ipv6Addr::from(bytes).into()))
        }
        _ => {
            return Ok(Err((
                Reply::UnknownAddress,
                "SOCKS5 address of an unknown kind",
            )));
        }
    };
    let port = reader.exactly(2).await?;
    let port: [u8; 2] = port.try_into().unwrap_or_default();
    Ok(Ok((asked, u16::from_be_bytes(port))))
}

/// Parses a name as strictly as everywhere else: bytes that are no text are no host.
pub(super) fn read_host(asked: &Destination) -> Result<Host, Denial> {
    match asked {
        Destination::Host(host) => Ok(host.clone()),
        Destination::Text(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            Host::parse(&text).map_err(|error| Denial::of_text(bytes, Reason::Host(error)))
        }
    }
}

/// Encodes a reply. The program need not know our bound address, so it is 0.0.0.0:0.
fn message(reply: Reply) -> [u8; 10] {
    [VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]
}
