//! A server configured in code, as an embedder mounts it: the same settings as an entry of
//! `[[mcp.servers]]`, with the same safe defaults.

use std::{collections::BTreeMap, path::PathBuf};

use haft_contract::ops::SandboxMode;
use haft_mcp::{
    name::{ServerId, ServerIdError, ToolNaming},
    pin::Filter,
};

use super::{CommandTarget, ServerSettings, Target};
use crate::{
    config::oauth::OauthSettings,
    error::{HostError, HostErrorKind},
};

impl ServerSettings {
    /// A program that speaks MCP over its pipes, confined in a full sandbox without network.
    pub fn command(
        id: &str,
        argv: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<Self, HostError> {
        let target = Target::Command(CommandTarget {
            argv: argv.into_iter().map(Into::into).collect(),
            env: BTreeMap::new(),
            cwd: None,
            mode: SandboxMode::Full,
            network: None,
            writable: Vec::new(),
            read_only: Vec::new(),
            sha256: None,
        });
        Self::in_code(id, target)
    }

    /// A server reached over HTTP.
    pub fn url(id: &str, url: impl Into<String>) -> Result<Self, HostError> {
        let target = Target::Url {
            url: url.into(),
            headers: BTreeMap::new(),
            oauth: OauthSettings::default(),
        };
        Self::in_code(id, target)
    }

    /// Starts the program in this directory, which it can read and write. Without this it gets an
    /// empty directory of its own.
    #[must_use]
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        if let Target::Command(command) = &mut self.target {
            command.cwd = Some(directory.into());
        }
        self
    }

    fn in_code(id: &str, target: Target) -> Result<Self, HostError> {
        let refused = |error: ServerIdError| {
            let hint = "an id has lower-case letters, digits and dashes";
            HostError::new(HostErrorKind::Invalid, error.to_string(), hint)
        };
        Ok(Self {
            id: ServerId::parse(id).map_err(refused)?,
            target,
            secrets: BTreeMap::new(),
            naming: ToolNaming::default(),
            trust_annotations: false,
            start_timeout: None,
            call_timeout: None,
            concurrency: None,
            idle: None,
            enabled: true,
            tools: Filter::default(),
            place: "code".to_owned(),
        })
    }
}
