//! HTTP as a proxy speaks it: CONNECT opens a tunnel, `GET http://…` is passed on. One request per
//! connection, so that a second one cannot ask the same server for another host.
//!
//! Read next: `head.rs` for what a request may look like, `forward.rs` for how it is passed on,
//! `tunnel.rs` for what a tunnel may carry.

use std::io;

use haft_contract::egress::{Host, HostError};
use tokio::{
    io::AsyncWriteExt as _,
    time::{Instant, timeout_at},
};

use super::{
    client::Client,
    forward::{self, Request},
    head::{self, Head, HeadError, MAX_HEAD_BYTES},
    session::ProxyState,
    tunnel,
};
use crate::{
    admission::{AdmittedConnection, ConnectError},
    denial::{Denial, Reason},
};

/// The default port of `http://`.
const HTTP_PORT: u16 = 80;

/// The answer that opens a tunnel.
const TUNNEL: &[u8] = b"HTTP/1.1 200 Connection established\r\n\r\n";

/// How much of a reason fits into a status line.
const MAX_PHRASE_BYTES: usize = 400;

/// Serves one request.
pub(super) async fn serve(
    shared: &ProxyState,
    mut client: Client,
    until: Instant,
) -> io::Result<()> {
    let head = match read_head(&mut client, until).await {
        Ok(head) => head,
        Err(error) => return refuse_head(shared, client, error).await,
    };
    if head.method == "CONNECT" {
        connect(shared, client, &head).await
    } else {
        pass_on(shared, client, &head).await
    }
}

async fn connect(shared: &ProxyState, mut client: Client, head: &Head) -> io::Result<()> {
    let (host, port) = match authority(&head.target, None) {
        Ok(target) => target,
        Err(reason) => return deny_text(shared, client, &head.target, reason).await,
    };
    client.reader.consume(head.length);
    let admitted = match shared.connect(&host, port).await {
        Ok(admitted) => admitted,
        Err(turned) => return turn_away(shared, client, turned).await,
    };
    client.writer.write_all(TUNNEL).await?;
    tunnel::run(shared, client, admitted, &host, port).await
}

async fn pass_on(shared: &ProxyState, mut client: Client, head: &Head) -> io::Result<()> {
    let (target, path) = match absolute(&head.target) {
        Ok(found) => found,
        Err(reason) => return deny_text(shared, client, &head.target, reason).await,
    };
    let (host, port) = match authority(target, Some(HTTP_PORT)) {
        Ok(target) => target,
        Err(reason) => return deny_text(shared, client, &head.target, reason).await,
    };
    let request = match request(head, &host, port, path) {
        Ok(request) => request,
        Err(reason) => {
            return deny(shared, client, &Denial::of(&host, port, reason)).await;
        }
    };
    client.reader.consume(head.length);
    match shared.connect(&host, port).await {
        Ok(AdmittedConnection { stream, .. }) => {
            forward::run(shared, client, stream, &request).await
        }
        Err(turned) => turn_away(shared, client, turned).await,
    }
}

/// The request to pass on, if its `Host` is the host it is sent to.
pub(super) fn request<'a>(
    head: &'a Head,
    host: &'a Host,
    port: u16,
    path: &'a str,
) -> Result<Request<'a>, Reason> {
    let fault = |HeadError(why)| Reason::Protocol(why);
    match head.single("host").map_err(fault)? {
        None if head.version == head::Version::Http11 => {
            return Err(Reason::Protocol("the request has no `Host`"));
        }
        None => {}
        Some(named) if authority(named, Some(port)) == Ok((host.clone(), port)) => {}
        Some(named) => return Err(Reason::OtherHostHeader(named.escape_debug().collect())),
    }
    if path.contains('#') {
        return Err(Reason::Protocol("the address must not contain `#`"));
    }
    Ok(Request {
        head,
        host,
        port,
        path,
        body: head.body().map_err(fault)?,
    })
}

/// Reads a head before the deadline.
pub(super) async fn read_head(client: &mut Client, until: Instant) -> Result<Head, HeadFailure> {
    let mut known = 0;
    while !head::is_complete(client.reader.seen(), known) {
        known = client.reader.seen().len();
        if known > MAX_HEAD_BYTES {
            return Err(HeadFailure::Refused(HeadError(
                "the head of the request is too long",
            )));
        }
        match timeout_at(until, client.reader.more()).await {
            Ok(more) => more.map_err(HeadFailure::Failed)?,
            Err(_) => {
                return Err(HeadFailure::Refused(HeadError(
                    "the request took too long to arrive",
                )));
            }
        }
    }
    Head::parse(client.reader.seen()).map_err(HeadFailure::Refused)
}

