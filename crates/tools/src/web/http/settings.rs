//! The `config` of a tool of the type `http`, as it is written. What it means is checked in
//! `operation.rs`.

use serde::Deserialize;
use serde_json::Value;

/// What `config` holds. Tables that may name secrets are read as any value: an error of the parser
/// would quote what may be the secret itself.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpSettings {
    /// A short title for people; the name of the tool without one.
    #[serde(default)]
    pub(super) title: Option<String>,
    /// What it does, when to use it and when not, written for a model.
    pub(super) description: String,
    /// `GET`, `HEAD`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub(super) method: String,
    /// Where the request goes: `https://api.example.com/items/{id}`.
    pub(super) url: Value,
    /// The query, by the name of each parameter.
    #[serde(default)]
    pub(super) query: Value,
    /// Headers, by name.
    #[serde(default)]
    pub(super) headers: Value,
    /// The body, which is sent as JSON.
    #[serde(default)]
    pub(super) body: Option<Value>,
    /// JSON Schema of the arguments.
    #[serde(default)]
    pub(super) input: Option<Value>,
    /// Where each secret is kept, by its name.
    #[serde(default)]
    pub(super) secrets: Value,
    /// Whether the host may be on a private network or this machine.
    #[serde(default)]
    pub(super) private: bool,
    /// How long a call may take.
    #[serde(default)]
    pub(super) timeout_ms: Option<u64>,
    /// The largest answer, in bytes.
    #[serde(default)]
    pub(super) max_bytes: Option<usize>,
}
