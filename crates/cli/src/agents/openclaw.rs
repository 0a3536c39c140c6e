//! OpenClaw. Servers are in `mcp.servers` of `openclaw.json`, which is JSON5, in `~/.openclaw`.
//! `OPENCLAW_STATE_DIR` moves the directory, `OPENCLAW_CONFIG_PATH` names the file. An address of
//! Streamable HTTP says so with `transport`; values may hold `${NAME}`.
//!
//! Documented at <https://docs.openclaw.ai/cli/mcp>, and by the schema that `openclaw config schema`
//! prints; tried with OpenClaw 2026.9.6.

use serde_json::Value;

use super::{
    Dialect, Format, Homes, Place, Scope, Server, Written,
    server::{Entry, Usual, Variables},
};

pub(super) struct Openclaw;

const USUAL: Usual = Usual {
    variables: Variables::Braces,
    kind: "transport",
    program: None,
    address: Some("streamable-http"),
    url: "url",
};

impl Dialect for Openclaw {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<Place> {
        match scope {
            Scope::User => {}
            Scope::Project | Scope::Local => return None,
        }
        let path = match homes.variables.get("OPENCLAW_CONFIG_PATH") {
            Some(path) => path.clone(),
            None => homes
                .below(".openclaw", "OPENCLAW_STATE_DIR")
                .join("openclaw.json"),
        };
        Some(Place::new(path, Format::Json, ["mcp", "servers"]))
    }

    fn write(&self, server: &Server) -> Written {
        USUAL.write(server)
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        let mut entry = Entry::of(entry)?;
        let enabled = entry.flag("enabled", true)?;
        let server = USUAL.read(name, entry)?;
        Ok(Some(Server { enabled, ..server }))
    }

    fn look(&self) -> &'static str {
        "restart the gateway; `openclaw mcp list` shows it"
    }
}
