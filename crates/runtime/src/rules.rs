//! The rules of a workspace, one version at a time, and how another version takes their place.
//!
//! A call takes the version in force when it is opened and carries it to its end: masks, decision,
//! grants, preview and record all come from that one. Only `admit` looks at the newest version too,
//! and only to become stricter. ADR 0049 says why.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use arc_swap::ArcSwap;
use haft_contract::{
    Principal,
    host::{GrantProposal, Policy, PolicyVersion, Question},
    ops::SandboxMode,
};
use tokio::sync::watch;

use crate::registry::Entry;

/// One version of the rules: who may do what, and how strongly child processes are confined. Never
/// changes; another version takes its place whole.
pub struct WorkspaceRules {
    pub(crate) policy: Arc<dyn Policy>,
    sandbox: HashMap<String, SandboxMode>,
}

impl WorkspaceRules {
    /// The rules of this policy, which says nothing about confinement.
    pub fn new(policy: Arc<dyn Policy>) -> Self {
        Self {
            policy,
            sandbox: HashMap::new(),
        }
    }

    /// Sets the least confinement of a tool's child processes, by the tool's name.
    #[must_use]
    pub fn sandbox(mut self, tool: impl Into<String>, mode: SandboxMode) -> Self {
        self.sandbox.insert(tool.into(), mode);
        self
    }

    /// Identifies this version.
    pub fn version(&self) -> PolicyVersion {
        self.policy.version()
    }

    /// Whether a principal is shown a tool under this version: not quarantined, and not denied for
    /// every input.
    pub fn shows(&self, principal: &Principal, entry: &Entry) -> bool {
        entry.is_shown_to(principal, &*self.policy)
    }

    /// The rules that would let calls like this one pass without asking, narrowest first.
    pub fn proposals(&self, question: &Question<'_>) -> Vec<GrantProposal> {
        self.policy.proposals(question)
    }

    /// The confinement these rules demand for a tool's child processes, if they mention it.
    pub(crate) fn sandbox_of(&self, entry: &Entry) -> Option<SandboxMode> {
        self.sandbox.get(entry.key().tool.as_str()).copied()
    }
}

impl std::fmt::Debug for WorkspaceRules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkspaceRules")
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

/// The version of the rules that calls start under now. Readers never wait.
#[derive(Debug)]
pub struct RulesInForce {
    current: ArcSwap<WorkspaceRules>,
    /// Serialises writers, so that subscribers count every version.
    changing: Mutex<()>,
    changes: watch::Sender<u64>,
}

impl RulesInForce {
    /// Starts with this version.
    pub fn new(rules: WorkspaceRules) -> Self {
        Self {
            current: ArcSwap::from_pointee(rules),
            changing: Mutex::new(()),
            changes: watch::Sender::new(0),
        }
    }

    /// The version in force. Keep it for as long as a call or a listing lasts.
    pub fn current(&self) -> Arc<WorkspaceRules> {
        self.current.load_full()
    }

    /// Puts another version in force for every call that starts from now on.
    pub fn replace(&self, rules: WorkspaceRules) {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.current.store(Arc::new(rules));
        self.changes.send_modify(|count| *count += 1);
    }

    /// Subscribes to the number of changes so far. Tools that were listed may be hidden after one,
    /// and hidden ones listed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
