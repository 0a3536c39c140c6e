//! The body of a request: one argument, which is sent as JSON.

use serde_json::Value;

use super::{
    OpenApiError,
    document::{Document, object, shown},
    parameters::Arguments,
    schema,
};

/// Adds the argument for a body, and returns its template.
pub(super) fn read(
    document: &Document<'_>,
    written: &Value,
    arguments: &mut Arguments,
) -> Result<Option<Value>, OpenApiError> {
    let body = document.resolved(written)?;
    let needed = body.get("required") == Some(&Value::Bool(true));
    let kinds: Vec<(&String, &Value)> = object(body.get("content")).collect();
    let json = kinds.iter().find(|(kind, _)| is_json(kind));
    let Some((kind, content)) = json else {
        let named: Vec<String> = kinds.iter().map(|(kind, _)| shown(kind)).collect();
        let why = format!("its body is {}, and only JSON is sent", named.join(" or "));
        if needed {
            return Err(OpenApiError::unsupported(why));
        }
        arguments.notes.push(format!("the body is left out: {why}"));
        return Ok(None);
    };
    let schema = match content.get("schema") {
        Some(schema) => schema::converted(document, schema)?,
        None => Value::Object(serde_json::Map::new()),
    };
    if !kind.eq_ignore_ascii_case("application/json") {
        arguments
            .headers
            .insert("Content-Type".to_owned(), Value::from(kind.as_str()));
    }
    let argument = arguments.add("body", "request", schema, needed);
    Ok(Some(Value::from(format!("{{{argument}}}"))))
}

fn is_json(kind: &str) -> bool {
    let essence = kind.split(';').next().unwrap_or(kind).trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json" || essence.ends_with("+json")
}
