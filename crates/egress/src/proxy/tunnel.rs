//! What a tunnel carries. A public server often serves many hosts, so connecting to an allowed one
//! is not enough: a TLS hello must ask for the host of the tunnel, and so must a plain request. Web
//! ports carry nothing else; other ports, which a rule must have named, may carry any protocol.
//!
//! Requests inside the encrypted part are not visible here.

use std::io;

use haft_contract::egress::{Host, WEB_PORTS};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

use super::{
    client::Client,
    forward,
    hello::{self, ClientHello, MAX_HELLO_BYTES, REFUSED_NAME},
    http::{self, HeadFailure},
    relay,
    session::ProxyState,
};
use crate::{
    admission::{AdmittedConnection, Inspect},
    denial::{Denial, Reason},
};

/// The port that carries only TLS.
const TLS_PORT: u16 = 443;

/// The longest first line to wait for when checking whether it is HTTP.
const MAX_LINE_BYTES: usize = 8 * 1024;

/// What the program sends first.
enum FirstBytes {
    Tls,
    Http,
    /// Another protocol, or the server spoke first.
    Other,
}

/// Connects a program with a server, if the program asks for the host of the tunnel.
pub(super) async fn run(
    shared: &ProxyState,
    mut client: Client,
    admitted: AdmittedConnection,
    host: &Host,
    port: u16,
) -> io::Result<()> {
    let AdmittedConnection { stream, inspect } = admitted;
    if inspect == Inspect::None {
        return relay::both_ways(shared, client, stream).await;
    }
    let web = WEB_PORTS.contains(&port);
    let until = Instant::now() + shared.timing.request;
    let opening = if web {
        timeout_at(until, opening(&mut client)).await??
    } else {
        opening_or_answer(shared, &mut client, &stream).await?
    };
    let reason = match opening {
        FirstBytes::Tls => match timeout_at(until, server_asked_for(&mut client)).await? {
            Ok(hello) => judge_hello(&hello, host),
            Err(error) => return Err(error),
        },
        FirstBytes::Http if port != TLS_PORT => {
            return pass_on(shared, client, stream, host, port, until).await;
        }
        FirstBytes::Other if !web => None,
        FirstBytes::Http | FirstBytes::Other => Some(Reason::Protocol(match port {
            TLS_PORT => "port 443 carries TLS only",
            _ => "port 80 carries plain HTTP/1 or TLS only",
        })),
    };
    let Some(reason) = reason else {
        return relay::both_ways(shared, client, stream).await;
    };
    shared.note(&Denial::of(host, port, reason));
    match opening {
        FirstBytes::Tls => client.end_with(&REFUSED_NAME).await,
        FirstBytes::Http | FirstBytes::Other => client.end_with(&[]).await,
    }
}

/// Peeks at the first bytes until they show the protocol.
async fn opening(client: &mut Client) -> io::Result<FirstBytes> {
    loop {
        let seen = client.reader.seen();
        match seen {
            [] => {}
            [hello::HANDSHAKE, ..] => return Ok(FirstBytes::Tls),
            [first, ..] if !first.is_ascii_graphic() && !b"\r\n".contains(first) => {
                return Ok(FirstBytes::Other);
            }
            // Servers skip empty lines before a request, so we do too.
            _ => match first_line(seen) {
                Some(line) if is_http(line) => return Ok(FirstBytes::Http),
                Some(_) => return Ok(FirstBytes::Other),
                None if seen.len() > MAX_LINE_BYTES => {
                    return Err(io::Error::other("the first line in a tunnel is too long"));
                }
                None => {}
            },
        }
        client.reader.more().await?;
    }
}

/// Like `opening`, where a server may speak first, as mail and database servers do; HTTP and TLS
/// servers do not.
async fn opening_or_answer(
    shared: &ProxyState,
    client: &mut Client,
    server: &TcpStream,
) -> io::Result<FirstBytes> {
    let until = Instant::now() + shared.timing.idle;
    if client.reader.seen().is_empty() {
        let mut first = [0; 1];
        tokio::select! {
            more = timeout_at(until, client.reader.more()) => more??,
            answer = server.peek(&mut first) => {
                answer?;
                return Ok(FirstBytes::Other);
            }
        }
    }
    let until = Instant::now() + shared.timing.request;
    timeout_at(until, opening(client)).await?
}

fn first_line(seen: &[u8]) -> Option<&[u8]> {
    let start = seen.iter().position(|byte| !b"\r\n".contains(byte))?;
    let rest = seen.get(start..)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    rest.get(..end)
}

fn is_http(line: &[u8]) -> bool {
    let mark = b" HTTP/";
    line.windows(mark.len())
        .any(|window| window.eq_ignore_ascii_case(mark))
}

/// Peeks at a TLS hello until it shows which server it asks for.
async fn server_asked_for(client: &mut Client) -> io::Result<ClientHello> {
    loop {
        let seen = client.reader.seen();
        match hello::read(seen) {
            ClientHello::Incomplete if seen.len() > MAX_HELLO_BYTES => {
                return Ok(ClientHello::Malformed);
            }
            ClientHello::Incomplete => client.reader.more().await?,
            hello => return Ok(hello),
        }
    }
}

fn judge_hello(hello: &ClientHello, host: &Host) -> Option<Reason> {
    match (hello, host) {
        (ClientHello::Server(server), _) if server == host => None,
        (ClientHello::Unnamed, Host::Address(_)) => None,
        (ClientHello::Server(server), _) => Some(Reason::OtherServerName(server.to_string())),
        (ClientHello::OddServer(shown), _) => Some(Reason::OtherServerName(shown.clone())),
        (ClientHello::Unnamed, Host::Name(_)) => Some(Reason::NoServerName),
        (ClientHello::Hidden, _) => Some(Reason::HiddenServerName),
        (ClientHello::Incomplete | ClientHello::Malformed, _) => Some(Reason::Protocol(
            "the TLS connection does not start with a valid client hello",
        )),
    }
}

/// Passes one plain request on, if it is for the host of the tunnel.
async fn pass_on(
    shared: &ProxyState,
    mut client: Client,
    stream: TcpStream,
    host: &Host,
    port: u16,
    until: Instant,
) -> io::Result<()> {
    let deny = |reason| Denial::of(host, port, reason);
    let head = match http::read_head(&mut client, until).await {
        Ok(head) => head,
        Err(HeadFailure::Failed(error)) => return Err(error),
        Err(HeadFailure::Refused(fault)) => {
            return http::deny(shared, client, &deny(Reason::Protocol(fault.0))).await;
        }
    };
    let path = match head.target.as_str() {
        path if path.starts_with('/') || path == "*" => Ok(path),
        _ => Err(Reason::Protocol("a request in a tunnel names a path alone")),
    };
    match path.and_then(|path| http::request(&head, host, port, path)) {
        Ok(request) => {
            client.reader.consume(head.length);
            forward::run(shared, client, stream, &request).await
        }
        Err(reason) => http::deny(shared, client, &deny(reason)).await,
    }
}
