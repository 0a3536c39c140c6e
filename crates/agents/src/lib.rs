//! Real agents as test peers: the programs people use, each with a scripted model on loopback in place
//! of a provider, so that a test sees what the model is offered and given and what the agent shows.
//!
//! ```text
//!  test ── script ──▶ model ◀── HTTP ── agent ── MCP ──▶ haft mcp
//!    └── offered, given ──┘               └── its own screen, its own configuration
//! ```
//!
//! One file an agent in `agent/`, one file a provider's protocol in `model/`. Everything runs in a
//! network of its own that has nothing but loopback (`network.rs`). Nothing here decides what is
//! right: that is for the tests of `haft-cli`, which start these agents.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "for tests only: it starts programs, writes their configuration, and a failure is a panic"
)]

pub mod agent;
mod http;
pub mod model;
pub mod network;
