//! The request of one call: an operation with arguments in its places. Every argument is encoded for where
//! it stands or refused; the place decides, not the argument.

use std::{collections::BTreeMap, fmt::Write as _};

use haft_contract::{ErrorKind, ToolError, preview::PreviewPart};
use serde_json::{Map, Value};

use super::{
    encode,
    operation::HttpOperation,
    template::{Part, Template},
};

/// The longest path and query, in bytes.
const MAX_TARGET: usize = 8 * 1024;

/// The longest value of a header, in bytes.
const MAX_HEADER: usize = 8 * 1024;

/// The largest body, in bytes.
const MAX_BODY: usize = 1024 * 1024;

/// What is accepted unless the configuration says otherwise.
const ACCEPT: &str = "application/json, text/*;q=0.8, */*;q=0.5";

/// A request that can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BuiltRequest {
    /// Path and query.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl BuiltRequest {
    /// The request for these arguments, with these secrets.
    pub(super) fn of(
        operation: &HttpOperation,
        arguments: &Map<String, Value>,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Self, ToolError> {
        let mut target = path(operation, arguments)?;
        let query = query(operation, arguments, secrets)?;
        if !query.is_empty() {
            target.push('?');
            target.push_str(&query);
        }
        if target.len() > MAX_TARGET {
            return Err(encode::too_long("the path and the query", MAX_TARGET));
        }
        let mut headers = headers(operation, arguments, secrets)?;
        let body = operation.body.as_ref();
        let body = body.and_then(|body| body.fill(arguments, secrets));
        let body = body.map_or_else(String::new, |body| body.to_string());
        if body.len() > MAX_BODY {
            return Err(encode::too_long("the body", MAX_BODY));
        }
        let mut usual = vec![("accept", ACCEPT)];
        if !body.is_empty() {
            usual.push(("content-type", "application/json"));
        }
        for (name, value) in usual {
            if !headers.iter().any(|(set, _)| set == name) {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        Ok(Self {
            target,
            headers,
            body: body.into_bytes(),
        })
    }

    /// The request as a person reads it before they answer. Secrets are names in it.
    pub(super) fn shown(
        operation: &HttpOperation,
        arguments: &Map<String, Value>,
    ) -> Result<PreviewPart, ToolError> {
        let request = Self::of(operation, arguments, &names_of_secrets(operation))?;
        let (method, scheme) = (operation.method.as_str(), operation.scheme.as_str());
        let mut text = format!(
            "{method} {scheme}://{}{}",
            operation.place(),
            request.target
        );
        for (name, value) in &request.headers {
            let _ = write!(text, "\n{name}: {value}");
        }
        if !request.body.is_empty() {
            let _ = write!(text, "\n\n{}", String::from_utf8_lossy(&request.body));
        }
        for (name, reference) in &operation.secrets {
            let _ = write!(
                text,
                "\n({} is read from {reference} when it is sent)",
                shown_name(name)
            );
        }
        Ok(PreviewPart::Note(text))
    }

    /// Fails if no request can be made of these arguments.
    pub(super) fn check(
        operation: &HttpOperation,
        arguments: &Map<String, Value>,
    ) -> Result<(), ToolError> {
        Self::of(operation, arguments, &names_of_secrets(operation)).map(drop)
    }
}

/// What stands for each secret where none is read.
fn names_of_secrets(operation: &HttpOperation) -> BTreeMap<String, String> {
    let names = operation.secrets.keys();
    names.map(|name| (name.clone(), shown_name(name))).collect()
}

fn shown_name(name: &str) -> String {
    format!("SECRET_{name}")
}

fn path(operation: &HttpOperation, arguments: &Map<String, Value>) -> Result<String, ToolError> {
    let mut path = String::new();
    for segment in &operation.path {
        path.push('/');
        for part in segment.parts() {
            match part {
                Part::Literal(text) => path.push_str(text),
                Part::Argument(name) => {
                    let value = arguments.get(name).unwrap_or(&Value::Null);
                    let text = encode::scalar(value, name)?;
                    path.push_str(&encode::path_part(&text, name)?);
                }
                // The configuration has none there.
                Part::Secret(_) => {}
            }
        }
    }
    Ok(path)
}

fn query(
    operation: &HttpOperation,
    arguments: &Map<String, Value>,
    secrets: &BTreeMap<String, String>,
) -> Result<String, ToolError> {
    let mut query = String::new();
    let mut add = |name: &str, value: &str| {
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(&encode::percent(name));
        query.push('=');
        query.push_str(&encode::percent(value));
    };
    for (name, template) in &operation.query {
        let whole = template.as_argument();
        if let Some((argument, Value::Array(items))) =
            whole.and_then(|argument| Some((argument, arguments.get(argument)?)))
        {
            for item in items {
                add(name, &encode::scalar(item, argument)?);
            }
        } else if let Some(text) = filled(template, arguments, secrets)? {
            add(name, &text);
        }
    }
    Ok(query)
}

fn headers(
    operation: &HttpOperation,
    arguments: &Map<String, Value>,
    secrets: &BTreeMap<String, String>,
) -> Result<Vec<(String, String)>, ToolError> {
    let mut headers = Vec::new();
    for (name, template) in &operation.headers {
        for argument in template.arguments() {
            let value = arguments.get(argument).filter(|value| !value.is_null());
            if let Some(value) = value {
                encode::header_part(&encode::scalar(value, argument)?, argument)?;
            }
        }
        for secret in template.secrets() {
            let value = secrets.get(secret).map_or("", String::as_str);
            if !encode::is_header_text(value) {
                let message = format!(
                    "the secret `{secret}` cannot be sent: it is not one line of plain ASCII text"
                );
                return Err(ToolError::new(ErrorKind::Unavailable, message)
                    .hint("the operator corrects what is kept there"));
            }
        }
        let Some(value) = filled(template, arguments, secrets)? else {
            continue;
        };
        if value.len() > MAX_HEADER {
            return Err(encode::too_long("a header", MAX_HEADER));
        }
        headers.push((name.clone(), value));
    }
    Ok(headers)
}

/// A text with what belongs in its places; `None` where an argument is not given.
fn filled(
    template: &Template,
    arguments: &Map<String, Value>,
    secrets: &BTreeMap<String, String>,
) -> Result<Option<String>, ToolError> {
    let mut text = String::new();
    for part in template.parts() {
        match part {
            Part::Literal(literal) => text.push_str(literal),
            Part::Argument(name) => match arguments.get(name).filter(|value| !value.is_null()) {
                Some(value) => text.push_str(&encode::scalar(value, name)?),
                None => return Ok(None),
            },
            Part::Secret(name) => text.extend(secrets.get(name).map(String::as_str)),
        }
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn operation() -> HttpOperation {
        let config = json!({
            "description": "does x", "method": "POST",
            "url": "https://api.example.com/v1/{owner}/x-{id}",
            "query": {"q": "{q}", "tag": "{tags}", "v": 2, "key": "${KEY}"},
            "headers": {"X-Who": "me/{who}", "X-Key": "k ${KEY}"},
            "body": {"title": "{title}", "q": "{q}"},
            "secrets": {"KEY": "env:KEY"},
            "input": {"type": "object", "required": ["owner", "id"], "properties": {
                "owner": {}, "id": {}, "q": {}, "tags": {"type": "array"}, "who": {}, "title": {}}},
        });
        HttpOperation::parse(config.as_object().unwrap()).unwrap()
    }

    fn built(arguments: Value) -> Result<BuiltRequest, ToolError> {
        let secrets = BTreeMap::from([("KEY".to_owned(), "hunter2&x".to_owned())]);
        BuiltRequest::of(&operation(), arguments.as_object().unwrap(), &secrets)
    }

    #[test]
    fn arguments_fill_places_and_make_none() {
        let request = built(
            json!({"owner": "a/b?c", "id": 7, "q": "x&admin=1#y", "tags": ["a", "b&c"],
            "who": "ada", "title": "\"}, {\""}),
        );
        let request = request.unwrap();
        assert_eq!(
            request.target,
            "/v1/a%2Fb%3Fc/x-7?key=hunter2%26x&q=x%26admin%3D1%23y&tag=a&tag=b%26c&v=2"
        );
        let header = |name: &str| {
            let mut all = request.headers.iter().filter(|(set, _)| set == name);
            (all.next().unwrap().1.clone(), all.count())
        };
        assert_eq!(header("x-who"), ("me/ada".to_owned(), 0));
        assert_eq!(header("x-key"), ("k hunter2&x".to_owned(), 0));
        assert_eq!(header("content-type"), ("application/json".to_owned(), 0));
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body, json!({"title": "\"}, {\"", "q": "x&admin=1#y"}));
    }

    #[test]
    fn what_is_not_given_is_left_out() {
        let request = built(json!({"owner": "a", "id": "b", "who": null})).unwrap();
        assert_eq!(request.target, "/v1/a/x-b?key=hunter2%26x&v=2");
        assert!(!request.headers.iter().any(|(name, _)| name == "x-who"));
        assert_eq!(request.body, b"{}");
    }

    #[test]
    fn what_fits_nowhere_is_refused_where_it_is() {
        for (arguments, at) in [
            (json!({"owner": "..", "id": 1}), "/owner"),
            (json!({"owner": "a", "id": ["x"]}), "/id"),
            (
                json!({"owner": "a", "id": 1, "who": "x\r\nX-Evil: 1"}),
                "/who",
            ),
            (json!({"owner": "a", "id": 1, "q": {"a": 1}}), "/q"),
            (json!({"owner": "a", "id": 1, "tags": [["a"]]}), "/tags"),
        ] {
            let refused = built(arguments.clone()).unwrap_err();
            assert_eq!(refused.pointer(), Some(at), "{arguments}");
        }
        let long = "x".repeat(9000);
        let refused = built(json!({"owner": "a", "id": 1, "q": long})).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
    }

    #[test]
    fn a_person_sees_the_request_without_its_secrets() {
        let arguments = json!({"owner": "a", "id": 1, "title": "t"});
        let shown = BuiltRequest::shown(&operation(), arguments.as_object().unwrap()).unwrap();
        let PreviewPart::Note(text) = shown else {
            panic!("a note");
        };
        assert!(
            text.starts_with("POST https://api.example.com/v1/a/x-1?key=SECRET_KEY&v=2\n"),
            "{text}"
        );
        assert!(text.contains("\nx-key: k SECRET_KEY\n"), "{text}");
        assert!(text.contains("\n\n{\"title\":\"t\"}\n"), "{text}");
        assert!(
            text.ends_with("(SECRET_KEY is read from env:KEY when it is sent)"),
            "{text}"
        );
    }
}
