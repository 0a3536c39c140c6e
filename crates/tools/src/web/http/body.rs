//! The body of a request: JSON in which some values are arguments. An argument is always a whole value,
//! so no text of a caller is ever read as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::template::Template;

/// How deep the values of a body can be nested.
const MAX_DEPTH: usize = 32;

/// A body with places in it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum BodyTemplate {
    /// As it is written.
    Literal(Value),
    /// An argument; left out where the call has none.
    Argument(String),
    /// A secret.
    Secret(String),
    /// An object, whose names are fixed.
    Object(Vec<(String, BodyTemplate)>),
    /// A list.
    List(Vec<BodyTemplate>),
}

impl BodyTemplate {
    /// Reads a body as it is configured.
    pub(super) fn parse(written: &Value) -> Result<Self, String> {
        Self::value(written, 0)
    }

    fn value(written: &Value, depth: usize) -> Result<Self, String> {
        if depth > MAX_DEPTH {
            return Err(format!("it is nested deeper than {MAX_DEPTH}"));
        }
        match written {
            Value::String(text) => Self::text(text),
            Value::Array(items) => {
                let items = items.iter().map(|item| Self::value(item, depth + 1));
                items.collect::<Result<_, _>>().map(Self::List)
            }
            Value::Object(fields) => {
                let fields = fields.iter().map(|(name, value)| {
                    let template = Template::parse(name)?;
                    let name = template
                        .as_literal()
                        .ok_or("the name of a field cannot be an argument")?;
                    Ok((name.to_owned(), Self::value(value, depth + 1)?))
                });
                fields.collect::<Result<_, String>>().map(Self::Object)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(Self::Literal(written.clone())),
        }
    }

    fn text(text: &str) -> Result<Self, String> {
        let template = Template::parse(text)?;
        if let Some(text) = template.as_literal() {
            return Ok(Self::Literal(Value::from(text)));
        }
        if let Some(name) = template.as_argument() {
            return Ok(Self::Argument(name.to_owned()));
        }
        let mut secrets = template.secrets();
        match (template.parts().len(), secrets.next()) {
            (1, Some(name)) => Ok(Self::Secret(name.to_owned())),
            _ => Err(
                "an argument or a secret is a whole value of a body, such as `\"{title}\"`; text \
                 around it would be pasted together"
                    .to_owned(),
            ),
        }
    }

    /// The arguments in it.
    pub(super) fn arguments(&self) -> Vec<&str> {
        match self {
            Self::Argument(name) => vec![name],
            Self::Literal(_) | Self::Secret(_) => Vec::new(),
            Self::Object(fields) => fields.iter().flat_map(|(_, one)| one.arguments()).collect(),
            Self::List(items) => items.iter().flat_map(Self::arguments).collect(),
        }
    }

    /// The secrets in it.
    pub(super) fn secrets(&self) -> Vec<&str> {
        match self {
            Self::Secret(name) => vec![name],
            Self::Literal(_) | Self::Argument(_) => Vec::new(),
            Self::Object(fields) => fields.iter().flat_map(|(_, one)| one.secrets()).collect(),
            Self::List(items) => items.iter().flat_map(Self::secrets).collect(),
        }
    }

    /// The body of one call; `None` where an argument is not given.
    pub(super) fn fill(
        &self,
        arguments: &Map<String, Value>,
        secrets: &BTreeMap<String, String>,
    ) -> Option<Value> {
        match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Argument(name) => arguments.get(name).cloned(),
            Self::Secret(name) => secrets.get(name).cloned().map(Value::from),
            Self::Object(fields) => {
                let fields = fields.iter().filter_map(|(name, value)| {
                    Some((name.clone(), value.fill(arguments, secrets)?))
                });
                Some(Value::Object(fields.collect()))
            }
            Self::List(items) => {
                let items = items.iter();
                let items = items.filter_map(|item| item.fill(arguments, secrets));
                Some(Value::Array(items.collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(body: &Value, arguments: &Value) -> Value {
        let template = BodyTemplate::parse(body).unwrap();
        let secrets = BTreeMap::from([("KEY".to_owned(), "hunter2".to_owned())]);
        let arguments = arguments.as_object().unwrap();
        template.fill(arguments, &secrets).unwrap_or(Value::Null)
    }

    #[test]
    fn an_argument_is_a_value_whatever_is_in_it() {
        let body = json!({"title": "{title}", "labels": "{labels}", "kind": "bug", "n": 1,
            "in": [{"key": "${KEY}", "text": "{{x}}"}, "{extra}"]});
        let hostile = "\", \"admin\": true, \"x\": \"";
        let sent = filled(
            &body,
            &json!({"title": hostile, "labels": ["{title}", "${KEY}"]}),
        );
        let expect = json!({"title": hostile, "labels": ["{title}", "${KEY}"], "kind": "bug",
            "n": 1, "in": [{"key": "hunter2", "text": "{x}"}]});
        assert_eq!(sent, expect);
        assert_eq!(
            filled(&json!("{all}"), &json!({"all": {"a": null}})),
            json!({"a": null})
        );
    }

    #[test]
    fn text_around_an_argument_is_refused() {
        for body in [
            json!({"a": "Re: {title}"}),
            json!({"a": "{a}{b}"}),
            json!({"a": "x${KEY}"}),
            json!({"{name}": 1}),
            json!(["{a"]),
        ] {
            assert!(BodyTemplate::parse(&body).is_err(), "{body}");
        }
        let deep = (0..40).fold(json!(1), |inside, _| json!([inside]));
        assert!(BodyTemplate::parse(&deep).unwrap_err().contains("deeper"));
    }
}
