//! Claude Code. Servers are in `mcpServers`: in the project's `.mcp.json`, in `~/.claude.json` for
//! every project, and under `projects.<directory>` in the same file for one person in one project.
//! `CLAUDE_CONFIG_DIR` moves `.claude.json`. Values may contain `${NAME}`. Its own tools are denied
//! in `permissions.deny` of the settings, which are separate files.
//!
//! Documented at <https://code.claude.com/docs/en/mcp> and
//! <https://code.claude.com/docs/en/permissions>; tried with Claude Code 2.1.325.

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, OwnTools, Scope, Server, ServersLocation,
    additions::Setting,
    server::{Entry, EntryKeys, Variables},
};

pub(super) struct ClaudeCode;

const USUAL: EntryKeys = EntryKeys {
    variables: Variables::Braces,
    kind: "type",
    program: Some("stdio"),
    address: Some("http"),
    url: "url",
};

/// Its own shell and file tools. A tool denied by its bare name is not offered to the model.
const OWN_TOOLS: &[&str] = &[
    "Bash",
    "BashOutput",
    "KillShell",
    "Monitor",
    "Read",
    "Write",
    "Edit",
    "NotebookEdit",
    "Glob",
    "Grep",
];

impl Dialect for ClaudeCode {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        let own = match homes.variables.get("CLAUDE_CONFIG_DIR") {
            Some(directory) => directory.join(".claude.json"),
            None => homes.home.join(".claude.json"),
        };
        let project = homes.project.to_string_lossy();
        Some(match scope {
            Scope::User => ServersLocation::new(own, Format::Json, ["mcpServers"]),
            Scope::Project => {
                let path = homes.project.join(".mcp.json");
                ServersLocation::new(path, Format::Json, ["mcpServers"])
            }
            Scope::Local => {
                ServersLocation::new(own, Format::Json, ["projects", &project, "mcpServers"])
            }
        })
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields = USUAL.write(server);
        // Otherwise the model sees only the names of its tools.
        fields.push(("alwaysLoad", Value::from(true)));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        USUAL.read(name, Entry::of(entry)?).map(Some)
    }

    fn own_tools(&self, scope: Scope, homes: &Homes<'_>) -> Option<OwnTools> {
        let path = match scope {
            Scope::User => homes
                .below(".claude", "CLAUDE_CONFIG_DIR")
                .join("settings.json"),
            Scope::Project => homes.project.join(".claude/settings.json"),
            Scope::Local => homes.project.join(".claude/settings.local.json"),
        };
        Some(OwnTools {
            path,
            format: Format::Json,
            settings: vec![Setting::Includes {
                path: &["permissions", "deny"],
                items: OWN_TOOLS,
            }],
            names: OWN_TOOLS,
            note: None,
        })
    }

    fn look(&self) -> &'static str {
        "start Claude Code again; `claude mcp list` shows it"
    }
}
