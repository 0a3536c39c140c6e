//! The tools of a description in a configuration file.

use super::ImportedTool;
use crate::{config::extended_config::ExtendedConfig, error::HostError};

/// The lines of tools, as they are written to a configuration file.
pub fn lines(tools: &[ImportedTool]) -> String {
    let texts: Vec<&str> = tools.iter().map(|tool| tool.text.as_str()).collect();
    texts.join("\n")
}

/// The configuration with tools at its end; fails if it has one of them already.
pub fn add_to(tools: &[ImportedTool], config: &ExtendedConfig) -> Result<String, HostError> {
    let mut names = tools.iter().map(|tool| &tool.name);
    if let Some(name) = names.find(|name| config.has_table("tools", name)) {
        return Err(HostError::config(
            format!("the tool `{name}` exists already"),
            "give the new ones other names with `--prefix`, or remove the old one first",
        ));
    }
    let after = config.with(&lines(tools));
    config.check(&after)?;
    Ok(after)
}
