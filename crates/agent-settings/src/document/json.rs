//! JSON as people write it: with comments, trailing commas, keys and strings in single quotes. The
//! parser keeps every byte; additions follow the file's own indentation and line endings.

use jsonc_parser::{
    ParseOptions,
    cst::{CstArray, CstInputValue, CstObject, CstRootNode},
};
use serde_json::Value;

use super::{EditRefusal, Fields, not_a_list, not_a_table};

/// The entries of a table.
pub(super) fn entries(text: &str, table: &[String]) -> Result<Vec<(String, Value)>, EditRefusal> {
    let Some(object) = find(&parse(text)?, table)? else {
        return Ok(Vec::new());
    };
    let mut entries = Vec::new();
    for property in object.properties() {
        let name = property.decoded_name();
        let value = property.to_serde_value();
        let (Some(name), Some(value)) = (name, value) else {
            return Err(not_a_table(table));
        };
        entries.push((name, value));
    }
    Ok(entries)
}

/// The whole text as a value.
pub(super) fn value(text: &str) -> Result<Value, EditRefusal> {
    let root = parse(text)?;
    root.to_serde_value()
        .ok_or_else(|| EditRefusal::Broken("it is empty".to_owned()))
}

/// The text with an entry.
pub(super) fn with_entry(
    text: &str,
    table: &[String],
    name: &str,
    fields: &Fields<'_>,
) -> Result<String, EditRefusal> {
    let root = parse(text)?;
    let entry = CstInputValue::Object(
        fields
            .iter()
            .map(|(key, value)| ((*key).to_owned(), input(value)))
            .collect(),
    );
    put(&find_or_make(&root, table)?, name, entry);
    Ok(root.to_string())
}

/// The text with a value.
pub(super) fn with_value(
    text: &str,
    table: &[String],
    name: &str,
    value: &Value,
) -> Result<String, EditRefusal> {
    let root = parse(text)?;
    put(&find_or_make(&root, table)?, name, input(value));
    Ok(root.to_string())
}

/// The text with items at the end of a list.
pub(super) fn with_items(
    text: &str,
    table: &[String],
    name: &str,
    items: &[String],
) -> Result<String, EditRefusal> {
    let root = parse(text)?;
    let list = find_or_make(&root, table)?
        .array_value_or_create(name)
        .ok_or_else(|| not_a_list(table, name))?;
    for item in items {
        list.append(CstInputValue::String(item.clone()));
    }
    Ok(root.to_string())
}

/// The text without items of a list.
pub(super) fn without_items(
    text: &str,
    table: &[String],
    name: &str,
    items: &[String],
) -> Result<String, EditRefusal> {
    let root = parse(text)?;
    let list = find(&root, table)?.and_then(|object| object.array_value(name));
    for element in list.iter().flat_map(CstArray::elements) {
        let value = element.to_serde_value();
        let text = value.as_ref().and_then(Value::as_str);
        if text.is_some_and(|text| items.iter().any(|item| item == text)) {
            element.remove();
        }
    }
    Ok(root.to_string())
}

/// The text without an entry.
pub(super) fn without_entry(
    text: &str,
    table: &[String],
    name: &str,
) -> Result<String, EditRefusal> {
    let root = parse(text)?;
    if let Some(property) = find(&root, table)?.and_then(|object| object.get(name)) {
        property.remove();
    }
    Ok(root.to_string())
}

fn parse(text: &str) -> Result<CstRootNode, EditRefusal> {
    let options = ParseOptions {
        // No agent reads a file with missing commas.
        allow_missing_commas: false,
        ..ParseOptions::default()
    };
    CstRootNode::parse(text, &options).map_err(|error| EditRefusal::Broken(error.to_string()))
}

