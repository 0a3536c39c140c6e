//! The greeting and the request of SOCKS5.

use haft_contract::egress::Host;
use haft_testkit::{Fuzz, ParseOutcome};

use crate::proxy::{
    client::PeekReader,
    socks::{greet, read_host, read_request},
};

const CONVERSATIONS: [&[u8]; 7] = [
    b"\x05\x01\x00\x05\x01\x00\x03\x09a.example\x01\xbb",
    b"\x05\x02\x02\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50rest",
    b"\x05\x01\x00\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb",
    b"\x05\x01\x02\x05\x01\x00\x03\x01a\x00\x50",
    b"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50",
    b"\x05\x01\x00\x05\x01\x00\x03\x05a\0b.c\x00\x50",
    b"\x05\x00\x05\x01\x00\x03\x00\x00\x00",
];

/// What a conversation asks for, and how many bytes that took.
async fn read(bytes: &[u8]) -> Option<(Host, u16, usize)> {
    let mut reader = PeekReader::new(bytes);
    if !greet(&mut reader).await.ok()? {
        return None;
    }
    let (asked, port) = read_request(&mut reader).await.ok()?.ok()?;
    let host = read_host(&asked).ok()?;
    // The first peek reads the whole input.
    let taken = bytes.len() - reader.seen().len();
    Some((host, port, taken))
}

/// The same, read strictly by RFC 1928.
fn strict(bytes: &[u8]) -> Option<(Host, u16, usize)> {
    let methods = usize::from(*bytes.get(1)?);
    bytes.get(2..2 + methods)?.contains(&0).then_some(())?;
    let request = bytes.get(2 + methods..)?;
    let (&[5, 1, 0, kind], rest) = request.split_first_chunk::<4>()? else {
        return None;
    };
    let (host, length) = match kind {
        1 => {
            let address: [u8; 4] = rest.get(..4)?.try_into().ok()?;
            (Host::Address(address.into()), 4)
        }
        4 => {
            let address: [u8; 16] = rest.get(..16)?.try_into().ok()?;
            (Host::Address(address.into()), 16)
        }
        3 => {
            let length = usize::from(*rest.first()?);
            let name = str::from_utf8(rest.get(1..=length)?).ok()?;
            (Host::parse(name).ok()?, 1 + length)
        }
        _ => return None,
    };
    let port: [u8; 2] = rest.get(length..length + 2)?.try_into().ok()?;
    Some((host, u16::from_be_bytes(port), 2 + methods + 4 + length + 2))
}

#[test]
fn a_socks_request_asks_for_what_its_bytes_say_and_takes_no_more() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let words: [&[u8]; 8] = [
        b"\x05\x01\x00",
        b"\x05\x01\x00\x03",
        b"\x05\x01\x00\x01",
        b"\x05\x01\x00\x04",
        b"\x00\x50",
        b"a.example",
        b"\0",
        b"[::1]",
    ];
    Fuzz::seeds(CONVERSATIONS)
        .words(words)
        .inputs(1_500)
        .longest(1024)
        .run(|bytes| {
            let whole = runtime.block_on(read(bytes));
            assert_eq!(whole, strict(bytes));
            let Some((host, _, taken)) = &whole else {
                return ParseOutcome::Refused;
            };
            for cut in 0..bytes.len() {
                let early = runtime.block_on(read(&bytes[..cut]));
                let expected = whole.as_ref().filter(|_| cut >= *taken);
                assert_eq!(early.as_ref(), expected, "cut at {cut} of {taken}");
            }
            assert_eq!(Host::parse(&host.to_string()).as_ref(), Ok(host));
            ParseOutcome::Taken
        });
}
