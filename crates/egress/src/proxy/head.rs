//! The head of an HTTP/1 request, parsed strictly: what servers are known to disagree about (bare
//! line ends, folded lines, two lengths, odd characters) is refused instead of passed on.
//!
//! Pure. Read next: `http.rs`, which uses it.

use std::fmt;

/// The longest head, in bytes.
pub(super) const MAX_HEAD_BYTES: usize = 32 * 1024;

/// The most header lines.
const MAX_HEADERS: usize = 128;

/// Ends a head.
const END: &[u8] = b"\r\n\r\n";

/// The request line and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) method: String,
    /// As sent: visible ASCII.
    pub(super) target: String,
    pub(super) version: Version,
    headers: Vec<Header>,
    /// How many bytes it took, including the empty line.
    pub(super) length: usize,
}

/// The version of HTTP spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Http10,
    Http11,
}

/// One header line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    /// In lower case.
    pub(super) name: String,
    pub(super) value: String,
}

/// How much body follows a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Body {
    None,
    Length(u64),
    Chunked,
}

/// Headers that belong to one connection, or to the proxy, and are never passed on.
const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "host",
];

/// Whether a head is complete. The first `known` bytes were checked before, so that a head that
/// arrives byte by byte is not scanned over and over.
pub(super) fn is_complete(bytes: &[u8], known: usize) -> bool {
    let from = known.saturating_sub(END.len());
    end(bytes.get(from..).unwrap_or_default()).is_some()
}

fn end(bytes: &[u8]) -> Option<usize> {
    bytes.windows(END.len()).position(|window| window == END)
}

impl Head {
    /// Parses a complete head.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, HeadError> {
        let end = end(bytes).ok_or(HeadError("the request has no end"))?;
        let text = bytes.get(..end).unwrap_or_default();
        // Bytes above ASCII are legal in values, and nothing is decoded: one byte, one character.
        let text: String = text.iter().map(|byte| char::from(*byte)).collect();
        let mut lines = text.split("\r\n");
        let (method, target, version) = request_line(lines.next().unwrap_or_default())?;
        let headers = lines.map(header).collect::<Result<Vec<_>, _>>()?;
        if headers.len() > MAX_HEADERS {
            return Err(HeadError("the request has too many headers"));
        }
        Ok(Self {
            method,
            target,
            version,
            headers,
            length: end + END.len(),
        })
    }

    /// The value of a header that may occur only once; two are an error.
    pub(super) fn single(&self, name: &'static str) -> Result<Option<&str>, HeadError> {
        let mut values = self.headers.iter().filter(|header| header.name == name);
        match (values.next(), values.next()) {
            (Some(_), Some(_)) => Err(HeadError("a header that may occur once occurs twice")),
            (first, _) => Ok(first.map(|header| header.value.as_str())),
        }
    }

    /// How much body follows.
    pub(super) fn body(&self) -> Result<Body, HeadError> {
        let length = self.single("content-length")?;
        let coding = self.single("transfer-encoding")?;
        match (length, coding, self.version) {
            (None, None, _) => Ok(Body::None),
            (Some(text), None, _) => {
                let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                let length = text.parse().ok().filter(|_| digits);
                length
                    .map(Body::Length)
                    .ok_or(HeadError("the length of the request is not a number"))
            }
            (None, Some(coding), Version::Http11) if coding.eq_ignore_ascii_case("chunked") => {
                Ok(Body::Chunked)
            }
            _ => Err(HeadError("the length of the request is ambiguous")),
        }
    }

    /// The headers to pass on: neither those of this connection nor those that `Connection` names.
    pub(super) fn passed_on(&self) -> impl Iterator<Item = &Header> {
        let named: Vec<String> = self
            .headers
            .iter()
            .filter(|header| header.name == "connection")
            .flat_map(|header| header.value.split(','))
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        self.headers.iter().filter(move |header| {
            let framing = ["content-length", "transfer-encoding"];
            let dropped = HOP_BY_HOP.contains(&header.name.as_str())
                || (named.contains(&header.name) && !framing.contains(&header.name.as_str()));
            !dropped
        })
    }
}

fn request_line(line: &str) -> Result<(String, String, Version), HeadError> {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words.as_slice() else {
        return Err(HeadError("this is not an HTTP/1 request"));
    };
    let version = match *version {
        "HTTP/1.1" => Version::Http11,
        "HTTP/1.0" => Version::Http10,
        _ => return Err(HeadError("the proxy speaks only HTTP/1.0 and HTTP/1.1")),
    };
    if method.is_empty() || !method.bytes().all(is_token) {
        return Err(HeadError("the method is not valid"));
    }
    if target.is_empty() || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(HeadError("the address contains invalid characters"));
    }
    Ok(((*method).to_owned(), (*target).to_owned(), version))
}

fn header(line: &str) -> Result<Header, HeadError> {
    let (name, value) = line
        .split_once(':')
        .ok_or(HeadError("a header has no colon"))?;
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(HeadError("a header's name is not valid"));
    }
    let value = value.trim_matches([' ', '\t']);
    if value.chars().any(|c| c.is_ascii_control() && c != '\t') {
        return Err(HeadError("a header contains a control character"));
    }
    Ok(Header {
        name: name.to_ascii_lowercase(),
        value: value.to_owned(),
    })
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The request is ambiguous, so it is not passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HeadError(pub(super) &'static str);

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Version {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Head, HeadError> {
        Head::parse(text.as_bytes())
    }

    fn body(headers: &str) -> Result<Body, HeadError> {
        head(&format!("POST http://a/ HTTP/1.1\r\n{headers}\r\n\r\n"))?.body()
    }

    #[test]
    fn a_request_is_read() {
        let text = "GET http://a/?q HTTP/1.1\r\nHost: a\r\nX-Y: 1\r\nConnection: x-y\r\n\r\nrest";
        let head = head(text).expect("a head");
        assert_eq!(
            (head.method.as_str(), head.target.as_str()),
            ("GET", "http://a/?q")
        );
        assert_eq!(head.length, text.len() - 4);
        assert_eq!(head.single("host"), Ok(Some("a")));
        assert_eq!(head.passed_on().count(), 0);
    }

    #[test]
    fn what_servers_disagree_about_is_refused() {
        for text in [
            "GET / HTTP/2.0\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET /\tx HTTP/1.1\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\n Host: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n",
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(head(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_body_has_one_length() {
        assert_eq!(body("X: y"), Ok(Body::None));
        assert_eq!(body("Content-Length: 12"), Ok(Body::Length(12)));
        assert_eq!(body("Transfer-Encoding: Chunked"), Ok(Body::Chunked));
        for headers in [
            "Content-Length: +1",
            "Content-Length: 1\r\nContent-Length: 2",
            "Content-Length: 1\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: gzip",
            "Content-Length: 99999999999999999999",
        ] {
            assert!(body(headers).is_err(), "{headers}");
        }
    }
}
