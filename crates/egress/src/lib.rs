//! The only way to the network: which hosts and addresses may be reached, the proxy that is a
//! sandbox's only way out, and the HTTP client for everything else.
//!
//! A name is resolved once, all its addresses are checked, and the connection goes to one of
//! exactly those. Nothing here decides what a call may reach: the rules are passed in.
//!
//! Read next: `admission.rs` for what is allowed, `client.rs` for HTTP, `proxy/` for sandboxes,
//! `bridge.rs` and `variables.rs` for the part of the proxy that is inside one.
#![expect(
    clippy::disallowed_methods,
    reason = "the socket of a proxy is a file of Haft's own, which no workspace confines"
)]

mod admission;
pub mod bridge;
#[cfg(feature = "client")]
mod client;
#[cfg(feature = "client")]
mod decompress;
mod denial;
#[cfg(feature = "client")]
mod net;
mod proxy;
mod resolve;
mod variables;

pub use admission::{
    Admission, AdmissionScope, ConnectError, OwnHosts, is_this_machine, never_granted,
};
pub use bridge::{Bridge, Forward};
#[cfg(feature = "client")]
pub use client::{
    ClientOptions, HttpClient, HttpError, HttpRequest, HttpResponse, Redirects, host_and_port,
};
pub use denial::{Denial, Reason, SETTING};
#[cfg(feature = "client")]
pub use net::Network;
pub use proxy::{EgressProxy, ProxyOptions, Timing, Traffic};
pub use resolve::SystemResolver;
pub use variables::{PROXY_PORT, variables};
