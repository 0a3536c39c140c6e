//! Goose. Servers are among the `extensions` of `config.yaml`, in `goose` of the configuration
//! directory; `GOOSE_PATH_ROOT` moves it. An extension has a `type`; those that are not `stdio` or
//! `streamable_http` are Goose's own and are left alone. `env_keys` come from Goose's secret store.
//!
//! Documented at <https://block.github.io/goose/docs/guides/config-files>.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, Scope, Server, ServersLocation,
    server::{Entry, EntryValue, ServerTransport, Variables, program},
};

pub(super) struct Goose;

/// Seconds Goose waits for one call: as long as a question to a person may take.
const TIMEOUT_SECONDS: u64 = 600;

const VARIABLES: Variables = Variables::Dollar;

impl Dialect for Goose {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        match scope {
            Scope::User => {}
            Scope::Project | Scope::Local => return None,
        }
        let directory = match homes.variables.get("GOOSE_PATH_ROOT") {
            Some(root) => root.join("config"),
            None => homes.config.join("goose"),
        };
        let path = directory.join("config.yaml");
        Some(ServersLocation::new(path, Format::Yaml, ["extensions"]))
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields: EntryFields = vec![
            ("enabled", Value::from(server.enabled)),
            ("name", Value::from(server.name.as_str())),
            ("description", Value::from("Tools behind Haft")),
        ];
        match &server.reach {
            ServerTransport::Command { argv, env, .. } => {
                fields.push(("type", Value::from("stdio")));
                fields.extend(program(argv, "cmd", "args"));
                let (needed, set) = from_elsewhere(env);
                fields.extend(Variables::Never.write_all("envs", &set));
                fields.extend(needed.map(|needed| ("env_keys", needed)));
            }
            ServerTransport::Address { url, headers, .. } => {
                fields.push(("type", Value::from("streamable_http")));
                fields.push(("uri", Value::from(url.as_str())));
                fields.extend(VARIABLES.write_all("headers", headers));
                let (needed, _) = from_elsewhere(headers);
                fields.extend(needed.map(|needed| ("env_keys", needed)));
            }
        }
        fields.push(("timeout", Value::from(TIMEOUT_SECONDS)));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        let mut entry = Entry::of(entry)?;
        let kind = entry.text("type")?;
        let enabled = entry.flag("enabled", true)?;
        for said in ["name", "description", "display_name", "bundled"] {
            entry.get(said);
        }
        let mut env = entry.values("envs", Variables::Never)?;
        let keys = entry.names("env_keys")?;
        let reach = match kind.as_deref() {
            Some("stdio") => {
                for key in keys {
                    env.entry(key.clone()).or_insert(EntryValue::Variable {
                        before: String::new(),
                        name: key,
                    });
                }
                ServerTransport::Command {
                    argv: entry.argv("cmd", "args")?.ok_or("it has no `cmd`")?,
                    env,
                    cwd: None,
                }
            }
            Some(kind @ ("streamable_http" | "sse")) => ServerTransport::Address {
                url: entry.text("uri")?.ok_or("it has no `uri`")?,
                headers: entry.values("headers", VARIABLES)?,
                events_only: kind == "sse",
            },
            _ => return Ok(None),
        };
        Ok(Some(Server {
            name: name.to_owned(),
            reach,
            enabled,
            left_out: entry.rest(),
        }))
    }

    fn look(&self) -> &'static str {
        "start Goose again; `goose info -v` shows it"
    }
}

/// The variables that supply values, as a list, and the values that no variable supplies.
fn from_elsewhere(
    given: &BTreeMap<String, EntryValue>,
) -> (Option<Value>, BTreeMap<String, EntryValue>) {
    let (mut needed, mut set) = (Vec::new(), BTreeMap::new());
    for (name, given) in given {
        match given {
            EntryValue::Variable { name, .. } => needed.push(name.as_str()),
            EntryValue::Text(_) | EntryValue::Foreign(_) => {
                set.insert(name.clone(), given.clone());
            }
        }
    }
    ((!needed.is_empty()).then(|| Value::from(needed)), set)
}
