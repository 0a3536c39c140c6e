//! Real agents in front of Haft, each with a scripted model: what reaches the model, the screen and
//! the record is compared. `HAFT_MCP_PEERS` says where the agents are installed; without them these
//! tests show nothing, so they fail.
//!
//! A test is named after its scenario and its agent. What it saw goes to the directory that
//! `HAFT_AGENTS_REPORT` names, and `crates/agents/examples/agents_page.rs` makes `docs/agents.md`
//! of it.

mod life;
mod one_run;
mod only_haft;
mod questions;
mod scene;
mod screen;

pub(crate) use self::scene::{Scene, agent};

/// One test an agent, in a network of its own.
macro_rules! for_agents {
    ($check:path: $($name:ident = $id:literal,)+) => {$(
        #[test]
        #[ignore = "ci: needs the agents of .ci/peers and namespaces of its own"]
        fn $name() {
            haft_agents::network::alone(|| $check($crate::real_agents::agent($id)));
        }
    )+};
}
pub(crate) use for_agents;

/// The same for every agent that is driven.
macro_rules! for_every_agent {
    ($check:path) => {
        $crate::real_agents::for_agents! { $check:
            claude_code = "claude-code",
            codex = "codex",
            gemini = "gemini",
            qwen = "qwen",
            opencode = "opencode",
            pi = "pi",
            nanobot = "nanobot",
            openclaw = "openclaw",
        }
    };
}
pub(crate) use for_every_agent;
