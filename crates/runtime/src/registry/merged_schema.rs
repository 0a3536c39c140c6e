//! An input that is one of several objects, such as a Rust enum, as one object.
//!
//! Model providers refuse `oneOf` at the root of an input schema, and models fill in one flat object
//! better than a choice of several. The properties of all alternatives are united; a tag becomes an
//! `enum`; which property belongs to which alternative is said in its description. Only what is shown
//! changes: calls are checked against the whole schema (ADR 0057).
//!
//! Alternatives further inside are left as they are: every provider takes them there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// How deep references and combinations may be nested.
const MAX_DEPTH: usize = 32;

/// The most alternatives of one choice.
const MAX_ALTERNATIVES: usize = 256;

/// The most alternatives that the note of a choice without a tag spells out.
const MAX_LISTED: usize = 24;

/// Keywords whose schemas apply to the input itself.
const COMBINATIONS: [&str; 4] = ["$ref", "allOf", "anyOf", "oneOf"];

/// A schema without alternatives at its root.
#[derive(Debug)]
pub(super) struct MergedSchema {
    /// One object, in which every alternative can be written.
    pub(super) schema: Value,
    /// Which properties go together, where no tag says so.
    pub(super) note: Option<String>,
}

/// Whether a schema has alternatives, references or combinations at its root.
pub(super) fn is_combined(schema: &Value) -> bool {
    COMBINATIONS
        .iter()
        .any(|keyword| schema.get(keyword).is_some())
}

/// Merges what a schema combines at its root, or says why that cannot be done.
pub(super) fn merged(schema: &Value) -> Result<MergedSchema, String> {
    let merger = Merger { root: schema };
    let shape = merger.shape(schema, 0)?;
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    fields.retain(|keyword, _| {
        keyword != "unevaluatedProperties" && !COMBINATIONS.contains(&keyword.as_str())
    });
    fields.insert("type".to_owned(), json!("object"));
    fields.insert("properties".to_owned(), Value::Object(shape.properties));
    if shape.required.is_empty() {
        fields.remove("required");
    } else {
        fields.insert("required".to_owned(), json!(shape.required));
    }
    if shape.closed {
        fields.insert("additionalProperties".to_owned(), json!(false));
    }
    let note = (!shape.notes.is_empty()).then(|| shape.notes.join(" "));
    Ok(MergedSchema {
        schema: Value::Object(fields),
        note,
    })
}

/// What a schema says about an object that fits it.
#[derive(Debug, Default)]
struct ObjectShape {
    properties: Map<String, Value>,
    required: BTreeSet<String>,
    /// Whether it takes no other properties.
    closed: bool,
    description: Option<String>,
    notes: Vec<String>,
}

struct Merger<'s> {
    root: &'s Value,
}

impl<'s> Merger<'s> {
    fn shape(&self, schema: &'s Value, depth: usize) -> Result<ObjectShape, String> {
        if depth > MAX_DEPTH {
            return Err("its alternatives are nested too deeply".to_owned());
        }
        let fields = match schema {
            Value::Bool(true) => return Ok(ObjectShape::default()),
            Value::Object(fields) => fields,
            _ => return Err("nothing fits its input schema".to_owned()),
        };
        if let Some(other) = other_than_object(fields) {
            return Err(format!(
                "its input may be {other}, and the arguments of a call are always an object"
            ));
        }
        let is_false = |keyword: &str| fields.get(keyword) == Some(&Value::Bool(false));
        let mut shape = ObjectShape {
            properties: object_at(fields, "properties"),
            required: texts_at(fields, "required").collect(),
            closed: is_false("additionalProperties") || is_false("unevaluatedProperties"),
            description: text_at(fields, "description"),
            notes: Vec::new(),
        };
        if let Some(uri) = fields.get("$ref").and_then(Value::as_str) {
            let target = uri.strip_prefix('#').and_then(|at| self.root.pointer(at));
            let target = target.ok_or_else(|| "it refers to what is not there".to_owned())?;
            shape.and(self.shape(target, depth + 1)?);
        }
        for part in list_at(fields, "allOf") {
            shape.and(self.shape(part, depth + 1)?);
        }
        for choice in ["anyOf", "oneOf"] {
            let alternatives = list_at(fields, choice);
            if alternatives.len() > MAX_ALTERNATIVES {
                return Err(format!("it has more than {MAX_ALTERNATIVES} alternatives"));
            }
            let shapes = alternatives.iter().map(|one| self.shape(one, depth + 1));
            let shapes: Vec<ObjectShape> = shapes.collect::<Result<_, _>>()?;
            if !shapes.is_empty() {
                shape.and(one_of(shapes));
            }
        }
        Ok(shape)
    }
}

