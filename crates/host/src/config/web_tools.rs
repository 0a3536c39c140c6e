//! The configured tools that reach the web: what their settings say, and whether their secrets are there.

use haft_contract::{Tool, secret::SecretReference};
use haft_tools::web::{
    http::HttpOperation,
    web_search::{WebSearchConfig, WebSearchTool},
};

use super::{Settings, file::ConfiguredTool};
use crate::script_secrets::ScriptSecrets;

/// The type of a configured tool that is an operation of an API.
pub(crate) const HTTP: &str = "http";

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

/// What a configured tool asks, and the secret it asks with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedSecret {
    /// Which tool or provider it is, and where its secret is kept.
    pub line: String,
    /// Why the secret cannot be used, if that is so.
    pub lacks: Option<String>,
}

impl CheckedSecret {
    fn of(line: String, secret: Option<&SecretReference>, secrets: &ScriptSecrets) -> Self {
        let lacks = secret.and_then(|secret| secrets.lacks(secret));
        Self { line, lacks }
    }
}

/// The configured search providers, and whether their keys are there. None of them is asked.
pub fn check_search(settings: &Settings) -> Vec<CheckedSecret> {
    let secrets = ScriptSecrets::without_record(settings);
    let providers = search_settings(settings).flat_map(|(_, search)| search.configured());
    let checked = providers
        .map(|provider| CheckedSecret::of(provider.to_string(), provider.key.as_ref(), &secrets));
    checked.collect()
}

/// The secrets of the tools that call APIs, and whether they are there. No API is asked.
pub fn check_http(settings: &Settings) -> Vec<CheckedSecret> {
    let secrets = ScriptSecrets::without_record(settings);
    let mut checked = Vec::new();
    for (tool, operation) in http_operations(settings) {
        let name = &tool.name;
        for (secret, reference) in operation.secrets() {
            let asks = operation.line();
            let line = format!("`{name}`: {asks} with {reference} as {secret}");
            checked.push(CheckedSecret::of(line, Some(reference), &secrets));
        }
    }
    checked
}
