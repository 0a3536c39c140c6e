//! Turns command-line words into a tool's arguments.
//!
//! `key=value` sets a parameter, `key:=json` sets it to a JSON value, a bare word fills the next
//! required parameter, one JSON object is the whole input, and `-` reads that object from standard
//! input. The runtime checks the result like any other call's.

use std::io::Read as _;

use haft_contract::{Arguments, ToolSpec};
use haft_runtime::registry::Snapshot;
use serde_json::{Map, Value};

use crate::stop::Stop;

/// The most that is read from standard input.
const MAX_STDIN_BYTES: u64 = 16 * 1024 * 1024;

/// What is known about a tool's parameters.
#[derive(Debug)]
struct Parameters {
    names: Vec<String>,
    required: Vec<String>,
    texts: Vec<String>,
}

impl Parameters {
    /// The parameters of a tool.
    fn of(spec: &ToolSpec, schema: &Value) -> Self {
        let properties = schema.get("properties").and_then(Value::as_object);
        let mut names: Vec<String> = properties
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
            .collect();
        names.extend(
            spec.parameter_aliases
                .iter()
                .map(|alias| alias.alias.to_owned()),
        );
        let required = schema.get("required").and_then(Value::as_array);
        let required = required
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned);
        let texts = properties
            .into_iter()
            .flatten()
            .filter(|(_, property)| takes_text(property))
            .map(|(name, _)| name.clone());
        Self {
            names,
            required: required.collect(),
            texts: texts.collect(),
        }
    }
}

/// A parameter in the form a person reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParameterHelp {
    /// Its name.
    pub(crate) name: String,
    /// The JSON types it accepts.
    pub(crate) kind: String,
    /// Whether a call must give it.
    pub(crate) required: bool,
    /// What it is for.
    pub(crate) description: String,
}

/// The parameters of a tool, required ones first.
pub(crate) fn described(schema: &Value) -> Vec<ParameterHelp> {
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut described: Vec<ParameterHelp> = properties
        .into_iter()
        .flatten()
        .map(|(name, property)| ParameterHelp {
            name: name.clone(),
            kind: kinds(property),
            required: required.contains(&name.as_str()),
            description: property
                .get("description")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        })
        .collect();
    described.sort_by_key(|parameter| !parameter.required);
    described
}

/// The types a property accepts, except `null`, which means leaving it out.
fn kinds(property: &Value) -> String {
    let words: Vec<String> = match property.get("type") {
        Some(Value::String(kind)) => vec![kind.clone()],
        Some(Value::Array(kinds)) => kinds
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        _ => ["anyOf", "oneOf"]
            .iter()
            .filter_map(|key| property.get(key).and_then(Value::as_array))
            .flatten()
            .map(kinds)
            .collect(),
    };
    let words: Vec<String> = words
        .into_iter()
        .filter(|word| word != "null" && !word.is_empty())
        .collect();
    words.join(" or ")
}

/// Parses the words after a tool's name. For an unknown tool they mean nothing; the runtime says so
/// and names the nearest one.
pub(crate) fn for_tool(tools: &Snapshot, tool: &str, words: &[String]) -> Result<Arguments, Stop> {
    match tools.get(tool) {
        Some(entry) => parse(words, &Parameters::of(entry.spec(), entry.input_schema())),
        None => Ok(Arguments::Value(Value::Object(Map::new()))),
    }
}

fn parse(words: &[String], parameters: &Parameters) -> Result<Arguments, Stop> {
    match words {
        [only] if only == "-" => return Ok(Arguments::Text(from_stdin()?)),
        [only] if only.trim_start().starts_with('{') => return Ok(Arguments::Text(only.clone())),
        _ => {}
    }
    let mut input = Map::new();
    for word in words {
        let (key, value) = match pair(word, parameters)? {
            Some(pair) => pair,
            None => (
                next_required(word, parameters, &input)?,
                Value::from(word.as_str()),
            ),
        };
        if input.insert(key.clone(), value).is_some() {
            return Err(Stop::usage(
                format!("`{key}` is given twice"),
                "give each parameter once",
            ));
        }
    }
    Ok(Arguments::Value(Value::Object(input)))
}

