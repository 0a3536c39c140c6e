//! What a mounted server's form asks for, and in whose voice. A form that asks for a secret or
//! speaks as Haft is rejected before a person sees it: the protocol sends secrets to a page of the
//! server, never through a form, and only Haft asks in Haft's name.
//!
//! This compares words, so it is a net and not a proof: other words get through, under the server's
//! name (`asker.rs`). A form that only offers choices cannot take a secret, whatever it says. Read
//! next: `secret.rs` for what asks for a secret, `voice.rs` for who speaks, `words.rs` for how text
//! is split.

mod secret;
mod voice;
mod words;

use serde_json::{Map, Value};

use self::{
    secret::{asks_for_secret, is_called_secret},
    words::words,
};
use crate::foreign::shown_within;

/// How many characters of a text are quoted.
const NAMED_CHARS: usize = 60;

/// How deep field schemas are searched. The protocol's forms are flat.
const MAX_DEPTH: usize = 8;

/// Why a form is not shown to a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum FormRefusal {
    /// It asks for something that must not be typed into a form.
    #[error("it asks for a secret (`{named}`), which belongs on a page of the server's own")]
    Secret {
        /// The offending text, escaped.
        named: String,
    },
    /// It speaks as Haft, or imitates one of Haft's questions.
    #[error("it speaks as Haft (`{named}`)")]
    SpeaksAsHaft {
        /// The offending text, escaped.
        named: String,
    },
}

/// Why a form must not be shown to a person, if it must not.
pub(super) fn refusal(parameters: &Map<String, Value>) -> Option<FormRefusal> {
    let message = parameters.get("message").and_then(Value::as_str);
    let message = message.unwrap_or_default();
    let schema = parameters.get("requestedSchema");
    let mut texts = vec![message];
    if let Some(schema) = schema {
        collect_texts(schema, &mut texts, MAX_DEPTH);
    }
    if let Some(text) = texts.iter().find(|text| voice::is_of_haft(text)) {
        let named = shown_within(text, NAMED_CHARS);
        return Some(FormRefusal::SpeaksAsHaft { named });
    }
    // A form that only links to a page takes no secret.
    if parameters.get("mode").and_then(Value::as_str) == Some("url") {
        return None;
    }
    let mut fields = Vec::new();
    collect_fields(schema?, "", &mut fields, MAX_DEPTH);
    let of_fields = fields.iter().find_map(Field::secret);
    // What the message asks for could be typed into any field that takes it.
    let of_message = || {
        let takes_text = fields.iter().any(|field| field.takes == FieldKind::Text);
        let takes_digits = fields.iter().any(|field| field.takes == FieldKind::Digits);
        let asked = words(message);
        let asks = (takes_text && asks_for_secret(&asked, FieldKind::Text))
            || (takes_digits && asks_for_secret(&asked, FieldKind::Digits));
        asks.then_some(message)
    };
    let named = shown_within(of_fields.or_else(of_message)?, NAMED_CHARS);
    Some(FormRefusal::Secret { named })
}

/// What can be typed into a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FieldKind {
    /// Anything.
    Text,
    /// A number.
    Digits,
}

/// A field that a person types into.
#[derive(Debug)]
struct Field<'a> {
    name: &'a str,
    texts: Vec<&'a str>,
    /// Whether its schema says that typed text is not shown.
    is_hidden: bool,
    takes: FieldKind,
}

impl<'a> Field<'a> {
    /// The text that asks for a secret, if there is one.
    fn secret(&self) -> Option<&'a str> {
        if self.is_hidden {
            return Some(self.name);
        }
        let asks = |text: &&&str| asks_for_secret(&words(text), self.takes);
        let texts = || self.texts.iter();
        texts().find(asks).copied().or_else(|| {
            let is_called = |text: &&&str| is_called_secret(&words(text));
            texts().find(is_called).copied()
        })
    }
}

/// The schemas of the fields a person types into. Choices and yes/no fields take no text.
fn collect_fields<'a>(schema: &'a Value, name: &'a str, into: &mut Vec<Field<'a>>, depth: usize) {
    let Value::Object(members) = schema else {
        return;
    };
    if let Some(properties) = members.get("properties").and_then(Value::as_object) {
        if depth > 0 {
            for (name, property) in properties {
                collect_fields(property, name, into, depth - 1);
            }
        }
        return;
    }
    let is = |member: &str, word: &str| members.get(member).and_then(Value::as_str) == Some(word);
    let choices = |schema: &Map<String, Value>| {
        schema.contains_key("enum") || schema.contains_key("const") || {
            let mut lists = ["oneOf", "anyOf"].into_iter();
            lists.any(|list| {
                let list = schema.get(list).and_then(Value::as_array);
                list.is_some_and(|list| only_choices(list))
            })
        }
    };
    let items = members.get("items").and_then(Value::as_object);
    if is("type", "boolean") || choices(members) || items.is_some_and(choices) {
        return;
    }
    let takes = if is("type", "integer") || is("type", "number") {
        FieldKind::Digits
    } else {
        FieldKind::Text
    };
    let text = |member: &str| members.get(member).and_then(Value::as_str);
    let texts = ["title", "description", "pattern"];
    let texts = std::iter::once(name).chain(texts.into_iter().filter_map(text));
    into.push(Field {
        name,
        texts: texts.filter(|text| !text.is_empty()).collect(),
        is_hidden: is("format", "password")
            || members.get("writeOnly").and_then(Value::as_bool) == Some(true),
        takes,
    });
}

fn only_choices(list: &[Value]) -> bool {
    !list.is_empty() && list.iter().all(|one| one.get("const").is_some())
}

/// Every text in a form that a person reads.
fn collect_texts<'a>(schema: &'a Value, into: &mut Vec<&'a str>, depth: usize) {
    match schema {
        Value::Object(members) if depth > 0 => {
            for (name, value) in members {
                into.push(name);
                collect_texts(value, into, depth - 1);
            }
        }
        Value::Array(values) if depth > 0 => {
            for value in values {
                collect_texts(value, into, depth - 1);
            }
        }
        Value::String(text) => into.push(text),
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
