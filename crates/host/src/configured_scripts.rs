//! The scripts that configuration names: those of its folders, and those with an entry of their own.

use std::sync::Arc;

use haft_contract::{ToolName, erased::ErasedTool};
use haft_tools::{
    factory::{ToolEntry, fix_arguments},
    script::ScriptTool,
};
use serde_json::{Map, Value};

use crate::{
    config::{
        Settings,
        file::ConfiguredTool,
        scripts::{self, FoundScript},
    },
    error::HostError,
};

/// The type of a configured tool that is a script.
pub(crate) const SCRIPT: &str = "script";

/// An entry as the factory takes it.
pub(crate) fn entry(configured: &ConfiguredTool) -> ToolEntry {
    ToolEntry {
        kind: configured.kind.clone(),
        name: configured.name.clone(),
        config: configured.config.as_object().cloned().unwrap_or_default(),
        arguments: configured
            .arguments
            .as_object()
            .cloned()
            .unwrap_or_default(),
    }
}

/// A script that configuration names, in a folder or in an entry of its own.
#[derive(Debug)]
pub struct ConfiguredScript {
    /// The script.
    pub script: FoundScript,
    /// What its own entry says.
    pub entry: Option<ScriptEntry>,
}

/// What a `[[tools]]` entry of type `script` says.
#[derive(Debug)]
pub struct ScriptEntry {
    /// The name the script gets.
    pub name: ToolName,
    /// The arguments it always gets.
    pub arguments: Map<String, Value>,
    /// Where it was written, for messages.
    place: String,
}

impl ConfiguredScript {
    /// The name the tool gets.
    pub fn name(&self) -> &ToolName {
        let own = &self.script.manifest().name;
        self.entry.as_ref().map_or(own, |entry| &entry.name)
    }
}

impl ScriptEntry {
    pub(crate) fn named(self, tool: ScriptTool) -> Result<Arc<dyn ErasedTool>, HostError> {
        let tool = tool.named(self.name).erased();
        fix_arguments(tool, self.arguments).map_err(|error| {
            HostError::config(
                format!("{}: {error}", self.place),
                "`arguments` names properties of the manifest's `input`",
            )
        })
    }
}

/// The scripts in the configured folders, and those configured individually by name.
pub fn configured_scripts(settings: &Settings) -> Result<Vec<ConfiguredScript>, HostError> {
    let mut found = Vec::new();
    for folder in &settings.script_folders {
        let scripts = scripts::find(folder).map_err(|why| {
            HostError::config(
                format!(
                    "the script folder `{}` cannot be used: {why}",
                    folder.display()
                ),
                "correct it, or take the folder out of `folders` under [scripts]",
            )
        })?;
        let found_there = scripts.into_iter().map(|script| ConfiguredScript {
            script,
            entry: None,
        });
        found.extend(found_there);
    }
    for (beside, tool) in settings
        .tools
        .iter()
        .filter(|(_, tool)| tool.kind == SCRIPT)
    {
        let wrong = |why: String| {
            HostError::config(
                format!("{}: {why}", tool.place),
                "write name = \"…\" and config = { manifest = \"tools/NAME.toml\" }",
            )
        };
        let entry = entry(tool);
        let name = ToolName::parse(&entry.name).map_err(|error| wrong(error.to_string()))?;
        let manifest = entry
            .script_manifest()
            .map_err(|error| wrong(error.to_string()))?;
        found.push(ConfiguredScript {
            script: scripts::find_one(&beside.join(manifest)).map_err(wrong)?,
            entry: Some(ScriptEntry {
                name,
                arguments: entry.arguments,
                place: tool.place.clone(),
            }),
        });
    }
    Ok(found)
}
