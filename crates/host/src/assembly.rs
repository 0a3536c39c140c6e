//! Settings turned into a runtime: its tools, the rules in force, and what may still be mounted. It
//! can plan and explain; nothing runs without a record.

use std::sync::Arc;

use haft_contract::{ProviderId, erased::ErasedTool};
use haft_policy::{CedarPolicy, Finding};
use haft_runtime::{RulesInForce, Runtime, registry::Registry};

use crate::{error::HostError, hosted_workspaces::HostedWorkspaces, mounting::MountPlan};

/// A runtime, its rules, and the servers that can be mounted next to its tools.
#[derive(Clone)]
pub struct Assembly {
    /// Plans calls, and runs them if it has a record.
    pub runtime: Runtime,
    /// The rules it was assembled with.
    pub policy: Arc<CedarPolicy>,
    /// The rules in force, which a running host may replace.
    pub rules: Arc<RulesInForce>,
    /// Whether tools are missing that rules may mention.
    pub(crate) tools_are_missing: bool,
    /// MCP servers that are not mounted yet.
    pub(crate) mounts: Arc<MountPlan>,
    /// The workspaces that a program adds, where it may.
    pub(crate) hosted: Option<Arc<HostedWorkspaces>>,
}

impl Assembly {
    /// Refuses rules of which one has no effect with the registered tools: a misspelt `deny` must
    /// not pass as no rule.
    pub(crate) fn check(&self, policy: &CedarPolicy) -> Result<(), HostError> {
        match self.findings_in(policy).first() {
            // A rule about a script that is not trusted right now is not a mistake.
            Some(finding) if !self.tools_are_missing => {
                Err(HostError::config(problem(finding), finding.hint()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Rules that have no effect with the registered tools.
    pub fn findings(&self) -> Vec<Finding> {
        self.findings_in(&self.policy)
    }

    /// As [`Self::findings`], for other rules.
    pub fn findings_in(&self, policy: &CedarPolicy) -> Vec<Finding> {
        let tools = self.runtime.registry().snapshot();
        // Only its own command registers `undo`, and only `haft mcp` registers the tools of large
        // catalogs; rules may still name them.
        let elsewhere = Arc::new(Registry::new());
        if elsewhere
            .register(&ProviderId::builtin(), undo_tool())
            .is_err()
            || self.add_catalog_tools(&elsewhere).is_err()
        {
            tracing::error!("the tools that only some commands have cannot be registered");
        }
        let elsewhere = elsewhere.snapshot();
        let elsewhere = elsewhere.page(0, elsewhere.len()).iter();
        let unknown = elsewhere.filter(|entry| !tools.exists(entry.key().tool.as_str()));
        let entries = tools.page(0, tools.len()).iter().chain(unknown);
        let facts: Vec<_> = entries.map(|entry| entry.facts()).collect();
        let mut findings = policy.lint(&facts);
        findings.retain(|finding| !self.mounts.may_know(finding));
        findings
    }
}

/// A finding and its place.
pub fn problem(finding: &Finding) -> String {
    match finding.rule.line {
        Some(line) => format!("{}:{line}: {finding}", finding.rule.source),
        None => format!("{}: {finding}", finding.rule.source),
    }
}

/// The tool that takes changes back, where there are files that change.
#[cfg(feature = "sandbox")]
fn undo_tool() -> Vec<Arc<dyn ErasedTool>> {
    haft_tools::catalog::undo_tool().into_iter().collect()
}

#[cfg(not(feature = "sandbox"))]
fn undo_tool() -> Vec<Arc<dyn ErasedTool>> {
    Vec::new()
}
