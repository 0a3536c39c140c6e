//! What the tools of a workspace reach of the network by name. Without the feature `network` that is
//! nothing.

#[cfg(not(feature = "network"))]
mod none;
#[cfg(feature = "network")]
mod public;
#[cfg(feature = "network")]
mod shared_reading;

#[cfg(not(feature = "network"))]
pub(crate) use self::none::WebAccess;
#[cfg(feature = "network")]
pub(crate) use self::public::WebAccess;
