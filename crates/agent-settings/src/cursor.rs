//! Cursor. Servers are in `mcpServers` of `.cursor/mcp.json`, in the project or in the home
//! directory. Values may contain `${env:NAME}` and `${workspaceFolder}`.
//!
//! Documented at <https://cursor.com/docs/mcp> ("Using mcp.json", "Config interpolation").

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, Scope, Server, ServersLocation,
    server::{Entry, EntryKeys, Variables},
};

pub(super) struct Cursor;

const USUAL: EntryKeys = EntryKeys {
    variables: Variables::Env,
    kind: "type",
    program: Some("stdio"),
    // An address needs no type field.
    address: None,
    url: "url",
};

impl Dialect for Cursor {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        let directory = match scope {
            Scope::User => homes.home,
            Scope::Project => homes.project,
            Scope::Local => return None,
        };
        let path = directory.join(".cursor/mcp.json");
        Some(ServersLocation::new(path, Format::Json, ["mcpServers"]))
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
        "Cursor's settings show it under Tools & MCP; switch it on there if it is off"
    }
}
