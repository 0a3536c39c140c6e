//! Gives parameters the names that the tool has for them, at the top of the input and in the items
//! of its lists.

use haft_contract::spec::ParameterAlias;
use serde_json::{Map, Value};

use super::{
    coerce::{CoercedInput, properties, resolved},
    renamed::{RenamedParameter, ScaledNumber},
};

/// Renames what is written under an alias.
pub(super) fn rename(
    aliases: &[ParameterAlias],
    schema: &Value,
    input: &mut Map<String, Value>,
    coerced: &mut CoercedInput,
) {
    for (index, alias) in aliases.iter().enumerate() {
        let is_top = alias.within.is_none();
        // One name may stand for several parameters; all are filled when the first comes.
        let comes_again = || {
            let before = aliases.get(..index).unwrap_or_default();
            before
                .iter()
                .any(|known| known.alias == alias.alias && known.within.is_none())
        };
        if is_top && input.contains_key(alias.alias) && !comes_again() {
            rename_at_top(aliases, alias.alias, schema, input, coerced);
        }
    }
    let mut last = None;
    for list in aliases.iter().filter_map(|alias| alias.within) {
        if last != Some(list) {
            rename_in_list(aliases, list, schema, input, coerced);
        }
        last = Some(list);
    }
}

fn rename_at_top(
    aliases: &[ParameterAlias],
    name: &str,
    schema: &Value,
    input: &mut Map<String, Value>,
    coerced: &mut CoercedInput,
) {
    let wanted = |alias: &&ParameterAlias| {
        alias.alias == name && alias.within.is_none() && !input.contains_key(alias.parameter)
    };
    let wanted: Vec<&ParameterAlias> = aliases.iter().filter(wanted).collect();
    if wanted.is_empty() || properties(schema).is_some_and(|known| known.contains_key(name)) {
        return;
    }
    let Some(written) = input.remove(name) else {
        return;
    };
    for alias in wanted {
        let parameter = alias.parameter;
        let (value, scaled) = match alias.scale {
            Some(scale) if !is_larger(&written, alias.largest) => {
                let number = ScaledNumber {
                    written: written.clone(),
                    scale,
                };
                (scaled(&written, scale), Some(number))
            }
            Some(_) | None => (written.clone(), None),
        };
        coerced
            .changes
            .push(format!("`{name}` read as `{parameter}`"));
        coerced.renamed.push(RenamedParameter {
            read_as: format!("/{parameter}"),
            written: format!("/{name}"),
            scaled,
        });
        input.insert(parameter.to_owned(), value);
    }
}

/// Renames parameters in the items of a list, and makes the list where its only item's parameters
/// are written at the top.
fn rename_in_list(
    aliases: &[ParameterAlias],
    list: &str,
    schema: &Value,
    input: &mut Map<String, Value>,
    coerced: &mut CoercedInput,
) {
    let inside = || aliases.iter().filter(|alias| alias.within == Some(list));
    if !input.contains_key(list) {
        gather(inside(), list, schema, input, coerced);
        return;
    }
    let Some(value) = input.get_mut(list) else {
        return;
    };
    if let Value::String(text) = &*value
        && let Ok(parsed @ (Value::Array(_) | Value::Object(_))) = serde_json::from_str(text)
    {
        *value = parsed;
        let change = format!("`/{list}` was text and is read as a list");
        coerced.changes.push(change);
    }
    if value.is_object() {
        *value = Value::Array(vec![value.take()]);
        coerced.changes.push(one_as_list(&format!("/{list}")));
    }
    let items = value.as_array_mut().into_iter().flatten();
    for (index, item) in items.enumerate() {
        let Some(item) = item.as_object_mut() else {
            continue;
        };
        for alias in inside() {
            if item.contains_key(alias.parameter) {
                continue;
            }
            let Some(value) = item.remove(alias.alias) else {
                continue;
            };
            item.insert(alias.parameter.to_owned(), value);
            let (read_as, written) = (
                format!("/{list}/{index}/{}", alias.parameter),
                format!("/{list}/{index}/{}", alias.alias),
            );
            coerced
                .changes
                .push(format!("`{written}` read as `{}`", alias.parameter));
            coerced.renamed.push(RenamedParameter {
                read_as,
                written,
                scaled: None,
            });
        }
    }
}

/// Makes a list of one from what is written beside it.
fn gather<'a>(
    inside: impl Iterator<Item = &'a ParameterAlias>,
    list: &str,
    schema: &Value,
    input: &mut Map<String, Value>,
    coerced: &mut CoercedInput,
) {
    let known = properties(schema);
    let is_known = |name: &str| known.is_some_and(|known| known.contains_key(name));
    let items = known.and_then(|known| known.get(list));
    let items = items.and_then(|list| resolved(schema, list).get("items"));
    let own = items.and_then(|items| properties(resolved(schema, items)));
    let own = own.into_iter().flatten();
    let own = own.map(|(name, _)| (name.as_str(), name.as_str()));
    let other = inside.map(|alias| (alias.alias, alias.parameter));
    let mut item = Map::new();
    let mut names = Vec::new();
    for (written, parameter) in own.chain(other) {
        if is_known(written) || item.contains_key(parameter) {
            continue;
        }
        if let Some(value) = input.remove(written) {
            item.insert(parameter.to_owned(), value);
            names.push(format!("`{written}`"));
            coerced.renamed.push(RenamedParameter {
                read_as: format!("/{list}/0/{parameter}"),
                written: format!("/{written}"),
                scaled: None,
            });
        }
    }
    if !item.is_empty() {
        let change = format!("{} read as the only item of `{list}`", names.join(", "));
        coerced.changes.push(change);
        input.insert(list.to_owned(), Value::Array(vec![Value::Object(item)]));
    }
}

/// What is said when a list of one is made.
pub(super) fn one_as_list(at: &str) -> String {
    format!("`{at}` was one value and is read as a list of it")
}

/// A number, also if it is written as text.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn is_larger(value: &Value, largest: Option<u32>) -> bool {
    let beyond = |largest: u32| number(value).is_some_and(|number| number > f64::from(largest));
    largest.is_some_and(beyond)
}

fn scaled(value: &Value, scale: u32) -> Value {
    match number(value).map(|number| number * f64::from(scale)) {
        Some(number) => whole(number).unwrap_or_else(|| Value::from(number)),
        None => value.clone(),
    }
}

/// A number without a fraction, as JSON has whole numbers.
pub(super) fn whole(number: f64) -> Option<Value> {
    if number.fract() != 0.0 || number.abs() >= 9e15 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a whole number within the range just checked"
    )]
    Some(Value::from(number as i64))
}
