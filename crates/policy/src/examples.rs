//! What came of the examples that rules carry (`matches = […]`, `not_matches = […]`).
//!
//! A policy whose examples fail is not loaded; this is for looking at all of them at once. The
//! examples themselves are tried where rules are read, in `reader.rs`.

use haft_contract::host::{RuleRef, Verdict};

use crate::load::Problem;

/// A rule as it is written, and its examples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedRule {
    /// The rule and where it stands.
    pub rule: RuleRef,
    /// What it answers.
    pub verdict: Verdict,
    /// Its examples, in the order they are written.
    pub examples: Vec<TriedExample>,
}

/// An example of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedExample {
    /// What the rule was tried on.
    pub text: String,
    /// What the rule says about it.
    pub wanted: ExpectedMatch,
    /// The line it stands in.
    pub line: Option<u32>,
    pub(crate) problem: Option<Problem>,
}

/// Whether a rule is meant to match an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedMatch {
    /// It is.
    Match,
    /// It must not.
    NoMatch,
}

impl TestedRule {
    /// Whether every example is as it says.
    pub fn holds(&self) -> bool {
        self.failures().next().is_none()
    }

    /// What is wrong with its examples.
    pub fn failures(&self) -> impl Iterator<Item = &Problem> {
        self.examples.iter().filter_map(TriedExample::failure)
    }
}

impl TriedExample {
    /// What is wrong with it, if something is.
    pub fn failure(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }
}
