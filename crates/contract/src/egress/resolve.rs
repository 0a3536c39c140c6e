//! Resolves a name to its addresses, once for each connection. The addresses are checked and then
//! connected to; the name is never passed to anything that would look it up again.

use std::{io, net::IpAddr};

use crate::future::BoxFuture;

/// The most addresses a name may have. A name with more is refused, not checked in part.
pub const MAX_ADDRESSES: usize = 64;

/// Looks up names.
pub trait Resolve: Send + Sync {
    /// Every address of a name, in the order they should be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}
