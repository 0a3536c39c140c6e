//! What a mounted server offers, before anything is decided about it. A connection fetches it
//! ([`crate::upstream`]), a pin is made of it ([`crate::pin`]); neither needs the other for that.

use serde_json::Value;

/// What a server offers, as received. Lists are complete: every page was fetched.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Definitions {
    /// The server's self-description; shown, never trusted.
    pub server: Value,
    /// Its capabilities.
    pub capabilities: Value,
    /// The server's own usage instructions.
    pub instructions: Option<String>,
    /// Each a `Tool` of the protocol, including fields we do not know.
    pub tools: Vec<Value>,
    /// Each a `Resource`.
    pub resources: Vec<Value>,
    /// Each a `ResourceTemplate`.
    pub templates: Vec<Value>,
    /// Each a `Prompt`.
    pub prompts: Vec<Value>,
}