fn pair(word: &str, parameters: &Parameters) -> Result<Option<(String, Value)>, Stop> {
    let Some((key, text)) = word.split_once('=') else {
        return Ok(None);
    };
    if let Some(key) = key.strip_suffix(':') {
        let value = serde_json::from_str(text).map_err(|error| {
            Stop::usage(
                format!("the value of `{key}` is not JSON: {error}"),
                format!("write `{key}=text` for text"),
            )
        })?;
        return Ok(Some((key.to_owned(), value)));
    }
    let known = parameters.names.iter().any(|name| name == key);
    let is_name = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // `FOO=1 make` is a command; `pth=README.md` is a misspelt parameter, and the runtime names the
    // nearest one.
    if !known && (!is_name || text.contains(char::is_whitespace)) {
        return Ok(None);
    }
    let is_text = !known || parameters.texts.iter().any(|name| name == key);
    let value = if is_text {
        None
    } else {
        serde_json::from_str(text).ok()
    };
    Ok(Some((
        key.to_owned(),
        value.unwrap_or_else(|| Value::from(text)),
    )))
}

fn next_required(
    word: &str,
    parameters: &Parameters,
    input: &Map<String, Value>,
) -> Result<String, Stop> {
    let next = parameters
        .required
        .iter()
        .find(|name| !input.contains_key(*name));
    next.cloned().ok_or_else(|| {
        let hint = if parameters.names.is_empty() {
            "write key=value".to_owned()
        } else {
            format!(
                "write key=value; the parameters are {}",
                parameters.names.join(", ")
            )
        };
        Stop::usage(format!("`{word}` does not belong to a parameter"), hint)
    })
}

fn takes_text(property: &Value) -> bool {
    match property.get("type") {
        Some(Value::String(kind)) => kind == "string",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
        _ => ["anyOf", "oneOf"]
            .iter()
            .filter_map(|key| property.get(key).and_then(Value::as_array))
            .flatten()
            .any(takes_text),
    }
}

fn from_stdin() -> Result<String, Stop> {
    let mut text = String::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_STDIN_BYTES + 1)
        .read_to_string(&mut text);
    match read {
        Ok(bytes) if u64::try_from(bytes).unwrap_or(u64::MAX) > MAX_STDIN_BYTES => {
            Err(Stop::usage(
                format!("standard input has more than {MAX_STDIN_BYTES} bytes"),
                "give a smaller input",
            ))
        }
        Ok(_) => Ok(text),
        Err(error) => Err(Stop::usage(
            format!("standard input cannot be read: {error}"),
            "give a JSON object in UTF-8",
        )),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(words: &[&str], expected: &str) {
        let schema = json!({
            "properties": {
                "background": {"type": "boolean"},
                "command": {"type": "string"},
                "edits": {"type": "array"},
                "timeout_ms": {"type": ["integer", "null"]},
            },
            "required": ["command"],
        });
        let parameters = Parameters::of(&ToolSpec::new("", ""), &schema);
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let shown = match parse(&words, &parameters) {
            Ok(Arguments::Value(value)) => value.to_string(),
            Ok(Arguments::Text(text)) => format!("text {text}"),
            Err(stop) => format!("{} ({})", stop.message().unwrap_or_default(), stop.hint()),
        };
        // The order of fields depends on the build's `serde_json` features, and means nothing.
        let value = |text: &str| serde_json::from_str::<Value>(text).ok();
        assert!(
            shown == expected || (value(&shown).is_some() && value(&shown) == value(expected)),
            "{shown}"
        );
    }

    #[test]
    fn words_become_arguments() {
        check(&["command=ls -l"], r#"{"command":"ls -l"}"#);
        check(&["command=3"], r#"{"command":"3"}"#);
        check(
            &["ls", "timeout_ms=500", "background=true"],
            r#"{"background":true,"command":"ls","timeout_ms":500}"#,
        );
        check(&["FOO=1 make"], r#"{"command":"FOO=1 make"}"#);
        check(&["a=b == c"], r#"{"command":"a=b == c"}"#);
        check(&["comand=ls"], r#"{"comand":"ls"}"#);
        check(
            &["x", r#"edits:=[{"old":1}]"#],
            r#"{"command":"x","edits":[{"old":1}]}"#,
        );
        check(
            &["edits:=[", "x"],
            "the value of `edits` is not JSON: EOF while parsing a list at line 1 column 1 (write `edits=text` for text)",
        );
        check(&[r#"{"command": "ls"}"#], r#"text {"command": "ls"}"#);
        check(
            &["a", "b"],
            "`b` does not belong to a parameter (write key=value; the parameters are background, command, edits, timeout_ms)",
        );
        check(
            &["command=a", "command=b"],
            "`command` is given twice (give each parameter once)",
        );
    }
}
