//! Edits one entry in a configuration file that belongs to somebody else, and nothing more:
//! comments, order and indentation of the rest stay as they are.
//!
//! Each format has a file with the same functions. The result of every edit is parsed again: if
//! anything but the entry reads differently afterwards, the file is refused, and its owner is shown
//! what to paste.

mod json;
mod toml;
mod yaml;

use serde_json::{Map, Value};

pub use self::toml::write as toml_value;

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON, with the comments and trailing commas that JSONC and JSON5 allow.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// The fields of one entry, in written order.
pub type Fields<'f> = [(&'f str, &'f Value)];

/// Why a file cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditRefusal {
    /// It is not valid in its format, or what should hold the entries does not.
    Broken(String),
    /// The entry is written in a form that cannot be changed in one place.
    NotSimple(String),
}

/// The text of an empty file.
pub fn blank(format: Format) -> &'static str {
    match format {
        Format::Json => "{}\n",
        Format::Toml | Format::Yaml => "",
    }
}

/// Whether a text is empty: no key, and no comment either.
pub fn says_nothing(format: Format, text: &str) -> bool {
    let bare: String = text.split_whitespace().collect();
    match format {
        Format::Json => matches!(&*bare, "" | "{}"),
        Format::Toml | Format::Yaml => bare.is_empty(),
    }
}

/// The entries of a table, in the order of the file. A missing table has none.
pub fn entries(
    format: Format,
    text: &str,
    table: &[String],
) -> Result<Vec<(String, Value)>, EditRefusal> {
    match format {
        Format::Json => json::entries(text, table),
        Format::Toml => toml::entries(text, table),
        Format::Yaml => yaml::entries(text, table),
    }
}

/// The text with an entry, new or replacing the one of that name.
pub fn with_entry(
    format: Format,
    text: &str,
    table: &[String],
    name: &str,
    fields: &Fields<'_>,
) -> Result<String, EditRefusal> {
    let written = match format {
        Format::Json => json::with_entry(text, table, name, fields),
        Format::Toml => toml::with_entry(text, table, name, fields),
        Format::Yaml => yaml::with_entry(text, table, name, fields),
    }?;
    let entry: Map<String, Value> = fields
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).clone()))
        .collect();
    only_changes(
        format,
        text,
        &written,
        (table, name, Some(&Value::Object(entry))),
    )?;
    Ok(written)
}

/// The text without an entry.
pub fn without_entry(
    format: Format,
    text: &str,
    table: &[String],
    name: &str,
) -> Result<String, EditRefusal> {
    let written = match format {
        Format::Json => json::without_entry(text, table, name),
        Format::Toml => toml::without_entry(text, table, name),
        Format::Yaml => yaml::without_entry(text, table, name),
    }?;
    only_changes(format, text, &written, (table, name, None))?;
    Ok(written)
}

/// The value at a path of keys; `None` if a key is missing.
pub fn value_at(format: Format, text: &str, path: &[String]) -> Result<Option<Value>, EditRefusal> {
    let said = value(format, text)?;
    let steps = path.iter().try_fold(&said, |at, key| at.get(key));
    Ok(steps.cloned())
}

/// The text with a value, new or replacing the existing one.
pub fn with_value(
    format: Format,
    text: &str,
    path: &[String],
    value: &Value,
) -> Result<String, EditRefusal> {
    let (name, table) = split(path)?;
    let written = match format {
        Format::Json => json::with_value(text, table, name, value),
        Format::Toml => toml::with_value(text, table, name, value),
        Format::Yaml => Err(yaml::unchanged_setting()),
    }?;
    only_changes(format, text, &written, (table, name, Some(value)))?;
    Ok(written)
}

/// The text with items at the end of a list, which is created if missing.
pub fn with_items(
    format: Format,
    text: &str,
    path: &[String],
    items: &[String],
) -> Result<String, EditRefusal> {
    let (name, table) = split(path)?;
    let written = match format {
        Format::Json => json::with_items(text, table, name, items),
        Format::Toml => toml::with_items(text, table, name, items),
        Format::Yaml => Err(yaml::unchanged_setting()),
    }?;
    let mut list = list_at(format, text, path)?;
    list.extend(items.iter().map(|item| Value::from(item.as_str())));
    only_changes(format, text, &written, (table, name, Some(&list.into())))?;
    Ok(written)
}

