//! Operations of an OpenAPI description as tools of the type `http`.
//!
//! What is understood becomes an entry for `haft.toml`; what is not is an error that says where, or, where
//! an API does not require it, a note. Nothing is guessed. Each entry is checked by the code that will read
//! it. Pure: text and values come in, text goes out; `written_tools.rs` reads the file they go to.
//!
//! Read next: `operation.rs` for one operation, `schema.rs` for what is kept of a schema.

mod body;
mod document;
mod operation;
mod parameters;
mod schema;
mod security;
mod server;
mod written;
mod written_tools;

use haft_contract::ToolName;
use haft_tools::web::http::HttpOperation;
use serde_json::Value;

use self::document::Document;
pub use self::written_tools::{add_to, lines};
use crate::error::HostError;

/// The longest name of a tool.
const MAX_NAME: usize = 64;

/// What to import, and how.
#[derive(Debug, Clone, Default)]
pub struct OpenApiImport {
    /// The `operationId` of each operation.
    pub only: Vec<String>,
    /// The server, instead of the one that the description names.
    pub server: Option<String>,
    /// What each tool's name begins with.
    pub prefix: String,
    /// Whether the server may be on a private network or this machine.
    pub private: bool,
}

/// An operation as an entry for `haft.toml`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedTool {
    /// The tool's name.
    pub name: String,
    /// What it asks for.
    pub line: String,
    /// The lines for `haft.toml`.
    pub text: String,
    /// What a person should know of it: what was left out, which secrets it needs.
    pub notes: Vec<String>,
}

/// Why nothing was imported, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OpenApiError {
    message: String,
    hint: String,
}

impl From<OpenApiError> for HostError {
    fn from(error: OpenApiError) -> Self {
        Self::config(error.message, error.hint)
    }
}

impl OpenApiError {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// Something that has no counterpart in a tool.
    fn unsupported(what: impl Into<String>) -> Self {
        Self::new(
            what,
            "leave this operation out, or write its tool by hand: docs/guide/http.md",
        )
    }

    /// What to do.
    pub fn hint(&self) -> &str {
        &self.hint
    }

    fn of(mut self, operation: &str) -> Self {
        self.message = format!("the operation `{operation}`: {}", self.message);
        self
    }
}

/// The entries for these operations, in the order in which they are named.
pub fn import(
    description: &Value,
    wanted: &OpenApiImport,
) -> Result<Vec<ImportedTool>, OpenApiError> {
    let document = Document::read(description)?;
    let mut tools = Vec::<ImportedTool>::new();
    for id in &wanted.only {
        let tool = one(&document, id, wanted).map_err(|error| error.of(id))?;
        if tools.iter().any(|known| known.name == tool.name) {
            let message = format!("two operations would be the tool `{}`", tool.name);
            return Err(OpenApiError::new(message, "import one of them"));
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn one(
    document: &Document<'_>,
    id: &str,
    wanted: &OpenApiImport,
) -> Result<ImportedTool, OpenApiError> {
    let found = document.operation(id)?;
    let name = tool_name(&wanted.prefix, id)?;
    let operation::ImportedOperation { config, notes } =
        operation::config(document, &found, wanted)?;
    let checked = HttpOperation::parse(&config)
        .map_err(|why| OpenApiError::unsupported(format!("it cannot be a tool: {why}")))?;
    Ok(ImportedTool {
        text: written::entry(&name, &config, &notes)?,
        line: checked.line(),
        name,
        notes,
    })
}

/// The name of a tool: what it is called in the description, where that can be one.
fn tool_name(prefix: &str, id: &str) -> Result<String, OpenApiError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let id = id.chars().map(|c| if plain(c) { c } else { '_' });
    let name: String = prefix.chars().chain(id).collect();
    let name: String = name.chars().take(MAX_NAME).collect();
    match ToolName::parse(&name) {
        Ok(_) => Ok(name),
        Err(error) => Err(OpenApiError::new(
            error.to_string(),
            "give a prefix of letters, digits, `_` and `-`",
        )),
    }
}

#[cfg(test)]
mod tests;
