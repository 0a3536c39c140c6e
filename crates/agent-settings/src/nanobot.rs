//! nanobot. Servers are in `tools.mcpServers` of `config.json`, in `~/.nanobot`. A Streamable HTTP
//! address is marked by `type`; values may contain `${NAME}`. A call that takes longer than
//! `toolTimeout` seconds is abandoned, and the default of 30 is too short for a person to answer.
//!
//! Documented at <https://github.com/HKUDS/nanobot>; tried with nanobot 0.3.5.

use serde_json::Value;

use super::{
    Dialect, EntryFields, Format, Homes, OwnTools, Scope, Server, ServersLocation,
    additions::Setting,
    server::{Entry, EntryKeys, Variables},
};

pub(super) struct Nanobot;

/// Seconds nanobot waits for one call: as long as a question to a person may take.
const TIMEOUT_SECONDS: u64 = 600;

const USUAL: EntryKeys = EntryKeys {
    variables: Variables::Braces,
    kind: "type",
    program: None,
    address: Some("streamableHttp"),
    url: "url",
};

impl Dialect for Nanobot {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<ServersLocation> {
        match scope {
            Scope::User => {}
            Scope::Project | Scope::Local => return None,
        }
        let path = homes.home.join(".nanobot/config.json");
        Some(ServersLocation::new(
            path,
            Format::Json,
            ["tools", "mcpServers"],
        ))
    }

    fn write(&self, server: &Server) -> EntryFields {
        let mut fields = USUAL.write(server);
        fields.push(("toolTimeout", Value::from(TIMEOUT_SECONDS)));
        fields
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        // nanobot writes every field, unset ones as empty strings.
        let fields = entry.as_object().ok_or("it is not a table of fields")?;
        let said = fields
            .iter()
            .filter(|(_, value)| value.as_str() != Some(""));
        let entry = Value::Object(
            said.map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
        );
        USUAL.read(name, Entry::of(&entry)?).map(Some)
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
                off(&["tools", "exec", "enable"]),
                off(&["tools", "file", "enable"]),
                off(&["tools", "cliApps", "enable"]),
            ],
            names: &[
                "exec",
                "exec_session",
                "list_exec_sessions",
                "apply_patch",
                "edit_file",
                "find_files",
                "grep",
                "list_dir",
                "read_file",
                "write_file",
                "run_cli_app",
            ],
            note: None,
        })
    }

    fn look(&self) -> &'static str {
        "start nanobot again; it connects when it starts"
    }
}
