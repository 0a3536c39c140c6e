//! What mounted servers offer besides tools: resources, templates, prompts and completions, as the
//! server edge sees them.
//!
//! Listing is cheap: it answers from stored definitions and never asks a server. Reading and
//! getting are calls to tools that no model is shown, so they take the same path as every call.

use haft_contract::CallRequest;
use serde_json::Value;
use tokio::sync::broadcast;

/// How many changes a slow listener may lag behind before it only learns that it missed some.
pub const CHANGES_KEPT: usize = 64;

/// Something that is offered changed; listeners should list again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The tools.
    Tools,
    /// The resources or their templates.
    Resources,
    /// The prompts.
    Prompts,
    /// The content of one resource, by the URI that the server edge gives it.
    Resource(String),
}

/// A call that fetches something. Its structured output is the protocol's result.
#[derive(Debug, Clone, PartialEq)]
pub struct Fetch {
    /// The tool to call. No model is shown it.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

impl Fetch {
    /// The call request.
    pub fn request(self, principal: std::sync::Arc<haft_contract::Principal>) -> CallRequest {
        CallRequest::new(self.tool, self.arguments, principal)
    }
}

/// What mounted servers offer besides tools. URIs and names are Haft's.
pub trait Mounts: Send + Sync {
    /// Every resource, sorted by URI; each a `Resource` in the protocol's form.
    fn resources(&self) -> Vec<Value>;

    /// Every template, sorted; each a `ResourceTemplate` in the protocol's form.
    fn templates(&self) -> Vec<Value>;

    /// Every prompt, sorted by name; each a `Prompt` in the protocol's form.
    fn prompts(&self) -> Vec<Value>;

    /// The call that reads a resource; `None` if no mounted server has such URIs.
    fn read(&self, uri: &str) -> Option<Fetch>;

    /// The call that gets a prompt, from the parameters of `prompts/get`.
    fn prompt(&self, name: &str, parameters: &Value) -> Option<Fetch>;

    /// The call that completes an argument, from the parameters of `completion/complete`.
    fn completion(&self, parameters: &Value) -> Option<Fetch>;

    /// The call that subscribes to changes of a resource, or unsubscribes if not `wanted`.
    fn subscription(&self, uri: &str, wanted: bool) -> Option<Fetch>;

    /// Changes from now on.
    fn changes(&self) -> broadcast::Receiver<Change>;
}
