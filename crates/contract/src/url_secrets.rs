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
///
/// Only what stands in the query or the fragment of an address is taken out, and never a character that a
/// shell reads: what a command does must not be hidden by calling it a key.
pub fn without_url_secrets(text: &str) -> Cow<'_, str> {
    // Every text on record passes here, and most have none.
    if !text.contains('=') {
        return Cow::Borrowed(text);
    }
    let (mut clean, mut copied) = (String::new(), 0);
    let mut begin = 0;
    for word in text.split(ends_word) {
        let end = begin + word.len();
        if let Some(query) = query_of(word) {
            secrets(text, (begin + query, end), |from, to| {
                clean.push_str(text.get(copied..from).unwrap_or_default());
                clean.push_str(REDACTED);
                copied = to;
            });
        }
        // What ends a word is one byte in UTF-8, or counted as the character it is.
        let over = text.get(end..).and_then(|rest| rest.chars().next());
        begin = end + over.map_or(0, char::len_utf8);
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    clean.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(clean)
}

/// Whether a text may have such a secret once it is decoded from JSON, where a line break before an address
/// looks like a letter of it.
pub fn may_have_url_secrets(json: &str) -> bool {
    json.contains('=')
        && json.split(ends_word).any(|word| {
            let mut has_one = false;
            if let Some(query) = word.find(['?', '#']) {
                secrets(word, (query + 1, word.len()), |_, _| has_one = true);
            }
            has_one
        })
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "\"'<>\\`".contains(c)
}

/// Where the query or the fragment of an address begins in a word: behind `scheme://`, or behind a path as
/// pages and answers write it.
fn query_of(word: &str) -> Option<usize> {
    let address = match word.find("://") {
        Some(found) => found + 3,
        None if word.starts_with('/') => 0,
        None => return None,
    };
    let query = word.get(address..)?.find(['?', '#'])?;
    Some(address + query + 1)
}

/// Tells where the secrets are between two places of a text.
fn secrets(text: &str, (mut at, end): (usize, usize), mut found: impl FnMut(usize, usize)) {
    while let Some(rest) = text.get(at..end) {
        // As it is written in a page.
        let begin = at + if rest.starts_with("amp;") { 4 } else { 0 };
        let rest = text.get(begin..end).unwrap_or_default();
        let part = rest.find(['?', '&', '#']).unwrap_or(rest.len());
        at = begin + part + 1;
        let Some((name, value)) = rest.get(..part).and_then(|part| part.split_once('=')) else {
            continue;
        };
        if name.len() > MAX_NAME || !name.chars().all(in_name) || !is_secret(name) {
            continue;
        }
        let value = value.split(is_for_a_shell).next().unwrap_or_default();
        if !value.is_empty() && !stands_for_a_secret(value) {
            let from = begin + name.len() + 1;
            found(from, from + value.len());
        }
    }
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.~%".contains(c)
}

fn is_for_a_shell(c: char) -> bool {
    "$();|{}".contains(c)
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

/// Whether a secret was taken out here before, or never was there: a question about a request has
/// `SECRET_` and a name in its place.
fn stands_for_a_secret(value: &str) -> bool {
    value.starts_with("[redacted") || value.starts_with("SECRET_")
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
                "[x](http://a/?token=abc), http://a/?key=abc;rm and http://a/?key=a|sh",
                "[x](http://a/?token=[redacted]), http://a/?key=[redacted];rm and \
                 http://a/?key=[redacted]|sh",
            ),
            (
                "http://a/\u{3000}http://b/?key=\u{e4}\u{3000}c",
                "http://a/\u{3000}http://b/?key=[redacted]\u{3000}c",
            ),
        ] {
            assert_eq!(without_url_secrets(text), expect, "{text}");
            assert_eq!(without_url_secrets(expect), expect, "once is enough");
            let json = serde_json::to_string(&format!("\n{text}\t")).unwrap();
            assert!(may_have_url_secrets(&json), "{json}");
        }
        for text in [
            "https://docs.rs/?search=token",
            "http://a/?design=x&monkey=y&page=2",
            "http://a/?token=",
            "a && key = b; if (x ? key : y)",
            "http://a/?ä=key&=&&",
            "http://a/?key=[redacted]&token=SECRET_TOKEN",
            // Neither is in a query.
            "http://a/public&key=/../admin/delete",
            "true&key=$(echo${IFS}pwned>owned.txt)",
            "http://a/?key=$(echo${IFS}pwned)",
            "echo hi;&token=rm_-rf_/everything",
            "a?token=b",
            "",
        ] {
            assert!(
                matches!(without_url_secrets(text), Cow::Borrowed(_)),
                "{text}"
            );
        }
    }

    #[test]
    fn parameters_that_contain_each_other_cost_no_more_than_their_length() {
        // Looked for anew from each `?`, the ends of these values are 5 billion characters away.
        for text in ["/?a=".repeat(100_000), "/?sig=&b=".repeat(50_000)] {
            assert!(matches!(without_url_secrets(&text), Cow::Borrowed(_)));
        }
        let text = "/?sig=&token=x".repeat(25_000);
        let clean = without_url_secrets(&text);
        let expect = "?sig=&token=[redacted]".repeat(25_000);
        assert_eq!(clean, format!("/{expect}"));
    }
}
