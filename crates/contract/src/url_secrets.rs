//! Secrets in addresses: signatures, tokens and keys that stand in the query of a URL, and open what it names
//! to whoever has it. A call uses the address as it is; what is recorded, shown or logged has a mark instead.

use std::borrow::Cow;

use crate::secret::REDACTED;

/// What a parameter's name ends with that carries a secret, in lower case and without separators:
/// `X-Amz-Signature`, `access_token`, `clientSecret`.
const ENDINGS: [&str; 9] = [
    "signature",
    "token",
    "secret",
    "password",
    "passwd",
    "credential",
    "apikey",
    "accesskey",
    "accesskeyid",
];

/// Short words that count only as the last word of a name: `sig` and `api-key`, not `design` or `monkey`.
const WORDS: [&str; 8] = ["sig", "key", "auth", "hmac", "jwt", "pwd", "session", "sas"];

/// The longest name of a parameter that is looked at.
const MAX_NAME: usize = 80;

/// A text without the secrets in the addresses it contains; borrowed when there is none.
pub fn without_url_secrets(text: &str) -> Cow<'_, str> {
    replaced(text, |_| REDACTED.to_owned())
}

/// The same, for a person who decides about the address: each mark says how long its secret is, since an
/// address can also carry away what it should not.
pub fn with_measured_url_secrets(text: &str) -> Cow<'_, str> {
    replaced(text, |secret| {
        format!("[redacted:{}]", secret.chars().count())
    })
}

fn replaced(text: &str, mark: impl Fn(&str) -> String) -> Cow<'_, str> {
    let (mut clean, mut rest) = (String::new(), text);
    let mut at = 0;
    while let Some(found) = rest.get(at..).and_then(|rest| rest.find(['?', '&', '#'])) {
        let begin = at + found + 1;
        let after = rest.get(begin..).unwrap_or_default();
        // As it is written in a page.
        let begin = begin + if after.starts_with("amp;") { 4 } else { 0 };
        at = begin;
        let Some((name, secret)) = rest.get(begin..).and_then(parameter) else {
            continue;
        };
        if !is_secret(name) || is_mark(secret) {
            continue;
        }
        let (before, behind) = rest.split_at(begin + name.len() + 1);
        clean.push_str(before);
        clean.push_str(&mark(secret));
        rest = behind.get(secret.len()..).unwrap_or_default();
        at = 0;
    }
    if clean.is_empty() {
        return Cow::Borrowed(text);
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

/// The name and the value of the parameter that a text begins with, if it has both.
fn parameter(text: &str) -> Option<(&str, &str)> {
    let in_name = |c: char| c.is_ascii_alphanumeric() || "-_.~%".contains(c);
    let end = text.find(|c| !in_name(c)).filter(|end| *end <= MAX_NAME)?;
    let (name, rest) = text.split_at(end);
    let value = rest.strip_prefix('=')?;
    let over = |c: char| c.is_whitespace() || "&#\"'<>\\`".contains(c);
    let end = value.find(over).unwrap_or(value.len());
    let value = value.get(..end).filter(|value| !value.is_empty())?;
    Some((name, value))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name
        .replace("%2d", "-")
        .replace("%5f", "_")
        .replace("%2e", ".");
    let last = name.rsplit(['-', '_', '.']).next().unwrap_or_default();
    let plain: String = name.chars().filter(|c| !"-_.~".contains(*c)).collect();
    WORDS.contains(&last) || ENDINGS.iter().any(|ending| plain.ends_with(ending))
}

/// Whether a secret was taken out here before.
fn is_mark(value: &str) -> bool {
    let inside = value
        .strip_prefix("[redacted")
        .and_then(|rest| rest.strip_suffix(']'));
    inside.is_some_and(|inside| inside.chars().all(|c| c == ':' || c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_tokens_and_keys_are_taken_out_of_addresses() {
        for (text, expect) in [
            (
                "https://b.s3.example/a?X-Amz-Date=1&X-Amz-Signature=0af1&x=y#f",
                "https://b.s3.example/a?X-Amz-Date=1&X-Amz-Signature=[redacted]&x=y#f",
            ),
            (
                "http://a/?access_token=t",
                "http://a/?access_token=[redacted]",
            ),
            (
                "http://a/#access_token=t",
                "http://a/#access_token=[redacted]",
            ),
            ("/a?sig=%2Ba&key=b", "/a?sig=[redacted]&key=[redacted]"),
            (
                "<a href='/a?b=c&amp;authToken=d'>",
                "<a href='/a?b=c&amp;authToken=[redacted]'>",
            ),
            (
                "see http://a/?X%2DAmz%2DSecurity%2DToken=x and http://b/?AWSAccessKeyId=y.",
                "see http://a/?X%2DAmz%2DSecurity%2DToken=[redacted] and http://b/?AWSAccessKeyId=[redacted]",
            ),
            (
                "http://a/?token=[redacted]&key=[redacted:4]",
                "http://a/?token=[redacted]&key=[redacted:4]",
            ),
        ] {
            assert_eq!(without_url_secrets(text), expect, "{text}");
            assert_eq!(without_url_secrets(expect), expect, "once is enough");
        }
        for text in [
            "https://docs.rs/?search=token",
            "http://a/?design=x&monkey=y&page=2",
            "http://a/?token=",
            "a && key = b; if (x ? key : y)",
            "?ä=key&=&&",
            "",
        ] {
            assert!(
                matches!(without_url_secrets(text), Cow::Borrowed(_)),
                "{text}"
            );
        }
        let measured = with_measured_url_secrets("http://a/?sig=ä1234&b=c");
        assert_eq!(measured, "http://a/?sig=[redacted:5]&b=c");
    }
}
