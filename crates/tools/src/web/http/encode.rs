//! Arguments as text for the place where they stand in a request. What cannot stand there is refused;
//! nothing is left out or replaced.

use haft_contract::{ErrorKind, ToolError};
use serde_json::Value;

/// What is never encoded: RFC 3986's unreserved characters.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// A text in which every character that could mean something in a URL is percent-encoded.
pub(super) fn percent(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_unreserved(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// A text, a number or a truth value as text.
pub(super) fn scalar(value: &Value, name: &str) -> Result<String, ToolError> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            let what = match value {
                Value::Array(_) => "a list",
                Value::Object(_) => "an object",
                _ => "nothing",
            };
            let message = format!("`{name}` is {what}, and only a text or a number fits there");
            Err(ToolError::invalid_input(message).at(pointer(name)))
        }
    }
}

/// An argument as a part of one segment of a path. No server may take it for more than that.
pub(super) fn path_part(text: &str, name: &str) -> Result<String, ToolError> {
    let refuse = |why: &str| {
        Err(ToolError::invalid_input(format!("`{name}` {why}"))
            .at(pointer(name))
            .hint("it becomes one part of a path; give the plain name or id"))
    };
    if text.is_empty() {
        return refuse("is empty");
    }
    if text.chars().any(char::is_control) {
        return refuse("has control characters");
    }
    if climbs(text) || climbs(&decoded(text)) || climbs(&decoded(&decoded(text))) {
        return refuse("has a `.` or `..` where a path would leave its place");
    }
    Ok(percent(text))
}

/// Whether a part of a text between slashes, or before a `;`, is `.` or `..`.
pub(super) fn climbs(text: &str) -> bool {
    let mut parts = text.split(['/', '\\']);
    parts.any(|part| matches!(part.split(';').next().unwrap_or(part).trim(), "." | ".."))
}

/// A text as a server sees it that decodes once more than it should.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .first_chunk::<2>()
            .filter(|_| *first == b'%')
            .and_then(|code| std::str::from_utf8(code).ok())
            .and_then(|code| u8::from_str_radix(code, 16).ok());
        if let Some(byte) = code {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// An argument as a part of a header.
pub(super) fn header_part(text: &str, name: &str) -> Result<String, ToolError> {
    if is_header_text(text) {
        return Ok(text.to_owned());
    }
    let message =
        format!("`{name}` becomes part of a header, and has characters that none can have");
    Err(ToolError::invalid_input(message)
        .at(pointer(name))
        .hint("give one line of plain ASCII text"))
}

/// Whether a text can be a part of a header: one line of visible ASCII characters.
pub(super) fn is_header_text(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}

/// Something that is too long, and what there may be of it.
pub(super) fn too_long(what: &str, most: usize) -> ToolError {
    let message = format!("{what} would be longer than {most} bytes");
    ToolError::new(ErrorKind::LimitExceeded, message).hint("give shorter arguments")
}

/// Where an argument is in the input.
pub(super) fn pointer(name: &str) -> String {
    format!("/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_argument_is_one_part_of_a_path_or_refused() {
        let check = |text: &str, expect: &str| {
            assert_eq!(path_part(text, "a").unwrap(), expect, "{text}");
        };
        check("octo cat", "octo%20cat");
        check("a/b", "a%2Fb");
        check("a\\b", "a%5Cb");
        check("?x=1&y#z", "%3Fx%3D1%26y%23z");
        check("100%", "100%25");
        check("a%2fb", "a%252fb");
        check("v1..v2", "v1..v2");
        check("...", "...");
        check("J\u{fc}rgen:@;,", "J%C3%BCrgen%3A%40%3B%2C");
        for text in [
            "",
            ".",
            "..",
            "../x",
            "a/../b",
            "a/..",
            "..\\x",
            "%2e%2e",
            "%2E%2e/x",
            "..%2fx",
            "%252e%252e%252fx",
            "..;/x",
            "a/./b",
            " ..",
            "a\nb",
            "a\0b",
            "a\u{7f}",
        ] {
            let refused = path_part(text, "a").map_err(|error| error.pointer().map(str::to_owned));
            assert_eq!(refused, Err(Some("/a".to_owned())), "{text:?}");
        }
    }

    #[test]
    fn a_header_is_one_line_of_plain_text() {
        assert_eq!(header_part("a b~!", "a").unwrap(), "a b~!");
        for text in [
            "a\r\nX-Evil: 1",
            "a\nb",
            "a\rb",
            "a\0",
            "a\tb",
            "caf\u{e9}",
            "a\u{2028}b",
        ] {
            assert!(header_part(text, "a").is_err(), "{text:?}");
        }
    }

    proptest! {
        /// Whatever an argument is, a path has as many parts as it was written with.
        #[test]
        fn no_argument_adds_a_part(text in "[./\\\\%a2eEfF5cC;?# ]{0,12}") {
            if let Ok(part) = path_part(&text, "a") {
                let url = format!("https://h.example/x/{part}/y?q={}&r", percent(&text));
                let url = url::Url::parse(&url).unwrap();
                prop_assert_eq!(url.host_str(), Some("h.example"));
                prop_assert_eq!(url.path(), format!("/x/{part}/y"));
                let pairs: Vec<_> = url.query_pairs().collect();
                prop_assert_eq!(pairs.len(), 2);
                prop_assert_eq!(&*pairs[0].1, text.as_str());
            }
        }
    }
}
