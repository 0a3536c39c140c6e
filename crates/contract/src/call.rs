//! One request to run one tool.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    identity::{Principal, WorkspaceId},
    uuid_id::uuid_id,
};

uuid_id!(
    /// Identifies a call. Time-ordered, so that recent calls sort last.
    CallId
);

/// What a model provider calls a tool call: the id in the model's message, which the answer has to
/// carry. Exactly as the provider sent it, so escape it before it is shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModelCallId(Arc<str>);

impl ModelCallId {
    /// The id a provider sent.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ModelCallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The arguments of a call as they arrived. Models send an object, the same object as a JSON
/// string, or either wrapped as `{"arguments": …}`; the validate stage accepts all of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// JSON text, parsed under depth and size limits.
    Text(String),
    /// A value that is already parsed.
    Value(Value),
}

/// One request to run one tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallRequest {
    /// The call's id, chosen by whoever accepts it.
    pub id: CallId,
    /// The tool's name or alias, exactly as the model wrote it.
    pub tool: String,
    /// The arguments as they arrived.
    pub arguments: Arguments,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// Where to run it.
    pub workspace: WorkspaceId,
    /// A shorter run time than the tool's own, if the caller wants one.
    pub timeout: Option<Duration>,
    /// The model provider's own id, if a model asks. It is told to those who listen to the call, and
    /// is not recorded.
    pub model_call: Option<ModelCallId>,
}

impl CallRequest {
    /// A request with a fresh id, for a host that has only one workspace.
    pub fn new(tool: impl Into<String>, arguments: Value, principal: Arc<Principal>) -> Self {
        Self::from_arguments(tool, Arguments::Value(arguments), principal)
    }

    /// A request whose arguments are still JSON text.
    pub fn from_text(
        tool: impl Into<String>,
        arguments: impl Into<String>,
        principal: Arc<Principal>,
    ) -> Self {
        Self::from_arguments(tool, Arguments::Text(arguments.into()), principal)
    }

    /// A request in either form.
    pub fn from_arguments(
        tool: impl Into<String>,
        arguments: Arguments,
        principal: Arc<Principal>,
    ) -> Self {
        Self {
            id: CallId::new(),
            tool: tool.into(),
            arguments,
            principal,
            workspace: WorkspaceId::local(),
            timeout: None,
            model_call: None,
        }
    }

    /// Names the workspace, for a host that has several.
    #[must_use]
    pub fn in_workspace(mut self, workspace: WorkspaceId) -> Self {
        self.workspace = workspace;
        self
    }

    /// Names the call as the model's provider does.
    #[must_use]
    pub fn model_call(mut self, id: ModelCallId) -> Self {
        self.model_call = Some(id);
        self
    }

    /// Limits the run time of this one call.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}
