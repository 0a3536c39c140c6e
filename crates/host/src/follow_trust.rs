//! Follows `haft trust` in a running host: once a person has accepted another text of the
//! workspace's configuration file, its rules replace those in force.
//!
//! Only the pin counts. A file that was edited and not trusted changes nothing, and a file given by
//! `--config` is not pinned, so it is read once. Settings other than rules stay as they were read
//! at the start.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_contract::host::Policy as _;
use tokio_util::sync::CancellationToken;

use crate::{
    config::{
        ConfigPlaces, Env,
        resolve::Overrides,
        trust::{TrustStore, stamp},
    },
    error::HostError,
    host_policy::HostPolicy,
};

/// How often the trust store is looked at. It is read only if it was written, so looking is one
/// `stat` and nobody saves anything by looking less often, while less often would keep rules in force
/// that a person has just withdrawn. So it is no setting.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The configuration file whose pin is followed.
#[derive(Debug, Clone)]
pub(crate) struct FollowedFile {
    path: PathBuf,
    data_dir: PathBuf,
    workspace: PathBuf,
    /// Its pin when the rules in force were read.
    pin: Option<String>,
}

impl FollowedFile {
    /// The workspace's configuration file, unless one was named to be the only one.
    pub(crate) fn of(places: &ConfigPlaces) -> Option<Self> {
        let path = places.project_config.clone();
        places.only_config.is_none().then(|| Self {
            pin: pin(&places.trust, &path),
            path,
            data_dir: places.data_dir.clone(),
            workspace: places.workspace.clone(),
        })
    }

    /// Whether another text was accepted since, or trust was withdrawn.
    fn was_trusted_again(&mut self) -> Result<bool, HostError> {
        let now = pin(&TrustStore::open(&self.data_dir)?, &self.path);
        let changed = now != self.pin;
        self.pin = now;
        Ok(changed)
    }
}

fn pin(trust: &TrustStore, path: &Path) -> Option<String> {
    let mut files = trust.files();
    let found = files.find(|(pinned, _)| *pinned == path);
    found.map(|(_, hash)| hash.to_owned())
}

/// Replaces the rules whenever the file was trusted again, until cancelled.
pub(crate) async fn follow(
    mut file: FollowedFile,
    env: Env,
    mut overrides: Overrides,
    policy: Arc<HostPolicy>,
    cancel: CancellationToken,
) {
    // What was found at the start may be found elsewhere once files are trusted or forgotten.
    overrides.workspace = Some(file.workspace.clone());
    overrides.data_dir = Some(file.data_dir.clone());
    let mut seen = None;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let now = stamp(&file.data_dir);
        if now == seen {
            continue;
        }
        seen = now;
        let (env, overrides, policy) = (env.clone(), overrides.clone(), Arc::clone(&policy));
        let looked = tokio::task::spawn_blocking(move || {
            look(&mut file, &env, &overrides, &policy);
            file
        });
        // Reading rules does not panic; if it did, the old ones stay in force.
        file = match looked.await {
            Ok(file) => file,
            Err(error) => {
                tracing::error!(%error, "`haft trust` is not followed any more");
                return;
            }
        };
    }
}

fn look(file: &mut FollowedFile, env: &Env, overrides: &Overrides, policy: &HostPolicy) {
    match file.was_trusted_again() {
        Ok(false) => return,
        Ok(true) => {}
        Err(error) => {
            tracing::error!(%error, "`haft trust` cannot be followed; the old rules stay in force");
            return;
        }
    }
    let read = ConfigPlaces::find(env, overrides).and_then(ConfigPlaces::settings);
    let old = policy.current().version();
    match policy.replace_with(read.map(|settings| settings.policy)) {
        Ok(new) if new == old => {}
        Ok(new) => tracing::info!(old = old.0, new = new.0, "the rules were replaced"),
        Err(error) => tracing::error!(
            %error,
            "the rules that were trusted cannot be used here, so the old ones stay in force; start \
             it again, or correct the file"
        ),
    }
}
