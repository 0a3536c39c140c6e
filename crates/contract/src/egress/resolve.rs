//! From a name to its addresses, once for each connection. What is answered is checked and then
//! connected to; no name is ever handed to anything that would look it up again.

use std::{io, net::IpAddr};

use crate::future::BoxFuture;

/// The most addresses of one name; one with more is refused, not checked in part.
pub const MAX_ADDRESSES: usize = 64;

/// Looks up names.
pub trait Resolve: Send + Sync {
    /// Every address of a name, in the order they should be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}
