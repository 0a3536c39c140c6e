//! A directory in a running container.

use std::{path::PathBuf, time::Duration};

use haft_backends::{
    container::{ContainerName, ContainerOptions, ContainerProgram, ContainerUser},
    remote::RemoteOptions,
};
use haft_host::{HostError, RemoteWorkspace};
use haft_sandbox::helper::Helper;

use super::{CommonOptions, wrong};

/// A directory in a running container. Rules, record and approvals stay here; only what tools touch
/// is there, done by a helper that is brought there once. Haft starts and stops no container.
///
/// ```no_run
/// use haft::{Container, prelude::*};
///
/// # async fn work(host: Host) -> Result<(), Box<dyn std::error::Error>> {
/// let haft = host.workspace(Container::podman("web", "/app")).tenant("acme").haft()?;
/// let listed = haft.call("list", json!({"path": "."})).await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is connected before it is opened"]
pub struct Container {
    target: String,
    root: String,
    name: Option<String>,
    program: ContainerProgram,
    user: Option<String>,
    common: CommonOptions,
}

impl Container {
    /// A directory, by its absolute path, in a container that Docker runs, by its name or id.
    pub fn docker(container: impl Into<String>, root: impl Into<String>) -> Self {
        Self::by(ContainerProgram::Docker, container.into(), root.into())
    }

    /// A directory, by its absolute path, in a container that Podman runs, by its name or id.
    pub fn podman(container: impl Into<String>, root: impl Into<String>) -> Self {
        Self::by(ContainerProgram::Podman, container.into(), root.into())
    }

    fn by(program: ContainerProgram, container: String, root: String) -> Self {
        Self {
            target: container,
            root,
            name: None,
            program,
            user: None,
            common: CommonOptions::default(),
        }
    }

    /// What this back end is called in plans and in the record, after the container: what
    /// `[docker.NAME]` is in `haft.toml`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// A program with the command line of Docker or Podman, by its absolute path.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = ContainerProgram::At(path.into());
        self
    }

    /// As whom files are touched and commands run, as `docker exec --user` knows it.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// How long it may take until the helper in the container answers; 30 seconds if not said.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.common.connect_timeout = Some(timeout);
        self
    }

    /// The program to bring there, which then serves; by default this program, if it calls
    /// [`helper::exit_if_asked`](crate::helper::exit_if_asked), or one that is installed.
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.common.helper = Helper::Path(program.into());
        self
    }

    /// How the workspace behaves there: variables, limits, what commands see.
    pub fn remote(mut self, options: RemoteOptions) -> Self {
        self.common.remote = options;
        self
    }

    pub(super) fn check(self) -> Result<RemoteWorkspace, HostError> {
        let hint = "write it as `docker ps` and `docker exec --user` know it";
        let container = ContainerName::parse(&self.target);
        let container = container.map_err(|error| wrong(&error, hint))?;
        let user = self.user.as_deref().map(ContainerUser::parse).transpose();
        let mut options = ContainerOptions::new(container);
        options.user = user.map_err(|error| wrong(&error, hint))?;
        options.program = self.program;
        options.connect_timeout = self.common.timeout_or(options.connect_timeout);
        options.helper = self.common.helper;
        options.remote = self.common.remote;
        RemoteWorkspace::in_container(self.name.as_deref(), options, &self.root)
    }
}
