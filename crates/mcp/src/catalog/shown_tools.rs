//! The tools of a registry that a principal is shown. The registry is held weakly, because the
//! tools that read it are registered in it.

use std::sync::{Arc, Weak};

use haft_contract::{ErrorKind, Principal, ToolError};
use haft_runtime::{
    RulesInForce,
    registry::{Entry, Registry, Snapshot},
};

#[derive(Clone)]
pub(super) struct ShownTools {
    registry: Weak<Registry>,
    rules: Arc<RulesInForce>,
}

impl ShownTools {
    pub(super) fn new(registry: &Arc<Registry>, rules: Arc<RulesInForce>) -> Self {
        Self {
            registry: Arc::downgrade(registry),
            rules,
        }
    }

    /// The tools as of now.
    pub(super) fn snapshot(&self) -> Result<Arc<Snapshot>, ToolError> {
        let gone = || ToolError::new(ErrorKind::Unavailable, "the runtime has ended");
        Ok(self.registry.upgrade().ok_or_else(gone)?.snapshot())
    }

    /// Whether a principal is shown a tool.
    pub(super) fn shows(&self, principal: &Principal, entry: &Entry) -> bool {
        self.rules.current().shows(principal, entry)
    }
}
