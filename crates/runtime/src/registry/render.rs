//! One spec, several renderings: MCP, OpenAI, Anthropic. Each is computed once per tool.

use std::borrow::Cow;

use haft_contract::ProviderId;
use serde_json::{Map, Value, json};

use super::{
    Entry,
    plain_schema::{HideNull, plain},
};

/// The longest function description OpenAI accepts.
const OPENAI_DESCRIPTION_CHARS: usize = 1024;

/// Keywords OpenAI and Anthropic refuse at the root of an input schema.
const REFUSED_AT_ROOT: [&str; 5] = ["oneOf", "anyOf", "allOf", "not", "enum"];

/// The format a tool is described in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An MCP `tools/list` entry.
    Mcp,
    /// An OpenAI function.
    OpenAi,
    /// An Anthropic tool.
    Anthropic,
}

/// All renderings of one tool.
#[derive(Debug)]
pub(super) struct Renderings {
    mcp: Value,
    openai: Value,
    anthropic: Value,
}

impl Renderings {
    pub(super) fn of(&self, format: Format) -> &Value {
        match format {
            Format::Mcp => &self.mcp,
            Format::OpenAi => &self.openai,
            Format::Anthropic => &self.anthropic,
        }
    }
}

/// No output schema is announced over MCP: announcing one requires structured content with every
/// success, even if the content says more, and many agents then show their model nothing else
/// (ADR 0023).
pub(super) fn render(entry: &Entry) -> Renderings {
    let name = entry.key().tool.as_str();
    let spec = entry.spec();
    let effects = spec.effects;
    let input = shown_input(entry);
    let projected = project(&input);
    Renderings {
        mcp: json!({
            "name": name,
            "title": spec.title,
            "description": spec.description,
            "inputSchema": without_dialect(&input),
            "annotations": {
                "title": spec.title,
                "readOnlyHint": effects.read_only,
                "destructiveHint": effects.destructive,
                "idempotentHint": effects.idempotent,
                "openWorldHint": effects.open_world,
            },
        }),
        openai: json!({
            "type": "function",
            "function": {
                "name": name,
                "description": cut(&spec.description, OPENAI_DESCRIPTION_CHARS),
                "parameters": projected,
            },
        }),
        anthropic: json!({
            "name": name,
            "description": spec.description,
            "input_schema": projected,
        }),
    }
}

/// The input schema as models see it. A mounted server's is shown as received, because that is what
/// was reviewed.
fn shown_input(entry: &Entry) -> Cow<'_, Value> {
    let provider = &entry.key().provider;
    if provider.mounted_server().is_some() {
        return Cow::Borrowed(entry.input_schema());
    }
    let hide_null = if *provider == ProviderId::script() {
        HideNull::DefaultNull
    } else {
        HideNull::Optional
    };
    let mut schema = plain(entry.input_schema(), hide_null);
    // The Rust type's description; the tool has one for models.
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
        if let Some(note) = entry.note() {
            object.insert("description".to_owned(), json!(note));
        }
    }
    Cow::Owned(schema)
}

/// The schema without what model providers refuse: the dialect, the generated title, and
/// combinators at the root. Combinators only narrow the input, and the call is still validated
/// against the whole schema.
fn project(schema: &Value) -> Value {
    let mut object = match without_dialect(schema) {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    for keyword in REFUSED_AT_ROOT {
        object.remove(keyword);
    }
    object.insert("type".to_owned(), json!("object"));
    object.entry("properties").or_insert_with(|| json!({}));
    Value::Object(object)
}

fn without_dialect(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.remove("$schema");
        object.remove("title");
    }
    schema
}

fn cut(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    text.chars().take(chars - 1).chain(['…']).collect()
}
