//! An entry as lines of `haft.toml`: tables down to the arguments, one argument on each line.

use serde_json::{Map, Value};

use super::OpenApiError;

/// The lines of a tool.
pub(super) fn entry(
    name: &str,
    config: &Map<String, Value>,
    notes: &[String],
) -> Result<String, OpenApiError> {
    let mut text = String::new();
    for note in notes {
        text.extend(["# ", &note.replace(['\n', '\r'], " "), "\n"]);
    }
    let tool = key(name);
    text.extend(["[tools.", &tool, "]\ntype = \"http\"\n\n"]);
    let heading = format!("tools.{tool}.config");
    let (input, plain): (Vec<_>, Vec<_>) = config.iter().partition(|(field, _)| *field == "input");
    text.push_str(&lines(&heading, plain)?);
    let Some(input) = input.first().and_then(|(_, input)| input.as_object()) else {
        return Ok(text);
    };
    let (arguments, plain): (Vec<_>, Vec<_>) =
        input.iter().partition(|(field, _)| *field == "properties");
    text.push('\n');
    text.push_str(&lines(&format!("{heading}.input"), plain)?);
    let arguments = arguments.first().and_then(|(_, all)| all.as_object());
    text.push('\n');
    let arguments = arguments.into_iter().flatten().collect();
    text.push_str(&lines(&format!("{heading}.input.properties"), arguments)?);
    Ok(text)
}

fn lines(heading: &str, fields: Vec<(&String, &Value)>) -> Result<String, OpenApiError> {
    let mut text = format!("[{heading}]\n");
    for (name, field) in fields {
        text.extend([&key(name), " = ", &value(field)?, "\n"]);
    }
    Ok(text)
}

/// A value on one line.
fn value(json: &Value) -> Result<String, OpenApiError> {
    Ok(match json {
        Value::Null => {
            return Err(OpenApiError::unsupported(
                "a schema of it has `null` as a value",
            ));
        }
        Value::Bool(truth) => truth.to_string(),
        Value::Number(number) if number.is_u64() && number.as_i64().is_none() => {
            return Err(OpenApiError::unsupported(format!(
                "the number {number} is too large"
            )));
        }
        Value::Number(number) => toml_number(number),
        Value::String(text) => toml::Value::from(text.as_str()).to_string(),
        Value::Array(items) => {
            let items = items.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) if fields.is_empty() => "{}".to_owned(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(name, field)| Ok(format!("{} = {}", key(name), value(field)?)));
            let fields = fields.collect::<Result<Vec<_>, OpenApiError>>()?;
            format!("{{ {} }}", fields.join(", "))
        }
    })
}

/// A number as TOML writes it.
fn toml_number(number: &serde_json::Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (None, Some(float)) => toml::Value::from(float).to_string(),
        _ => number.to_string(),
    }
}

fn key(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    // A quoted key escapes as a text of JSON does.
    Value::from(name).to_string()
}
