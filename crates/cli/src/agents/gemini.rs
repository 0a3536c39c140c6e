//! Gemini CLI. Servers are in `mcpServers` of `settings.json`, in `.gemini` of the project or of the
//! home directory, which `GEMINI_CLI_HOME` moves. An address of Streamable HTTP is `httpUrl`, or
//! `url` with a `type`; values may hold `$NAME` or `${NAME}`. Its own tools are denied by a file of rules
//! in `policies`, which is Haft's alone: `tools.exclude` of the settings is to be removed.
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
    // The word for the address says it, to older versions too.
    program: None,
    address: None,
    url: "httpUrl",
};

/// Its own shell and file tools, and the agents of its own that have them.
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
        // Haft asks where somebody has to be asked. Without this Gemini CLI asks too, and where it
        // has no screen its model is not offered the tools at all.
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
            // Above what a person allows with a rule of the usual priority.
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
