//! One plain HTTP request, passed on to a server that was admitted. The body is framed here, so
//! that nothing can follow it; the answer is passed on unchanged.

use std::{fmt::Write as _, io, sync::atomic::AtomicU64};

use haft_contract::egress::Host;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    client::{Client, PeekReader},
    head::{Body, Head},
    relay::{self, LastActivity},
    session::{Counters, ProxyState},
};

/// The longest line of a chunked body: a length and what may follow it.
const MAX_CHUNK_LINE_BYTES: usize = 1024;

/// The most lines after the last chunk.
const MAX_TRAILERS: usize = 64;

/// A request that was checked.
pub(super) struct Request<'a> {
    pub(super) head: &'a Head,
    pub(super) host: &'a Host,
    pub(super) port: u16,
    /// The path and query; may be empty.
    pub(super) path: &'a str,
    pub(super) body: Body,
}

/// Forwards a request and returns its answer.
pub(super) async fn run(
    shared: &ProxyState,
    client: Client,
    mut server: TcpStream,
    request: &Request<'_>,
) -> io::Result<()> {
    let Client {
        mut reader,
        mut writer,
    } = client;
    let (mut from, mut to) = server.split();
    let pulse = LastActivity::new();
    let counters: &Counters = &shared.counters;
    let asking = async {
        to.write_all(&text(request)).await?;
        match request.body {
            Body::None => {}
            Body::Length(length) => {
                relay::exactly(length, &mut reader, &mut to, &pulse, &counters.sent).await?;
            }
            Body::Chunked => chunks(&mut reader, &mut to, &pulse, &counters.sent).await?,
        }
        // The server ends the connection; if we ended it first, some servers would drop the answer.
        std::future::pending().await
    };
    let answering = relay::all(&mut from, &mut writer, &pulse, &counters.received);
    let both = async {
        tokio::select! {
            answered = answering => answered,
            failed = asking => failed,
        }
    };
    pulse.during(shared.timing.idle, both).await
}

/// The head as sent: only the path, the host that was checked, and no second request.
pub(super) fn text(request: &Request<'_>) -> Vec<u8> {
    let Request {
        head,
        host,
        port,
        path,
        ..
    } = request;
    let slash = if path.starts_with('/') || *path == "*" {
        ""
    } else {
        "/"
    };
    let version = head.version.as_str();
    let mut text = format!("{} {slash}{path} {version}\r\nHost: {host}", head.method);
    if *port != 80 {
        // Writing to a string cannot fail.
        let _ = write!(text, ":{port}");
    }
    for header in head.passed_on() {
        let _ = write!(text, "\r\n{}: {}", header.name, header.value);
    }
    text.push_str("\r\nconnection: close\r\n\r\n");
    // The head was read with one character per byte, so none is above 255.
    text.chars().filter_map(|c| u8::try_from(c).ok()).collect()
}

/// Passes a chunked body on, re-encoded in our own chunks, and nothing after it.
pub(super) async fn chunks(
    reader: &mut PeekReader<impl AsyncRead + Unpin>,
    to: &mut (impl AsyncWrite + Unpin),
    pulse: &LastActivity,
    sent: &AtomicU64,
) -> io::Result<()> {
    loop {
        let size = chunk_size(&line(reader).await?)?;
        to.write_all(format!("{size:x}\r\n").as_bytes()).await?;
        if size == 0 {
            skip_trailers(reader).await?;
            return to.write_all(b"\r\n").await;
        }
        relay::exactly(size, reader, to, pulse, sent).await?;
        if !line(reader).await?.is_empty() {
            return Err(malformed());
        }
        to.write_all(b"\r\n").await?;
    }
}

/// The next line, without its line ending.
async fn line(reader: &mut PeekReader<impl AsyncRead + Unpin>) -> io::Result<Vec<u8>> {
    loop {
        let seen = reader.seen();
        if let Some(end) = seen.windows(2).position(|window| window == b"\r\n") {
            let mut line = reader.consume(end + 2);
            line.truncate(end);
            return Ok(line);
        }
        if seen.len() > MAX_CHUNK_LINE_BYTES {
            return Err(malformed());
        }
        reader.more().await?;
    }
}

/// The size of a chunk; chunk extensions are dropped.
fn chunk_size(line: &[u8]) -> io::Result<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let is_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    std::str::from_utf8(digits)
        .ok()
        .filter(|_| is_hex)
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(malformed)
}

async fn skip_trailers(reader: &mut PeekReader<impl AsyncRead + Unpin>) -> io::Result<()> {
    for _ in 0..MAX_TRAILERS {
        if line(reader).await?.is_empty() {
            return Ok(());
        }
    }
    Err(malformed())
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "a chunked request body cannot be read",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_beyond_ascii_is_passed_on_byte_for_byte() {
        let head = b"GET http://a/ HTTP/1.0\r\nX: \xe9\xff\r\n\r\n";
        let head = Head::parse(head).expect("a head");
        let host = Host::parse("a").expect("a host");
        let request = Request {
            head: &head,
            host: &host,
            port: 80,
            path: "/",
            body: Body::None,
        };
        let sent = b"GET / HTTP/1.0\r\nHost: a\r\nx: \xe9\xff\r\nconnection: close\r\n\r\n";
        assert_eq!(text(&request), sent);
    }
}
