//! The manifest of a script tool: a small TOML file next to the program.
//!
//! ```toml
//! name = "deploy_status"
//! description = "Shows the state of a deployment. Use it before deploying again."
//! program = "deploy_status.py"
//! effects = "read_only"
//! timeout_ms = 10000
//!
//! [input]
//! type = "object"
//! required = ["service"]
//! properties.service = { type = "string", description = "The service to look at" }
//! ```

use std::time::Duration;

use haft_contract::{Deadline, Effects, ToolName, name::NameError, spec::DEFAULT_TIMEOUT};
use serde::Deserialize;
use serde_json::{Value, json};

/// The longest time limit a script may have.
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// The largest manifest read, in bytes.
const MAX_MANIFEST_BYTES: usize = 256 * 1024;

/// What a script declares about itself.
#[derive(Debug, Clone)]
pub struct ScriptManifest {
    /// The tool's name.
    pub name: ToolName,
    /// A short title for people.
    pub title: String,
    /// What it does, when to use it and when not, written for a model.
    pub description: String,
    /// The program, as a name relative to the manifest.
    pub program: String,
    /// JSON Schema of the input.
    pub input: Value,
    /// JSON Schema of the result, if it is JSON of a known shape.
    pub output: Option<Value>,
    /// What running it may change.
    pub effects: Effects,
    /// How long it may run.
    pub deadline: Deadline,
    /// The programs it starts. Without one of them it is not offered.
    pub needs: Vec<String>,
}

/// Why a manifest was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The manifest is larger than a genuine one would be.
    #[error("the manifest has {0} bytes, at most {MAX_MANIFEST_BYTES} are read")]
    TooLarge(usize),
    /// It is not TOML of the expected shape; the message names the line.
    #[error("the manifest cannot be read: {0}")]
    Syntax(String),
    /// The name is not a valid tool name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// People and rules would take the name for one of Haft's own, or a mounted server's.
    #[error("a script cannot be called `{0}`: it would be taken for a tool of Haft or of a server")]
    Reserved(String),
    /// The description is empty.
    #[error("the description is empty; say what the tool does and when to use it")]
    NoDescription,
    /// The program is not a plain name next to the manifest.
    #[error("`{0}` is not the name of a file next to the manifest")]
    Program(String),
    /// The input schema does not describe an object.
    #[error("the input schema must have `type = \"object\"`")]
    NotAnObject,
    /// The time limit is zero or too long.
    #[error("timeout_ms must be between 1 and {}", MAX_TIMEOUT.as_millis())]
    Timeout,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    #[serde(default)]
    title: Option<String>,
    program: String,
    #[serde(default)]
    input: Option<Value>,
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    effects: Option<DeclaredEffects>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    needs: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum DeclaredEffects {
    Word(EffectWord),
    Flags(EffectFlags),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum EffectWord {
    ReadOnly,
    Changes,
    Replaces,
    Unknown,
}

/// Anything undeclared gets the pessimistic value.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the four effect flags, as manifests spell them"
)]
struct EffectFlags {
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    idempotent: bool,
    #[serde(default = "assumed")]
    destructive: bool,
    #[serde(default = "assumed")]
    open_world: bool,
}

fn assumed() -> bool {
    true
}

/// Whether a name is taken for something other than a script.
fn is_reserved(name: &str) -> bool {
    matches!(name, "undo" | "haft") || name.starts_with("mcp__") || name.starts_with("haft_")
}

impl ScriptManifest {
    /// Parses a manifest.
    pub fn parse(text: &str) -> Result<Self, ManifestError> {
        if text.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLarge(text.len()));
        }
        let file: File =
            toml::from_str(text).map_err(|error| ManifestError::Syntax(error.to_string()))?;
        let name = ToolName::parse(&file.name)?;
        if is_reserved(name.as_str()) {
            return Err(ManifestError::Reserved(file.name));
        }
        if file.description.trim().is_empty() {
            return Err(ManifestError::NoDescription);
        }
        if !is_plain_name(&file.program) {
            return Err(ManifestError::Program(file.program));
        }
        let input = file
            .input
            .unwrap_or_else(|| json!({ "type": "object", "additionalProperties": false }));
        if input.get("type").and_then(Value::as_str) != Some("object") {
            return Err(ManifestError::NotAnObject);
        }
        let timeout = match file.timeout_ms.map(Duration::from_millis) {
            None => DEFAULT_TIMEOUT,
            Some(timeout) if timeout.is_zero() || timeout > MAX_TIMEOUT => {
                return Err(ManifestError::Timeout);
            }
            Some(timeout) => timeout,
        };
        Ok(Self {
            title: file.title.unwrap_or_else(|| file.name.clone()),
            name,
            description: file.description,
            program: file.program,
            input,
            output: file.output,
            effects: file.effects.map_or(Effects::UNKNOWN, Into::into),
            deadline: Deadline::new(timeout, timeout),
            needs: file.needs,
        })
    }
}

impl From<DeclaredEffects> for Effects {
    fn from(declared: DeclaredEffects) -> Self {
        match declared {
            DeclaredEffects::Word(EffectWord::ReadOnly) => Self::READ_ONLY,
            DeclaredEffects::Word(EffectWord::Changes) => Self::CHANGES,
            DeclaredEffects::Word(EffectWord::Replaces) => Self::REPLACES,
            DeclaredEffects::Word(EffectWord::Unknown) => Self::UNKNOWN,
            DeclaredEffects::Flags(flags) => Self {
                read_only: flags.read_only,
                idempotent: flags.idempotent,
                destructive: flags.destructive,
                open_world: flags.open_world,
            },
        }
    }
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let found = match ScriptManifest::parse(text) {
            Ok(manifest) => format!("{} {}", manifest.name, manifest.effects),
            Err(error) => error.to_string(),
        };
        assert_eq!(found.lines().next().unwrap_or_default(), expect);
    }

    #[test]
    fn un_04_a_script_does_not_take_a_name_that_means_something_else() {
        let manifest = |name: &str| {
            ScriptManifest::parse(&format!(
                "name = '{name}'\ndescription = 'does x'\nprogram = 'x.sh'"
            ))
        };
        for name in ["undo", "haft", "mcp__x__y", "haft_undo"] {
            let refused = manifest(name).unwrap_err().to_string();
            assert!(refused.contains("taken for"), "{refused}");
        }
        assert!(manifest("undo_migration").is_ok());
    }

    #[test]
    fn r8_a_manifest_declares_a_tool() {
        let base = "name = \"x\"\ndescription = \"does x\"\nprogram = \"x.sh\"\n";
        check(base, "x destructive, open_world");
        check(
            &format!("{base}effects = \"read_only\""),
            "x read_only, idempotent",
        );
        check(
            &format!("{base}effects = {{ open_world = false }}"),
            "x destructive",
        );
        check(
            &format!("{base}timeout_ms = 0"),
            "timeout_ms must be between 1 and 600000",
        );
        check(
            &format!("{base}[input]\ntype = \"string\""),
            "the input schema must have `type = \"object\"`",
        );
        check(
            "name = \"x\"\ndescription = \"d\"\nprogram = \"../x.sh\"",
            "`../x.sh` is not the name of a file next to the manifest",
        );
        check(
            &format!("{base}colour = 1"),
            "the manifest cannot be read: TOML parse error at line 4, column 1",
        );
    }
}
