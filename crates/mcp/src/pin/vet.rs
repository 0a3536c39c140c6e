//! Decides which of a server's definitions can be taken at all, before anybody is asked about them.
//! A bad definition is refused on its own; a list that is far too large is refused whole.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{Digest, Item, ItemKey, Kind, digest::is_exact};
use crate::{
    definitions::Definitions,
    foreign::{shown, shown_within},
    name::{ServerId, ToolNaming, tool_name},
    size::json_bytes_within,
};

/// The most definitions of one kind a server may have.
pub const MAX_ITEMS: usize = 1024;

/// The most resources a server may list.
pub const MAX_RESOURCES: usize = 5_000;

/// The largest resource in a list, in bytes of JSON. Its content is capped elsewhere.
pub const MAX_RESOURCE_BYTES: usize = 16 * 1024;

/// The longest MIME type or annotations of a resource that are passed on, in bytes of JSON: enough
/// for what the protocol uses them for, too little to smuggle a message to the model.
const MAX_NOTE_BYTES: usize = 256;

/// The largest definition, in bytes of JSON.
pub const MAX_DEFINITION_BYTES: usize = 128 * 1024;

/// The most bytes of JSON of all definitions of a server together.
pub const MAX_LIST_BYTES: usize = 8 * 1024 * 1024;

/// The longest name of a tool or prompt, as the protocol defines it.
const MAX_NAME_CHARS: usize = 128;

/// The longest URI or URI template.
const MAX_URI_CHARS: usize = 2048;

/// How much of a bad name is shown.
const SHOWN_NAME_CHARS: usize = 64;

/// The deepest nesting of a definition: deeper than any schema a person could read.
const MAX_DEPTH: usize = 64;

/// Which of a server's tools an operator wants, by the server's names for them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only these, unless empty.
    pub allow: BTreeSet<String>,
    /// Never these.
    pub deny: BTreeSet<String>,
}

impl Filter {
    /// Whether a tool is wanted.
    pub fn wants(&self, tool: &str) -> bool {
        (self.allow.is_empty() || self.allow.contains(tool)) && !self.deny.contains(tool)
    }
}

/// A definition that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedDefinition {
    /// The kind of definition.
    pub kind: Kind,
    /// Its name, escaped and cut.
    pub name: String,
    /// The reason, for people.
    pub why: String,
}

/// The definitions of a server, split into taken and refused.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VettedDefinitions {
    /// What was taken, sorted by kind and name, without duplicates.
    pub items: Vec<Item>,
    /// Resources that were taken, escaped so that nothing in them hides.
    pub resources: Vec<Value>,
    /// What was not taken.
    pub refused: Vec<RefusedDefinition>,
}

/// Why a server's definitions were refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VetError {
    /// Too many.
    #[error("it has {count} definitions of the kind {kind}; at most {most} are allowed")]
    TooMany {
        /// Of which kind.
        kind: &'static str,
        /// How many.
        count: usize,
        /// How many are allowed.
        most: usize,
    },
    /// More than `MAX_LIST_BYTES` in total.
    #[error("its definitions have more than {MAX_LIST_BYTES} bytes together")]
    TooLarge,
}

/// Vets a server's definitions and splits them into taken and refused.
pub fn vet(
    server: &ServerId,
    naming: ToolNaming,
    filter: &Filter,
    definitions: &Definitions,
) -> Result<VettedDefinitions, VetError> {
    let lists = [
        (Kind::Tool, &definitions.tools),
        (Kind::Prompt, &definitions.prompts),
        (Kind::Template, &definitions.templates),
    ];
    let resources = (Kind::Resource, &definitions.resources);
    for (kind, list) in lists.into_iter().chain([resources]) {
        if list.len() > most(kind) {
            return Err(VetError::TooMany {
                kind: kind.as_str(),
                count: list.len(),
                most: most(kind),
            });
        }
    }
    let mut vetted = VettedDefinitions::default();
    let mut bytes = 0_usize;
    let instructions = definitions
        .instructions
        .iter()
        .map(|text| (Kind::Instructions, json!({"name": "", "text": text})));
    let all = lists
        .into_iter()
        .flat_map(|(kind, list)| list.iter().map(move |one| (kind, one.clone())))
        .chain(instructions);
    for (kind, definition) in all {
        match item(kind, definition) {
            Ok((item, size)) => {
                bytes = bytes.saturating_add(size);
                if bytes > MAX_LIST_BYTES {
                    return Err(VetError::TooLarge);
                }
                if kind != Kind::Tool || filter.wants(&item.key.name) {
                    vetted.items.push(item);
                }
            }
            Err(refused) => vetted.refused.push(refused),
        }
    }
    for definition in &definitions.resources {
        match resource(definition) {
            Ok(resource) => vetted.resources.push(resource),
            Err(refused) if vetted.refused.len() < MAX_ITEMS => vetted.refused.push(refused),
            // A person has seen enough of these.
            Err(_) => {}
        }
    }
    refuse_twins(server, naming, &mut vetted);
    vetted.items.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(vetted)
}