impl ObjectShape {
    /// Both apply.
    fn and(&mut self, other: Self) {
        for (name, schema) in other.properties {
            match self.properties.get_mut(&name) {
                Some(own) if *own != schema => *own = json!({ "allOf": [own.take(), schema] }),
                Some(_) => {}
                None => {
                    self.properties.insert(name, schema);
                }
            }
        }
        self.required.extend(other.required);
        self.closed |= other.closed;
        self.description = self.description.take().or(other.description);
        self.notes.extend(other.notes);
    }

    /// Whether it asks for nothing, as where a choice may be left out.
    fn is_empty(&self) -> bool {
        self.properties.is_empty() && self.required.is_empty()
    }
}

/// One of them applies.
fn one_of(shapes: Vec<ObjectShape>) -> ObjectShape {
    let may_be_nothing = shapes.iter().any(ObjectShape::is_empty);
    let mut shapes = shapes.into_iter().filter(|shape| !shape.is_empty());
    let Some(first) = shapes.next() else {
        return ObjectShape::default();
    };
    let rest: Vec<ObjectShape> = shapes.collect();
    if rest.is_empty() {
        let required = if may_be_nothing {
            BTreeSet::new()
        } else {
            first.required
        };
        return ObjectShape { required, ..first };
    }
    let mut all = vec![first];
    all.extend(rest);
    let tag = Tag::of(&all);
    let mut united = ObjectShape {
        closed: all.iter().all(|shape| shape.closed),
        ..ObjectShape::default()
    };
    let names: BTreeSet<&String> = all
        .iter()
        .flat_map(|shape| shape.properties.keys())
        .collect();
    for name in names {
        let schema = match &tag {
            Some(tag) if tag.name == *name => tag.schema(&all),
            _ => united_property(name, &all, tag.as_ref()),
        };
        united.properties.insert(name.clone(), schema);
        if !may_be_nothing && all.iter().all(|shape| shape.required.contains(name)) {
            united.required.insert(name.clone());
        }
    }
    if tag.is_none() {
        united.notes.extend(note_of(&all, may_be_nothing));
    }
    for shape in all {
        united.notes.extend(shape.notes);
    }
    united
}

/// The property whose value says which alternative is meant.
struct Tag {
    name: String,
    /// Its values, by alternative.
    values: Vec<Vec<String>>,
}

impl Tag {
    fn of(all: &[ObjectShape]) -> Option<Self> {
        let names = all.first()?.properties.keys();
        names.into_iter().find_map(|name| {
            let mut seen = BTreeSet::new();
            let mut values = Vec::new();
            for shape in all {
                let own = choices(shape.properties.get(name)?)?;
                if !shape.required.contains(name)
                    || !own.iter().all(|text| seen.insert(text.clone()))
                {
                    return None;
                }
                values.push(own);
            }
            Some(Self {
                name: name.clone(),
                values,
            })
        })
    }

    /// The tag as a list of choices, each with what it does and needs.
    fn schema(&self, all: &[ObjectShape]) -> Value {
        let texts: Vec<&String> = self.values.iter().flatten().collect();
        let lines: Vec<String> = self
            .values
            .iter()
            .zip(all)
            .filter_map(|(values, shape)| self.line(values, shape))
            .collect();
        let mut schema = json!({ "type": "string", "enum": texts });
        if let Some(fields) = schema.as_object_mut()
            && !lines.is_empty()
        {
            fields.insert("description".to_owned(), json!(lines.join("\n")));
        }
        schema
    }

    fn line(&self, values: &[String], shape: &ObjectShape) -> Option<String> {
        let needed = shape.required.iter().filter(|name| **name != self.name);
        let needed = quoted(needed);
        let needs = (!needed.is_empty()).then(|| format!("needs {}", needed.join(", ")));
        let does = shape.description.as_ref();
        let does = does.map(|text| text.replace('\n', " ").trim_end_matches('.').to_owned());
        let said: Vec<String> = does.into_iter().chain(needs).collect();
        (!said.is_empty()).then(|| format!("- {}: {}.", quoted(values).join(", "), said.join("; ")))
    }

