//! Known secrets in a text that is about to leave the machine: as they are, percent-encoded, in
//! hexadecimal or base64, or cut into pieces by punctuation.
//!
//! This is a tripwire for the ways a model takes when a page tells it to. Whoever writes a secret
//! backwards gets past it; what that may reach is for the rules about hosts.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::Redactor;

/// The shortest secret that is looked for. A shorter one stands in ordinary text by chance.
const MIN_BYTES: usize = 8;

/// The shortest one of small letters only, which could be a word.
const MIN_WORD_BYTES: usize = 12;

/// Takes what stands in addresses: without padding, and wherever it was cut off.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Redactor {
    /// Whether a text holds an exact value that this redactor knows, disguised or not.
    pub fn holds_secret(&self, text: &str) -> bool {
        let Ok(exact) = self.exact.read() else {
            return true;
        };
        let mut secrets = exact
            .iter()
            .filter(|secret| is_distinctive(secret))
            .peekable();
        if secrets.peek().is_none() {
            return false;
        }
        let readings = Readings::of(text);
        secrets.any(|secret| readings.hold(secret))
    }
}

fn is_distinctive(secret: &str) -> bool {
    let is_word = secret.bytes().all(|byte| byte.is_ascii_lowercase());
    secret.len() >= if is_word { MIN_WORD_BYTES } else { MIN_BYTES }
}

/// What a text says, read in each of the ways.
struct Readings {
    as_it_is: String,
    without_percent: String,
    /// In small letters, for hexadecimal in capitals.
    small: String,
    /// Letters and digits only.
    joined: String,
    /// What its runs of base64 stand for.
    decoded: Vec<Vec<u8>>,
}

impl Readings {
    fn of(text: &str) -> Self {
        let without_percent = without_percent(text);
        let joined = letters_and_digits(&without_percent);
        let mut decoded = Vec::new();
        for form in [text, &without_percent, &joined] {
            decode_runs(form, &mut decoded);
        }
        Self {
            as_it_is: text.to_owned(),
            without_percent,
            small: text.to_ascii_lowercase(),
            joined,
            decoded,
        }
    }

    fn hold(&self, secret: &str) -> bool {
        let pieces = letters_and_digits(secret);
        self.as_it_is.contains(secret)
            || self.without_percent.contains(secret)
            || self.small.contains(secret)
            || is_distinctive(&pieces) && self.joined.contains(&pieces)
            || self
                .decoded
                .iter()
                .any(|bytes| memchr::memmem::find(bytes, secret.as_bytes()).is_some())
    }
}

fn letters_and_digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn without_percent(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = match escaped {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What each run of base64 in a text stands for, at each of the four places where it may begin: what
/// stands before it may be of the same letters.
fn decode_runs(text: &str, decoded: &mut Vec<Vec<u8>>) {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '-' | '_');
    for run in text.split(|c| !is_base64(c)) {
        if run.len() < MIN_BYTES {
            continue;
        }
        let standard: Vec<u8> = run
            .bytes()
            .map(|byte| match byte {
                b'-' => b'+',
                b'_' => b'/',
                other => other,
            })
            .collect();
        for start in 0..4 {
            let from = standard.get(start..).unwrap_or_default();
            // One character alone stands for nothing.
            let whole = from.len() - usize::from(from.len() % 4 == 1);
            let letters = from.get(..whole).unwrap_or_default();
            decoded.extend(BASE64.decode(letters).ok());
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

    use super::*;

    const KEY: &str = "tk-9f/Qz+71 Lm?x>";

    fn knows() -> Redactor {
        Redactor::new([KEY.to_owned(), "short1".to_owned(), "password".to_owned()])
    }

    #[test]
    fn a_secret_is_found_in_each_disguise() {
        let hex = "746b2d39662f517a2b3731204c6d3f783e";
        let padded = |before: &str| BASE64_URL_SAFE_NO_PAD.encode(format!("{before}{KEY}and more"));
        for text in [
            format!("https://a.example/?q={KEY}"),
            "https://a.example/?q=tk-9f%2FQz%2B71%20Lm%3Fx%3E".to_owned(),
            "https://a.example/?q=%74%6B-9f/Qz%2b71%20Lm?x>".to_owned(),
            format!("https://a.example/{}", hex.to_uppercase()),
            format!("https://a.example/{hex}"),
            format!("https://a.example/?q={}", BASE64_STANDARD.encode(KEY)),
            format!("https://a.example/x/{}", padded("")),
            format!("https://a.example/x/{}", padded("a")),
            format!("https://a.example/x/{}", padded("ab")),
            "https://tk.9fQz.71Lmx.a.example/".to_owned(),
            "tk-9f\n/Qz+7\n1 Lm?\nx>".to_owned(),
        ] {
            assert!(knows().holds_secret(&text), "{text}");
        }
    }

    #[test]
    fn ordinary_requests_hold_none() {
        for text in [
            "https://docs.rs/tokio/latest/tokio/?search=password",
            "how to reset a password with short1 names",
            "https://a.example/c2VjcmV0IGtleSBvZiB0aGUgcHJvamVjdA==",
            "https://a.example/?q=%zz%4",
            "",
        ] {
            assert!(!knows().holds_secret(text), "{text}");
        }
        assert!(!Redactor::new([]).holds_secret(KEY));
    }
}