/// The most definitions of a kind a server may have.
fn most(kind: Kind) -> usize {
    match kind {
        Kind::Tool | Kind::Prompt | Kind::Template | Kind::Instructions => MAX_ITEMS,
        Kind::Resource => MAX_RESOURCES,
    }
}

/// A resource that may be listed. Nobody accepts it, so each of its texts is one line, escaped and
/// cut, and unknown members are left out.
fn resource(definition: &Value) -> Result<Value, RefusedDefinition> {
    let kind = Kind::Resource;
    let text = |key: &str| definition.get(key).and_then(Value::as_str);
    let uri = text(kind.named_by()).unwrap_or_default();
    let refused = |why: String| RefusedDefinition {
        kind,
        name: shown_within(uri, SHOWN_NAME_CHARS),
        why,
    };
    if let Some(why) = bad_name(kind, uri) {
        return Err(refused(why));
    }
    if json_bytes_within(definition, MAX_RESOURCE_BYTES).is_none() {
        return Err(refused(format!(
            "its definition has more than {MAX_RESOURCE_BYTES} bytes"
        )));
    }
    let mut taken = Map::new();
    taken.insert(kind.named_by().to_owned(), json!(uri));
    for key in ["name", "title", "description"] {
        if let Some(text) = text(key) {
            taken.insert(key.to_owned(), json!(shown(text)));
        }
    }
    for key in ["mimeType", "size", "annotations"] {
        let small = |value: &&Value| json_bytes_within(value, MAX_NOTE_BYTES).is_some();
        let value = definition.get(key).filter(|value| is_plain(value));
        if let Some(value) = value.filter(small) {
            taken.insert(key.to_owned(), value.clone());
        }
    }
    Ok(Value::Object(taken))
}

/// Whether every text in a value consists of visible, unambiguous characters.
fn is_plain(value: &Value) -> bool {
    let plain = |text: &str| text.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => plain(text),
        Value::Array(values) => values.iter().all(is_plain),
        Value::Object(members) => members
            .iter()
            .all(|(name, value)| plain(name) && is_plain(value)),
    }
}

fn item(kind: Kind, definition: Value) -> Result<(Item, usize), RefusedDefinition> {
    let named = definition.get(kind.named_by()).and_then(Value::as_str);
    let name = named.unwrap_or_default().to_owned();
    let refused = |why: String| RefusedDefinition {
        kind,
        name: shown_within(&name, SHOWN_NAME_CHARS),
        why,
    };
    if let Some(why) = bad_name(kind, &name) {
        return Err(refused(why));
    }
    if too_deep(&definition) {
        return Err(refused(format!("it nests deeper than {MAX_DEPTH} levels")));
    }
    let Some(size) = size(&definition) else {
        return Err(refused(format!(
            "its definition has more than {MAX_DEFINITION_BYTES} bytes"
        )));
    };
    if !is_exact(&definition) {
        return Err(refused(
            "it contains a whole number beyond 2^53, which cannot be told from its neighbours"
                .to_owned(),
        ));
    }
    let Some(digest) = Digest::of(&definition) else {
        return Err(refused("its definition has no canonical form".to_owned()));
    };
    let key = ItemKey { kind, name };
    let item = Item {
        key,
        digest,
        definition,
    };
    Ok((item, size))
}

/// What is wrong with a name, if anything. Non-ASCII letters are refused, because some look like
/// others and no reader could tell.
fn bad_name(kind: Kind, name: &str) -> Option<String> {
    let most = match kind {
        Kind::Instructions => return None,
        Kind::Tool | Kind::Prompt => MAX_NAME_CHARS,
        Kind::Template | Kind::Resource => MAX_URI_CHARS,
    };
    if name.is_empty() {
        return Some("it has no name".to_owned());
    }
    if name.len() > most {
        return Some(format!("its name has more than {most} characters"));
    }
    if let Some(odd) = name.chars().find(|c| !c.is_ascii_graphic()) {
        return Some(format!(
            "its name holds {}, which can hide or look like something else",
            odd.escape_unicode()
        ));
    }
    None
}

