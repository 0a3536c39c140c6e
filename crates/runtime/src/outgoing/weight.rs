//! What an input weighs that becomes a request: its bytes, and more for what looks like encoded data.

use serde_json::Value;

/// How much more a byte of encoded data weighs than one of a word.
const ENCODED: u64 = 8;

/// The shortest run of letters and digits that is taken for encoded data. Words of addresses are
/// shorter, or are letters only.
const MIN_ENCODED_BYTES: usize = 16;

/// Data changes between small letters, capitals and digits at least once in so many characters.
const CHANGES_IN: usize = 4;

/// The deepest input that is weighed value by value; what is deeper weighs as its text.
pub(super) const MAX_DEPTH: usize = 32;

/// The weight of every value in an input but those that the session was shown as they are. The names
/// of an input's own parameters are the tool's; every name below them may be the agent's.
pub(super) fn of_input(input: &Value, is_shown: impl Fn(&str) -> bool) -> u64 {
    let is_shown = &is_shown;
    match input {
        Value::Object(parameters) => parameters
            .values()
            .map(|value| of_value(value, is_shown, MAX_DEPTH))
            .fold(0, u64::saturating_add),
        other => of_value(other, is_shown, MAX_DEPTH),
    }
}

fn of_value(value: &Value, is_shown: &impl Fn(&str) -> bool, depth: usize) -> u64 {
    let Some(below) = depth.checked_sub(1) else {
        return of_text(&value.to_string());
    };
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(number) => of_text(&number.to_string()),
        Value::String(text) if is_shown(text) => 1,
        Value::String(text) => of_text(text),
        Value::Array(items) => items
            .iter()
            .map(|item| of_value(item, is_shown, below))
            .fold(0, u64::saturating_add),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| of_text(name).saturating_add(of_value(field, is_shown, below)))
            .fold(0, u64::saturating_add),
    }
}

fn of_text(text: &str) -> u64 {
    let runs = text.split(|c: char| !c.is_ascii_alphanumeric());
    let encoded: usize = runs.filter(|run| looks_encoded(run)).map(str::len).sum();
    bytes(text.len()).saturating_add(bytes(encoded).saturating_mul(ENCODED - 1))
}

/// Whether a run of letters and digits is more likely data than a name. A name such as
/// `HttpClient2Builder` goes from one class of characters to another rarely; hexadecimal and base64 do
/// at every other character or so.
fn looks_encoded(run: &str) -> bool {
    if run.len() < MIN_ENCODED_BYTES {
        return false;
    }
    let pairs = run.as_bytes().windows(2);
    let changes = pairs.filter(|pair| {
        let (one, next) = (class(pair.first()), class(pair.last()));
        // A capital before a small letter begins a word.
        one != next && (one, next) != (Class::Capital, Class::Small)
    });
    let is_number = run.bytes().all(|byte| byte.is_ascii_digit());
    is_number || changes.count().saturating_mul(CHANGES_IN) >= run.len()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Small,
    Capital,
    Digit,
}

fn class(byte: Option<&u8>) -> Class {
    match byte {
        Some(byte) if byte.is_ascii_digit() => Class::Digit,
        Some(byte) if byte.is_ascii_uppercase() => Class::Capital,
        _ => Class::Small,
    }
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOTHING_SHOWN: fn(&str) -> bool = |_| false;

    #[test]
    fn words_weigh_their_bytes() {
        for text in [
            "https://doc.rust-lang.org/book/ch03-02-data-types.html",
            "https://en.wikipedia.org/wiki/Internationalization_and_localization",
            "how do I use the HttpClient2Builder of an asynchronous framework in 2026",
            "https://docs.rs/tokio/latest/tokio/net/struct.TcpListener.html",
            "AbstractSingletonProxyFactoryBean",
        ] {
            assert_eq!(
                of_input(&json!({"url": text}), NOTHING_SHOWN),
                bytes(text.len()),
                "{text}"
            );
        }
    }

    #[test]
    fn encoded_data_weighs_more() {
        for data in [
            "c2VjcmV0IGtleSBvZiB0aGUgcHJvamVjdA",
            "5f4dcc3b5aa765d61d8327deb882cf99",
            "AKIAIOSFODNN7EXAMPLE1A2B3C4D",
            "12345678901234567890",
        ] {
            let weight = of_input(&json!({"q": data}), NOTHING_SHOWN);
            assert_eq!(weight, ENCODED * bytes(data.len()), "{data}");
        }
    }

    #[test]
    fn what_was_shown_and_the_tools_own_names_weigh_nothing_much() {
        let input = json!({"url": "https://a.example/abc", "mode": "raw", "deep": {"key": ["v", 12, null]}});
        assert_eq!(of_input(&input, NOTHING_SHOWN), 21 + 3 + 3 + 1 + 2 + 1);
        assert_eq!(
            of_input(&input, |text| text.ends_with("abc")),
            1 + 3 + 3 + 1 + 2 + 1
        );
    }

    #[test]
    fn whatever_is_nested_is_weighed() {
        let mut input = json!("abc");
        for _ in 0..100 {
            input = json!([input]);
        }
        assert!(of_input(&input, NOTHING_SHOWN) >= 3);
    }
}
