//! Codex. Servers are tables `[mcp_servers.NAME]` of `config.toml`, in `~/.codex`, which
//! `CODEX_HOME` moves, or in `.codex` of a project that Codex trusts. Values are not expanded;
//! separate keys name the variables for a token and headers. `features` turns its own tools off;
//! `apply_patch` has no switch, but its sandbox can be read-only.
//!
//! Documented at <https://developers.openai.com/codex/config-reference>; tried with Codex 0.166.0.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    Dialect, EntryFields, Format, Homes, OwnTools, Scope, Server, ServersLocation,
    additions::Setting,
    server::{Entry, EntryValue, ServerTransport, Variables, program},
};

pub(super) struct Codex;

/// The prefix of a token in its header.
const BEARER: &str = "Bearer ";

/// The header that carries a token.
const AUTHORIZATION: &str = "Authorization";

impl Dialect for Codex {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        let directory = match scope {
            Scope::User => homes.below(".codex", "CODEX_HOME"),
            Scope::Project => homes.project.join(".codex"),
            Scope::Local => return None,
        };
        let path = directory.join("config.toml");
        Some(ServersLocation::new(path, Format::Toml, ["mcp_servers"]))
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields = match &server.reach {
            ServerTransport::Command { argv, env, cwd } => {
                let mut fields = program(argv, "command", "args");
                let (inherited, set): (Vec<_>, Vec<_>) =
                    env.iter().partition(|(_, given)| variable(given).is_some());
                let set: BTreeMap<_, _> = set
                    .into_iter()
                    .map(|(name, given)| (name.clone(), given.clone()))
                    .collect();
                fields.extend(Variables::Never.write_all("env", &set));
                let names: Vec<&str> = inherited.iter().map(|(name, _)| name.as_str()).collect();
                if !names.is_empty() {
                    fields.push(("env_vars", Value::from(names)));
                }
                fields.extend(cwd.as_ref().map(|cwd| ("cwd", Value::from(cwd.as_str()))));
                fields
            }
            ServerTransport::Address { url, headers, .. } => {
                let mut fields = vec![("url", Value::from(url.as_str()))];
                let (mut plain, mut from) = (BTreeMap::new(), Map::new());
                for (header, given) in headers {
                    match given {
                        EntryValue::Variable { before, name }
                            if header == AUTHORIZATION && before == BEARER =>
                        {
                            fields.push(("bearer_token_env_var", Value::from(name.as_str())));
                        }
                        EntryValue::Variable { before, name } if before.is_empty() => {
                            from.insert(header.clone(), Value::from(name.as_str()));
                        }
                        EntryValue::Variable { .. }
                        | EntryValue::Text(_)
                        | EntryValue::Foreign(_) => {
                            plain.insert(header.clone(), given.clone());
                        }
                    }
                }
                fields.extend(Variables::Never.write_all("http_headers", &plain));
                if !from.is_empty() {
                    fields.push(("env_http_headers", Value::Object(from)));
                }
                fields
            }
        };
        // Haft asks a person when needed. Without this Codex asks too, and `codex exec` refuses
        // every tool that changes something.
        fields.push(("default_tools_approval_mode", Value::from("approve")));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        let mut entry = Entry::of(entry)?;
        let enabled = entry.flag("enabled", true)?;
        let argv = entry.argv("command", "args")?;
        let mut env = entry.values("env", Variables::Never)?;
        for name in entry.names("env_vars")? {
            let given = from_variable("", &name);
            env.insert(name, given);
        }
        let cwd = entry.text("cwd")?;
        let url = entry.text("url")?;
        let mut headers = entry.values("http_headers", Variables::Never)?;
        for (header, given) in entry.values("env_http_headers", Variables::Never)? {
            if let EntryValue::Text(variable) = given {
                headers.insert(header, from_variable("", &variable));
            }
        }
        if let Some(variable) = entry.text("bearer_token_env_var")? {
            headers.insert(AUTHORIZATION.to_owned(), from_variable(BEARER, &variable));
        }
        let reach = match (argv, url) {
            (Some(argv), None) => ServerTransport::Command { argv, env, cwd },
            (None, Some(url)) => ServerTransport::Address {
                url,
                headers,
                events_only: false,
            },
            (None, None) | (Some(_), Some(_)) => {
                return Err("it has neither a command nor an address, or both".to_owned());
            }
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
            path: self.place(scope, homes)?.path,
            format: Format::Toml,
            settings: vec![
                off(&["features", "shell_tool"]),
                off(&["features", "unified_exec"]),
                off(&["features", "view_image"]),
                Setting::Is {
                    path: &["sandbox_mode"],
                    value: Value::from("read-only"),
                },
            ],
            names: &["shell", "exec_command", "write_stdin", "view_image"],
            note: Some(
                "Codex cannot turn `apply_patch` off; because `sandbox_mode` is `read-only`, it asks you before it writes",
            ),
        })
    }

    fn look(&self) -> &'static str {
        "start Codex again; `codex mcp list` shows it"
    }
}

fn from_variable(before: &str, name: &str) -> EntryValue {
    EntryValue::Variable {
        before: before.to_owned(),
        name: name.to_owned(),
    }
}

/// The variable that supplies a whole value.
fn variable(given: &EntryValue) -> Option<&str> {
    match given {
        EntryValue::Variable { before, name } if before.is_empty() => Some(name),
        EntryValue::Variable { .. } | EntryValue::Text(_) | EntryValue::Foreign(_) => None,
    }
}
