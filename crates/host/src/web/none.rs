//! No network.

use haft_contract::{TenantId, ops::World};

/// Nothing.
#[derive(Default)]
pub(crate) struct WebAccess {
    _none: (),
}

impl WebAccess {
    /// Refuses every connection.
    #[expect(clippy::unused_self, reason = "the other kind has connections")]
    pub(crate) fn open_to(&self, _: &TenantId, world: &mut World) {
        world.net = World::none().net;
    }
}
