//! How tools reach hosts by name. Without the feature `network` they do not.

use std::sync::Arc;

use haft_contract::ops::NetOps;

/// The network of a workspace.
#[cfg(feature = "network")]
pub(super) fn of_tools() -> Arc<dyn NetOps> {
    use haft_egress::{AdmissionScope, Network, OwnHosts, SystemResolver};

    // Hosts that rules let a tool reach by name must be public. If a public name resolves to a
    // private address, that is not what was allowed.
    let reach = AdmissionScope::Public(OwnHosts::default());
    Arc::new(Network::new(reach, Arc::new(SystemResolver::default())))
}

/// Refuses every connection.
#[cfg(not(feature = "network"))]
pub(super) fn of_tools() -> Arc<dyn NetOps> {
    haft_contract::ops::World::none().net
}
