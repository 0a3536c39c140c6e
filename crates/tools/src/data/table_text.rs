//! Rows as text: CSV or one JSON array a line.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum TableFormat {
    #[default]
    Csv,
    Ndjson,
}

impl TableFormat {
    /// The line before the rows.
    pub(super) fn head(self, columns: &[String]) -> String {
        let names: Vec<Value> = columns.iter().cloned().map(Value::String).collect();
        self.row(&names)
    }

    /// One row, with the end of its line.
    pub(super) fn row(self, values: &[Value]) -> String {
        let mut line = self.line(values);
        line.push('\n');
        line
    }

    /// One row without the end of its line.
    pub(super) fn line(self, values: &[Value]) -> String {
        match self {
            Self::Ndjson => serde_json::to_string(values).unwrap_or_default(),
            Self::Csv => {
                let mut line = String::new();
                for (place, value) in values.iter().enumerate() {
                    if place > 0 {
                        line.push(',');
                    }
                    cell(&mut line, value);
                }
                line
            }
        }
    }
}

/// Nothing stands for null, and `""` for an empty text.
fn cell(line: &mut String, value: &Value) {
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => {
            // Writing to a `String` cannot fail.
            let _ = write!(line, "{value}");
        }
        Value::String(text) => quoted(line, text),
        Value::Array(_) | Value::Object(_) => quoted(line, &value.to_string()),
    }
}

fn quoted(line: &mut String, text: &str) {
    if !text.is_empty() && !text.contains([',', '"', '\n', '\r']) {
        line.push_str(text);
        return;
    }
    line.push('"');
    line.push_str(&text.replace('"', "\"\""));
    line.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_cell_is_quoted_where_it_must_be() {
        let row = [
            json!(1),
            json!(null),
            json!(""),
            json!("a,b"),
            json!("a\"b"),
            json!(["x"]),
            json!(true),
        ];
        assert_eq!(
            TableFormat::Csv.row(&row),
            "1,,\"\",\"a,b\",\"a\"\"b\",\"[\"\"x\"\"]\",true\n"
        );
        assert_eq!(TableFormat::Ndjson.row(&row[..3]), "[1,null,\"\"]\n");
    }
}
