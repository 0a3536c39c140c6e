//! What mounted servers offer beside tools: resources, templates, prompts and completions, as the
//! server edge sees them.
//!
//! Listing costs nothing: it answers from definitions at hand and never asks a server. Reading and
//! getting are calls of tools that no model is shown, so they take the one path of a call.

use haft_contract::CallRequest;
use serde_json::Value;
use tokio::sync::broadcast;

/// How many changes a slow listener may be behind before it is told only that it missed some.
pub const CHANGES_KEPT: usize = 64;

/// Something in what is offered changed; whoever lists should list again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The tools.
    Tools,
    /// The resources or their templates.
    Resources,
    /// The prompts.
    Prompts,
    /// The content of one resource, by the URI the server edge gives it.
    Resource(String),
}

/// A call that fetches something; its structured output is the protocol's result.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetch {
    /// The tool to call, which no model is shown.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

impl Fetch {
    /// The request for it.
    pub fn request(self, principal: std::sync::Arc<haft_contract::Principal>) -> CallRequest {
        CallRequest::new(self.tool, self.arguments, principal)
    }
}

/// What mounted servers offer beside tools. URIs and names are Haft's.
pub trait Mounts: Send + Sync {
    /// Every resource, sorted by URI; each a `Resource` of the protocol.
    fn resources(&self) -> Vec<Value>;

    /// Every template, sorted; each a `ResourceTemplate` of the protocol.
    fn templates(&self) -> Vec<Value>;

    /// Every prompt, sorted by name; each a `Prompt` of the protocol.
    fn prompts(&self) -> Vec<Value>;

    /// The call that reads a resource; none if no mounted server has such URIs.
    fn read(&self, uri: &str) -> Option<Fetch>;

    /// The call that gets a prompt with the given parameters of `prompts/get`.
    fn prompt(&self, name: &str, parameters: &Value) -> Option<Fetch>;

    /// The call that completes an argument, from the parameters of `completion/complete`.
    fn completion(&self, parameters: &Value) -> Option<Fetch>;

    /// Asks to be told when a resource changes, or no longer; the call that does it.
    fn subscription(&self, uri: &str, wanted: bool) -> Option<Fetch>;

    /// Changes from now on.
    fn changes(&self) -> broadcast::Receiver<Change>;
}
