//! The text of a configuration file that belongs to somebody else, changed in one entry and nowhere
//! else: comments, order and indentation of the rest stay as they are.
//!
//! Each format has a file with the same three functions. Whatever an edit did is read again before
//! it is believed: if anything but the entry reads differently afterwards, the file is refused, and
//! its owner is shown what to paste.

mod json;
mod toml;
mod yaml;

use serde_json::{Map, Value};

pub(crate) use self::toml::write as toml_value;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON, with the comments and trailing commas that JSONC and JSON5 allow.
    Json,
    /// TOML.
    Toml,
    /// YAML.
    Yaml,
}

/// The fields of one entry, in the order they are written.
pub(crate) type Fields<'f> = [(&'f str, &'f Value)];

/// Why a file cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unchangeable {
    /// It is not written in its format, or what should hold the entries does not.
    Broken(String),
    /// It says the same in a way that cannot be changed in one place.
    NotSimple(String),
}

/// The text that stands for an empty file.
pub(crate) fn blank(format: Format) -> &'static str {
    match format {
        Format::Json => "{}\n",
        Format::Toml | Format::Yaml => "",
    }
}

/// The entries of a table, in the order of the file. A table that is not there has none.
pub(crate) fn entries(
    format: Format,
    text: &str,
    table: &[String],
) -> Result<Vec<(String, Value)>, Unchangeable> {
    match format {
        Format::Json => json::entries(text, table),
        Format::Toml => toml::entries(text, table),
        Format::Yaml => yaml::entries(text, table),
    }
}

/// The text with an entry, new or in place of the one of that name.
pub(crate) fn with_entry(
    format: Format,
    text: &str,
    table: &[String],
    name: &str,
    fields: &Fields<'_>,
) -> Result<String, Unchangeable> {
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
pub(crate) fn without_entry(
    format: Format,
    text: &str,
    table: &[String],
    name: &str,
) -> Result<String, Unchangeable> {
    let written = match format {
        Format::Json => json::without_entry(text, table, name),
        Format::Toml => toml::without_entry(text, table, name),
        Format::Yaml => yaml::without_entry(text, table, name),
    }?;
    only_changes(format, text, &written, (table, name, None))?;
    Ok(written)
}

/// Checks that an edit did what it was meant to and nothing else.
fn only_changes(
    format: Format,
    before: &str,
    after: &str,
    (table, name, entry): (&[String], &str, Option<&Value>),
) -> Result<(), Unchangeable> {
    let read = |text| match value(format, text)? {
        // A file that says nothing is an empty table.
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
    Err(Unchangeable::NotSimple(
        "the entry cannot be changed without changing something else".to_owned(),
    ))
}

/// Everything a text says.
fn value(format: Format, text: &str) -> Result<Value, Unchangeable> {
    match format {
        Format::Json => json::value(text),
        Format::Toml => toml::value(text),
        Format::Yaml => yaml::value(text),
    }
}

/// Takes an entry out of what was read.
fn take(value: &mut Value, table: &[String], name: &str) -> Option<Value> {
    let mut at = value;
    for key in table {
        at = at.as_object_mut()?.get_mut(key)?;
    }
    at.as_object_mut()?.remove(name)
}

/// Forgets tables on the way to the entries that hold nothing: whether an empty one is written is
/// not what a file says.
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

/// What is said of a place that should hold entries and holds something else.
fn not_a_table(table: &[String]) -> Unchangeable {
    Unchangeable::Broken(format!("`{}` is not a table of entries", table.join(".")))
}

/// The fields of a test.
#[cfg(test)]
pub(super) fn borrowed<'f>(fields: &'f [(&'static str, Value)]) -> Vec<(&'f str, &'f Value)> {
    fields.iter().map(|(key, value)| (*key, value)).collect()
}
