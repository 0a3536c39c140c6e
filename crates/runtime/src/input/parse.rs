//! Parses arguments under limits on size, depth and number of values. Does not recurse into a value
//! that is already parsed, and refuses duplicate keys, because two readers could otherwise see two
//! inputs.

use std::fmt;

use haft_contract::{Arguments, ErrorKind, ToolError};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The largest arguments accepted, in bytes of JSON.
pub(crate) const MAX_INPUT_BYTES: usize = 8 * 1024 * 1024;

/// The deepest nesting accepted.
pub(crate) const MAX_INPUT_DEPTH: usize = 64;

/// The most values (of any kind, nested ones included) accepted.
pub(crate) const MAX_INPUT_VALUES: usize = 100_000;

/// The input object of a call. Accepts an object, the same as JSON text, or either wrapped as
/// `{"arguments": …}` where the tool has no such parameter.
pub(crate) fn parse(
    arguments: Arguments,
    has_parameter: impl Fn(&str) -> bool,
) -> Result<Map<String, Value>, ToolError> {
    let mut value = match arguments {
        Arguments::Text(text) => read(&text)?,
        Arguments::Value(value) => {
            within_limits(&value)?;
            value
        }
    };
    // At most three layers are removed: text around a wrapper around text.
    for _ in 0..3 {
        value = match value {
            Value::String(text) => read(&text)?,
            Value::Object(mut object)
                if object.len() == 1
                    && object.contains_key("arguments")
                    && !has_parameter("arguments") =>
            {
                object.remove("arguments").unwrap_or(Value::Null)
            }
            Value::Object(object) => return Ok(object),
            // A tool without parameters is often called with nothing at all.
            Value::Null => return Ok(Map::new()),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => break,
        };
    }
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(
            ToolError::invalid_input("the arguments are not a JSON object")
                .hint("pass the parameters as one object, such as {\"path\": \"src/lib.rs\"}"),
        ),
    }
}

/// Whether a value's JSON is at most this many bytes, without building it.
pub(crate) fn fits_in(value: &Value, bytes: usize) -> bool {
    let mut left = bytes;
    let fitting = walk(value, |value, _| {
        left = left.checked_sub(own_bytes(value)).ok_or(())?;
        Ok::<(), ()>(())
    });
    fitting.is_ok()
}

/// The bytes of a value's JSON, without those of the values in it.
fn own_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) => 4,
        Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.len() + 2,
        Value::Object(object) => object.keys().map(|key| key.len() + 4).sum::<usize>() + 2,
    }
}

/// Shows every value in a value, and how deep it is, until one is refused. Uses its own stack
/// instead of the thread's, and none for a value that nests nothing.
fn walk<'a, E>(
    value: &'a Value,
    mut visit: impl FnMut(&'a Value, usize) -> Result<(), E>,
) -> Result<(), E> {
    visit(value, 0)?;
    let mut nested = Vec::new();
    let mut next = Some((value, 0));
    while let Some((value, depth)) = next {
        let mut inside = |item: &'a Value| {
            visit(item, depth + 1)?;
            if matches!(item, Value::Array(_) | Value::Object(_)) {
                nested.push((item, depth + 1));
            }
            Ok(())
        };
        match value {
            Value::Array(items) => items.iter().try_for_each(&mut inside)?,
            Value::Object(object) => object.values().try_for_each(&mut inside)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        next = nested.pop();
    }
    Ok(())
}

fn too_large(what: String) -> ToolError {
    ToolError::new(ErrorKind::LimitExceeded, format!("the arguments {what}"))
        .hint("pass large data as a file in the workspace and name its path")
}

fn read(text: &str) -> Result<Value, ToolError> {
    if text.len() > MAX_INPUT_BYTES {
        return Err(too_large(format!(
            "are {} bytes of JSON; the limit is {MAX_INPUT_BYTES}",
            text.len()
        )));
    }
    let mut values = 0;
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Bounded {
        depth: 0,
        values: &mut values,
    }
    .deserialize(&mut reader)
    .and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| {
        ToolError::invalid_input(format!("the arguments are not valid JSON: {error}"))
            .hint("send one JSON object with double-quoted keys")
    })
}

