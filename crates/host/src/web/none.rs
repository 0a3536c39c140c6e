//! No network.

use std::sync::Arc;

use haft_contract::{
    TenantId,
    ops::{NetOps, World},
};

/// Nothing.
#[derive(Default)]
pub(crate) struct WebAccess {
    _none: (),
}

impl WebAccess {
    /// Refuses every connection.
    #[expect(clippy::unused_self, reason = "the other kind has connections")]
    pub(crate) fn network(&self, _: &TenantId) -> Arc<dyn NetOps> {
        World::none().net
    }
}
