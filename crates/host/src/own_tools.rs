//! The tools that configuration adds to the built-in ones: other settings of a built-in tool, and
//! scripts that have not changed since they were trusted.

use std::sync::Arc;

use haft_contract::{
    ToolName,
    erased::{ErasedTool, withhold},
    secret::ReadSecret,
};
use haft_tools::{factory::Factory, script::ScriptTool};

use crate::{
    config::{
        Settings,
        resolve::Scripts,
        web_tools::{http_operations, search_settings},
    },
    configured_scripts::{ConfiguredScript, SCRIPT, configured_scripts, entry},
    error::HostError,
    readiness,
};

/// The built-in tools. One that is configured under its own name replaces the default.
/// Those that need keys read them from here.
pub(crate) fn built_in(
    settings: &Settings,
    secrets: &Arc<dyn ReadSecret>,
) -> Result<Vec<Arc<dyn ErasedTool>>, HostError> {
    let mut tools = haft_tools::builtins();
    let mut factory = Factory::builtin();
    factory.register_web_search(Arc::clone(secrets));
    factory.register_http(Arc::clone(secrets));
    let for_searching = search_settings(settings).flat_map(|(_, search)| search.named_hosts());
    let for_requests = http_operations(settings).filter_map(|(_, one)| one.private_host());
    factory.register_web_fetch(for_searching.chain(for_requests).collect());
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

/// A built-in tool that is not there because no configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolThatIsOff {
    /// Its name.
    pub tool: ToolName,
    /// That it is off.
    pub reason: String,
    /// The lines of haft.toml that turn it on.
    pub hint: String,
}

/// The tool of this name or alias, if it is off until configuration names it. For a name that no
/// registered tool has.
pub fn off_until_named(name: &str) -> Option<ToolThatIsOff> {
    let tools = haft_tools::catalog::optional();
    let is_it = |tool: &&Arc<dyn ErasedTool>| {
        tool.name().as_str() == name || tool.spec().aliases.contains(&name)
    };
    let tool = tools.iter().find(is_it)?.name();
    Some(ToolThatIsOff {
        tool: tool.clone(),
        reason: format!("`{tool}` is off until haft.toml names it"),
        hint: format!(
            "to turn it on, add `[tools.{tool}]` and below it `type = \"{tool}\"` to haft.toml, then \
             run `haft trust`"
        ),
    })
}

/// The scripts that become tools.
pub(crate) struct TrustedScripts {
    /// The tools, ready to register.
    pub(crate) tools: Vec<Arc<dyn ErasedTool>>,
    /// Why the others are not offered.
    pub(crate) refused: Vec<String>,
}

/// The trusted scripts, and why the others are not offered. They read their secrets from here.
pub(crate) fn trusted_scripts(
    settings: &Settings,
    secrets: &Arc<dyn ReadSecret>,
) -> Result<TrustedScripts, HostError> {
    let mut tools = Vec::new();
    let mut refused = Vec::new();
    for ConfiguredScript { script, entry } in configured_scripts(settings)? {
        let manifest = script.manifest_path().display().to_string();
        let interpreter = script.interpreter();
        let source = match settings.scripts {
            Scripts::Trusted => script.trusted(&settings.places.trust),
            Scripts::AsFound => Ok(script.unchecked()),
        };
        let tool =
            source.and_then(|source| ScriptTool::new(source).map_err(|error| error.to_string()));
        let tool = tool.map(|tool| tool.secrets(Arc::clone(secrets)).run_by(interpreter));
        let lacks = tool.as_ref().ok();
        let lacks = lacks.and_then(|tool| readiness::script_lacks(tool.manifest()));
        let ready = |tool| match lacks {
            Some(why) => withhold(tool, why),
            None => tool,
        };
        match (tool, entry) {
            (Ok(tool), Some(entry)) => tools.push(ready(entry.named(tool)?)),
            (Ok(tool), None) => tools.push(ready(tool.erased())),
            (Err(why), _) => refused.push(format!(
                "the script `{manifest}` is not offered: {why}; read it, then run `haft trust`"
            )),
        }
    }
    Ok(TrustedScripts { tools, refused })
}
