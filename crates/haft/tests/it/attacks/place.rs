//! Where a case is run: on this machine, in a sandbox, or over SSH; and what that needs.
//!
//! What is missing is a failure that says how to get it, never a case that is passed over.

use std::path::Path;

use haft::{Haft, HaftBuilder, LocalOptions, prelude::SandboxMode};
use haft_backends::ssh::SshBackend;
use haft_sandbox::{Profile, SandboxOptions, helper::Helper};
pub(crate) use haft_testkit::helper_program as helper;

use super::{corpus::Place, ssh_server::SshServer};

/// The sandbox of a case: the helper is shown, so that it can make its attempts, and so is
/// everything else that is named.
pub(crate) fn sandbox(shown: &[&Path]) -> SandboxOptions {
    let mut read_only = vec![helper()];
    read_only.extend(shown.iter().map(|path| (*path).to_owned()));
    SandboxOptions {
        helper: Helper::Path(helper()),
        profile: Profile {
            read_only,
            ..Profile::default()
        },
        ..SandboxOptions::default()
    }
}

/// How strongly children of a tool are confined in a place.
pub(crate) fn mode(place: Place) -> SandboxMode {
    match place {
        Place::Local | Place::Ssh => SandboxMode::Off,
        Place::T1 => SandboxMode::Basic,
        Place::T2 => SandboxMode::Full,
    }
}

/// A builder over a workspace in a place.
pub(crate) async fn open(place: Place, workspace: &Path, local: LocalOptions) -> HaftBuilder {
    let builder = match place {
        Place::Local | Place::T1 | Place::T2 => Haft::open(workspace).local(local),
        Place::Ssh => {
            let mut options = SshServer::of_this_process().options();
            options.remote.cross_mounts = local.cross_mounts;
            let root = workspace.to_str().unwrap();
            let operations = SshBackend::connect(options, root).await.unwrap();
            Haft::open(workspace).operations(operations)
        }
    };
    // Races repeat the same call, which the loop guard would ask about.
    builder.configure(|runtime| runtime.loop_guard(haft::runtime::LoopGuard::OFF))
}
