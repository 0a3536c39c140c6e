//! Which server an operation is asked of: the first that the description names, nearest to the operation.

use serde_json::Value;

use super::{
    OpenApiError,
    document::{Document, FoundOperation, list, shown},
};

/// The server's address, without a slash at its end.
pub(super) fn of(
    document: &Document<'_>,
    found: &FoundOperation<'_>,
    chosen: Option<&str>,
) -> Result<String, OpenApiError> {
    let named = [
        found.operation.get("servers"),
        found.common.get("servers"),
        document.get("servers"),
    ];
    let first = named.into_iter().find_map(|servers| list(servers).first());
    let first = first
        .and_then(|server| server.get("url"))
        .and_then(Value::as_str);
    let choose = "name one with `--server https://api.example.com/v1`";
    let url = chosen
        .or(first)
        .ok_or_else(|| OpenApiError::new("the description does not name a server", choose))?;
    if url.contains(['{', '}', '$']) {
        let message = format!("the server {} has variables", shown(url));
        return Err(OpenApiError::new(message, choose));
    }
    if !url.starts_with("https://") && !url.starts_with("http://") {
        let message = format!("the server {} is not a whole address", shown(url));
        return Err(OpenApiError::new(message, choose));
    }
    Ok(url.trim_end_matches('/').to_owned())
}