    /// The alternatives at these positions.
    fn named(&self, positions: &[usize]) -> String {
        let values = positions.iter().filter_map(|at| self.values.get(*at));
        quoted(values.flatten()).join(", ")
    }
}

/// What a property is in some of the alternatives that have it.
struct PropertyKind {
    /// Without its description.
    schema: Value,
    /// What it is said to be, and in which alternatives.
    descriptions: Vec<(String, Vec<usize>)>,
    positions: Vec<usize>,
}

impl PropertyKind {
    fn add(&mut self, at: usize, description: Option<String>) {
        self.positions.push(at);
        let Some(description) = description else {
            return;
        };
        match self
            .descriptions
            .iter_mut()
            .find(|(known, _)| *known == description)
        {
            Some((_, those)) => those.push(at),
            None => self.descriptions.push((description, vec![at])),
        }
    }

    /// The schema with what was said of it.
    fn described(self, tag: Option<&Tag>) -> Value {
        let several = self.descriptions.len() > 1;
        let mut schema = self.schema;
        for (description, those) in self.descriptions {
            let said = match tag {
                Some(tag) if several => {
                    format!("With `{}` {}: {description}", tag.name, tag.named(&those))
                }
                Some(_) | None => description,
            };
            describe(&mut schema, &said, SentencePosition::After);
        }
        schema
    }
}

/// A property of some alternatives.
fn united_property(name: &str, all: &[ObjectShape], tag: Option<&Tag>) -> Value {
    let mut kinds: Vec<PropertyKind> = Vec::new();
    for (at, shape) in all.iter().enumerate() {
        let Some(mut schema) = shape.properties.get(name).cloned() else {
            continue;
        };
        let description = schema.as_object_mut().and_then(|fields| {
            let description = text_at(fields, "description");
            fields.retain(|keyword, _| keyword != "description");
            description
        });
        if let Some(known) = kinds.iter_mut().find(|known| known.schema == schema) {
            known.add(at, description);
            continue;
        }
        let mut kind = PropertyKind {
            schema,
            descriptions: Vec::new(),
            positions: Vec::new(),
        };
        kind.add(at, description);
        kinds.push(kind);
    }
    let several = kinds.len() > 1;
    let described = kinds.into_iter().map(|kind| {
        let with = tag.filter(|_| several);
        let with = with.map(|tag| format!("With `{}` {}.", tag.name, tag.named(&kind.positions)));
        let mut schema = kind.described(tag);
        if let Some(with) = with {
            describe(&mut schema, &with, SentencePosition::Before);
        }
        schema
    });
    let mut described: Vec<Value> = described.collect();
    let mut schema = match described.as_mut_slice() {
        [only] => only.take(),
        several => json!({ "anyOf": several }),
    };
    if let Some(note) = tag.and_then(|tag| requirement(name, all, tag)) {
        describe(&mut schema, &note, SentencePosition::After);
    }
    schema
}

/// With which tags a property is needed or taken; `None` where that does not depend on the tag.
fn requirement(name: &str, all: &[ObjectShape], tag: &Tag) -> Option<String> {
    let positions = |wanted: &dyn Fn(&ObjectShape) -> bool| -> Vec<usize> {
        let those = all.iter().enumerate();
        those
            .filter_map(|(at, shape)| wanted(shape).then_some(at))
            .collect()
    };
    let needed = positions(&|shape| shape.required.contains(name));
    let taken =
        positions(&|shape| shape.properties.contains_key(name) && !shape.required.contains(name));
    let everywhere = needed.len() + taken.len() == all.len();
    if everywhere && (needed.is_empty() || taken.is_empty()) {
        return None;
    }
    let key = &tag.name;
    Some(match (needed.is_empty(), taken.is_empty()) {
        (true, _) => format!("Only with `{key}` {}.", tag.named(&taken)),
        (false, true) => format!(
            "Needed with `{key}` {}, and only there.",
            tag.named(&needed)
        ),
        (false, false) if everywhere => format!("Needed with `{key}` {}.", tag.named(&needed)),
        (false, false) => format!(
            "Only with `{key}` {} (needed) or {}.",
            tag.named(&needed),
            tag.named(&taken)
        ),
    })
}

