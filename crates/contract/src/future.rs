//! The one boxed-future alias. Traits that must be `dyn` (operations, host services) return it;
//! traits people implement by hand ([`crate::Tool`], [`crate::host::Approver`]) use native `async`
//! and are boxed once, in [`crate::erased`].

use std::{future::Future, pin::Pin};

/// A boxed, sendable future borrowing for `'a`.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
