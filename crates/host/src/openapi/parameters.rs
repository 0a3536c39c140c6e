//! The parameters of an operation: an argument for each, and its place in the request.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    OpenApiError,
    document::{Document, FoundOperation, list, shown},
    schema,
};

/// Headers that OpenAPI describes elsewhere.
const NOT_PARAMETERS: [&str; 3] = ["accept", "authorization", "content-type"];

/// The arguments of an operation, as they are collected.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// The schema of each.
    pub(super) properties: Map<String, Value>,
    pub(super) required: Vec<Value>,
    /// What is left out, and other things to know.
    pub(super) notes: Vec<String>,
    pub(super) query: Map<String, Value>,
    pub(super) headers: Map<String, Value>,
    /// The argument of each place in the path.
    pub(super) in_path: BTreeMap<String, String>,
}

impl Arguments {
    /// Adds an argument, and returns what it is called.
    pub(super) fn add(&mut self, wanted: &str, place: &str, schema: Value, needed: bool) -> String {
        let mut name = plain_name(wanted);
        if self.properties.contains_key(&name) {
            name = plain_name(&format!("{place}_{wanted}"));
        }
        let mut number = 2;
        while self.properties.contains_key(&name) {
            // The number first, because a long name is cut at its end.
            name = plain_name(&format!("{place}_{number}_{wanted}"));
            number += 1;
        }
        self.properties.insert(name.clone(), schema);
        if needed {
            self.required.push(Value::from(name.as_str()));
        }
        name
    }
}

/// A name that every model provider takes.
fn plain_name(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let name = text.chars().map(|c| if plain(c) { c } else { '_' });
    name.take(64).collect()
}

/// All parameters of an operation.
pub(super) fn read(
    document: &Document<'_>,
    found: &FoundOperation<'_>,
) -> Result<Arguments, OpenApiError> {
    let mut arguments = Arguments::default();
    let mut known = BTreeMap::new();
    // What an operation says about a parameter replaces what its path says.
    for parameters in [found.common, found.operation] {
        for parameter in list(parameters.get("parameters")) {
            let parameter = document.resolved(parameter)?;
            let word = |key: &str| parameter.get(key).and_then(Value::as_str);
            let (Some(name), Some(place)) = (word("name"), word("in")) else {
                return Err(OpenApiError::unsupported(
                    "a parameter of it has no `name` or no `in`",
                ));
            };
            known.insert((place, name), parameter);
        }
    }
    for ((place, name), parameter) in known {
        let needed = place == "path" || parameter.get("required") == Some(&Value::Bool(true));
        match one(document, &mut arguments, place, name, parameter, needed) {
            Ok(()) => {}
            Err(why) if !needed => {
                let shown = shown(name);
                arguments
                    .notes
                    .push(format!("{shown} in the {place} is left out: {why}"));
            }
            Err(why) => return Err(why),
        }
    }
    Ok(arguments)
}

fn one(
    document: &Document<'_>,
    arguments: &mut Arguments,
    place: &str,
    name: &str,
    parameter: &Value,
    needed: bool,
) -> Result<(), OpenApiError> {
    let shown_name = shown(name);
    let refuse = |why: &str| {
        Err(OpenApiError::unsupported(format!(
            "the parameter {shown_name} {why}"
        )))
    };
    if place == "header" && NOT_PARAMETERS.contains(&name.to_ascii_lowercase().as_str()) {
        return Ok(());
    }
    let usual = match place {
        "query" => "form",
        "path" | "header" => "simple",
        "cookie" => return refuse("is a cookie"),
        _ => return refuse("has a place that is not known"),
    };
    let style = parameter.get("style").and_then(Value::as_str);
    if style.is_some_and(|style| style != usual) {
        return refuse("has a `style` that is not written");
    }
    if parameter.get("allowReserved") == Some(&Value::Bool(true)) {
        return refuse("is not encoded (`allowReserved`)");
    }
    let Some(written) = parameter.get("schema") else {
        return refuse("has no `schema`");
    };
    let mut schema = schema::converted(document, written)?;
    let kind = schema.get("type").and_then(Value::as_str);
    let explodes = parameter.get("explode") != Some(&Value::Bool(false));
    match kind {
        Some("object") => return refuse("is an object"),
        Some("array") if place != "query" || !explodes => {
            return refuse("is a list in one text");
        }
        _ => {}
    }
    let said = parameter.get("description").and_then(Value::as_str);
    if let (Some(said), Some(fields)) = (said, schema.as_object_mut()) {
        fields.insert("description".to_owned(), Value::from(schema::words(said)));
    }
    let argument = arguments.add(name, place, schema, needed);
    let template = Value::from(format!("{{{argument}}}"));
    match place {
        "path" => {
            arguments.in_path.insert(name.to_owned(), argument);
        }
        "query" => {
            arguments.query.insert(name.to_owned(), template);
        }
        _ => {
            arguments.headers.insert(name.to_owned(), template);
        }
    }
    Ok(())
}
