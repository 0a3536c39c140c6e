//! The back ends that calls here work on: which is in force for this caller and why, and whether the
//! containers among them answer.

use haft_contract::{Principal, ops::Tier};

use super::check::Check;
use crate::{
    config::{
        Settings,
        backends::{BackendName, Elsewhere},
    },
    workspace::WorkspaceSource,
};

const NAME: &str = "container";

/// Checks the back ends, if there are others than this machine.
pub(super) async fn checks(settings: &Settings, principal: &Principal) -> Vec<Check> {
    let mut checks = Vec::new();
    if let Some(in_force) = settings.said_of_backend(principal) {
        let agent = &principal.agent;
        let detail = format!(
            "`{}` for agent `{agent}`: {}",
            in_force.backend, in_force.because
        );
        checks.push(Check::ok("back end", detail));
        for line in settings.backends.users() {
            checks.push(Check::ok("back end", line));
        }
    }
    for (backend, elsewhere) in settings.backends.elsewhere() {
        if let Elsewhere::Docker(docker) = elsewhere {
            let place = format!("`{}` in `{}`", docker.workspace, docker.container);
            checks.push(container(settings, backend, &place).await);
        }
    }
    checks
}

/// Connects to a container.
async fn container(settings: &Settings, backend: &BackendName, place: &str) -> Check {
    let opened = match WorkspaceSource::on(settings, backend) {
        Ok(source) => source.open().await,
        Err(error) => Err(error),
    };
    let operations = match opened {
        Ok(operations) => operations,
        Err(error) => return Check::stopped(NAME, &error),
    };
    let tiers: Vec<&str> = operations.tiers.iter().map(|tier| tier.as_str()).collect();
    let detail = format!("{place} answers; tiers there: {}", tiers.join(", "));
    if operations.tiers.contains(&Tier::T2) {
        return Check::ok(NAME, detail);
    }
    let (mode, what) = if operations.tiers.contains(&Tier::T1) {
        ("basic", "confines them to the workspace in tier t1")
    } else {
        ("off", "leaves it to the container to confine them")
    };
    Check::warn(
        NAME,
        format!("{detail}; commands ask for t2, which is not available there"),
        format!("`sandbox = \"{mode}\"` in [tools.bash] {what}"),
    )
}
