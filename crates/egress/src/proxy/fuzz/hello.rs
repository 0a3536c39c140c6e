//! The first message of a TLS client.

use haft_contract::egress::Host;
use haft_testkit::{Fuzz, ParseOutcome};

use crate::proxy::hello::{ClientHello, HANDSHAKE, read};

const SERVER_NAME: u16 = 0;
const ENCRYPTED_CLIENT_HELLO: u16 = 0xfe0d;

fn block(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes()[..], bytes].concat()
}

fn extension(kind: u16, value: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &block(value)].concat()
}

fn server_name(name: &[u8]) -> Vec<u8> {
    extension(SERVER_NAME, &block(&[&[0][..], &block(name)].concat()))
}

/// A hello with these extensions, in records of this many bytes.
fn hello(extensions: &[Vec<u8>], record: usize) -> Vec<u8> {
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[4, 1, 2, 3, 4],
        &block(&[0x13, 1, 0x13, 2]),
        &[1, 0],
        &block(&extensions.concat()),
    ]
    .concat();
    let length = u32::try_from(body.len()).unwrap().to_be_bytes();
    records(&[&[1], &length[1..], &body].concat(), record)
}

fn records(message: &[u8], size: usize) -> Vec<u8> {
    let record = |part: &[u8]| [&[HANDSHAKE, 3, 1][..], &block(part)].concat();
    message.chunks(size).flat_map(record).collect()
}

fn seeds() -> Vec<Vec<u8>> {
    let groups = extension(10, &[0, 2, 0, 29]);
    let name = server_name(b"a.example");
    vec![
        hello(&[groups.clone(), name.clone()], 4096),
        hello(&[name.clone(), groups.clone()], 16),
        hello(&[server_name(b"B.Example.")], 1),
        hello(&[server_name(b"xn--bcher-kva.example"), groups.clone()], 50),
        hello(&[server_name(b"127.0.0.1")], 4096),
        hello(std::slice::from_ref(&groups), 4096),
        hello(&[server_name(b"a\0b")], 4096),
        hello(&[name.clone(), server_name(b"b.example")], 4096),
        hello(&[name, extension(ENCRYPTED_CLIENT_HELLO, &[0])], 4096),
        [hello(&[server_name(b"c.example")], 4096), b"more".to_vec()].concat(),
    ]
}

/// The payloads of the complete records; `None` if there is anything else.
fn payload(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    while let Some((&[kind, major, _, high, low], rest)) = bytes.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        if kind != HANDSHAKE || major != 3 || length == 0 || length > rest.len() {
            return None;
        }
        message.extend_from_slice(&rest[..length]);
        bytes = &rest[length..];
    }
    bytes.is_empty().then_some(message)
}

#[test]
fn a_tls_hello_asks_for_one_server_however_it_is_cut() {
    let words: [&[u8]; 12] = [
        b"\x16\x03\x01",
        b"\x16\x03\x03\x00",
        b"\x00\x00",
        b"\xfe\x0d",
        b"\x00\x01",
        b"\x01\x00\x00",
        b"a.example",
        b"b.example",
        b"\0",
        b".",
        b"\xff\xff",
        b"[::1]",
    ];
    Fuzz::seeds(seeds())
        .words(words)
        .inputs(1_500)
        .longest(1024)
        .run(|bytes| {
            let whole = read(bytes);
            // The proxy decides as soon as it has enough bytes; later ones must not change the
            // answer.
            for cut in 0..bytes.len() {
                let early = read(&bytes[..cut]);
                assert!(
                    early == ClientHello::Incomplete || early == whole,
                    "{early:?} after {cut}, {whole:?}"
                );
            }
            if let Some(message) = payload(bytes)
                && whole != ClientHello::Incomplete
            {
                for size in [1, 5, 100, 0x4000] {
                    assert_eq!(
                        read(&records(&message, size)),
                        whole,
                        "in records of {size}"
                    );
                }
            }
            match whole {
                ClientHello::Server(host) => {
                    let shown = host.to_string();
                    assert_eq!(Host::parse(&shown).as_ref(), Ok(&host));
                    assert!(names_once(bytes, &host), "{shown}");
                    ParseOutcome::Taken
                }
                ClientHello::OddServer(shown) => {
                    assert!(
                        shown.chars().all(|c| c.is_ascii_graphic() || c == ' '),
                        "{shown:?}"
                    );
                    ParseOutcome::Refused
                }
                ClientHello::Incomplete
                | ClientHello::Unnamed
                | ClientHello::Hidden
                | ClientHello::Malformed => ParseOutcome::Refused,
            }
        });
}

/// Whether a hello, read strictly by RFC 8446 and RFC 6066, names this server and no other.
fn names_once(bytes: &[u8], host: &Host) -> bool {
    fn block<'b>(bytes: &mut &'b [u8], width: usize) -> &'b [u8] {
        let (length, rest) = bytes.split_at(width);
        let length = length
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let (block, rest) = rest.split_at(length);
        *bytes = rest;
        block
    }
    let mut message = Vec::new();
    let mut left = bytes;
    while left.len() >= 5 {
        let length = usize::from(u16::from_be_bytes([left[3], left[4]]));
        let end = (5 + length).min(left.len());
        message.extend_from_slice(&left[5..end]);
        left = &left[end..];
    }
    let mut message = &message[1..];
    let mut hello = &block(&mut message, 3)[34..];
    block(&mut hello, 1);
    block(&mut hello, 2);
    block(&mut hello, 1);
    let mut extensions = block(&mut hello, 2);
    let mut names = Vec::new();
    while !extensions.is_empty() {
        let kind = u16::from_be_bytes([extensions[0], extensions[1]]);
        extensions = &extensions[2..];
        let mut value = block(&mut extensions, 2);
        assert_ne!(kind, ENCRYPTED_CLIENT_HELLO, "a hidden name");
        if kind == SERVER_NAME {
            let mut list = block(&mut value, 2);
            while !list.is_empty() {
                list = &list[1..];
                names.push(block(&mut list, 2).to_vec());
            }
        }
    }
    let [name] = names.as_slice() else {
        return false;
    };
    str::from_utf8(name).is_ok_and(|name| Host::parse(name).as_ref() == Ok(host))
}