/// Refuses all definitions of a kind whose names differ only in case, or that would share a name
/// here: nobody could say which one is meant.
fn refuse_twins(server: &ServerId, naming: ToolNaming, vetted: &mut VettedDefinitions) {
    let folded = |item: &Item| {
        let name = match item.key.kind {
            Kind::Tool => match tool_name(server, &item.key.name, naming) {
                Ok(name) => name.as_str().to_owned(),
                Err(_) => item.key.name.clone(),
            },
            Kind::Prompt | Kind::Template | Kind::Instructions | Kind::Resource => {
                item.key.name.clone()
            }
        };
        // URIs are case-sensitive.
        match item.key.kind {
            Kind::Template | Kind::Resource => name,
            Kind::Tool | Kind::Prompt | Kind::Instructions => name.to_ascii_lowercase(),
        }
    };
    let mut count: BTreeMap<(Kind, String), usize> = BTreeMap::new();
    for item in &vetted.items {
        *count.entry((item.key.kind, folded(item))).or_default() += 1;
    }
    let (kept, twins): (Vec<Item>, Vec<Item>) = std::mem::take(&mut vetted.items)
        .into_iter()
        .partition(|item| count.get(&(item.key.kind, folded(item))) == Some(&1));
    vetted.items = kept;
    vetted
        .refused
        .extend(twins.into_iter().map(|item| {
            RefusedDefinition {
                kind: item.key.kind,
                name: shown_within(&item.key.name, SHOWN_NAME_CHARS),
                why: "the server has another one whose name is the same or differs only in case"
                    .to_owned(),
            }
        }));
}

/// The size of a definition in bytes of JSON; `None` if it is too large.
fn size(definition: &Value) -> Option<usize> {
    json_bytes_within(definition, MAX_DEFINITION_BYTES)
}

