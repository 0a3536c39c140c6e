//! pi. Servers are in `mcpServers` of `mcp.json`, in `~/.pi/agent`, which `PI_CODING_AGENT_DIR`
//! moves, or in `.pi` of a project that pi trusts. Values may contain `${NAME}`. With `exposure`
//! `direct` a server's tools are shown to the model at once; otherwise scripts reach them. A
//! request that takes longer than `timeout` seconds is abandoned, and 60 is too short for a person
//! to answer.
//!
//! Documented at <https://pi.dev/docs/latest/mcp> and in the package, `docs/mcp.md` and
//! `docs/settings.md`; tried with pi 1.5.0.

use std::path::PathBuf;

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, OwnTools, Scope, Server, ServersLocation,
    additions::Setting,
    server::{Entry, EntryKeys, Variables},
};

pub(super) struct Pi;

/// Seconds pi waits for one call: as long as a question to a person may take.
const TIMEOUT_SECONDS: u64 = 600;

const USUAL: EntryKeys = EntryKeys {
    variables: Variables::Braces,
    kind: "type",
    program: None,
    address: None,
    url: "url",
};

impl Dialect for Pi {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        let path = directory(scope, homes)?.join("mcp.json");
        Some(ServersLocation::new(path, Format::Json, ["mcpServers"]))
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields = USUAL.write(server);
        fields.push(("exposure", Value::from("direct")));
        fields.push(("timeout", Value::from(TIMEOUT_SECONDS)));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        let mut entry = Entry::of(entry)?;
        let enabled = entry.flag("enabled", true)?;
        let server = USUAL.read(name, entry)?;
        Ok(Some(Server { enabled, ..server }))
    }

    fn own_tools(&self, scope: Scope, homes: &Homes<'_>) -> Option<OwnTools> {
        Some(OwnTools {
            path: directory(scope, homes)?.join("settings.json"),
            format: Format::Json,
            settings: vec![Setting::Includes {
                path: &["defaultTools"],
                items: &[
                    "-bash",
                    "-powershell",
                    "-read",
                    "-write",
                    "-edit",
                    "-grep",
                    "-find",
                    "-ls",
                ],
            }],
            names: &[
                "bash",
                "powershell",
                "read",
                "write",
                "edit",
                "grep",
                "find",
                "ls",
            ],
            note: None,
        })
    }

    fn look(&self) -> &'static str {
        "start pi again; `pi mcp list` shows it"
    }
}

fn directory(scope: Scope, homes: &Homes<'_>) -> Option<PathBuf> {
    match scope {
        Scope::User => Some(homes.below(".pi/agent", "PI_CODING_AGENT_DIR")),
        Scope::Project => Some(homes.project.join(".pi")),
        Scope::Local => None,
    }
}
