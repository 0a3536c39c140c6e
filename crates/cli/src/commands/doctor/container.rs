//! The container that the workspace is in: whether it answers, and how commands can be confined
//! there.

use haft_contract::ops::Tier;
use haft_host::{config::Settings, workspace::WorkspaceSource};

use super::check::Check;

const NAME: &str = "container";

/// Connects to the container, if the workspace is in one.
pub(super) async fn check(settings: &Settings) -> Option<Check> {
    let docker = settings.docker.as_ref()?;
    let place = format!("`{}` in `{}`", docker.workspace, docker.container);
    let operations = match WorkspaceSource::of(settings).open().await {
        Ok(operations) => operations,
        Err(error) => return Some(Check::stopped(NAME, error)),
    };
    let tiers: Vec<&str> = operations.tiers.iter().map(|tier| tier.as_str()).collect();
    let detail = format!("{place} answers; tiers there: {}", tiers.join(", "));
    if operations.tiers.contains(&Tier::T2) {
        return Some(Check::ok(NAME, detail));
    }
    let (mode, what) = if operations.tiers.contains(&Tier::T1) {
        ("basic", "confines them to the workspace in tier t1")
    } else {
        ("off", "leaves it to the container to confine them")
    };
    Some(Check::warn(
        NAME,
        format!("{detail}; commands ask for t2, which is not available there"),
        format!("`sandbox = \"{mode}\"` in [tools.bash] {what}"),
    ))
}
