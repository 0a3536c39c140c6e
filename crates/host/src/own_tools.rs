//! The tools that configuration adds to the built-in ones: other settings of a built-in tool, and
//! scripts that have not changed since they were trusted.

use std::sync::Arc;

use haft_contract::{
    Tool, ToolName,
    erased::{ErasedTool, withhold},
    secret::ReadSecret,
};
use haft_tools::{
    factory::Factory,
    script::ScriptTool,
    web::{
        http::HttpOperation,
        web_search::{WebSearchConfig, WebSearchTool},
    },
};

use crate::{
    config::{Settings, file::ConfiguredTool, resolve::Scripts, secrets::read_secret},
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

/// The settings of the tools that search the web, with where each is configured. What is wrong with
/// them is said where the tool is built.
pub(crate) fn search_settings(
    settings: &Settings,
) -> impl Iterator<Item = (&str, WebSearchConfig)> {
    let name = <WebSearchTool as Tool>::NAME;
    let tools = settings.tools.iter().map(|(_, tool)| tool);
    tools.filter(move |tool| tool.kind == name).map(|tool| {
        let config = serde_json::from_value(tool.config.clone());
        (tool.place.as_str(), config.unwrap_or_default())
    })
}

/// The type of a configured tool that is an operation of an API.
const HTTP: &str = "http";

/// The operations of APIs that are tools. What is wrong with one is said where the tool is built.
pub(crate) fn http_operations(
    settings: &Settings,
) -> impl Iterator<Item = (&ConfiguredTool, HttpOperation)> {
    let tools = settings.tools.iter().map(|(_, tool)| tool);
    tools.filter(|tool| tool.kind == HTTP).filter_map(|tool| {
        let operation = HttpOperation::parse(tool.config.as_object()?).ok()?;
        Some((tool, operation))
    })
}

/// A secret of a tool that calls an API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedHttpSecret {
    /// The tool, what it asks for, and where the secret is kept.
    pub line: String,
    /// Why it cannot be read, if that is so.
    pub lacks: Option<String>,
}

/// The secrets of the tools that call APIs, and whether they are there. Nothing is asked.
pub fn check_http(settings: &Settings) -> Vec<CheckedHttpSecret> {
    let mut checked = Vec::new();
    for (tool, operation) in http_operations(settings) {
        let name = &tool.name;
        for (secret, reference) in operation.secrets() {
            checked.push(CheckedHttpSecret {
                line: format!(
                    "`{name}`: {} with {reference} as {secret}",
                    operation.line()
                ),
                lacks: read_secret(reference).err(),
            });
        }
    }
    checked
}

/// A configured search provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedSearchProvider {
    /// Whose interface it has, where it is and where its key is kept.
    pub line: String,
    /// Why its key cannot be read, if that is so.
    pub lacks: Option<String>,
}

/// The configured search providers, and whether their keys are there. None of them is asked.
pub fn check_search(settings: &Settings) -> Vec<CheckedSearchProvider> {
    let providers = search_settings(settings).flat_map(|(_, search)| search.configured());
    let checked = providers.map(|provider| CheckedSearchProvider {
        lacks: provider.key.as_ref().and_then(|key| read_secret(key).err()),
        line: provider.to_string(),
    });
    checked.collect()
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
