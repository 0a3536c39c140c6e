//! The form in which changes of rows are kept: JSON with a version. What another version of Haft
//! wrote is read or refused, never guessed.

use serde_json::{Map, Value, json};

use super::row_change::{ChangedRow, KeptValue, RowChange};

/// The version of the form.
const VERSION: u64 = 1;

/// Writes a change.
pub fn encode_row_change(change: &RowChange) -> Vec<u8> {
    let values = |values: &Vec<KeptValue>| Value::Array(values.iter().map(encoded).collect());
    let absent = |kept: &Option<Vec<KeptValue>>| kept.as_ref().map_or(Value::Null, values);
    let rows = change
        .rows
        .iter()
        .map(|row| json!([values(&row.key), absent(&row.before), absent(&row.after)]));
    json!({
        "version": VERSION,
        "source": change.source,
        "schema": change.schema,
        "table": change.table,
        "key": change.key,
        "columns": change.columns,
        "rows": rows.collect::<Vec<_>>(),
    })
    .to_string()
    .into_bytes()
}

/// Reads a change; `None` if it is none, or of another version.
pub fn decode_row_change(bytes: &[u8]) -> Option<RowChange> {
    let stored: Value = serde_json::from_slice(bytes).ok()?;
    if stored.get("version")?.as_u64()? != VERSION {
        return None;
    }
    let text = |name: &str| stored.get(name)?.as_str().map(str::to_owned);
    let names = |name: &str| -> Option<Vec<String>> {
        let names = stored.get(name)?.as_array()?.iter();
        names.map(|name| name.as_str().map(str::to_owned)).collect()
    };
    let (key, columns) = (names("key")?, names("columns")?);
    let row = |row: &Value| {
        let of = |place: usize, count: usize| match row.get(place)? {
            Value::Null => Some(None),
            values => decoded_all(values, count).map(Some),
        };
        Some(ChangedRow {
            key: decoded_all(row.get(0)?, key.len())?,
            before: of(1, columns.len())?,
            after: of(2, columns.len())?,
        })
    };
    let rows = stored.get("rows")?.as_array()?.iter();
    let rows: Option<Vec<ChangedRow>> = rows.map(row).collect();
    Some(RowChange {
        source: text("source")?,
        schema: match stored.get("schema")? {
            Value::Null => None,
            schema => Some(schema.as_str()?.to_owned()),
        },
        table: text("table")?,
        rows: rows?,
        key,
        columns,
    })
}

fn decoded_all(values: &Value, count: usize) -> Option<Vec<KeptValue>> {
    let values: Option<Vec<KeptValue>> = values.as_array()?.iter().map(decoded).collect();
    values.filter(|values| values.len() == count)
}

fn encoded(value: &KeptValue) -> Value {
    match value {
        KeptValue::Null => Value::Null,
        KeptValue::Text(text) => Value::String(text.clone()),
        KeptValue::Integer(integer) => json!({ "integer": integer }),
        KeptValue::Real(bits) => json!({ "real": format!("{bits:016x}") }),
        KeptValue::Blob(bytes) => json!({ "blob": hex(bytes) }),
    }
}

fn decoded(stored: &Value) -> Option<KeptValue> {
    match stored {
        Value::Null => Some(KeptValue::Null),
        Value::String(text) => Some(KeptValue::Text(text.clone())),
        Value::Object(tagged) => tagged_value(tagged),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

fn tagged_value(tagged: &Map<String, Value>) -> Option<KeptValue> {
    let (kind, value) = tagged.iter().next()?;
    match kind.as_str() {
        "integer" => value.as_i64().map(KeptValue::Integer),
        "real" => u64::from_str_radix(value.as_str()?, 16)
            .ok()
            .map(KeptValue::Real),
        "blob" => bytes(value.as_str()?).map(KeptValue::Blob),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    let halves = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    halves
        .filter_map(|half| char::from_digit(u32::from(half), 16))
        .collect()
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    if !hex.is_ascii() || !hex.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..hex.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> RowChange {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        RowChange {
            source: "crm".to_owned(),
            schema: None,
            table: "orders".to_owned(),
            key: texts(&["id"]),
            columns: texts(&["a", "b"]),
            rows: vec![ChangedRow {
                key: vec![KeptValue::Integer(i64::MIN)],
                before: Some(vec![
                    KeptValue::Real((-0.0_f64).to_bits()),
                    KeptValue::Blob(vec![0, 255]),
                ]),
                after: Some(vec![
                    KeptValue::Null,
                    KeptValue::Text("null \u{0}\"".to_owned()),
                ]),
            }],
        }
    }

    #[test]
    fn a_change_comes_back_as_it_was() {
        let mut change = change();
        assert_eq!(
            decode_row_change(&encode_row_change(&change)).as_ref(),
            Some(&change)
        );
        change.schema = Some("sales".to_owned());
        change.rows[0].after = None;
        assert_eq!(decode_row_change(&encode_row_change(&change)), Some(change));
    }

    #[test]
    fn what_is_not_a_change_of_this_version_is_refused() {
        let text = String::from_utf8(encode_row_change(&change())).unwrap();
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("\"columns\":[\"a\",\"b\"]", "\"columns\":[\"a\"]"),
            ("\"blob\":\"00ff\"", "\"blob\":\"00f\""),
            ("\"integer\"", "\"whole\""),
        ] {
            let other = text.replace(from, to);
            assert_ne!(other, text, "{from}");
            assert_eq!(decode_row_change(other.as_bytes()), None, "{from}");
        }
    }
}
