//! The configured databases, and the tool that asks them.

use std::{sync::Arc, time::Duration};

use haft_connect::{Databases, SourceFinding};
use haft_contract::{
    erased::{ErasedTool, erase},
    ops::{DatabaseOps, OpsError, ReadStatement},
    secret::ReadSecret,
};
use haft_tools::data::database_query::DatabaseQueryTool;
use tokio_util::sync::CancellationToken;

use crate::{config::Settings, error::HostError, script_secrets::ScriptSecrets};

/// How long a source may take to be looked at.
const CHECK_WAIT: Duration = Duration::from_secs(15);

/// The configured databases and their tool; none without a source.
pub(crate) struct DatabaseTools {
    pub(crate) operations: Arc<dyn DatabaseOps>,
    pub(crate) tool: Option<Arc<dyn ErasedTool>>,
}

impl DatabaseTools {
    pub(crate) fn of(
        settings: &Settings,
        secrets: &Arc<dyn ReadSecret>,
    ) -> Result<Option<Self>, HostError> {
        if settings.databases.is_empty() {
            return Ok(None);
        }
        let databases = Arc::new(open(settings, secrets)?);
        let reader: Arc<dyn ReadStatement> = Arc::<Databases>::clone(&databases);
        Ok(Some(Self {
            operations: databases,
            // The name is a constant.
            tool: erase(DatabaseQueryTool::new(reader)).ok(),
        }))
    }
}

fn open(settings: &Settings, secrets: &Arc<dyn ReadSecret>) -> Result<Databases, HostError> {
    let databases = Databases::new(settings.databases.clone(), Arc::clone(secrets));
    databases
        .map_err(|error| HostError::config(error.to_string(), "correct `[sources]` in haft.toml"))
}

/// A configured database and what is wrong with it.
#[derive(Debug)]
pub(crate) struct CheckedSource {
    /// Its name.
    pub(crate) name: String,
    /// What kind of database it is.
    pub(crate) engine: &'static str,
    /// Whether it takes changes.
    pub(crate) writable: bool,
    /// What is wrong with it, or why it cannot be reached.
    pub(crate) findings: Result<Vec<SourceFinding>, OpsError>,
}

/// Connects to every configured database and looks what is wrong with it.
pub(crate) async fn check_sources(settings: &Settings) -> Result<Vec<CheckedSource>, HostError> {
    let secrets: Arc<dyn ReadSecret> = Arc::new(ScriptSecrets::without_record(settings));
    let databases = open(settings, &secrets)?;
    let cancel = CancellationToken::new();
    let mut checked = Vec::new();
    for source in databases.sources() {
        let findings = databases.check(&source.name, (CHECK_WAIT, &cancel)).await;
        checked.push(CheckedSource {
            name: source.name,
            engine: source.engine,
            writable: source.writable,
            findings,
        });
    }
    Ok(checked)
}
