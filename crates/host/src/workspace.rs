//! The workspace that calls work in: a directory on this machine, one on another machine over SSH,
//! one in a container, or any back end that an embedder opened.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use haft_backends::{
    ChangeOptions, LocalBackend, LocalOptions,
    container::{ContainerBackend, ContainerOptions},
    remote::ConnectError,
    ssh::{SshBackend, SshOptions},
};
use haft_contract::{TenantId, ops::Operations, surface::NextStep};
use haft_sandbox::{Limits, Profile, SandboxOptions, helper::Helper, jail::Mounts};

use crate::{
    config::{
        Settings,
        backends::{BackendName, Elsewhere},
        env,
        sandbox::Home,
    },
    error::{HostError, HostErrorKind, chain},
    hosted_workspaces::Hosting,
    web::WebAccess,
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
    /// A directory on another machine.
    Ssh {
        /// The back end's name in the configuration.
        backend: BackendName,
        /// How to connect.
        options: Box<SshOptions>,
        /// The directory on that machine.
        root: String,
    },
    /// A directory in a container.
    Container {
        /// The back end's name in the configuration.
        backend: BackendName,
        /// How to reach it.
        options: Box<ContainerOptions>,
        /// The directory in the container.
        root: String,
    },
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
        let backend = backend.clone();
        match elsewhere {
            Some(Elsewhere::Ssh(ssh)) => Self::Ssh {
                backend,
                options: Box::new(ssh.options(sandbox, mounts)),
                root: ssh.root.clone(),
            },
            Some(Elsewhere::Docker(docker)) => Self::Container {
                backend,
                options: Box::new(docker.options(sandbox, mounts)),
                root: docker.workspace.clone(),
            },
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
        let (operations, _) = self.open_to_host(WebAccess::default()).await?;
        Ok(operations)
    }

    /// Opens it, with what others beside it are opened with, if it is on this machine.
    pub(crate) async fn open_to_host(
        self,
        web: WebAccess,
    ) -> Result<(Operations, Option<Hosting>), HostError> {
        let mut local = None;
        let (mut helper, mut directory) = (Helper::default(), PathBuf::from(NOWHERE));
        let mut operations = match self {
            Self::Local { root, options } => {
                helper.clone_from(&options.sandbox.helper);
                directory.clone_from(&root);
                let backend = open_local(&root, *options)?;
                let operations = backend.operations();
                local = Some((backend, true));
                operations
            }
            Self::None { options } => {
                helper.clone_from(&options.sandbox.helper);
                let backend = open_local(Path::new(NOWHERE), *options)?;
                let operations = backend.operations();
                local = Some((backend, false));
                operations
            }
            Self::Ssh {
                backend,
                options,
                root,
            } => {
                let connected = Box::pin(SshBackend::connect(*options, &root)).await;
                named(connected, &backend)?
            }
            Self::Container {
                backend,
                options,
                root,
            } => {
                let connected = Box::pin(ContainerBackend::connect(*options, &root)).await;
                named(connected, &backend)?
            }
            Self::Opened(operations) => return Ok((operations, None)),
        };
        let tenant = TenantId::local();
        web.add_to(&mut operations.world, &tenant, helper.clone(), &directory);
        let hosting = local.map(|(backend, has_own)| Hosting {
            backend,
            web,
            helper,
            has_own,
        });
        Ok((operations, hosting))
    }
}

/// A connected workspace with the name of its back end, so that it is never taken for that of
/// another one at the same address.
fn named(
    connected: Result<Operations, ConnectError>,
    backend: &BackendName,
) -> Result<Operations, HostError> {
    let mut operations = connected.map_err(|error| {
        let table = backend.table().unwrap_or_default();
        let again = format!("correct {table} in haft.toml, or try again");
        let hint = error.hint_text().unwrap_or(&again);
        HostError::new(HostErrorKind::Unavailable, error.message(), hint)
    })?;
    operations.backend = backend.id_at(operations.backend.as_str());
    Ok(operations)
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
