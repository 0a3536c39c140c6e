//! The workspace that calls work in: a directory on this machine, one on another machine or in a
//! container (`remote_workspace.rs`), or any back end that an embedder opened.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use haft_backends::{ChangeOptions, LocalBackend, LocalOptions};
use haft_contract::{ops::Operations, surface::NextStep};
use haft_egress::{AdmissionScope, Network, OwnHosts, SystemResolver};
use haft_sandbox::{Limits, Profile, SandboxOptions, helper::Helper, jail::Mounts};

use crate::{
    config::{
        Settings,
        backends::{BackendName, Elsewhere},
        env,
        sandbox::Home,
    },
    error::{HostError, chain},
    hosted_workspaces::Hosting,
    remote_workspace::RemoteWorkspace,
};

/// Where the workspace is.
#[derive(Debug, Clone)]
pub enum WorkspaceSource {
    /// A directory on this machine.
    Local {
        /// The directory.
        root: PathBuf,
        /// The back end's options.
        options: Box<LocalOptions>,
    },
    /// A directory on another machine or in a container.
    Remote(RemoteWorkspace),
    /// A back end that is already open.
    Opened(Operations),
    /// None: a program adds workspaces once the host is open.
    None {
        /// The back end's options.
        options: Box<LocalOptions>,
    },
}

/// What a host without a workspace of its own opens to learn what this machine has. Calls never
/// work in it.
const NOWHERE: &str = "/proc";

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
                Self::Remote(RemoteWorkspace::ssh(backend.clone(), options, &ssh.root))
            }
            Some(Elsewhere::Docker(docker)) => {
                let options = docker.options(sandbox, mounts);
                let root = &docker.workspace;
                Self::Remote(RemoteWorkspace::container(backend.clone(), options, root))
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

    /// Opens it, connecting to where it is.
    pub async fn open(self) -> Result<Operations, HostError> {
        let (operations, _) = self.open_to_host(None).await?;
        Ok(operations)
    }

    /// Opens it, with what others beside it are opened with: these options, unless it is on this
    /// machine and has its own. Without either there are no others.
    pub(crate) async fn open_to_host(
        self,
        beside: Option<Box<LocalOptions>>,
    ) -> Result<(Operations, Option<Hosting>), HostError> {
        let mut local = None;
        let mut operations = match self {
            Self::Local { root, options } => {
                let backend = open_local(&root, *options)?;
                let operations = backend.operations();
                local = Some((backend, true));
                operations
            }
            Self::None { options } => {
                let backend = open_local(Path::new(NOWHERE), *options)?;
                let operations = backend.operations();
                local = Some((backend, false));
                operations
            }
            Self::Remote(remote) => {
                let operations = remote.connect().await?;
                if let Some(options) = beside {
                    local = Some((open_local(Path::new(NOWHERE), *options)?, true));
                }
                operations
            }
            Self::Opened(operations) => return Ok((operations, None)),
        };
        // Hosts that rules let a tool reach by name must be public. If a public name resolves to a
        // private address, that is not what was allowed.
        let reach = AdmissionScope::Public(OwnHosts::default());
        let network = Arc::new(Network::new(reach, Arc::new(SystemResolver::default())));
        operations.world.net = Arc::<Network>::clone(&network);
        let hosting = local.map(|(backend, has_own)| Hosting {
            backend,
            net: network,
            has_own,
        });
        Ok((operations, hosting))
    }
}

/// Opens a directory on this machine.
pub fn open_local(root: &Path, options: LocalOptions) -> Result<LocalBackend, HostError> {
    LocalBackend::open(root, options)
        .map_err(|error| HostError::config(chain(&error), NextStep::NameWorkspace.words()))
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
