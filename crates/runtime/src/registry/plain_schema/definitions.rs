//! The definitions of a schema, and which of them can be inlined where they are referenced.
//!
//! A recursive definition cannot, and none can if the schema would grow beyond a limit: a few lines
//! that reference one another twice each become gigabytes when inlined.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The keywords for definitions, today and in the drafts before 2019-09.
const KEYWORDS: [&str; 2] = ["$defs", "definitions"];

/// Keywords that a reference could lead to, or that change where one leads. schemars writes none.
const OTHER_NAMES: [&str; 4] = ["$anchor", "$dynamicAnchor", "$dynamicRef", "$id"];

/// The most bytes of JSON that a schema may have after inlining.
const MAX_BYTES: usize = 64 * 1024;

/// How deeply definitions may be nested.
const MAX_DEPTH: usize = 32;

pub(super) struct Definitions<'s> {
    /// Keyed by the reference to them (`#/$defs/Name`).
    by_uri: BTreeMap<String, Definition<'s>>,
    /// Those that are not inlined.
    kept: BTreeSet<String>,
}

struct Definition<'s> {
    keyword: &'static str,
    name: &'s str,
    schema: &'s Value,
    /// Its references, with repetitions.
    references: Vec<&'s str>,
}

impl<'s> Definitions<'s> {
    /// The definitions of a schema, if it references nothing else except itself as a whole (`#`).
    pub(super) fn of(schema: &'s Value) -> Option<Self> {
        let references = references(schema)?;
        let mut by_uri = BTreeMap::new();
        for keyword in KEYWORDS {
            let named = schema.get(keyword).and_then(Value::as_object);
            for (name, schema) in named.into_iter().flatten() {
                let definition = Definition {
                    keyword,
                    name,
                    schema,
                    references: self::references(schema)?,
                };
                by_uri.insert(format!("#/{keyword}/{name}"), definition);
            }
        }
        let is_known = |uri: &&str| *uri == "#" || by_uri.contains_key(*uri);
        if !references.iter().all(is_known) {
            return None;
        }
        let mut definitions = Self {
            by_uri,
            kept: BTreeSet::new(),
        };
        definitions.kept = definitions.uris_where(|uri, definition| {
            !definition.schema.is_object() || definitions.leads_back(uri)
        });
        if !definitions.fits_without(&references) {
            definitions.kept = definitions.uris_where(|_, _| true);
        }
        Some(definitions)
    }

    /// The target of a reference, if it can be inlined.
    pub(super) fn inlined(&self, uri: &str) -> Option<&'s Map<String, Value>> {
        let definition = self.by_uri.get(uri)?;
        if self.kept.contains(uri) {
            return None;
        }
        definition.schema.as_object()
    }

    /// The definitions that are not inlined, grouped by their keyword.
    pub(super) fn kept(&self) -> BTreeMap<&'static str, Map<String, Value>> {
        let mut kept: BTreeMap<_, Map<String, Value>> = BTreeMap::new();
        for definition in self.kept.iter().filter_map(|uri| self.by_uri.get(uri)) {
            let named = kept.entry(definition.keyword).or_default();
            named.insert(definition.name.to_owned(), definition.schema.clone());
        }
        kept
    }

    fn uris_where(&self, is_one: impl Fn(&str, &Definition<'s>) -> bool) -> BTreeSet<String> {
        let all = self.by_uri.iter();
        all.filter(|(uri, definition)| is_one(uri, definition))
            .map(|(uri, _)| uri.clone())
            .collect()
    }

    fn references_of(&self, uri: &str) -> &[&'s str] {
        let definition = self.by_uri.get(uri);
        definition.map_or(&[], |definition| &definition.references)
    }

    fn leads_back(&self, uri: &str) -> bool {
        let mut seen = BTreeSet::new();
        let mut left = self.references_of(uri).to_vec();
        while let Some(next) = left.pop() {
            if next == uri {
                return true;
            }
            if seen.insert(next) {
                left.extend(self.references_of(next));
            }
        }
        false
    }

    /// Whether the schema with these references is small enough after inlining.
    fn fits_without(&self, references: &[&'s str]) -> bool {
        let mut known = BTreeMap::new();
        let sizes = references
            .iter()
            .map(|uri| self.size_without_references(uri, &mut known, 0));
        let total = sizes.map(|size| size.map_or(usize::MAX, |size| size.bytes));
        total.fold(0, usize::saturating_add) <= MAX_BYTES
    }

    /// The size of a definition after inlining; `None` if it is nested too deeply.
    fn size_without_references(
        &self,
        uri: &'s str,
        known: &mut BTreeMap<&'s str, SchemaSize>,
        depth: usize,
    ) -> Option<SchemaSize> {
        if let Some(size) = known.get(uri) {
            return Some(*size);
        }
        let Some(definition) = self.by_uri.get(uri).filter(|_| !self.kept.contains(uri)) else {
            return Some(SchemaSize::default());
        };
        let mut size = SchemaSize {
            bytes: definition.schema.to_string().len(),
            depth: 0,
        };
        for next in &definition.references {
            if depth == MAX_DEPTH {
                return None;
            }
            let inner = self.size_without_references(next, known, depth + 1)?;
            size.bytes = size.bytes.saturating_add(inner.bytes);
            size.depth = size.depth.max(inner.depth + 1);
        }
        known.insert(uri, size);
        (depth + size.depth <= MAX_DEPTH).then_some(size)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct SchemaSize {
    bytes: usize,
    depth: usize,
}

/// All references of a schema, with repetitions; `None` if it has names other than definitions.
/// Constants that look like references count too: the worst result is too little inlining.
fn references(schema: &Value) -> Option<Vec<&str>> {
    let mut references = Vec::new();
    let mut left = vec![schema];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                let is_text = |keyword: &str| fields.get(keyword).is_some_and(Value::is_string);
                if OTHER_NAMES.into_iter().any(is_text) {
                    return None;
                }
                references.extend(fields.get("$ref").and_then(Value::as_str));
                left.extend(fields.values());
            }
            Value::Array(items) => left.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    Some(references)
}
