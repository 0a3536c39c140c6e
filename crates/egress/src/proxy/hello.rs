//! The first message of a TLS client: which server it asks for. Pure, and reads no more than
//! necessary; nothing is decrypted.

use haft_contract::egress::Host;

/// The longest first message, in bytes, including its record headers.
pub(super) const MAX_HELLO_BYTES: usize = 16 * 1024;

/// The first byte of a TLS handshake record.
pub(super) const HANDSHAKE: u8 = 0x16;

/// A fatal alert, "unrecognized name": the answer to a client whose hello was refused.
pub(super) const REFUSED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;
const HOST_NAME: u8 = 0;

/// What a hello says about the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ClientHello {
    /// More bytes are needed.
    Incomplete,
    /// It asks for this server.
    Server(Host),
    /// It asks for something that is no host; the text is safe to display.
    OddServer(String),
    /// It names no server.
    Unnamed,
    /// It may ask for another server in an encrypted part.
    Hidden,
    /// It is not a hello.
    Malformed,
}

/// Parses what a client has sent so far.
pub(super) fn read(bytes: &[u8]) -> ClientHello {
    let handshake = match handshake(bytes) {
        Some(Ok(handshake)) => handshake,
        Some(Err(())) => return ClientHello::Malformed,
        None => return ClientHello::Incomplete,
    };
    match extensions(&handshake).and_then(server) {
        Some(hello) => hello,
        None => ClientHello::Malformed,
    }
}

/// Assembles the handshake message from its records; `None` while it is incomplete.
fn handshake(mut bytes: &[u8]) -> Option<Result<Vec<u8>, ()>> {
    let mut message: Vec<u8> = Vec::new();
    loop {
        if let Some(length) = message_length(&message)
            && message.len() >= length
        {
            message.truncate(length);
            return Some(Ok(message));
        }
        let (header, rest) = bytes.split_first_chunk::<5>()?;
        let [kind, major, _, high, low] = *header;
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 || length == 0 || length > 0x4000 {
            return Some(Err(()));
        }
        let record = rest.get(..length.min(rest.len()))?;
        message.extend(record);
        if message.first().is_some_and(|kind| *kind != CLIENT_HELLO) {
            return Some(Err(()));
        }
        bytes = rest.get(length..)?;
    }
}

/// The length a message declares, including its header.
fn message_length(message: &[u8]) -> Option<usize> {
    match message {
        [_, a, b, c, ..] => {
            Some(4 + usize::try_from(u32::from_be_bytes([0, *a, *b, *c])).unwrap_or(usize::MAX))
        }
        _ => None,
    }
}

/// The extensions of a hello.
fn extensions(message: &[u8]) -> Option<Vec<(u16, &[u8])>> {
    // Kind and length, version, random.
    let mut rest = Reader(message.get(4 + 2 + 32..)?);
    rest.short_block()?; // session
    rest.block()?; // cipher suites
    rest.short_block()?; // compression
    let mut extensions = Vec::new();
    if rest.0.is_empty() {
        return Some(extensions);
    }
    let mut list = Reader(rest.block()?);
    if !rest.0.is_empty() {
        return None;
    }
    while !list.0.is_empty() {
        let kind = list.number()?;
        extensions.push((kind, list.block()?));
    }
    Some(extensions)
}

/// The one server the extensions name. Two server names count as none.
fn server(extensions: Vec<(u16, &[u8])>) -> Option<ClientHello> {
    if extensions
        .iter()
        .any(|(kind, _)| *kind == ENCRYPTED_CLIENT_HELLO)
    {
        return Some(ClientHello::Hidden);
    }
    let mut named = extensions.iter().filter(|(kind, _)| *kind == SERVER_NAME);
    let Some((_, value)) = named.next() else {
        return Some(ClientHello::Unnamed);
    };
    let mut list = Reader(Reader(value).block()?);
    let kind = list.byte()?;
    let name = list.block()?;
    if named.next().is_some() || kind != HOST_NAME || !list.0.is_empty() {
        return None;
    }
    let host = std::str::from_utf8(name)
        .ok()
        .and_then(|name| Host::parse(name).ok());
    Some(match host {
        Some(host) => ClientHello::Server(host),
        None => ClientHello::OddServer(name.escape_ascii().to_string()),
    })
}

/// Takes numbers and blocks from the front of a byte slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u16> {
        let (first, rest) = self.0.split_first_chunk::<2>()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*first))
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(first)
    }

    /// A block with a length prefix of one byte.
    fn short_block(&mut self) -> Option<&'a [u8]> {
        let count = self.byte()?;
        self.bytes(usize::from(count))
    }

    /// A block with a length prefix of two bytes.
    fn block(&mut self) -> Option<&'a [u8]> {
        let count = self.number()?;
        self.bytes(usize::from(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: &[u8]) -> Vec<u8> {
        let length = u16::try_from(bytes.len()).expect("short");
        [&length.to_be_bytes()[..], bytes].concat()
    }

    fn server_name(name: &[u8]) -> Vec<u8> {
        let entry = [&[HOST_NAME][..], &block(name)].concat();
        [&SERVER_NAME.to_be_bytes()[..], &block(&block(&entry))].concat()
    }

    /// A hello with these extensions, as one message.
    fn message(extensions: &[Vec<u8>]) -> Vec<u8> {
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &block(&[0x13, 1]),
            &[1, 0],
            &block(&extensions.concat()),
        ]
        .concat();
        let length = u32::try_from(body.len()).expect("short").to_be_bytes();
        [&[CLIENT_HELLO], &length[1..], &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &block(part)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn named(name: &str) -> ClientHello {
        ClientHello::Server(Host::parse(name).expect("a host"))
    }

    #[test]
    fn ss_18_the_server_is_found_however_the_hello_is_cut() {
        let other = [&[0, 10][..], &block(&[0, 2, 0, 29])].concat();
        let message = message(&[other, server_name(b"Example.com")]);
        for size in [1, 7, message.len()] {
            let bytes = records(&message, size);
            assert_eq!(read(&bytes), named("example.com"));
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut]), ClientHello::Incomplete, "{size} {cut}");
            }
        }
    }

    #[test]
    fn ss_18_a_hello_that_names_none_two_or_a_hidden_server_is_told_apart() {
        let check = |extensions: &[Vec<u8>], expect| {
            assert_eq!(read(&records(&message(extensions), 4096)), expect);
        };
        let hidden = [&ENCRYPTED_CLIENT_HELLO.to_be_bytes()[..], &block(&[0])].concat();
        check(&[], ClientHello::Unnamed);
        check(
            &[server_name(b"a"), server_name(b"b")],
            ClientHello::Malformed,
        );
        check(&[server_name(b"a"), hidden], ClientHello::Hidden);
        check(
            &[server_name(b"a\0b")],
            ClientHello::OddServer("a\\x00b".into()),
        );
        check(&[vec![0, 0, 0, 9, 0]], ClientHello::Malformed);
    }

    #[test]
    fn what_is_no_hello_is_malformed() {
        assert_eq!(read(b"\x16\x02\x00\x00\x01\x01"), ClientHello::Malformed);
        assert_eq!(read(b"\x16\x03\x01\x00\x01\x02"), ClientHello::Malformed);
        assert_eq!(read(b"\x17\x03\x01\x00\x01\x01"), ClientHello::Malformed);
        assert_eq!(read(b"\x16\x03\x01\x00\x00"), ClientHello::Malformed);
    }
}
