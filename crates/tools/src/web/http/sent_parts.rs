//! What an operation sends, as it is configured, for the person who trusts it: which text goes along
//! with every request, and where each secret goes.

use serde_json::{Map, Value};

use super::{
    body::BodyTemplate,
    operation::HttpOperation,
    template::{Part, Template},
};

/// The longest part that is shown, in characters.
const MAX_SHOWN: usize = 400;

impl HttpOperation {
    /// Its parameters, headers and body as they are configured: `the query \`dry_run=true\``.
    pub fn sent_parts(&self) -> Vec<String> {
        let query = self.query.iter();
        let query = query.map(|(name, value)| format!("the query `{name}={}`", value.written()));
        let headers = self.headers.iter();
        let headers =
            headers.map(|(name, value)| format!("the header `{name}: {}`", value.written()));
        let body = self.body.iter();
        let body = body.map(|body| format!("the body `{}`", body.written()));
        query.chain(headers).chain(body).map(shown).collect()
    }

    /// Where each secret goes: `env:KEY in the header \`authorization\``.
    pub fn sent_secrets(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut add = |name: &str, place: String| {
            if let Some(reference) = self.secrets.get(name) {
                found.push(format!("{reference} in {place}"));
            }
        };
        for (parameter, value) in &self.query {
            for secret in value.secrets() {
                add(secret, format!("the query parameter `{parameter}`"));
            }
        }
        for (header, value) in &self.headers {
            for secret in value.secrets() {
                add(secret, format!("the header `{header}`"));
            }
        }
        if let Some(body) = &self.body {
            body.each_secret(&mut String::new(), &mut |secret, place| {
                add(secret, format!("the body at `{place}`"));
            });
        }
        found.dedup();
        found
    }
}

impl BodyTemplate {
    fn written(&self) -> Value {
        match self {
            Self::Literal(value) => value.clone(),
            Self::Argument(name) => Value::from(format!("{{{name}}}")),
            Self::Secret(name) => Value::from(format!("${{{name}}}")),
            Self::Object(fields) => {
                let fields = fields.iter();
                let fields = fields.map(|(name, value)| (name.clone(), value.written()));
                Value::Object(fields.collect::<Map<_, _>>())
            }
            Self::List(items) => items.iter().map(Self::written).collect(),
        }
    }

    /// Each secret with its place, as a JSON pointer. A body nests only so deep.
    fn each_secret(&self, place: &mut String, take: &mut impl FnMut(&str, &str)) {
        let mut within = |name: &str, value: &Self| {
            let length = place.len();
            place.push('/');
            place.push_str(name);
            value.each_secret(place, take);
            place.truncate(length);
        };
        match self {
            Self::Secret(name) => take(name, place),
            Self::Literal(_) | Self::Argument(_) => {}
            Self::Object(fields) => {
                for (name, value) in fields {
                    within(name, value);
                }
            }
            Self::List(items) => {
                for (index, value) in items.iter().enumerate() {
                    within(&index.to_string(), value);
                }
            }
        }
    }
}

impl Template {
    /// The text, with its places as they are configured.
    fn written(&self) -> String {
        let parts = self.parts().iter().map(|part| match part {
            Part::Literal(text) => text.replace('{', "{{").replace('}', "}}"),
            Part::Argument(name) => format!("{{{name}}}"),
            Part::Secret(name) => format!("${{{name}}}"),
        });
        parts.collect()
    }
}

fn shown(text: String) -> String {
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…`", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_goes_along_is_told_and_where_secrets_go() {
        let config = json!({"description": "x", "method": "POST", "url": "https://a.example/x",
            "query": {"action": "transfer", "q": "a{{b{q}"},
            "headers": {"Authorization": "Bearer ${K}"},
            "body": {"list": [{"token": "${K}"}, "as it is", 1], "note": "{note}"},
            "input": {"type": "object", "required": ["q"],
                "properties": {"q": {"type": "string"}, "note": {"type": "string"}}},
            "secrets": {"K": "env:KEY"}});
        let operation = HttpOperation::parse(config.as_object().unwrap()).unwrap();
        assert_eq!(
            operation.sent_parts(),
            [
                "the query `action=transfer`",
                "the query `q=a{{b{q}`",
                "the header `authorization: Bearer ${K}`",
                "the body `{\"list\":[{\"token\":\"${K}\"},\"as it is\",1],\"note\":\"{note}\"}`",
            ]
        );
        assert_eq!(
            operation.sent_secrets(),
            [
                "env:KEY in the header `authorization`",
                "env:KEY in the body at `/list/0/token`",
            ]
        );
        let long = shown(format!("`{}`", "\u{e9}".repeat(1000)));
        assert_eq!(long.chars().count(), MAX_SHOWN + 2);
    }
}
