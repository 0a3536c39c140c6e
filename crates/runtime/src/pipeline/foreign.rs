//! Calls of other systems' tools that are calls of ours: which tool one means, and what has to be
//! put into its input or taken out. Part of resolve; everything else about the input is validate's.

use std::sync::Arc;

use haft_contract::{Arguments, ErrorKind, ToolError, spec::ForeignCall};
use serde_json::{Map, Value};

use crate::{
    input,
    registry::{Entry, ForeignTool},
};

/// The tool that takes a call, and the parameter that the name stands for.
pub(super) struct Translation<'t> {
    pub(super) entry: &'t Arc<Entry>,
    pub(super) set: Option<(&'static str, &'static str)>,
}

/// Finds the tool that takes a call and makes the arguments what that tool wants; none if nothing
/// is known about the name.
pub(super) fn translate<'t>(
    known: &'t [ForeignTool],
    name: &str,
    arguments: &mut Arguments,
) -> Result<Option<Translation<'t>>, ToolError> {
    if known.is_empty() {
        return Ok(None);
    }
    let written = std::mem::replace(arguments, Arguments::Value(Value::Null));
    let mut input = input::parse(written, |_| false)?;
    let found = known.iter().find(|tool| applies(&tool.call, &input));
    let Some(ForeignTool { call, entry }) = found else {
        return Err(not_understood(known, name, &input));
    };
    if let Some(instead) = call.instead {
        let message = match call.when {
            None => format!("there is no tool `{name}`"),
            Some((parameter, value)) => {
                format!("`{name}` with the {parameter} `{value}` is not available")
            }
        };
        return Err(ToolError::new(ErrorKind::UnknownTool, message).hint(instead));
    }
    if let Some((parameter, _)) = call.when {
        input.remove(parameter);
    }
    let set = call
        .with
        .filter(|(parameter, _)| !input.contains_key(*parameter));
    if let Some((parameter, value)) = set {
        let number = value.parse::<u64>().map(Value::from);
        let value = number.unwrap_or_else(|_| Value::from(value));
        input.insert(parameter.to_owned(), value);
    }
    *arguments = Arguments::Value(Value::Object(input));
    Ok(Some(Translation { entry, set }))
}

fn applies(call: &ForeignCall, input: &Map<String, Value>) -> bool {
    call.when.is_none_or(|(parameter, value)| {
        input.get(parameter).and_then(Value::as_str) == Some(value)
    })
}

/// The error for a call whose deciding parameter has none of the known values.
fn not_understood(known: &[ForeignTool], name: &str, input: &Map<String, Value>) -> ToolError {
    let deciding = known.iter().find_map(|tool| tool.call.when);
    let parameter = deciding.map_or("action", |(parameter, _)| parameter);
    let taken = known.iter().filter(|tool| tool.call.instead.is_none());
    let values = taken.filter_map(|tool| tool.call.when);
    let values: Vec<String> = values.map(|(_, value)| format!("`{value}`")).collect();
    let message = match input.get(parameter) {
        None => format!("the parameter `{parameter}` is missing"),
        Some(Value::String(word)) => {
            let word = input::spelt(word);
            format!("`{name}` with the {parameter} `{word}` is not available")
        }
        Some(_) => format!("the parameter `{parameter}` of `{name}` is not text"),
    };
    ToolError::invalid_input(message)
        .at(format!("/{parameter}"))
        .hint(format!("`{parameter}` may be {}", values.join(", ")))
}
