//! One operation as the `config` of a tool.

use serde_json::{Map, Value, json};

use super::{
    OpenApiError, OpenApiImport, body,
    document::{Document, FoundOperation, shown},
    parameters::{self, Arguments},
    schema, security, server,
};

/// A `config`, and what a person should know of it.
pub(super) struct ImportedOperation {
    pub(super) config: Map<String, Value>,
    pub(super) notes: Vec<String>,
}

/// The `config` of a tool for an operation.
pub(super) fn config(
    document: &Document<'_>,
    found: &FoundOperation<'_>,
    wanted: &OpenApiImport,
) -> Result<ImportedOperation, OpenApiError> {
    if matches!(found.method, "options" | "trace") {
        let method = found.method.to_ascii_uppercase();
        return Err(OpenApiError::unsupported(format!(
            "{method} requests are not sent"
        )));
    }
    if !found.path.starts_with('/') {
        // Joined to the server's address it would be a part of its host.
        return Err(OpenApiError::unsupported(format!(
            "its path {} does not begin with `/`",
            shown(found.path)
        )));
    }
    let mut arguments = parameters::read(document, found)?;
    let body = match found.operation.get("requestBody") {
        Some(written) if !matches!(found.method, "get" | "head") => {
            body::read(document, written, &mut arguments)?
        }
        Some(_) | None => None,
    };
    let server = server::of(document, found, wanted.server.as_deref())?;
    let secrets = security::read(document, found, &server, &mut arguments)?;
    let url = format!("{server}{}", path(found.path, &arguments)?);
    if found.operation.get("deprecated") == Some(&Value::Bool(true)) {
        arguments
            .notes
            .push("the description calls it deprecated".to_owned());
    }
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| {
        config.insert(key.to_owned(), value);
    };
    set("description", Value::from(description(found)));
    set("method", Value::from(found.method.to_ascii_uppercase()));
    set("url", Value::from(url));
    if wanted.private {
        set("private", Value::Bool(true));
    }
    for (key, table) in [
        ("query", arguments.query),
        ("headers", arguments.headers),
        ("secrets", secrets),
    ] {
        if !table.is_empty() {
            set(key, Value::Object(table));
        }
    }
    if let Some(body) = body {
        set("body", body);
    }
    if !arguments.properties.is_empty() {
        let (properties, required) = (arguments.properties, arguments.required);
        set(
            "input",
            json!({"type": "object", "required": required, "properties": properties}),
        );
    }
    Ok(ImportedOperation {
        config,
        notes: arguments.notes,
    })
}

/// What a model reads of it.
fn description(found: &FoundOperation<'_>) -> String {
    let said = |key: &str| {
        let text = found.operation.get(key).and_then(Value::as_str);
        text.map(schema::words).filter(|text| !text.is_empty())
    };
    match (said("summary"), said("description")) {
        (Some(summary), Some(more)) if summary != more => format!("{summary}\n{more}"),
        (Some(text), _) | (None, Some(text)) => text,
        (None, None) => format!("{} {}", found.method.to_ascii_uppercase(), found.path),
    }
}

/// The path, with the names that its arguments have.
fn path(written: &str, arguments: &Arguments) -> Result<String, OpenApiError> {
    let mut path = String::new();
    let mut rest = written;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, more) = after
            .split_once('}')
            .ok_or_else(|| OpenApiError::unsupported("its path has a `{` without a `}`"))?;
        let argument = arguments.in_path.get(name).ok_or_else(|| {
            OpenApiError::unsupported(format!(
                "its path has {}, which is not a parameter",
                shown(name)
            ))
        })?;
        path.extend([before, "{", argument, "}"]);
        rest = more;
    }
    path.push_str(rest);
    Ok(path)
}
