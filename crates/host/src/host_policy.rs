//! The rules of a running host, and replacing them. Whoever replaces them, by code or with
//! `haft trust`, comes through here, so no version is in force that was not checked.

use std::sync::{Arc, Mutex, PoisonError};

use haft_contract::host::{Policy as _, PolicyVersion};
use haft_policy::CedarPolicy;
use haft_runtime::WorkspaceRules;

use crate::{
    assembly::Assembly,
    error::{HostError, chain},
    rules::PolicyTexts,
};

/// The rules of a running host, one version at a time.
pub struct HostPolicy {
    assembly: Assembly,
    current: Mutex<Arc<CedarPolicy>>,
    /// Why the last attempt to replace the rules failed; nothing if it succeeded.
    kept_because: Mutex<Option<String>>,
}

impl HostPolicy {
    pub(crate) fn new(assembly: Assembly) -> Self {
        let current = Mutex::new(Arc::clone(&assembly.policy));
        Self {
            assembly,
            current,
            kept_because: Mutex::default(),
        }
    }

    /// The rules in force.
    pub fn current(&self) -> Arc<CedarPolicy> {
        let current = self.current.lock();
        Arc::clone(&current.unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces every rule by these, for calls that start from now on: texts as in `haft.toml`, or
    /// [`RulesInCode`](crate::rules::RulesInCode). If they cannot be read, or one of them has no
    /// effect with the tools of this host, the old rules stay in force. Returns the version now in
    /// force, which the record of every call that it decides names.
    pub fn replace(&self, rules: impl Into<PolicyTexts>) -> Result<PolicyVersion, HostError> {
        let PolicyTexts(sources) = rules.into();
        let policy = CedarPolicy::load(&sources).map_err(|error| {
            HostError::config(chain(&error), "correct the rules where they are written")
        });
        let replaced = policy.and_then(|policy| self.put(policy));
        self.note(replaced.as_ref().err());
        replaced
    }

    /// As [`Self::replace`], with the rules of settings that were read elsewhere.
    #[cfg(feature = "settings")]
    pub(crate) fn replace_with(
        &self,
        read: Result<CedarPolicy, HostError>,
    ) -> Result<PolicyVersion, HostError> {
        let replaced = read.and_then(|policy| self.put(policy));
        self.note(replaced.as_ref().err());
        replaced
    }

    /// Why the rules in force are not those that were last asked for, if they are not.
    #[cfg(feature = "settings")]
    pub(crate) fn kept_because(&self) -> Option<String> {
        let kept = self.kept_because.lock();
        kept.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, error: Option<&HostError>) {
        let kept = self.kept_because.lock();
        *kept.unwrap_or_else(PoisonError::into_inner) = error.map(ToString::to_string);
    }

    fn put(&self, policy: CedarPolicy) -> Result<PolicyVersion, HostError> {
        self.assembly.check(&policy)?;
        let policy = Arc::new(policy);
        // Held while both change, so that no later version is overtaken by an earlier one.
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        self.assembly.rules.replace(rules_of(&policy));
        *current = Arc::clone(&policy);
        Ok(policy.version())
    }
}

impl std::fmt::Debug for HostPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostPolicy")
            .field("version", &self.current().version())
            .finish_non_exhaustive()
    }
}

/// A policy as a workspace's rules: what it decides, and the confinement that it demands.
pub(crate) fn rules_of(policy: &Arc<CedarPolicy>) -> WorkspaceRules {
    let rules = WorkspaceRules::new(Arc::clone(policy) as _);
    let sandboxes = policy.tool_settings().sandboxes();
    sandboxes.fold(rules, |rules, (tool, mode)| {
        rules.sandbox(tool.as_str(), mode)
    })
}
