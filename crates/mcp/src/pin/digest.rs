//! The hash of a definition: SHA-256 over its canonical JSON (RFC 8785). The order of members and
//! the spelling of numbers do not matter; everything else does.

use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The hash of a definition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The hash of a definition; `None` if its canonical form is not unique to it.
    pub fn of(definition: &Value) -> Option<Self> {
        if !is_exact(definition) {
            return None;
        }
        let canonical = serde_json_canonicalizer::to_vec(definition).ok()?;
        Some(Self::of_bytes(&canonical))
    }

    /// The SHA-256 of some bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// A hash that was computed elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.is_ascii() {
            return None;
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(at * 2..at * 2 + 2)?;
            if !digits.chars().all(|c| c.is_ascii_hexdigit()) {
                return None;
            }
            *byte = u8::from_str_radix(digits, 16).ok()?;
        }
        Some(Self(bytes))
    }

    /// The bytes.
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }

    /// The first digits, for display.
    pub fn short(self) -> String {
        self.to_string().chars().take(12).collect()
    }
}

/// The largest whole number with a canonical form of its own. Above it several numbers are written
/// alike, because the canonical form treats numbers as IEEE 754 doubles.
const MAX_EXACT: u64 = (1 << 53) - 1;

/// Whether every whole number in a definition has a canonical form that no other number shares.
pub(super) fn is_exact(definition: &Value) -> bool {
    match definition {
        Value::Number(number) => {
            let whole = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            whole.is_none_or(|whole| whole <= MAX_EXACT)
        }
        Value::Array(values) => values.iter().all(is_exact),
        Value::Object(members) => members.values().all(is_exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mc_02_everything_but_the_order_of_members_is_in_the_hash() {
        let of = |value: Value| Digest::of(&value).unwrap();
        let tool = json!({"name": "a", "description": "b", "vendor": {"x": 1}});
        let other_order: Value =
            serde_json::from_str(r#"{"vendor":{"x":1},"description":"b","name":"a"}"#).unwrap();
        assert_eq!(of(tool.clone()), of(other_order));
        for changed in [
            json!({"name": "a", "description": "b ", "vendor": {"x": 1}}),
            json!({"name": "a", "description": "b\u{200b}", "vendor": {"x": 1}}),
            json!({"name": "a", "description": "b", "vendor": {"x": 2}}),
            json!({"name": "a", "description": "b", "vendor": {"x": 1}, "annotations": {}}),
        ] {
            assert_ne!(of(tool.clone()), of(changed));
        }
        // Two encodings of one letter are different texts.
        assert_ne!(of(json!("\u{e9}")), of(json!("e\u{301}")));
    }

    #[test]
    fn mc_02_a_number_that_is_written_like_another_has_no_hash() {
        for (number, exact) in [
            (json!(9_007_199_254_740_991_i64), true),
            (json!(-9_007_199_254_740_991_i64), true),
            (json!(9_007_199_254_740_992_i64), false),
            (json!(9_007_199_254_740_993_i64), false),
            (json!(-9_007_199_254_740_993_i64), false),
            (json!(u64::MAX), false),
            (json!(i64::MIN), false),
            (json!(1.5), true),
            (json!(1e300), true),
        ] {
            let schema = json!({"properties": {"n": {"maximum": [number]}}});
            assert_eq!(Digest::of(&schema).is_some(), exact, "{schema}");
        }
    }

    #[test]
    fn a_hash_parses_back() {
        let digest = Digest::of(&json!({})).unwrap();
        // The stored form: what an older version accepted is still accepted.
        let text = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
        assert_eq!(digest.to_string(), text);
        assert_eq!(format!("{digest:?}"), text);
        assert_eq!(digest.short(), "44136fa355b3");
        assert_eq!(Digest::parse(text), Some(digest));
        assert_eq!(Digest::from_bytes(digest.bytes()), digest);
        for other in [
            "",
            "+1",
            &"+1".repeat(32),
            &text[..62],
            &format!("{text}00"),
            &format!("{}\u{e9}", &text[..62]),
        ] {
            assert_eq!(Digest::parse(other), None, "{other}");
        }
    }
}