fn find(root: &CstRootNode, table: &[String]) -> Result<Option<CstObject>, EditRefusal> {
    let mut object = root.object_value().ok_or_else(not_an_object)?;
    for (depth, key) in table.iter().enumerate() {
        let Some(property) = object.get(key) else {
            return Ok(None);
        };
        let upto = table.get(..=depth).unwrap_or(table);
        object = property.object_value().ok_or_else(|| not_a_table(upto))?;
    }
    Ok(Some(object))
}

fn find_or_make(root: &CstRootNode, table: &[String]) -> Result<CstObject, EditRefusal> {
    let mut object = root.object_value().ok_or_else(not_an_object)?;
    for (depth, key) in table.iter().enumerate() {
        let upto = table.get(..=depth).unwrap_or(table);
        object = object
            .object_value_or_create(key)
            .ok_or_else(|| not_a_table(upto))?;
    }
    Ok(object)
}

fn put(object: &CstObject, name: &str, value: CstInputValue) {
    match object.get(name) {
        Some(property) => property.set_value(value),
        None => {
            object.append(name, value);
        }
    }
}

fn not_an_object() -> EditRefusal {
    EditRefusal::Broken("it is not an object".to_owned())
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(*value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => CstInputValue::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), input(value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{EditRefusal, Format, borrowed, with_entry, without_entry};

    fn check(before: &str, expected: &str) {
        let table = ["mcpServers".to_owned()];
        let fields = vec![("command", json!("/bin/haft")), ("args", json!(["mcp"]))];
        let after = with_entry(Format::Json, before, &table, "haft", &borrowed(&fields)).unwrap();
        assert_eq!(after, expected);
        let again = with_entry(Format::Json, &after, &table, "haft", &borrowed(&fields)).unwrap();
        assert_eq!(again, expected, "a second time changes nothing");
    }

    #[test]
    fn an_entry_takes_on_the_indentation_of_its_file() {
        check(
            "{}\n",
            "{\n  \"mcpServers\": {\n    \"haft\": {\n      \"command\": \"/bin/haft\",\n      \"args\": [\"mcp\"]\n    }\n  }\n}\n",
        );
        check(
            "{\n\t// mine\n\t\"a\": 1, /* one */\n\t\"mcpServers\": {\n\t\t\"other\": { 'command': \"x\", }, // kept\n\t},\n}\n",
            "{\n\t// mine\n\t\"a\": 1, /* one */\n\t\"mcpServers\": {\n\t\t\"other\": { 'command': \"x\", }, // kept\n\t\t\"haft\": {\n\t\t\t\"command\": \"/bin/haft\",\n\t\t\t\"args\": [\"mcp\"],\n\t\t},\n\t},\n}\n",
        );
    }

    #[test]
    fn taking_an_entry_away_leaves_the_rest_as_it_was() {
        let before = "{\n  // mine\n  \"mcpServers\": {\n    \"other\": {}\n  },\n  \"b\": 2\n}\n";
        let table = ["mcpServers".to_owned()];
        let fields = vec![("command", json!("/bin/haft"))];
        let with = with_entry(Format::Json, before, &table, "haft", &borrowed(&fields)).unwrap();
        let without = without_entry(Format::Json, &with, &table, "haft").unwrap();
        assert_eq!(without, before);
    }

    #[test]
    fn what_cannot_be_read_or_says_a_thing_twice_is_refused() {
        let table = ["mcpServers".to_owned()];
        let fields = vec![("command", json!("/bin/haft"))];
        let refused =
            |text: &str| with_entry(Format::Json, text, &table, "haft", &borrowed(&fields));
        for text in [
            "{",
            "",
            "[]",
            "{\"a\" 1}",
            "{\"a\": 1 \"b\": 2}",
            "{\"mcpServers\": []}",
            "{\"mcpServers\": {\"haft\": {}}, \"mcpServers\": {}}",
        ] {
            assert!(refused(text).is_err(), "{text}");
        }
        assert!(matches!(refused("{"), Err(EditRefusal::Broken(_))));
    }
}
