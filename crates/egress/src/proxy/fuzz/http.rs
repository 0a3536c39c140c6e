//! Heads and chunked bodies of HTTP requests.

use std::sync::atomic::AtomicU64;

use haft_contract::egress::Host;
use haft_testkit::{Fuzz, ParseOutcome};

use crate::proxy::{
    client::PeekReader,
    forward,
    head::{self, Body, Head},
    http::{absolute, authority, request},
    relay::LastActivity,
};

const HEADS: [&[u8]; 12] = [
    b"GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n",
    b"GET http://a.example/b?c=d HTTP/1.1\r\nHost: a.example\r\nAccept: */*\r\nX-Y: 1\r\nConnection: x-y, close\r\n\r\nrest",
    b"GET HTTP://A.example.:80?q HTTP/1.0\r\n\r\n",
    b"POST http://a:8080/x HTTP/1.1\r\nHost: a:8080\r\nContent-Length: 5\r\n\r\nhello",
    b"POST http://[::1]:81 HTTP/1.1\r\nhost: [0::1]:81\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"PUT http://127.0.0.1/ HTTP/1.1\r\nHost:127.0.0.1\r\nX: \xe9t\xe9 \xff\r\nProxy-Authorization: Basic x\r\nTE: trailers\r\n\r\n",
    b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\nProxy-Connection: keep-alive\r\n\r\n\x16\x03\x01",
    b"CONNECT [::1]:443 HTTP/1.0\r\n\r\n",
    b"OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\nUpgrade: h2c\r\nKeep-Alive: 5\r\n\r\n",
    b"GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET http://a/ HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET http://b/ HTTP/1.1\r\n\r\n",
];

const WORDS: [&str; 44] = [
    "\r\n",
    "\r\n\r\n",
    "\n",
    "\r",
    "\0",
    " ",
    "\t",
    ":",
    ";",
    ",",
    "GET ",
    "CONNECT ",
    " HTTP/1.1",
    " HTTP/1.0",
    " HTTP/2.0",
    "http://",
    "https://",
    "Host: ",
    "host:",
    "Host : ",
    "a.example",
    "b.example",
    "127.0.0.1",
    "[::1]",
    "0x7f.1",
    "@",
    "#",
    "?",
    "/",
    "\\",
    "%0d%0a",
    ":80",
    ":0",
    ":65536",
    "Content-Length: ",
    "Transfer-Encoding: chunked",
    "Connection: ",
    "transfer-encoding",
    "content-length",
    "X: y\r\n",
    "*",
    "chunked",
    "identity",
    "\u{e9}",
];

#[test]
fn a_request_head_has_one_reading_and_keeps_it_when_passed_on() {
    Fuzz::seeds(HEADS).words(WORDS).run(|bytes| {
        look_for_the_end(bytes);
        let Ok(head) = Head::parse(bytes) else {
            return ParseOutcome::Refused;
        };
        one_reading(bytes, &head);
        if head.method == "CONNECT" {
            return ParseOutcome::of(
                &authority(&head.target, None).map(|asked| host_and_port(&asked)),
            );
        }
        let Ok((named, path)) = absolute(&head.target) else {
            return ParseOutcome::Refused;
        };
        let Ok((host, port)) = authority(named, Some(80)) else {
            return ParseOutcome::Refused;
        };
        host_and_port(&(host.clone(), port));
        let Ok(request) = request(&head, &host, port, path) else {
            return ParseOutcome::Refused;
        };
        let sent = forward::text(&request);
        let read = Head::parse(&sent).expect("what is passed on can be read");
        assert_eq!(
            read.length,
            sent.len(),
            "nothing follows the head that is passed on"
        );
        one_reading(&sent, &read);
        assert_eq!(read.method, head.method);
        let named = read.single("host").expect("one host").expect("a host");
        assert_eq!(authority(named, Some(80)), Ok((host.clone(), port)));
        assert!(
            read.target.starts_with('/') || read.target == "*",
            "{}",
            read.target
        );
        assert!(read.target.ends_with(path), "{} is not {path}", read.target);
        assert_eq!(read.body(), Ok(request.body));
        assert_eq!(read.single("connection"), Ok(Some("close")));
        let kept = |head: &Head| head.passed_on().cloned().collect::<Vec<_>>();
        assert_eq!(kept(&read), kept(&head), "the headers");
        ParseOutcome::Taken
    });
}

/// However the bytes arrive, the end of a head is found at the same place.
fn look_for_the_end(bytes: &[u8]) {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
    let most = end.map_or(bytes.len(), |end| end + 3);
    for known in (0..=most).step_by(1 + most / 16).chain([most]) {
        assert_eq!(
            head::is_complete(bytes, known),
            end.is_some(),
            "known: {known}"
        );
    }
    if let Some(end) = end {
        let cut = &bytes[..end + 3];
        assert!(
            Head::parse(cut).is_err(),
            "a head that is cut off was taken"
        );
        assert_eq!(
            Head::parse(&bytes[..end + 4]),
            Head::parse(bytes),
            "what follows matters"
        );
    }
}

