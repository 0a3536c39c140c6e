//! TOML. The editor keeps every byte; an entry is a separate table at the end, or next to the
//! others.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::{EditRefusal, Fields, not_a_list, not_a_table};

/// The entries of a table.
pub(super) fn entries(text: &str, table: &[String]) -> Result<Vec<(String, Value)>, EditRefusal> {
    let document = parse(text)?;
    let mut at: &dyn TableLike = document.as_table();
    for (depth, key) in table.iter().enumerate() {
        let Some(item) = at.get(key) else {
            return Ok(Vec::new());
        };
        let upto = table.get(..=depth).unwrap_or(table);
        at = item.as_table_like().ok_or_else(|| not_a_table(upto))?;
    }
    Ok(at
        .iter()
        .map(|(name, item)| (name.to_owned(), read_item(item)))
        .collect())
}

/// The whole text as a value.
pub(super) fn value(text: &str) -> Result<Value, EditRefusal> {
    Ok(read_table(parse(text)?.as_table()))
}

/// The text with an entry.
pub(super) fn with_entry(
    text: &str,
    table: &[String],
    name: &str,
    fields: &Fields<'_>,
) -> Result<String, EditRefusal> {
    let mut document = parse(text)?;
    let at = find_or_make(&mut document, table, Heading::OfEntries)?;
    if let Some(entry) = at.get_mut(name).and_then(Item::as_table_like_mut) {
        // An existing entry keeps its place and its form.
        entry.clear();
        for (key, value) in fields {
            entry.insert(key, Item::Value(write(value)));
        }
    } else {
        let mut entry = Table::new();
        for (key, value) in fields {
            entry.insert(key, Item::Value(write(value)));
        }
        at.insert(name, Item::Table(entry));
    }
    Ok(document.to_string())
}

/// The text with a value.
pub(super) fn with_value(
    text: &str,
    table: &[String],
    name: &str,
    value: &Value,
) -> Result<String, EditRefusal> {
    let mut document = parse(text)?;
    let at = find_or_make(&mut document, table, Heading::OfValues)?;
    match at.get_mut(name).and_then(Item::as_value_mut) {
        // What surrounds the old value, such as a comment, stays.
        Some(old) => {
            let mut new = write(value);
            *new.decor_mut() = old.decor().clone();
            *old = new;
        }
        None => {
            at.insert(name, Item::Value(write(value)));
        }
    }
    Ok(document.to_string())
}

/// The text with items at the end of a list.
pub(super) fn with_items(
    text: &str,
    table: &[String],
    name: &str,
    items: &[String],
) -> Result<String, EditRefusal> {
    let mut document = parse(text)?;
    let at = find_or_make(&mut document, table, Heading::OfValues)?;
    let list = at
        .entry(name)
        .or_insert(Item::Value(Array::new().into()))
        .as_array_mut()
        .ok_or_else(|| not_a_list(table, name))?;
    for item in items {
        list.push(item.as_str());
    }
    Ok(document.to_string())
}

/// The text without items of a list.
pub(super) fn without_items(
    text: &str,
    table: &[String],
    name: &str,
    items: &[String],
) -> Result<String, EditRefusal> {
    let mut document = parse(text)?;
    let at = find_or_make(&mut document, table, Heading::OfValues)?;
    if let Some(list) = at.get_mut(name).and_then(Item::as_array_mut) {
        list.retain(|item| {
            !item
                .as_str()
                .is_some_and(|text| items.iter().any(|item| item == text))
        });
    }
    Ok(document.to_string())
}

/// The text without an entry.
pub(super) fn without_entry(
    text: &str,
    table: &[String],
    name: &str,
) -> Result<String, EditRefusal> {
    let mut document = parse(text)?;
    let mut at: &mut dyn TableLike = document.as_table_mut();
    for (depth, key) in table.iter().enumerate() {
        let upto = table.get(..=depth).unwrap_or(table);
        let Some(item) = at.get_mut(key) else {
            return Ok(text.to_owned());
        };
        at = item.as_table_like_mut().ok_or_else(|| not_a_table(upto))?;
    }
    at.remove(name);
    Ok(document.to_string())
}

/// Which tables get a heading when they are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heading {
    /// Only the entries in it.
    OfEntries,
    /// The table that holds the values.
    OfValues,
}

