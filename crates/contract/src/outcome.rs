//! How a call ended. Every call has exactly one outcome.

use std::{fmt, sync::Arc, time::Duration};

use serde_json::Value;

use crate::{
    call::CallId,
    content::Content,
    error::ErrorKind,
    host::{ArtifactId, Decision},
    name::ToolKey,
    ops::{BackendId, Limit, Refusal, Tier},
};

/// The terminal state of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Terminal {
    /// The tool did what was asked.
    Succeeded,
    /// The tool ran, or could not be started, and reports why.
    Failed,
    /// Policy or a person refused, or there was nobody to ask. Nothing happened.
    Denied,
    /// The deadline passed. Output produced until then is kept.
    TimedOut,
    /// The caller asked to stop, or went away.
    Cancelled,
    /// It was started and nobody can say how it ended.
    Unknown,
}

impl Terminal {
    /// Every terminal state, in declaration order.
    pub const ALL: [Self; 6] = [
        Self::Succeeded,
        Self::Failed,
        Self::Denied,
        Self::TimedOut,
        Self::Cancelled,
        Self::Unknown,
    ];

    /// The name used in JSON, in the ledger and in documentation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Denied => "denied",
            Self::TimedOut => "timed_out",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }

    /// The state with this name, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|terminal| terminal.as_str() == word)
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The one result of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The call that ended.
    pub call: CallId,
    /// The tool, if the name resolved to one.
    pub tool: Option<ToolKey>,
    /// How it ended.
    pub terminal: Terminal,
    /// For the model to read.
    pub content: Vec<Content>,
    /// For programs; absent when there is nothing structured to say.
    pub structured: Option<Value>,
    /// What went wrong, unless it succeeded.
    pub error: Option<Failure>,
    /// What is known about the run.
    pub facts: Facts,
}

/// What went wrong, for the model: what, where, and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What sort of failure it was.
    pub kind: ErrorKind,
    /// What happened.
    pub message: String,
    /// Where in the input, as a JSON pointer.
    pub at: Option<String>,
    /// What to do next.
    pub hint: Option<String>,
}

/// What is known about a run in addition to its content.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Facts {
    /// The exit code of a command.
    pub exit_code: Option<i32>,
    /// The signal that ended a command.
    pub signal: Option<i32>,
    /// Bytes of output left out of the content.
    pub bytes_omitted: u64,
    /// Lines of output left out of the content.
    pub lines_omitted: u64,
    /// Where the whole output is kept, if some was left out.
    pub artifact: Option<ArtifactId>,
    /// The decision that allowed or denied it.
    pub decision: Option<Arc<Decision>>,
    /// What refused it, if something did.
    pub denied_by: Option<DeniedBy>,
    /// The resource limit that ended it, if one did.
    pub exceeded: Option<Limit>,
    /// What the sandbox refused while it ran.
    pub refusals: Vec<Refusal>,
    /// Where it ran.
    pub backend: Option<BackendId>,
    /// How strongly it was confined.
    pub tier: Option<Tier>,
    /// What was rewritten in the input on the way in (aliases, coercions).
    pub coercions: Vec<String>,
    /// How long the stages took.
    pub timings: Timings,
}

/// What refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeniedBy {
    /// A rule.
    Policy,
    /// A person.
    Person,
    /// A rule asked, and nobody was there to answer.
    NobodyToAsk,
    /// Asking a person failed, in the host's own code.
    Approver,
    /// The approval came too late, or no longer holds.
    Expired,
    /// The jail or sandbox.
    Sandbox,
    /// The ledger could not record it.
    Ledger,
    /// The workspace it names does not exist, or the caller may not use it.
    Workspace,
}

impl DeniedBy {
    /// Every value, in declaration order.
    pub const ALL: [Self; 8] = [
        Self::Policy,
        Self::Person,
        Self::NobodyToAsk,
        Self::Approver,
        Self::Expired,
        Self::Sandbox,
        Self::Ledger,
        Self::Workspace,
    ];

    /// The name used in JSON and in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Person => "person",
            Self::NobodyToAsk => "nobody_to_ask",
            Self::Approver => "approver",
            Self::Expired => "expired",
            Self::Sandbox => "sandbox",
            Self::Ledger => "ledger",
            Self::Workspace => "workspace",
        }
    }

    /// The value with this name, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == word)
    }
}

/// How long the stages of a call took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Timings {
    /// Waiting for a person.
    pub asked: Duration,
    /// Waiting for locks and a place in the queue.
    pub queued: Duration,
    /// Running.
    pub ran: Duration,
}

impl Outcome {
    /// The text of all text content, in order.
    pub fn text(&self) -> String {
        self.content
            .iter()
            .filter_map(Content::as_text)
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// What the model reads: the content, and the failure with its hint if there is one.
    pub fn model_text(&self) -> String {
        let mut parts: Vec<String> = self
            .content
            .iter()
            .filter_map(Content::as_text)
            .map(str::to_owned)
            .collect();
        if let Some(failure) = &self.error {
            parts.push(failure.to_string());
        }
        parts.join("\n")
    }

    /// Whether the tool did what was asked.
    pub fn succeeded(&self) -> bool {
        self.terminal == Terminal::Succeeded
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)?;
        if let Some(at) = &self.at {
            write!(f, " (at {at})")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}
