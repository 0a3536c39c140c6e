//! Qwen Code. Servers are in `mcpServers` of `settings.json`, in `.qwen` of the project or of the
//! home directory, which `QWEN_HOME` moves. A Streamable HTTP address is `httpUrl`; values may
//! contain `$NAME` or `${NAME}`. With `alwaysLoadTools` a server's tools are shown to the model at
//! once; otherwise only when it searches for them. `tools.disabled` turns its own tools off, also
//! for its sub-agents, to which `permissions.deny` does not apply.
//!
//! Documented at <https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings>; tried
//! with Qwen Code 0.24.4.

use std::path::PathBuf;

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, OwnTools, Scope, Server, ServersLocation,
    additions::Setting,
    server::{Entry, EntryKeys, Variables},
};

pub(super) struct Qwen;

const USUAL: EntryKeys = EntryKeys {
    variables: Variables::Dollar,
    kind: "type",
    program: None,
    address: None,
    url: "httpUrl",
};

/// Its own shell and file tools.
const OWN_TOOLS: &[&str] = &[
    "run_shell_command",
    "monitor",
    "read_file",
    "write_file",
    "edit",
    "notebook_edit",
    "grep_search",
    "glob",
    "list_directory",
];

impl Dialect for Qwen {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        Some(ServersLocation::new(
            settings(scope, homes)?,
            Format::Json,
            ["mcpServers"],
        ))
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields = USUAL.write(server);
        fields.push(("alwaysLoadTools", Value::from(true)));
        // Haft asks a person when needed. Without this Qwen Code asks its model, then its person,
        // and without a screen says no.
        fields.push(("trust", Value::from(true)));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        USUAL.read(name, Entry::of(entry)?).map(Some)
    }

    fn own_tools(&self, scope: Scope, homes: &Homes<'_>) -> Option<OwnTools> {
        Some(OwnTools {
            path: settings(scope, homes)?,
            format: Format::Json,
            settings: vec![Setting::Includes {
                path: &["tools", "disabled"],
                items: OWN_TOOLS,
            }],
            names: OWN_TOOLS,
            note: None,
        })
    }

    fn look(&self) -> &'static str {
        "start Qwen Code again; `qwen mcp list` shows it, in a folder you trust"
    }
}

fn settings(scope: Scope, homes: &Homes<'_>) -> Option<PathBuf> {
    let directory = match scope {
        Scope::User => homes.below(".qwen", "QWEN_HOME"),
        Scope::Project => homes.project.join(".qwen"),
        Scope::Local => return None,
    };
    Some(directory.join("settings.json"))
}
