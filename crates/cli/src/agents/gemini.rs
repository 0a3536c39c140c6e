//! Gemini CLI. Servers are in `mcpServers` of `settings.json`, in `.gemini` of the project or of the
//! home directory, which `GEMINI_CLI_HOME` moves. An address of Streamable HTTP is `httpUrl`, or
//! `url` with a `type`; values may hold `$NAME` or `${NAME}`.
//!
//! Documented at <https://geminicli.com/docs/tools/mcp-server>; tried with Gemini CLI 0.61.0.

use serde_json::Value;

use super::{
    Dialect, Format, Homes, Place, Scope, Server, Written,
    server::{Entry, Usual, Variables},
};

pub(super) struct Gemini;

const USUAL: Usual = Usual {
    variables: Variables::Dollar,
    kind: "type",
    // The word for the address says it, to older versions too.
    program: None,
    address: None,
    url: "httpUrl",
};

impl Dialect for Gemini {
    fn place(&self, scope: Scope, homes: &Homes<'_>) -> Option<Place> {
        let directory = match scope {
            Scope::User => homes
                .variables
                .get("GEMINI_CLI_HOME")
                .map_or(homes.home, |home| home),
            Scope::Project => homes.project,
            Scope::Local => return None,
        };
        let path = directory.join(".gemini/settings.json");
        Some(Place::new(path, Format::Json, ["mcpServers"]))
    }

    fn write(&self, server: &Server) -> Written {
        USUAL.write(server)
    }

    fn read(&self, name: &str, entry: &Value) -> Result<Option<Server>, String> {
        USUAL.read(name, Entry::of(entry)?).map(Some)
    }

    fn look(&self) -> &'static str {
        "start Gemini CLI again; `gemini mcp list` shows it, in a folder you trust"
    }
}
