//! OpenClaw. Servers are in `mcp.servers` of `openclaw.json`, which is JSON5, in `~/.openclaw`.
//! `OPENCLAW_STATE_DIR` moves the directory, `OPENCLAW_CONFIG_PATH` names the file. A Streamable
//! HTTP address is marked by `transport`; values may contain `${NAME}`. A call that takes longer
//! than `requestTimeoutMs` is abandoned, and a minute is too short for a person to answer.
//! `tools.deny` turns its own tools off.
//!
//! Documented at <https://docs.openclaw.ai/cli/mcp>, and by the schema that
//! `openclaw config schema` prints; tried with OpenClaw 2026.9.6.

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, OwnTools, Scope, Server, ServersLocation,
    additions::Setting,
    server::{Entry, EntryKeys, Variables},
};

pub(super) struct Openclaw;

const USUAL: EntryKeys = EntryKeys {
    variables: Variables::Braces,
    kind: "transport",
    program: None,
    address: Some("streamable-http"),
    url: "url",
};

/// How long OpenClaw waits for one call: as long as a question to a person may take.
const TIMEOUT_MILLISECONDS: u64 = 600_000;

impl Dialect for Openclaw {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
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
        Some(ServersLocation::new(path, Format::Json, ["mcp", "servers"]))
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields = USUAL.write(server);
        fields.push(("requestTimeoutMs", Value::from(TIMEOUT_MILLISECONDS)));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        let mut entry = Entry::of(entry)?;
        let enabled = entry.flag("enabled", true)?;
        let server = USUAL.read(name, entry)?;
        Ok(Some(Server { enabled, ..server }))
    }

    fn own_tools(&self, scope: Scope, homes: &Homes<'_>) -> Option<OwnTools> {
        let off = |path| Setting::Is {
            path,
            value: Value::from(false),
        };
        Some(OwnTools {
            path: self.place(scope, homes)?.path,
            format: Format::Json,
            settings: vec![
                Setting::Includes {
                    path: &["tools", "deny"],
                    items: &["group:runtime", "group:fs", "ls", "terminal", "view_image"],
                },
                // Otherwise only a model that searches for Haft's tools is offered them.
                off(&["tools", "toolSearch"]),
                off(&["tools", "codeMode"]),
            ],
            names: &[
                "exec",
                "process",
                "terminal",
                "secrets",
                "read",
                "write",
                "edit",
                "apply_patch",
                "ls",
                "view_image",
                "tool_search",
            ],
            note: None,
        })
    }

    fn look(&self) -> &'static str {
        "restart the gateway; `openclaw mcp list` shows it"
    }
}
