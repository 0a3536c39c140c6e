//! Visual Studio Code. Servers are in `servers`: in the project's `.vscode/mcp.json`, or in
//! `mcp.json` of the user's profile, by default `Code/User` in the configuration directory. Every
//! entry has a `type`. Values may contain `${env:NAME}`, `${workspaceFolder}` and `${input:ID}`,
//! which the editor asks for.
//!
//! Documented at <https://code.visualstudio.com/docs/agents/reference/mcp-configuration>.

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, Scope, Server, ServersLocation,
    server::{Entry, EntryKeys, Variables},
};

pub(super) struct Vscode;

const USUAL: EntryKeys = EntryKeys {
    variables: Variables::Env,
    kind: "type",
    program: Some("stdio"),
    address: Some("http"),
    url: "url",
};

impl Dialect for Vscode {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        let path = match scope {
            Scope::User => homes.config.join("Code/User/mcp.json"),
            Scope::Project => homes.project.join(".vscode/mcp.json"),
            Scope::Local => return None,
        };
        Some(ServersLocation::new(path, Format::Json, ["servers"]))
    }

    fn write(&self, server: &Server) -> EntryFields {
        USUAL.write(server)
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        USUAL.read(name, Entry::of(entry)?).map(Some)
    }

    fn project_directory(&self, scope: Scope) -> Option<&'static str> {
        (scope == Scope::Project).then_some("${workspaceFolder}")
    }

    fn look(&self) -> &'static str {
        "`MCP: List Servers` in the command palette shows it and starts it"
    }
}
