//! One request to run one tool.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;
use uuid::Uuid;

use crate::identity::Principal;

/// Identifies a call. Time-ordered, so that recent calls sort last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(Uuid);

impl CallId {
    /// A fresh id.
    #[expect(
        clippy::new_without_default,
        reason = "an id that is made by default is a mistake"
    )]
    pub fn new() -> Self {
        Self(Uuid::now_v7())
    }

    /// Reads an id back.
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self)
    }

    /// The id as a UUID.
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for CallId {
    fn from(id: Uuid) -> Self {
        Self(id)
    }
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The arguments of a call as they arrived. Models send an object, the same object as a JSON
/// string, or either wrapped as `{"arguments": …}`; the validate stage accepts all of them.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// JSON text, parsed under depth and size limits.
    Text(String),
    /// A value that is parsed already.
    Value(Value),
}

/// One request to run one tool.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The call's id, chosen by whoever accepts it.
    pub id: CallId,
    /// The tool's name or alias, exactly as the model wrote it.
    pub tool: String,
    /// The arguments as they arrived.
    pub arguments: Arguments,
    /// Who asks.
    pub principal: Arc<Principal>,
    /// A shorter run time than the tool's own, where the caller wants one.
    pub timeout: Option<Duration>,
}

impl CallRequest {
    /// A request with a fresh id.
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

    fn from_arguments(
        tool: impl Into<String>,
        arguments: Arguments,
        principal: Arc<Principal>,
    ) -> Self {
        Self {
            id: CallId::new(),
            tool: tool.into(),
            arguments,
            principal,
            timeout: None,
        }
    }

    /// Limits the run time of this one call.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}
