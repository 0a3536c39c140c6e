//! The one way to the network: which hosts and addresses may be reached, and the proxy that is a
//! sandbox's only way out.
//!
//! A name is resolved once, every address it has is checked, and one of exactly those is connected
//! to. Nothing here decides what a call may reach: it is told the rules.
//!
//! Read next: `admit.rs` for what is allowed, `proxy/` for sandboxes, `bridge.rs` and `variables.rs`
//! for the part of the proxy that is inside one.
#![expect(
    clippy::disallowed_methods,
    reason = "the socket of a proxy is a file of Haft's own, which no workspace confines"
)]

mod admit;
pub mod bridge;
mod denial;
mod proxy;
mod resolve;
mod variables;

pub use admit::never_granted;
pub use bridge::{Bridge, Forward};
pub use denial::SETTING;
pub use proxy::{EgressProxy, ProxyOptions, Timing, Traffic};
pub use resolve::SystemResolver;
pub use variables::{PROXY_PORT, variables};
