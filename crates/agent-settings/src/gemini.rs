//! Gemini CLI. Servers are in `mcpServers` of `settings.json`, in `.gemini` of the project or of
//! the home directory, which `GEMINI_CLI_HOME` moves. A Streamable HTTP address is `httpUrl`, or
//! `url` with a `type`; values may contain `$NAME` or `${NAME}`. Its own tools are denied by a
//! rules file in `policies` that only Haft uses: `tools.exclude` of the settings is going to be
//! removed.
//!
//! Documented at <https://geminicli.com/docs/tools/mcp-server> and
//! <https://geminicli.com/docs/core/policy-engine>; tried with Gemini CLI 0.61.0.

use std::path::Path;

use serde_json::{Value, json};

use super::{
    Dialect, EntryFields, Format, Homes, OwnTools, Scope, Server, ServersLocation,
    additions::Setting,
    server::{Entry, EntryKeys, Variables},
};

pub(super) struct Gemini;

const USUAL: EntryKeys = EntryKeys {
    variables: Variables::Dollar,
    kind: "type",
    // The name of the address field says it, to older versions too.
    program: None,
    address: None,
    url: "httpUrl",
};

/// Its own shell and file tools, and its own agents that have them.
const OWN_TOOLS: &[&str] = &[
    "run_shell_command",
    "list_background_processes",
    "read_background_output",
    "read_file",
    "read_many_files",
    "write_file",
    "replace",
    "glob",
    "grep_search",
    "list_directory",
    "invoke_agent",
];

impl Dialect for Gemini {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        let directory = match scope {
            Scope::User => home(homes),
            Scope::Project => homes.project,
            Scope::Local => return None,
        };
        let path = directory.join(".gemini/settings.json");
        Some(ServersLocation::new(path, Format::Json, ["mcpServers"]))
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields = USUAL.write(server);
        // Haft asks a person when needed. Without this Gemini CLI asks too, and without a screen it
        // does not offer its model the tools at all.
        fields.push(("trust", Value::from(true)));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        USUAL.read(name, Entry::of(entry)?).map(Some)
    }

    fn own_tools(&self, scope: Scope, homes: &Homes<'_>) -> Option<OwnTools> {
        match scope {
            Scope::User => {}
            Scope::Project | Scope::Local => return None,
        }
        let rule = json!({
            "toolName": OWN_TOOLS,
            "decision": "deny",
            // Above a person's allow rules of the usual priority.
            "priority": 900,
        });
        Some(OwnTools {
            path: home(homes).join(".gemini/policies/haft-only.toml"),
            format: Format::Toml,
            settings: vec![Setting::Is {
                path: &["rule"],
                value: json!([rule]),
            }],
            names: OWN_TOOLS,
            note: None,
        })
    }

    fn look(&self) -> &'static str {
        "start Gemini CLI again; `gemini mcp list` shows it, in a folder you trust"
    }
}

fn home<'e>(homes: &Homes<'e>) -> &'e Path {
    let moved = homes.variables.get("GEMINI_CLI_HOME");
    moved.map_or(homes.home, |home| home)
}