/// The text without these items of a list, wherever they are in it.
pub fn without_items(
    format: Format,
    text: &str,
    path: &[String],
    items: &[String],
) -> Result<String, EditRefusal> {
    let Some(Value::Array(mut list)) = value_at(format, text, path)? else {
        return Ok(text.to_owned());
    };
    let (name, table) = split(path)?;
    let written = match format {
        Format::Json => json::without_items(text, table, name, items),
        Format::Toml => toml::without_items(text, table, name, items),
        Format::Yaml => Err(yaml::unchanged_setting()),
    }?;
    let goes = |value: &Value| items.iter().any(|item| value.as_str() == Some(item));
    list.retain(|value| !goes(value));
    only_changes(format, text, &written, (table, name, Some(&list.into())))?;
    Ok(written)
}

/// The text without the empty tables and lists on the way to a path, except the first `kept`: those
/// were there before.
pub fn without_empty(
    format: Format,
    text: &str,
    path: &[String],
    kept: usize,
) -> Result<String, EditRefusal> {
    let mut text = text.to_owned();
    for length in (kept + 1..=path.len()).rev() {
        let Some(way) = path.get(..length) else {
            break;
        };
        let empty = match value_at(format, &text, way)? {
            Some(Value::Object(table)) => table.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(Value::Null) => true,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => false,
        };
        if empty {
            let (name, table) = split(way)?;
            text = without_entry(format, &text, table, name)?;
        }
    }
    Ok(text)
}

fn list_at(format: Format, text: &str, path: &[String]) -> Result<Vec<Value>, EditRefusal> {
    match value_at(format, text, path)? {
        Some(Value::Array(list)) => Ok(list),
        None => Ok(Vec::new()),
        Some(_) => {
            let (name, table) = split(path)?;
            Err(not_a_list(table, name))
        }
    }
}

/// The last key of a path, and the table that contains it.
fn split(path: &[String]) -> Result<(&str, &[String]), EditRefusal> {
    let (name, table) = path.split_last().ok_or_else(|| not_a_table(path))?;
    Ok((name, table))
}

/// Checks that an edit did what it should and nothing else.
fn only_changes(
    format: Format,
    before: &str,
    after: &str,
    (table, name, entry): (&[String], &str, Option<&Value>),
) -> Result<(), EditRefusal> {
    let read = |text| match value(format, text)? {
        // An empty file is an empty table.
        Value::Null => Ok(Value::Object(Map::new())),
        said => Ok(said),
    };
    let (mut before, mut after) = (read(before)?, read(after)?);
    let was_written = take(&mut after, table, name);
    take(&mut before, table, name);
    prune(&mut before, table);
    prune(&mut after, table);
    if was_written.as_ref() == entry && before == after {
        return Ok(());
    }
    Err(EditRefusal::NotSimple(
        "the entry cannot be changed without changing something else".to_owned(),
    ))
}

/// The whole text as a value.
fn value(format: Format, text: &str) -> Result<Value, EditRefusal> {
    match format {
        Format::Json => json::value(text),
        Format::Toml => toml::value(text),
        Format::Yaml => yaml::value(text),
    }
}

/// Removes an entry from a parsed value.
fn take(value: &mut Value, table: &[String], name: &str) -> Option<Value> {
    let mut at = value;
    for key in table {
        at = at.as_object_mut()?.get_mut(key)?;
    }
    at.as_object_mut()?.remove(name)
}

/// Drops empty tables on the way to the entries: writing an empty one or none means the same.
fn prune(value: &mut Value, table: &[String]) {
    let Some((first, rest)) = table.split_first() else {
        return;
    };
    let Some(object) = value.as_object_mut() else {
        return;
    };
    if let Some(inner) = object.get_mut(first) {
        prune(inner, rest);
        if inner.is_null() || inner.as_object().is_some_and(Map::is_empty) {
            object.remove(first);
        }
    }
}

/// The error for a place that should hold entries and does not.
fn not_a_table(table: &[String]) -> EditRefusal {
    EditRefusal::Broken(format!("`{}` is not a table of entries", table.join(".")))
}

/// The error for a place that should hold a list and does not.
fn not_a_list(table: &[String], name: &str) -> EditRefusal {
    let path: Vec<&str> = table.iter().map(String::as_str).chain([name]).collect();
    EditRefusal::Broken(format!("`{}` is not a list", path.join(".")))
}

/// Borrows a test's fields.
#[cfg(test)]
pub(super) fn borrowed<'f>(fields: &'f [(&'static str, Value)]) -> Vec<(&'f str, &'f Value)> {
    fields.iter().map(|(key, value)| (*key, value)).collect()
}
