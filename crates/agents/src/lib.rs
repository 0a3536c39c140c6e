//! Real agents as test peers: the programs people use, each with a scripted model on loopback in place
//! of a provider, so that a test sees what the model is offered and given and what the agent shows.
//!
//! ```text
//!  test ── script ──▶ model ◀── HTTP ── agent ── MCP ──▶ haft mcp
//!    └── offered, given ──┘               └── its own screen, its own configuration
//! ```
//!
//! There is one file per agent in `agent/` and one per provider protocol in `model/`. Everything runs
//! in its own network with only loopback (`network.rs`). Nothing here decides what is correct: that
//! is up to the tests of `haft-cli`, which start these agents.
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