fn find_or_make<'d>(
    document: &'d mut DocumentMut,
    table: &[String],
    heading: Heading,
) -> Result<&'d mut dyn TableLike, EditRefusal> {
    let mut at: &mut dyn TableLike = document.as_table_mut();
    for (depth, key) in table.iter().enumerate() {
        let upto = table.get(..=depth).unwrap_or(table);
        let last = upto.len() == table.len();
        let item = at.entry(key).or_insert_with(|| {
            let mut new = Table::new();
            new.set_implicit(!(last && heading == Heading::OfValues));
            Item::Table(new)
        });
        at = item.as_table_like_mut().ok_or_else(|| not_a_table(upto))?;
    }
    Ok(at)
}

fn parse(text: &str) -> Result<DocumentMut, EditRefusal> {
    text.parse::<DocumentMut>()
        .map_err(|error| EditRefusal::Broken(error.to_string().trim_end().to_owned()))
}

/// A value in TOML. TOML has no null; none of our values has one.
pub fn write(value: &Value) -> toml_edit::Value {
    match value {
        Value::Null => toml_edit::Value::from(""),
        Value::Bool(value) => toml_edit::Value::from(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => toml_edit::Value::from(whole),
            (None, float) => toml_edit::Value::from(float.unwrap_or_default()),
        },
        Value::String(text) => toml_edit::Value::from(text.as_str()),
        Value::Array(items) => items.iter().map(write).collect::<Array>().into(),
        Value::Object(map) => map
            .iter()
            .map(|(key, value)| (key.as_str(), write(value)))
            .collect::<InlineTable>()
            .into(),
    }
}

fn read_table(table: &dyn TableLike) -> Value {
    let read = |(key, item): (&str, &Item)| (key.to_owned(), read_item(item));
    Value::Object(table.iter().map(read).collect::<Map<_, _>>())
}

fn read_item(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(value) => read(value),
        Item::Table(table) => read_table(table),
        Item::ArrayOfTables(tables) => {
            Value::Array(tables.iter().map(|table| read_table(table)).collect())
        }
    }
}

fn read(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        toml_edit::Value::Float(number) => Value::from(*number.value()),
        toml_edit::Value::Boolean(value) => Value::from(*value.value()),
        toml_edit::Value::Datetime(moment) => Value::from(moment.value().to_string()),
        toml_edit::Value::Array(items) => Value::Array(items.iter().map(read).collect()),
        toml_edit::Value::InlineTable(table) => read_table(table),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::{Format, borrowed, with_entry, without_entry};

    fn fields() -> Vec<(&'static str, Value)> {
        vec![
            ("command", json!("/bin/haft")),
            ("args", json!(["mcp"])),
            ("env", json!({"A": "b"})),
        ]
    }

    fn check(before: &str, expected: &str) {
        let table = ["mcp_servers".to_owned()];
        let after = with_entry(Format::Toml, before, &table, "haft", &borrowed(&fields())).unwrap();
        assert_eq!(after, expected);
        let again = with_entry(Format::Toml, &after, &table, "haft", &borrowed(&fields())).unwrap();
        assert_eq!(again, expected, "a second time changes nothing");
    }

    const ENTRY: &str =
        "[mcp_servers.haft]\ncommand = \"/bin/haft\"\nargs = [\"mcp\"]\nenv = { A = \"b\" }\n";

    #[test]
    fn an_entry_is_a_table_after_the_others() {
        check("", ENTRY);
        check(
            "# mine\nmodel = 'x'   # kept\n\n[mcp_servers.other]   # too\ncommand = \"x\"\n\n[tui]\nnotifications = true\n",
            &format!(
                "# mine\nmodel = 'x'   # kept\n\n[mcp_servers.other]   # too\ncommand = \"x\"\n\n{ENTRY}\n[tui]\nnotifications = true\n"
            ),
        );
        check(
            "mcp_servers = { other = { command = \"x\" } }\n",
            "mcp_servers = { other = { command = \"x\" } , haft = { command = \"/bin/haft\", args = [\"mcp\"], env = { A = \"b\" } } }\n",
        );
    }

    #[test]
    fn taking_an_entry_away_leaves_the_rest_as_it_was() {
        let table = ["mcp_servers".to_owned()];
        for before in [
            "# mine\n[mcp_servers.other]\ncommand = \"x\" # y\n",
            "a = 1\n\n[b]\nc = [ 1,2 ]\n",
        ] {
            let with =
                with_entry(Format::Toml, before, &table, "haft", &borrowed(&fields())).unwrap();
            let without = without_entry(Format::Toml, &with, &table, "haft").unwrap();
            assert_eq!(without, before);
        }
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        let table = ["mcp_servers".to_owned()];
        for text in ["a = ", "mcp_servers = 1\n", "[[mcp_servers]]\nx = 1\n"] {
            assert!(
                with_entry(Format::Toml, text, &table, "haft", &borrowed(&fields())).is_err(),
                "{text}"
            );
        }
    }
}