/// An accepted head contains no line that others read differently.
fn one_reading(bytes: &[u8], head: &Head) {
    let text = &bytes[..head.length - 4];
    let plain = |byte: &u8| !byte.is_ascii_control() || *byte == b'\t';
    let mut lines = 0;
    let mut rest = text;
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n");
        let line = &rest[..end.unwrap_or(rest.len())];
        assert!(line.iter().all(plain), "{}", line.escape_ascii());
        assert!(
            !line.starts_with(b" ") && !line.starts_with(b"\t"),
            "a folded line"
        );
        lines += 1;
        match end {
            Some(end) => rest = &rest[end + 2..],
            None => break,
        }
    }
    assert!(lines <= 1 + 128, "{lines} lines");
    assert!(
        head.target.bytes().all(|byte| byte.is_ascii_graphic()),
        "{}",
        head.target
    );
    if let Ok(Body::Length(length)) = head.body() {
        let written = head
            .single("content-length")
            .expect("one")
            .expect("a length");
        let written = written.trim_start_matches('0');
        assert_eq!(
            written,
            if length == 0 {
                String::new()
            } else {
                length.to_string()
            }
        );
    }
}

/// An accepted host parses to itself again, and contains nothing but a host.
fn host_and_port((host, port): &(Host, u16)) {
    let shown = host.to_string();
    assert_ne!(*port, 0);
    assert_eq!(Host::parse(&shown).as_ref(), Ok(host));
    let fit = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    assert!(shown.chars().all(fit), "{shown}");
    assert_eq!(
        authority(&format!("{shown}:{port}"), None),
        Ok((host.clone(), *port))
    );
}

const CHUNKS: [&[u8]; 9] = [
    b"5\r\nhello\r\n0\r\n\r\n",
    b"5;a=b\r\nhello\r\n1\r\n!\r\n0\r\nTrailer: x\r\n\r\n",
    b"A\r\n0123456789\r\n00\r\n\r\nGET http://b/ HTTP/1.1\r\n\r\n",
    b"0\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"7\r\n0\r\n\r\nab\r\n0\r\n\r\n",
    b"ffffffffffffffff\r\nx\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"5 \r\nhello\r\n0\r\n\r\n",
];

#[test]
fn an_http_body_in_chunks_is_passed_on_whole_and_nothing_behind_it() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let words = [
        "\r\n",
        "\n",
        "\r",
        "0\r\n",
        "\r\n\r\n",
        "0x5",
        "+5",
        "-1",
        ";",
        "5\r\nhello\r\n",
        " ",
        "f",
        "F",
    ];
    Fuzz::seeds(CHUNKS).words(words).inputs(3_000).run(|bytes| {
        let mut sent = Vec::new();
        let mut reader = PeekReader::new(bytes);
        let (pulse, counter) = (LastActivity::new(), AtomicU64::new(0));
        let passed = forward::chunks(&mut reader, &mut sent, &pulse, &counter);
        let passed = runtime.block_on(passed);
        let strict = strict_chunks(bytes);
        if let Ok(()) = passed {
            let (body, rest) = strict.expect("a body that others can read");
            assert_eq!(strict_chunks(&sent), Some((body.clone(), b"".as_slice())));
            assert_eq!(counter.into_inner(), body.len() as u64);
            let mut left = reader.seen().to_vec();
            let unread = runtime.block_on(async {
                use tokio::io::AsyncReadExt as _;
                reader.consume(left.len());
                let mut unread = Vec::new();
                reader.read_to_end(&mut unread).await.map(|_| unread)
            });
            left.extend(unread.unwrap());
            assert_eq!(left, rest, "it took more or less than the body");
            ParseOutcome::Taken
        } else {
            // If the body has no end in what was sent so far, the server finds none either.
            assert_eq!(strict_chunks(&sent), None, "{}", sent.escape_ascii());
            ParseOutcome::Refused
        }
    });
}

/// A body read strictly by RFC 9112: its content, and what follows it.
fn strict_chunks(mut bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    fn line<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
        let end = bytes.windows(2).position(|window| window == b"\r\n")?;
        let (line, rest) = bytes.split_at(end);
        *bytes = &rest[2..];
        Some(line)
    }
    let mut body = Vec::new();
    loop {
        let size = line(&mut bytes)?;
        let digits = size.split(|byte| *byte == b';').next()?;
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let digits = str::from_utf8(digits).ok()?;
        let size = usize::from_str_radix(digits, 16).ok()?;
        if size == 0 {
            while !line(&mut bytes)?.is_empty() {}
            return Some((body, bytes));
        }
        let (chunk, rest) = bytes.split_at_checked(size)?;
        body.extend_from_slice(chunk);
        bytes = rest.strip_prefix(b"\r\n")?;
    }
}
