//! What a host has from settings besides its tools and rules: mounted MCP servers, the secrets of
//! scripts, the configuration file that it follows. A build without the feature `settings` has none of
//! it, and `nothing.rs` takes its place, so that the composition is the same.

#[cfg(not(feature = "settings"))]
mod nothing;
#[cfg(feature = "settings")]
mod servers;

#[cfg(not(feature = "settings"))]
pub(crate) use self::nothing::{Configured, MountOptions, MountPlan, MountedFleet};
#[cfg(feature = "settings")]
pub(crate) use self::servers::{Configured, MountOptions, MountedFleet};
#[cfg(feature = "settings")]
pub(crate) use crate::mount::MountPlan;
