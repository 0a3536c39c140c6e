//! Claude Code. Servers are in `mcpServers`: of `.mcp.json` in the project, of `~/.claude.json` for
//! every project, and of `projects.<directory>` in the same file for one project of one person.
//! `CLAUDE_CONFIG_DIR` moves `.claude.json`. Values may hold `${NAME}`.
//!
//! Documented at <https://code.claude.com/docs/en/mcp>; tried with Claude Code 2.1.325.

use serde_json::Value;

use super::{
    Dialect, Format, Homes, Place, Scope, Server, Written,
    server::{Entry, Usual, Variables},
};

pub(super) struct ClaudeCode;

const USUAL: Usual = Usual {
    variables: Variables::Braces,
    kind: "type",
    program: Some("stdio"),
    address: Some("http"),
    url: "url",
};

impl Dialect for ClaudeCode {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<Place> {
        let own = match homes.variables.get("CLAUDE_CONFIG_DIR") {
            Some(directory) => directory.join(".claude.json"),
            None => homes.home.join(".claude.json"),
        };
        let project = homes.project.to_string_lossy();
        Some(match scope {
            Scope::User => Place::new(own, Format::Json, ["mcpServers"]),
            Scope::Project => {
                let path = homes.project.join(".mcp.json");
                Place::new(path, Format::Json, ["mcpServers"])
            }
            Scope::Local => Place::new(own, Format::Json, ["projects", &project, "mcpServers"]),
        })
    }

    fn write(&self, server: &Server) -> Written {
        USUAL.write(server)
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        USUAL.read(name, Entry::of(entry)?).map(Some)
    }

    fn look(&self) -> &'static str {
        "start Claude Code again; `claude mcp list` shows it"
    }
}
