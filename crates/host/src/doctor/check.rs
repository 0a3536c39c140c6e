//! One thing that was checked: how serious the result is, and what to do about it. Printing it is for
//! whoever asked.

use haft_sandbox::proof::Proof;

use crate::error::HostError;

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// What was checked. Several checks may be of the same thing.
    pub name: &'static str,
    /// How serious the result is.
    pub state: CheckState,
    /// The result.
    pub detail: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The escapes that were attempted, if this is about a sandbox.
    pub proof: Option<Proof>,
}

/// How serious a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    /// Good.
    Ok,
    /// Missing, and not needed.
    Absent,
    /// Needs attention.
    Warn,
    /// Calls will fail.
    Fail,
}

impl Check {
    /// Good.
    pub fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self::new(CheckState::Ok, name, detail, None)
    }

    /// Missing, and not needed.
    pub fn absent(name: &'static str, detail: impl Into<String>, hint: Option<String>) -> Self {
        Self::new(CheckState::Absent, name, detail, hint)
    }

    /// Needs attention.
    pub fn warn(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(CheckState::Warn, name, detail, Some(hint.into()))
    }

    /// Calls will fail.
    pub fn fail(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(CheckState::Fail, name, detail, Some(hint.into()))
    }

    /// Something prevented the check.
    pub fn stopped(name: &'static str, error: &HostError) -> Self {
        Self::fail(name, error.message(), error.hint())
    }

    fn new(
        state: CheckState,
        name: &'static str,
        detail: impl Into<String>,
        hint: Option<String>,
    ) -> Self {
        Self {
            name,
            state,
            detail: detail.into(),
            hint,
            proof: None,
        }
    }

    /// Adds the attempted escapes.
    pub(super) fn tried(mut self, proof: &Proof) -> Self {
        self.proof = Some(proof.clone());
        self
    }

    /// Whether calls will fail.
    pub fn has_failed(&self) -> bool {
        self.state == CheckState::Fail
    }
}