/// Why there is no head.
pub(super) enum HeadFailure {
    /// It is ambiguous, or did not arrive in time.
    Refused(HeadError),
    /// The program has gone.
    Failed(io::Error),
}

async fn refuse_head(shared: &ProxyState, client: Client, unread: HeadFailure) -> io::Result<()> {
    match unread {
        HeadFailure::Failed(error) => Err(error),
        HeadFailure::Refused(HeadError(why)) => {
            let seen = client.reader.seen();
            let line = seen.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let denial = Denial::of_text(line, Reason::Protocol(why));
            deny(shared, client, &denial).await
        }
    }
}

async fn deny_text(
    shared: &ProxyState,
    client: Client,
    target: &str,
    reason: Reason,
) -> io::Result<()> {
    deny(shared, client, &Denial::of_text(target.as_bytes(), reason)).await
}

async fn turn_away(shared: &ProxyState, client: Client, error: ConnectError) -> io::Result<()> {
    match error {
        ConnectError::Denied(denial) => deny(shared, client, &denial).await,
        ConnectError::Unreachable(error) => {
            let line = format!("haft allowed the connection, but it failed: {error}");
            answer(client, "502 Bad Gateway", "destination_unavailable", &line).await
        }
    }
}

/// Records a denial and answers with it. The reason is in the status line too, because many
/// programs show nothing else of a proxy's refusal.
pub(super) async fn deny(shared: &ProxyState, client: Client, denial: &Denial) -> io::Result<()> {
    shared.note(denial);
    let line = denial.line(&shared.setting);
    let phrase = line.chars().filter(|c| c.is_ascii_graphic() || *c == ' ');
    let status = format!("403 {}", phrase.take(MAX_PHRASE_BYTES).collect::<String>());
    answer(client, &status, "http_request_denied", &line).await
}

async fn answer(client: Client, status: &str, error: &str, line: &str) -> io::Result<()> {
    let length = line.len() + 1;
    let text = format!(
        "HTTP/1.1 {status}\r\nProxy-Status: haft; error={error}\r\nContent-Type: text/plain; \
         charset=utf-8\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{line}\n"
    );
    client.end_with(text.as_bytes()).await
}

/// Parses a host and its port; without a default, the port is required.
pub(super) fn authority(text: &str, default: Option<u16>) -> Result<(Host, u16), Reason> {
    let after_brackets = text.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match text.get(after_brackets..).and_then(|rest| rest.rfind(':')) {
        Some(colon) => {
            let (host, port) = text.split_at(after_brackets + colon);
            (host, Some(port.trim_start_matches(':')))
        }
        None => (text, None),
    };
    if host.contains(':') && !host.starts_with('[') {
        return Err(Reason::Host(HostError::Brackets));
    }
    let host = Host::parse(host).map_err(Reason::Host)?;
    let port = match port {
        None => default,
        Some(port) if port.len() > 5 || !port.bytes().all(|byte| byte.is_ascii_digit()) => None,
        Some(port) => port.parse().ok(),
    };
    let port = port.filter(|port| *port != 0).ok_or(Reason::Port)?;
    Ok((host, port))
}

/// The host and the path of an `http://` address.
pub(super) fn absolute(target: &str) -> Result<(&str, &str), Reason> {
    let scheme = target
        .get(..7)
        .filter(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let Some(scheme) = scheme else {
        return Err(match target.split_once(':') {
            Some((word, _)) if !word.is_empty() && word.bytes().all(is_scheme) => Reason::Scheme,
            _ => Reason::Protocol("this is a proxy: a request needs a whole address"),
        });
    };
    let rest = target.get(scheme.len()..).unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    Ok(rest.split_at(end))
}

fn is_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        let check = |text, expect: &str| {
            let (host, port) = authority(text, Some(80)).expect(text);
            assert_eq!(format!("{host} {port}"), expect);
        };
        check("a", "a 80");
        check("a:81", "a 81");
        check("[::1]", "[::1] 80");
        check("[::1]:81", "[::1] 81");
        for text in [
            "a:0", "a:65536", "a:", "a::1", "a:1:2", "::1", "a:+1", "[::1]x", "", ":80",
        ] {
            assert!(authority(text, Some(80)).is_err(), "{text}");
        }
        assert_eq!(authority("a", None), Err(Reason::Port));
    }

    #[test]
    fn ss_13_only_http_is_passed_on() {
        assert_eq!(absolute("HTTP://a/b?c"), Ok(("a", "/b?c")));
        assert_eq!(absolute("http://a?c"), Ok(("a", "?c")));
        for target in [
            "ftp://a/",
            "file:///etc/passwd",
            "gopher://a/",
            "https://a/",
            "data:x",
        ] {
            assert_eq!(absolute(target), Err(Reason::Scheme), "{target}");
        }
    }
}
