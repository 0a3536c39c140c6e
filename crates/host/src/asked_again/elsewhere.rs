//! A question that another process asked: its workspace is opened to plan the call again.

use std::path::PathBuf;

use haft_contract::{
    WorkspaceId,
    host::{Approval, GrantProposal},
};
use serde_json::Value;

use super::proposals_in;
use crate::{
    HostBuilder,
    config::{ConfigPlaces, Env, resolve::Overrides},
    error::HostError,
};

/// As [`proposals_in`], for a question of another process: its workspace is opened as the settings say.
pub async fn proposals(
    question: &Approval,
    env: &Env,
    overrides: Overrides,
) -> Result<Vec<GrantProposal>, HostError> {
    let form = question.form.as_deref().unwrap_or(&Value::Null);
    let of = |name: &str| form.get(name).and_then(Value::as_str).unwrap_or_default();
    let overrides = Overrides {
        workspace: Some(PathBuf::from(of("workspace"))),
        ..overrides
    };
    let settings = ConfigPlaces::find(env, &overrides)?.settings()?;
    let settings = settings.used_by(&question.principal)?;
    let assembly = HostBuilder::from_settings(settings)?.assemble().await?;
    assembly.mount_to_look()?;
    proposals_in(&assembly.runtime, WorkspaceId::local(), question).await
}