fn too_deep(definition: &Value) -> bool {
    let mut level = vec![definition];
    for _ in 0..=MAX_DEPTH {
        level = level
            .into_iter()
            .flat_map(|value| match value {
                Value::Object(object) => object.values().collect::<Vec<_>>(),
                Value::Array(items) => items.iter().collect(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
            })
            .collect();
        if level.is_empty() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tools: Vec<Value>) -> Result<VettedDefinitions, VetError> {
        let server = ServerId::parse("s").unwrap();
        let definitions = Definitions {
            tools,
            ..Definitions::default()
        };
        vet(
            &server,
            ToolNaming::Prefixed,
            &Filter::default(),
            &definitions,
        )
    }

    fn taken(vetted: &VettedDefinitions) -> Vec<&str> {
        vetted
            .items
            .iter()
            .map(|item| item.key.name.as_str())
            .collect()
    }

    fn named(name: &str) -> Value {
        json!({"name": name, "inputSchema": {"type": "object"}})
    }

    #[test]
    fn mc_03_names_that_hide_or_look_like_others_are_refused_alone() {
        let bad = [
            "Read\u{200b}",
            "ｂash",
            "b\u{430}sh",
            "a\u{1b}[31m",
            "a b",
            "",
            "\u{e0041}",
        ];
        let mut tools: Vec<Value> = bad.iter().map(|name| named(name)).collect();
        tools.push(named("fine"));
        tools.push(json!({"description": "nameless"}));
        let vetted = check(tools).unwrap();
        assert_eq!(taken(&vetted), ["fine"]);
        assert_eq!(vetted.refused.len(), bad.len() + 1);
        for refused in &vetted.refused {
            assert!(refused.name.is_ascii() || refused.name.chars().all(char::is_alphabetic));
        }
    }

    #[test]
    fn mc_03_twins_are_refused_both() {
        let names = ["send", "Send", "a.b", "twice", "twice", "other"];
        let vetted = check(names.into_iter().map(named).collect()).unwrap();
        assert_eq!(taken(&vetted), ["a.b", "other"]);
        assert_eq!(vetted.refused.len(), 4);
    }

    #[test]
    fn mc_06_too_much_is_refused() {
        let many = (0..10_000).map(|n| named(&format!("t{n}"))).collect();
        assert!(matches!(
            check(many),
            Err(VetError::TooMany { count: 10_000, .. })
        ));
        let heavy = json!({"name": "heavy", "description": "x".repeat(10 << 20)});
        let long = named(&"n".repeat(1 << 20));
        let vetted = check(vec![heavy, long, named("fine")]).unwrap();
        assert_eq!(taken(&vetted), ["fine"]);
        assert!(
            vetted
                .refused
                .iter()
                .all(|refused| refused.name.chars().count() <= 65)
        );
        let hundred_kib = |n: usize| json!({"name": format!("t{n}"), "d": "x".repeat(100 << 10)});
        assert_eq!(
            check((0..100).map(hundred_kib).collect()),
            Err(VetError::TooLarge)
        );
        let mut deep = json!({});
        for _ in 0..200 {
            deep = json!({"properties": deep});
        }
        let vetted = check(vec![json!({"name": "deep", "inputSchema": deep})]).unwrap();
        assert!(vetted.items.is_empty());
    }

    #[test]
    fn mc_06_what_is_exactly_at_a_limit_is_taken() {
        let many = |count: usize| (0..count).map(|n| named(&format!("t{n}"))).collect();
        assert_eq!(check(many(MAX_ITEMS)).unwrap().items.len(), MAX_ITEMS);
        assert!(check(many(MAX_ITEMS + 1)).is_err());
        let longest = "n".repeat(MAX_NAME_CHARS);
        let vetted = check(vec![named(&longest), named(&format!("{longest}n"))]).unwrap();
        assert_eq!(taken(&vetted), [longest]);

        let bad_resources = |count: usize| {
            let definitions = Definitions {
                resources: vec![json!({"uri": ""}); count],
                ..Definitions::default()
            };
            let server = ServerId::parse("s").unwrap();
            vet(
                &server,
                ToolNaming::Prefixed,
                &Filter::default(),
                &definitions,
            )
        };
        // Nobody reads five thousand complaints, so only some are kept.
        let vetted = bad_resources(MAX_RESOURCES).unwrap();
        assert_eq!(vetted.refused.len(), MAX_ITEMS);
        assert!(bad_resources(MAX_RESOURCES + 1).is_err());
    }

    #[test]
    fn mc_02_numbers_that_read_like_their_neighbours_are_refused() {
        let limited = |name: &str, maximum: u64| json!({"name": name, "inputSchema": {"properties": {"n": {"maximum": maximum}}}});
        let vetted = check(vec![limited("fine", 5), limited("odd", (1 << 53) + 1)]).unwrap();
        assert_eq!(taken(&vetted), ["fine"]);
        assert!(vetted.refused[0].why.contains("2^53"));
    }

    #[test]
    fn mc_03_resources_say_one_line_each_and_hide_nothing() {
        let server = ServerId::parse("s").unwrap();
        let definitions = Definitions {
            resources: vec![
                json!({
                    "uri": "a:1", "name": "n\u{202e}", "title": "t\n\u{1b}[2J",
                    "description": format!("IGNORE all\n{}", "x".repeat(1 << 10)),
                    "mimeType": "text/plain", "size": 5, "annotations": {"audience": ["user"]},
                    "_meta": {"x": 1}, "icons": [{"src": "https://tracker.example"}],
                }),
                json!({"uri": "a:\u{430}", "name": "looks like another"}),
                json!({"uri": "a:b c", "name": "n"}),
                json!({"name": "has none"}),
                json!({"uri": "a:2", "name": "n", "x": "x".repeat(1 << 20)}),
                json!({"uri": "a:3", "name": "n", "mimeType": "a\u{200b}b",
                    "annotations": {"audience": ["\u{202e}"]}}),
                json!({"uri": "a:4", "name": "n", "mimeType": "do this ".repeat(40)}),
            ],
            ..Definitions::default()
        };
        let vetted = vet(
            &server,
            ToolNaming::Prefixed,
            &Filter::default(),
            &definitions,
        )
        .unwrap();
        assert_eq!(vetted.refused.len(), 4);
        let [first, hidden, long] = &vetted.resources[..] else {
            panic!("{:?}", vetted.resources);
        };
        assert_eq!(first["name"], r"n\u{202e}");
        assert_eq!(first["title"], r"t\n\u{1b}[2J");
        let description = first["description"].as_str().unwrap();
        assert!(description.starts_with(r"IGNORE all\nxx") && description.len() < 600);
        assert_eq!(first["annotations"]["audience"][0], "user");
        assert!(first.get("_meta").is_none() && first.get("icons").is_none());
        assert_eq!(hidden, &json!({"uri": "a:3", "name": "n"}));
        assert_eq!(long, &json!({"uri": "a:4", "name": "n"}));
    }

    #[test]
    fn an_operator_takes_what_is_wanted() {
        let server = ServerId::parse("s").unwrap();
        let filter = Filter {
            allow: ["a", "b"].map(str::to_owned).into(),
            deny: ["b".to_owned()].into(),
        };
        let definitions = Definitions {
            tools: ["a", "b", "c"].map(named).into(),
            prompts: vec![json!({"name": "p"})],
            instructions: Some("be nice".to_owned()),
            ..Definitions::default()
        };
        let vetted = vet(&server, ToolNaming::Prefixed, &filter, &definitions).unwrap();
        assert_eq!(taken(&vetted), ["a", "p", ""]);
    }
}
