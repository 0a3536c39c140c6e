//! The results of the examples that rules carry (`matches = […]`, `not_matches = […]`).
//!
//! A policy whose examples fail is not loaded; this reports all of them at once. The examples run
//! where rules are read, in `reader.rs`.

use haft_contract::host::{RuleRef, Verdict};

use crate::load::Problem;

/// A rule as written, with its examples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestedRule {
    /// The rule and its location.
    pub rule: RuleRef,
    /// The answer it gives.
    pub verdict: Verdict,
    /// Its examples, in written order.
    pub examples: Vec<TriedExample>,
}

/// An example of a rule, and its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedExample {
    /// The text of the example.
    pub text: String,
    /// What the rule expects for it.
    pub wanted: ExpectedMatch,
    /// The line it is on.
    pub line: Option<u32>,
    pub(crate) problem: Option<Problem>,
}

/// Whether a rule is meant to match an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedMatch {
    /// It should match.
    Match,
    /// It must not match.
    NoMatch,
}

impl TestedRule {
    /// Whether every example holds.
    pub fn holds(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The failures of its examples.
    pub fn failures(&self) -> impl Iterator<Item = &Problem> {
        self.examples.iter().filter_map(TriedExample::failure)
    }
}

impl TriedExample {
    /// The failure, if it does not hold.
    pub fn failure(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }
}
