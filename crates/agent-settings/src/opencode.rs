//! opencode. Servers are in `mcp` of `opencode.json`, in the project or in `opencode` of the
//! configuration directory. An entry has a `type`, `local` or `remote`; a program and its arguments
//! are one list, its variables are `environment`. Values may contain `{env:NAME}`. A file
//! `opencode.jsonc` next to it counts too, and takes precedence. `tools` turns its own tools off.
//!
//! Documented at <https://opencode.ai/docs/mcp-servers> and <https://opencode.ai/docs/tools>; tried
//! with opencode 1.18.33.

use std::path::PathBuf;

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, OwnTools, Scope, Server, ServersLocation,
    additions::Setting,
    server::{Entry, ServerTransport, Variables},
};

pub(super) struct Opencode;

/// How long opencode waits for one request: as long as a question to a person may take.
const TIMEOUT_MILLISECONDS: u64 = 600_000;

const VARIABLES: Variables = Variables::CurlyEnv;

impl Dialect for Opencode {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        Some(ServersLocation::new(
            config(scope, homes)?,
            Format::Json,
            ["mcp"],
        ))
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields: EntryFields = Vec::new();
        match &server.reach {
            ServerTransport::Command { argv, env, .. } => {
                fields.push(("type", Value::from("local")));
                fields.push(("command", Value::from(argv.as_slice())));
                fields.extend(VARIABLES.write_all("environment", env));
            }
            ServerTransport::Address { url, headers, .. } => {
                fields.push(("type", Value::from("remote")));
                fields.push(("url", Value::from(url.as_str())));
                fields.extend(VARIABLES.write_all("headers", headers));
            }
        }
        fields.push(("enabled", Value::from(server.enabled)));
        fields.push(("timeout", Value::from(TIMEOUT_MILLISECONDS)));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        let mut entry = Entry::of(entry)?;
        let kind = entry.text("type")?;
        let enabled = entry.flag("enabled", true)?;
        let reach = match kind.as_deref() {
            Some("local") => {
                let argv = entry.texts("command")?;
                if argv.is_empty() {
                    return Err("it has no `command`".to_owned());
                }
                ServerTransport::Command {
                    argv,
                    env: entry.values("environment", VARIABLES)?,
                    cwd: None,
                }
            }
            Some("remote") => ServerTransport::Address {
                url: entry.text("url")?.ok_or("it has no `url`")?,
                headers: entry.values("headers", VARIABLES)?,
                events_only: false,
            },
            Some(_) | None => return Err("its `type` is neither `local` nor `remote`".to_owned()),
        };
        Ok(Some(Server {
            name: name.to_owned(),
            reach,
            enabled,
            left_out: entry.rest(),
        }))
    }

    fn own_tools(&self, scope: Scope, homes: &Homes<'_>) -> Option<OwnTools> {
        let off = |path| Setting::Is {
            path,
            value: Value::from(false),
        };
        Some(OwnTools {
            path: config(scope, homes)?,
            format: Format::Json,
            settings: vec![
                off(&["tools", "bash"]),
                off(&["tools", "read"]),
                off(&["tools", "write"]),
                off(&["tools", "edit"]),
                off(&["tools", "patch"]),
                off(&["tools", "grep"]),
                off(&["tools", "glob"]),
                off(&["tools", "list"]),
            ],
            names: &[
                "bash", "read", "write", "edit", "patch", "grep", "glob", "list",
            ],
            note: None,
        })
    }

    fn also_named(&self) -> &'static [&'static str] {
        &["opencode.jsonc"]
    }

    fn look(&self) -> &'static str {
        "start opencode again; `opencode mcp list` shows it"
    }
}

fn config(scope: Scope, homes: &Homes<'_>) -> Option<PathBuf> {
    let directory = match scope {
        Scope::User => homes.config.join("opencode"),
        Scope::Project => homes.project.to_owned(),
        Scope::Local => return None,
    };
    Some(directory.join("opencode.json"))
}