/// Which properties go together in alternatives that no tag tells apart.
fn note_of(all: &[ObjectShape], may_be_nothing: bool) -> Option<String> {
    let shared = |name: &&String| all.iter().all(|shape| shape.required.contains(*name));
    let mut lines: Vec<String> = Vec::new();
    for shape in all.iter().take(MAX_LISTED) {
        let needed = quoted(shape.required.iter().filter(|name| !shared(name)));
        let others = shape.properties.keys();
        let others = quoted(others.filter(|name| !shape.required.contains(*name)));
        lines.push(match (needed.is_empty(), others.is_empty()) {
            (false, true) => needed.join(" and "),
            (false, false) => format!("{} (may have {})", needed.join(" and "), others.join(", ")),
            (true, false) => format!("any of {}", others.join(", ")),
            (true, true) => continue,
        });
    }
    if lines.len() < 2 {
        return None;
    }
    if all.len() > MAX_LISTED {
        lines.push("…".to_owned());
    }
    let from = if may_be_nothing { "at most" } else { "exactly" };
    Some(format!("Give {from} one of: {}.", lines.join("; or ")))
}

#[derive(Clone, Copy)]
enum SentencePosition {
    Before,
    After,
}

/// Adds a sentence to a schema's description.
fn describe(schema: &mut Value, sentence: &str, place: SentencePosition) {
    if !schema.is_object() {
        // `true` and `false` have no room for words.
        *schema = match schema {
            Value::Bool(false) => json!({ "not": {} }),
            _ => json!({}),
        };
    }
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    let text = match (text_at(fields, "description"), place) {
        (None, _) => sentence.to_owned(),
        (Some(own), SentencePosition::Before) => format!("{sentence} {own}"),
        (Some(own), SentencePosition::After) => format!("{own} {sentence}"),
    };
    fields.insert("description".to_owned(), json!(text));
}

/// The texts a property may be, if it lists them.
fn choices(schema: &Value) -> Option<Vec<String>> {
    if let Some(only) = schema.get("const") {
        return Some(vec![only.as_str()?.to_owned()]);
    }
    let all = schema.get("enum")?.as_array()?;
    let texts = all.iter().map(|one| one.as_str().map(str::to_owned));
    texts.collect()
}

/// What a schema wants instead of an object, in words.
fn other_than_object(fields: &Map<String, Value>) -> Option<String> {
    let named: BTreeMap<&str, &str> = [
        ("string", "text"),
        ("null", "nothing at all (`null`)"),
        ("array", "a list"),
        ("integer", "a number"),
        ("number", "a number"),
        ("boolean", "a boolean"),
    ]
    .into();
    let listed = fields.get("const").into_iter();
    let listed = listed.chain(list_at(fields, "enum"));
    let listed: Vec<String> = listed.map(Value::to_string).collect();
    if !listed.is_empty() {
        return Some(format!("`{}`", listed.join("`, `")));
    }
    let kinds: Vec<&str> = match fields.get("type")? {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => return Some("of a type that is not known".to_owned()),
    };
    if kinds.contains(&"object") {
        return None;
    }
    let words = kinds.iter().map(|kind| *named.get(kind).unwrap_or(kind));
    Some(words.collect::<Vec<_>>().join(" or "))
}

fn quoted<'t>(names: impl IntoIterator<Item = &'t String>) -> Vec<String> {
    names.into_iter().map(|name| format!("`{name}`")).collect()
}

fn object_at(fields: &Map<String, Value>, keyword: &str) -> Map<String, Value> {
    let object = fields.get(keyword).and_then(Value::as_object);
    object.cloned().unwrap_or_default()
}

fn list_at<'v>(fields: &'v Map<String, Value>, keyword: &str) -> &'v [Value] {
    let list = fields.get(keyword).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn texts_at(fields: &Map<String, Value>, keyword: &str) -> impl Iterator<Item = String> {
    let texts = list_at(fields, keyword).iter().filter_map(Value::as_str);
    texts.map(str::to_owned)
}

fn text_at(fields: &Map<String, Value>, keyword: &str) -> Option<String> {
    let text = fields.get(keyword).and_then(Value::as_str);
    text.map(str::to_owned)
}
