//! No servers, no scripts, no configuration file.

use std::sync::Arc;

use haft_ledger::Redactor;
use haft_policy::Finding;
use haft_runtime::registry::Registry;
use tokio_util::sync::CancellationToken;

use crate::{assembly::Assembly, error::HostError, host_policy::HostPolicy};

#[derive(Default)]
pub(crate) struct MountOptions;

pub(crate) struct MountPlan;

impl MountPlan {
    pub(crate) fn none() -> Self {
        Self
    }

    /// Whether a rule may name a tool that does not exist: nothing else has tools.
    pub(crate) fn may_know(&self, _: &Finding) -> bool {
        false
    }
}

impl Assembly {
    /// There is no catalog of tools that are not listed.
    #[expect(
        clippy::unnecessary_wraps,
        clippy::unused_self,
        reason = "the other kind can fail"
    )]
    pub(crate) fn add_catalog_tools(&self, _: &Arc<Registry>) -> Result<(), HostError> {
        Ok(())
    }
}

pub(crate) struct MountedFleet;

impl MountedFleet {
    #[expect(clippy::unnecessary_wraps, reason = "the other kind can fail")]
    pub(crate) fn start(_: &Assembly, _: &MountOptions, _: Configured) -> Result<Self, HostError> {
        Ok(Self)
    }

    pub(crate) fn report(&self, _: &MountOptions, _: &Arc<HostPolicy>, _: &CancellationToken) {}

    pub(crate) async fn stop(&self) {}
}

#[derive(Default)]
pub(crate) struct Configured;

impl Configured {
    pub(crate) fn keep_out_of(&self, _: Arc<Redactor>) {}
}
