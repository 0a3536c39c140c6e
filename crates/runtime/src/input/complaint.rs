//! Turns the first schema violation into an error a model can act on: what, where, what instead.

use haft_contract::ToolError;
use jsonschema::{ValidationError, error::ValidationErrorKind};
use serde_json::Value;

/// How alike two parameter names must be to suggest one for the other, from 0 to 1.
const SUGGESTION_LIKENESS: f64 = 0.7;

/// The longest piece of the model's own input repeated in an error.
const MAX_SHOWN_CHARS: usize = 120;

/// The error for one violation.
pub(crate) fn complaint(schema: &Value, violation: &ValidationError<'_>) -> ToolError {
    let at = violation.instance_path().to_string();
    match violation.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            let name = unexpected.first().map_or("", String::as_str);
            let known = properties_at(schema, &at);
            let error = ToolError::invalid_input(format!("there is no parameter `{}`", cut(name)))
                .at(format!("{at}/{}", cut(name)));
            match nearest(name, &known) {
                Some(meant) => error.hint(format!("did you mean `{meant}`?")),
                None => error.hint(format!("the parameters are: {}", known.join(", "))),
            }
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            ToolError::invalid_input(format!("the parameter `{name}` is missing"))
                .at(format!("{at}/{name}"))
                .hint(format!("add `{name}`"))
        }
        _ => ToolError::invalid_input(cut(&violation.to_string()))
            .at(if at.is_empty() { "/".to_owned() } else { at })
            .hint("see the tool's input schema"),
    }
}

/// The property names a schema allows at an instance path, as far as they can be told.
fn properties_at<'a>(schema: &'a Value, at: &str) -> Vec<&'a str> {
    let mut here = schema;
    for step in at.split('/').filter(|step| !step.is_empty()) {
        let next = here
            .get("properties")
            .and_then(|properties| properties.get(step))
            .or_else(|| here.get("items"));
        let Some(next) = next else { return Vec::new() };
        here = next
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|uri| schema.pointer(uri.trim_start_matches('#')))
            .unwrap_or(next);
    }
    here.get("properties")
        .and_then(Value::as_object)
        .map(|properties| properties.keys().map(String::as_str).collect())
        .unwrap_or_default()
}

fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), *candidate))
        .filter(|(likeness, _)| *likeness >= SUGGESTION_LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}

fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_SHOWN_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_SHOWN_CHARS).chain(['…']).collect()
}
