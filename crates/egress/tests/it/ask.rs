//! What a program in a sandbox does: asks the proxy, in each of the ways it can.

use std::{
    io::{self, Read, Write},
    net::IpAddr,
    os::unix::net::UnixStream,
    path::Path,
};

use haft_testkit::PATIENCE;

/// A way to ask for a host and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Connect,
    Plain,
    Socks,
    SocksAddress,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Connect, Self::Plain, Self::Socks, Self::SocksAddress];

    /// Whether this way can say the target at all.
    pub(crate) fn can_say(self, target: &str) -> bool {
        let (host, port) = split(target);
        match self {
            Self::Connect => true,
            Self::Plain => port != "443",
            Self::Socks => port.parse::<u16>().is_ok(),
            Self::SocksAddress => port.parse::<u16>().is_ok() && host.parse::<IpAddr>().is_ok(),
        }
    }
}

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The proxy refused, with this text; SOCKS has none.
    Refused(String),
    /// What the server said, as far as anything came.
    Passed(String),
}

/// A host without brackets, and a port.
pub(crate) fn split(target: &str) -> (&str, &str) {
    let (host, port) = target.rsplit_once(':').unwrap_or((target, ""));
    (host.trim_matches(['[', ']']), port)
}

pub(crate) fn dial(socket: &Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Asks for a target, and over the connection for a page, as an honest program would.
pub(crate) fn ask(socket: &Path, way: Way, target: &str) -> Answer {
    let host = target.rsplit_once(':').map_or(target, |(host, _)| host);
    let (name, port) = split(target);
    let page = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
    let inside = match port {
        "443" if name.parse::<IpAddr>().is_ok() => hello("", Shown::Openly),
        "443" => hello(name, Shown::Openly),
        _ => page,
    };
    match way {
        Way::Plain => {
            let request = format!("GET http://{target}/ HTTP/1.1\r\nHost: {target}\r\n\r\n");
            send(socket, request.as_bytes())
        }
        Way::Connect => tunnel(socket, target, &inside),
        Way::Socks => socks(socket, &by_name(name), port, &inside),
        Way::SocksAddress => socks(socket, &by_address(name.parse().unwrap()), port, &inside),
    }
}

/// Sends bytes as they are and reads all of the answer.
pub(crate) fn send(socket: &Path, bytes: &[u8]) -> Answer {
    let mut stream = dial(socket);
    stream.write_all(bytes).unwrap();
    http_answer(rest(&mut stream))
}

/// Opens a tunnel and says something in it.
pub(crate) fn tunnel(socket: &Path, target: &str, inside: &[u8]) -> Answer {
    let mut stream = dial(socket);
    let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let head = head(&mut stream);
    if !head.starts_with("HTTP/1.1 200 ") {
        return http_answer(head + &rest(&mut stream));
    }
    say(&mut stream, inside)
}

/// The same by SOCKS5, for an address in its notation.
pub(crate) fn socks(socket: &Path, address: &[u8], port: &str, inside: &[u8]) -> Answer {
    let mut stream = dial(socket);
    let port = port.parse::<u16>().unwrap().to_be_bytes();
    stream.write_all(&[5, 1, 0]).unwrap();
    let mut greeting = [0; 2];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, [5, 0]);
    let request = [&[5, 1, 0][..], address, &port].concat();
    stream.write_all(&request).unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    match reply[1] {
        0 => say(&mut stream, inside),
        2 => Answer::Refused(String::new()),
        other => Answer::Passed(format!("SOCKS reply {other}")),
    }
}

pub(crate) fn by_name(name: &str) -> Vec<u8> {
    let length = u8::try_from(name.len()).unwrap();
    [&[3, length], name.as_bytes()].concat()
}

fn by_address(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => [&[1][..], &address.octets()].concat(),
        IpAddr::V6(address) => [&[4][..], &address.octets()].concat(),
    }
}

fn say(stream: &mut UnixStream, inside: &[u8]) -> Answer {
    // A proxy that refused may have closed already.
    let _ = stream.write_all(inside);
    let rest = rest(stream);
    // A fatal alert, or nothing at all, is how a proxy refuses inside a tunnel.
    if rest.is_empty() || rest.starts_with('\u{15}') {
        return Answer::Refused(String::new());
    }
    http_answer(rest)
}

fn http_answer(text: String) -> Answer {
    if text.starts_with("HTTP/1.1 403 ") && text.contains("Proxy-Status: haft") {
        return Answer::Refused(text);
    }
    Answer::Passed(text)
}

/// Reads the head of an answer.
pub(crate) fn head(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => head.push(byte[0]),
            // A machine that is frozen for a while interrupts a read that has a time limit.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("no answer: {error}; so far {}", head.escape_ascii()),
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

/// Reads to the end.
pub(crate) fn rest(stream: &mut UnixStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("no answer: {error}; so far {}", bytes.escape_ascii()),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a TLS hello hides part of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Openly,
    InPart,
}

/// The first message of a TLS client that asks for a server; for none if the name is empty.
pub(crate) fn hello(name: &str, shown: Shown) -> Vec<u8> {
    let block = |bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        [&length[..], bytes].concat()
    };
    let mut extensions = Vec::new();
    if !name.is_empty() {
        let entry = [&[0][..], &block(name.as_bytes())].concat();
        extensions.extend([0, 0]);
        extensions.extend(block(&block(&entry)));
    }
    if shown == Shown::InPart {
        extensions.extend([0xfe, 0x0d]);
        extensions.extend(block(&[0; 8]));
    }
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &block(&[0x13, 1]),
        &[1, 0],
        &block(&extensions),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[1][..], &length[1..], &body].concat();
    [&[0x16, 3, 1][..], &block(&message)].concat()
}
