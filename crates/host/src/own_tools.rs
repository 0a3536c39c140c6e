//! The tools that configuration adds to the built-in ones: other settings of a built-in tool, and
//! scripts that have not changed since they were trusted.

use std::sync::Arc;

use haft_contract::{ToolName, erased::ErasedTool};
use haft_tools::{
    factory::{Factory, ToolEntry},
    script::ScriptTool,
};

use crate::{
    config::{
        Settings,
        file::ConfiguredTool,
        resolve::Scripts,
        scripts::{self, FoundScript},
    },
    error::HostError,
};

/// The built-in tools. One that is configured under its own name replaces the default.
pub(crate) fn built_in(settings: &Settings) -> Result<Vec<Arc<dyn ErasedTool>>, HostError> {
    let mut tools = haft_tools::builtins();
    let factory = Factory::builtin();
    for (_, configured) in settings
        .tools
        .iter()
        .filter(|(_, tool)| tool.kind != SCRIPT)
    {
        let tool = factory.build(&entry(configured)).map_err(|error| {
            HostError::config(
                format!("{}: {error}", configured.place),
                "`haft tools` lists the tools",
            )
        })?;
        if configured.kind == configured.name {
            tools.retain(|known| known.name() != tool.name());
        }
        tools.push(tool);
    }
    Ok(tools)
}

/// The type of a configured tool that is a script.
const SCRIPT: &str = "script";

fn entry(configured: &ConfiguredTool) -> ToolEntry {
    ToolEntry {
        kind: configured.kind.clone(),
        name: configured.name.clone(),
        config: configured.config.as_object().cloned().unwrap_or_default(),
    }
}

/// The scripts that become tools.
pub(crate) struct TrustedScripts {
    /// The tools, ready to register.
    pub(crate) tools: Vec<Arc<dyn ErasedTool>>,
    /// Why the others are not offered.
    pub(crate) refused: Vec<String>,
}

/// The trusted scripts, and why the others are not offered.
pub(crate) fn trusted_scripts(settings: &Settings) -> Result<TrustedScripts, HostError> {
    let mut tools = Vec::new();
    let mut refused = Vec::new();
    for (script, name) in configured_scripts(settings)? {
        let manifest = script.manifest_path().display().to_string();
        let interpreter = script.interpreter();
        let source = match settings.scripts {
            Scripts::Trusted => script.trusted(&settings.places.trust),
            Scripts::AsFound => Ok(script.unchecked()),
        };
        let tool =
            source.and_then(|source| ScriptTool::new(source).map_err(|error| error.to_string()));
        let tool = tool.map(|tool| tool.run_by(interpreter));
        match (tool, name) {
            (Ok(tool), Some(name)) => tools.push(tool.named(name).erased()),
            (Ok(tool), None) => tools.push(tool.erased()),
            (Err(why), _) => refused.push(format!(
                "the script `{manifest}` is not offered: {why}; read it, then run `haft trust`"
            )),
        }
    }
    Ok(TrustedScripts { tools, refused })
}

/// The scripts in the configured folders, and those configured individually by name.
pub fn configured_scripts(
    settings: &Settings,
) -> Result<Vec<(FoundScript, Option<ToolName>)>, HostError> {
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
        found.extend(scripts.into_iter().map(|script| (script, None)));
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
        let name = ToolName::parse(&tool.name).map_err(|error| wrong(error.to_string()))?;
        let manifest = tool.config.get("manifest").and_then(|path| path.as_str());
        let manifest =
            manifest.ok_or_else(|| wrong("a script needs the path of its manifest".to_owned()))?;
        found.push((
            scripts::find_one(&beside.join(manifest)).map_err(wrong)?,
            Some(name),
        ));
    }
    Ok(found)
}
