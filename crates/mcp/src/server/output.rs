//! Output that was too long to send whole, as a resource: `haft://output/<call>`. Reading it is a
//! call of `read_output`, which returns pages and where the next one is.

use haft_contract::{CallId, Outcome};
use rmcp::{
    ErrorData,
    model::{
        CacheScope, MetaObject, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    },
};
use serde_json::{Value, json};
use url::Url;

use super::result;
use crate::mounts::Fetch;

/// The prefix of such URIs.
const PREFIX: &str = "haft://output/";

/// The tool that reads spilled output.
pub(super) const TOOL: &str = "read_output";

/// The key under which a page says where the next page is.
const NEXT_KEY: &str = "dev.haft/next";

/// The parameters of `read_output` that a URI may carry, and whether each is a number.
const PARAMETERS: [(&str, bool); 4] = [
    ("offset", true),
    ("limit", true),
    ("column", true),
    ("pattern", false),
];

/// A link to the whole output of a call.
pub(super) fn link(call: CallId, bytes: u64) -> Resource {
    Resource::new(format!("{PREFIX}{call}"), format!("output of call {call}"))
        .with_description("The whole output; `read_output` pages and searches it")
        .with_mime_type("text/plain")
        .with_size(bytes)
}

/// The template of such URIs.
pub(super) fn template() -> ResourceTemplate {
    let uri = format!("{PREFIX}{{call}}{{?offset,limit,column,pattern}}");
    ResourceTemplate::new(uri, "output")
        .with_title("Output of a call")
        .with_description(
            "Output that was too long to return whole, from line `offset`, or the lines that match \
             `pattern`",
        )
        .with_mime_type("text/plain")
}

/// The call that reads such a URI; `None` for other URIs.
pub(super) fn fetch(uri: &str) -> Option<Fetch> {
    let rest = uri.strip_prefix(PREFIX)?;
    let call = rest.split(['?', '#']).next().unwrap_or_default();
    let mut arguments = serde_json::Map::new();
    arguments.insert("call".to_owned(), json!(call));
    if let Ok(url) = Url::parse(uri) {
        for (name, value) in url.query_pairs() {
            // The tool refuses unknown parameters with its own message.
            let number = PARAMETERS.contains(&(&*name, true));
            let value = match value.parse::<u64>() {
                Ok(value) if number => json!(value),
                Ok(_) | Err(_) => json!(value),
            };
            arguments.insert(name.into_owned(), value);
        }
    }
    Some(Fetch {
        tool: TOOL.to_owned(),
        arguments: Value::Object(arguments),
    })
}

/// The contents that were read.
pub(super) fn contents(uri: &str, outcome: &Outcome) -> Result<ReadResourceResult, ErrorData> {
    if !outcome.succeeded() {
        return Err(result::refused(outcome));
    }
    let mut contents = ResourceContents::text(outcome.text(), uri);
    if let Some(next) = next(uri, outcome.structured.as_ref()) {
        let mut meta = MetaObject::new();
        meta.insert(NEXT_KEY.to_owned(), json!(next));
        contents = contents.with_meta(meta);
    }
    Ok(ReadResourceResult::new(vec![contents])
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Private))
}

fn next(uri: &str, structured: Option<&Value>) -> Option<String> {
    let offset = structured?.get("next_offset")?.as_u64()?;
    let column = structured?.get("next_column").and_then(Value::as_u64);
    let mut url = Url::parse(uri).ok()?;
    let kept: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(name, _)| name != "offset" && name != "column")
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let mut query = url.query_pairs_mut();
    query.clear().extend_pairs(kept);
    query.append_pair("offset", &offset.to_string());
    if let Some(column) = column {
        query.append_pair("column", &column.to_string());
    }
    drop(query);
    Some(url.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_a_call_of_read_output() {
        let fetch = fetch("haft://output/abc?offset=3&pattern=a%20b").unwrap();
        assert_eq!(fetch.tool, TOOL);
        assert_eq!(
            fetch.arguments,
            json!({"call": "abc", "offset": 3, "pattern": "a b"})
        );
        assert_eq!(super::fetch("haft://other/abc"), None);
    }

    #[test]
    fn a_page_says_where_the_next_one_is() {
        let more = json!({"next_offset": 2001});
        assert_eq!(
            next("haft://output/abc?limit=5&offset=1", Some(&more)).unwrap(),
            "haft://output/abc?limit=5&offset=2001"
        );
        assert_eq!(next("haft://output/abc", Some(&json!({}))), None);
    }
}
