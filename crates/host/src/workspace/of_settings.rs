//! The workspace that settings name, on this machine or elsewhere, and how its commands are confined.

use std::{collections::BTreeMap, path::Path};

use haft_backends::{ChangeOptions, LocalBackend, LocalOptions};
use haft_sandbox::{Limits, Profile, SandboxOptions, helper::Helper, jail::Mounts};

use super::WorkspaceSource;
use crate::{
    config::{
        Settings,
        backends::{BackendName, Elsewhere},
        env,
        sandbox::Home,
    },
    directory::open,
    error::HostError,
    remote_workspace::RemoteWorkspace,
};

impl WorkspaceSource {
    /// The workspace in the settings, on the back end in force.
    pub fn of(settings: &Settings) -> Self {
        Self::reached(settings, settings.backend(), settings.elsewhere())
    }

    /// The workspace in the settings, on another of their back ends.
    pub fn on(settings: &Settings, backend: &BackendName) -> Result<Self, HostError> {
        settings.may_reach(backend)?;
        let elsewhere = settings.backends.get(backend);
        Ok(Self::reached(settings, backend, elsewhere))
    }

    fn reached(settings: &Settings, backend: &BackendName, elsewhere: Option<&Elsewhere>) -> Self {
        let (sandbox, mounts) = (&settings.sandbox, cross_mounts(settings));
        match elsewhere {
            Some(Elsewhere::Ssh(ssh)) => {
                let options = ssh.options(sandbox, mounts);
                Self::Remote(RemoteWorkspace::ssh(backend, options, &ssh.root))
            }
            Some(Elsewhere::Docker(docker)) => {
                let options = docker.options(sandbox, mounts);
                let root = &docker.workspace;
                Self::Remote(RemoteWorkspace::container(backend, options, root))
            }
            None => Self::local(settings),
        }
    }

    /// The directory on this machine, for commands that look at rules and tools and touch no files.
    pub fn local(settings: &Settings) -> Self {
        Self::Local {
            root: settings.places.workspace.clone(),
            options: Box::new(local_options(settings)),
        }
    }
}

/// Opens a directory on this machine.
pub fn open_local(root: &Path, options: LocalOptions) -> Result<LocalBackend, HostError> {
    open(root, options)
}

/// The options of the workspace on this machine, including how its commands are confined.
pub fn local_options(settings: &Settings) -> LocalOptions {
    LocalOptions {
        cross_mounts: cross_mounts(settings),
        user: settings.places.user.as_str().to_owned(),
        environment: settings.sandbox.env.clone(),
        sandbox: sandbox_options(settings),
        changes: settings
            .undo
            .options(ChangeOptions::new(&settings.places.data_dir)),
        ..LocalOptions::default()
    }
}

fn cross_mounts(settings: &Settings) -> Mounts {
    if settings.cross_mounts {
        Mounts::Cross
    } else {
        Mounts::Refuse
    }
}

/// How commands are confined.
pub fn sandbox_options(settings: &Settings) -> SandboxOptions {
    let mut limits = Limits::for_this_machine();
    settings.sandbox.apply(&mut limits);
    let (home, toolchain_homes) = match &settings.sandbox.home {
        Some(Home::Off) => (None, BTreeMap::new()),
        Some(Home::At(home)) => (Some(home.clone()), BTreeMap::new()),
        None => (
            settings.places.home.clone(),
            settings.places.toolchains.clone(),
        ),
    };
    SandboxOptions {
        helper: Helper::CurrentExecutable,
        profile: Profile {
            home,
            toolchain_homes,
            search: [&*settings.sandbox.path, &*env::search_path()].concat(),
            read_only: settings.sandbox.read_only.clone(),
            writable: settings.sandbox.writable.clone(),
        },
        limits,
        masks: settings.sandbox.masks.limits(),
        cgroup: settings.sandbox.cgroup.clone().unwrap_or_default(),
        quarantine: Some(settings.places.data_dir.join("quarantine")),
        runtime: settings.places.runtime.clone(),
        ..SandboxOptions::default()
    }
}
