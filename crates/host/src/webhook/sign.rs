//! The signature of a request or an answer: HMAC-SHA-256 over its direction, its time, the question
//! and the body, so that a request can never be sent back as an answer.

use std::fmt::{self, Write as _};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::WebhookError;

/// The key both sides sign with.
#[derive(Clone)]
pub struct WebhookKey(Hmac<Sha256>);

/// The direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// From Haft to the service.
    Question,
    /// From the service to Haft.
    Answer,
}

impl Direction {
    fn as_str(self) -> &'static str {
        match self {
            Self::Question => "question",
            Self::Answer => "answer",
        }
    }
}

impl WebhookKey {
    /// The shortest key that is accepted.
    pub const MIN_BYTES: usize = 32;

    /// A key. Both sides need the same bytes; `openssl rand -hex 32` makes good ones.
    pub fn new(bytes: &[u8]) -> Result<Self, WebhookError> {
        if bytes.len() < Self::MIN_BYTES {
            return Err(WebhookError::ShortKey(bytes.len()));
        }
        let key = Hmac::new_from_slice(bytes);
        key.map(Self)
            .map_err(|error| WebhookError::SetUp(error.to_string()))
    }

    /// The signature as a header value.
    pub(super) fn sign(&self, direction: Direction, seconds: i64, id: &str, body: &[u8]) -> String {
        let bytes = self
            .over(direction, seconds, id, body)
            .finalize()
            .into_bytes();
        let mut signature = String::from(VERSION);
        for byte in bytes {
            let _ = write!(signature, "{byte:02x}");
        }
        signature
    }

    /// Whether a signature was made with this key; compared in constant time.
    pub(super) fn verifies(
        &self,
        direction: Direction,
        seconds: i64,
        id: &str,
        body: &[u8],
        signature: &str,
    ) -> bool {
        let Some(bytes) = signature.strip_prefix(VERSION).and_then(from_hex) else {
            return false;
        };
        let expected = self.over(direction, seconds, id, body);
        expected.verify_slice(&bytes).is_ok()
    }

    fn over(&self, direction: Direction, seconds: i64, id: &str, body: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(format!("{}\n{seconds}\n{id}\n", direction.as_str()).as_bytes());
        mac.update(body);
        mac
    }
}

/// Names what is signed and how, so that the scheme can change.
const VERSION: &str = "v1=";

impl fmt::Debug for WebhookKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookKey(…)")
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks_exact(2)
        .map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_what_was_signed_and_nothing_else() {
        let key = WebhookKey::new(&[7; 32]).unwrap();
        let other = WebhookKey::new(&[8; 32]).unwrap();
        let (id, another) = ("one", "another");
        let signed = key.sign(Direction::Answer, 5, id, b"body");
        let check = |key: &WebhookKey, direction, seconds, id, body: &[u8], expect: bool| {
            let held = key.verifies(direction, seconds, id, body, &signed);
            assert_eq!(held, expect);
        };
        check(&key, Direction::Answer, 5, id, b"body", true);
        check(&key, Direction::Question, 5, id, b"body", false);
        check(&key, Direction::Answer, 6, id, b"body", false);
        check(&key, Direction::Answer, 5, another, b"body", false);
        check(&key, Direction::Answer, 5, id, b"bodY", false);
        check(&other, Direction::Answer, 5, id, b"body", false);
        for forged in ["", "v1=", "v1=zz", "v1=0", &signed[..20], &signed[3..]] {
            assert!(
                !key.verifies(Direction::Answer, 5, id, b"body", forged),
                "{forged}"
            );
        }
    }

    #[test]
    fn the_signature_is_what_other_languages_compute() {
        // printf 'answer\n5\n<id>\nbody' | openssl dgst -sha256 -hmac <32 times a>
        let key = WebhookKey::new(&[b'a'; 32]).unwrap();
        let id = "01890000-0000-7000-8000-000000000000";
        let signed = key.sign(Direction::Answer, 5, id, b"body");
        assert_eq!(signed, EXPECTED);
    }

    const EXPECTED: &str = "v1=ab135da97496b2c0d12cc07755093454f5df24ffe3c6d34c261fffa3bada2036";

    #[test]
    fn a_short_key_is_refused_and_a_key_is_never_printed() {
        assert!(matches!(
            WebhookKey::new(&[1; 31]),
            Err(WebhookError::ShortKey(31))
        ));
        let key = WebhookKey::new(&[b'k'; 32]).unwrap();
        assert_eq!(format!("{key:?}"), "WebhookKey(…)");
    }
}
