//! What a host has from settings besides its tools and rules: mounted MCP servers, the secrets of
//! scripts, the configuration file that it follows. A build without the feature `settings` has none of
//! it, and `nothing.rs` takes its place, so that the composition is the same.

#[cfg(feature = "settings")]
pub mod mount;
#[cfg(not(feature = "settings"))]
mod nothing;
#[cfg(feature = "settings")]
mod servers;

#[cfg(feature = "settings")]
pub(crate) use self::mount::MountPlan;
#[cfg(not(feature = "settings"))]
pub(crate) use self::nothing::{Configured, MountOptions, MountPlan, MountedFleet};
#[cfg(feature = "settings")]
pub(crate) use self::servers::{Configured, MountOptions, MountedFleet};