/// Checks a value that was parsed elsewhere.
fn within_limits(value: &Value) -> Result<(), ToolError> {
    let mut values = 0_usize;
    let mut left = MAX_INPUT_BYTES;
    walk(value, |value, depth| {
        values += 1;
        if depth > MAX_INPUT_DEPTH {
            return Err(too_large(format!(
                "nest deeper than {MAX_INPUT_DEPTH} levels"
            )));
        }
        if values > MAX_INPUT_VALUES {
            return Err(too_large(format!(
                "hold more than {MAX_INPUT_VALUES} values"
            )));
        }
        let rest = left.checked_sub(own_bytes(value));
        left = rest.ok_or_else(|| too_large(format!("are larger than {MAX_INPUT_BYTES} bytes")))?;
        Ok(())
    })
}

struct Bounded<'a> {
    depth: usize,
    values: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Bounded<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        *self.values += 1;
        if *self.values > MAX_INPUT_VALUES {
            return Err(D::Error::custom(format_args!(
                "more than {MAX_INPUT_VALUES} values"
            )));
        }
        if self.depth > MAX_INPUT_DEPTH {
            return Err(D::Error::custom(format_args!(
                "deeper than {MAX_INPUT_DEPTH} levels"
            )));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounded<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(Bounded {
            depth: self.depth + 1,
            values: self.values,
        })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
            }
            let value = map.next_value_seed(Bounded {
                depth: self.depth + 1,
                values: self.values,
            })?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(arguments: Arguments, expect: &str) {
        let shown = match parse(arguments, |_| false) {
            Ok(object) => Value::Object(object).to_string(),
            Err(error) => format!("{}: {error}", error.kind()),
        };
        assert!(shown.contains(expect), "{shown} does not hold {expect}");
    }

    #[test]
    fn r9_arguments_arrive_as_object_text_or_wrapped() {
        let expect = r#"{"path":"a"}"#;
        check(Arguments::Value(json!({"path": "a"})), expect);
        check(Arguments::Text(r#"{"path":"a"}"#.into()), expect);
        check(Arguments::Value(json!(r#"{"path":"a"}"#)), expect);
        check(
            Arguments::Value(json!({"arguments": {"path": "a"}})),
            expect,
        );
        check(
            Arguments::Value(json!({"arguments": r#"{"path":"a"}"#})),
            expect,
        );
        check(Arguments::Value(Value::Null), "{}");
        check(
            Arguments::Value(json!([1])),
            "invalid_input: the arguments are not a JSON object",
        );
    }

    #[test]
    fn rx_14_hostile_json_is_refused_within_limits() {
        check(Arguments::Text("[".repeat(100_000)), "invalid_input");
        check(
            Arguments::Text(format!("{{\"a\":{}1{}}}", "[".repeat(80), "]".repeat(80))),
            "deeper",
        );
        let keys: Vec<String> = (0..1_000_000).map(|n| format!("\"{n}\":1")).collect();
        check(
            Arguments::Text(format!("{{{}}}", keys.join(","))),
            "limit_exceeded",
        );
        let keys: Vec<String> = (0..150_000).map(|n| format!("\"{n}\":1")).collect();
        check(
            Arguments::Text(format!("{{{}}}", keys.join(","))),
            "more than 100000 values",
        );
        check(
            Arguments::Text(r#"{"a":1,"a":2}"#.into()),
            "duplicate key `a`",
        );
        check(Arguments::Text(r#"{"a":1e400}"#.into()), "out of range");
        check(
            Arguments::Text(format!("{{\"a\":\"{}\"}}", "x".repeat(100 << 20))),
            "limit_exceeded",
        );
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        check(Arguments::Value(json!({"a": deep})), "limit_exceeded");
    }
}
