//! Where a workspace is: a directory on this machine, on another one over SSH, or in a container.
//!
//! Each place is a type of its own and never part of a path: a text that means a path or a machine,
//! depending on what is in it, would let a directory's name decide where calls go.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use haft_backends::{
    container::{ContainerName, ContainerOptions, ContainerProgram, ContainerUser},
    remote::RemoteOptions,
    ssh::{Destination, SshOptions},
};
use haft_host::{HostError, HostErrorKind, RemoteWorkspace};
use haft_sandbox::helper::Helper;

/// Where a workspace is. A path is a directory on this machine; [`Ssh`] and [`Container`] are others.
#[derive(Debug, Clone)]
pub struct WorkspaceLocation(Location);

#[derive(Debug, Clone)]
enum Location {
    Directory(PathBuf),
    Ssh(Box<Ssh>),
    Container(Box<Container>),
}

/// What has been checked of a [`WorkspaceLocation`].
pub(crate) enum CheckedLocation {
    Directory(PathBuf),
    Remote(RemoteWorkspace),
}

impl WorkspaceLocation {
    /// Reports what was said wrongly of it.
    pub(crate) fn check(self) -> Result<CheckedLocation, HostError> {
        match self.0 {
            Location::Directory(root) => Ok(CheckedLocation::Directory(root)),
            Location::Ssh(ssh) => ssh.check().map(CheckedLocation::Remote),
            Location::Container(container) => container.check().map(CheckedLocation::Remote),
        }
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for WorkspaceLocation {
    fn from(directory: &P) -> Self {
        Self::from(directory.as_ref().to_owned())
    }
}

impl From<PathBuf> for WorkspaceLocation {
    fn from(directory: PathBuf) -> Self {
        Self(Location::Directory(directory))
    }
}

impl From<String> for WorkspaceLocation {
    fn from(directory: String) -> Self {
        Self::from(PathBuf::from(directory))
    }
}

impl From<Ssh> for WorkspaceLocation {
    fn from(ssh: Ssh) -> Self {
        Self(Location::Ssh(Box::new(ssh)))
    }
}

impl From<Container> for WorkspaceLocation {
    fn from(container: Container) -> Self {
        Self(Location::Container(Box::new(container)))
    }
}

/// A directory on another machine, over the user's own `ssh`: `~/.ssh/config`, the agent and jump
/// hosts work, and a host key that is not known is never accepted. Rules, record and approvals stay
/// here; only what tools touch is there, done by a helper that is brought there once.
///
/// ```no_run
/// use haft::{Ssh, prelude::*};
///
/// # async fn work() -> Result<(), Box<dyn std::error::Error>> {
/// let haft = Haft::open(Ssh::new("ada@build.example.com", "~/src/app")).build().await?;
/// let listed = haft.call("list", json!({"path": "."})).await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is connected before it is opened"]
pub struct Ssh {
    destination: String,
    root: String,
    name: Option<String>,
    port: Option<u16>,
    identity_file: Option<PathBuf>,
    known_hosts_file: Option<PathBuf>,
    config_file: Option<PathBuf>,
    common: CommonOptions,
}

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
    container: String,
    root: String,
    name: Option<String>,
    program: ContainerProgram,
    user: Option<String>,
    common: CommonOptions,
}

/// What both kinds have.
#[derive(Debug, Clone, Default)]
struct CommonOptions {
    connect_timeout: Option<Duration>,
    helper: Helper,
    remote: RemoteOptions,
}

impl Ssh {
    /// A directory on a machine: `host` or `user@host`, where the host may be an alias of the user's
    /// SSH configuration. A directory that does not begin with `/` lies below the one that a login
    /// starts in; a [`Host`](crate::Host) needs an absolute one.
    pub fn new(destination: impl Into<String>, root: impl Into<String>) -> Self {
        Self {
            destination: destination.into(),
            root: root.into(),
            name: None,
            port: None,
            identity_file: None,
            known_hosts_file: None,
            config_file: None,
            common: CommonOptions::default(),
        }
    }

    /// What this back end is called in plans and in the record, after the machine. It tells back ends
    /// at one address apart, such as two ports, and is what `[ssh.NAME]` is in `haft.toml`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The port, if it is not the usual or the configuration's.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The only key to offer, by its absolute path, instead of the agent's and the usual ones.
    pub fn identity_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.identity_file = Some(path.into());
        self
    }

    /// Where host keys are looked up, instead of the usual files.
    pub fn known_hosts_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.known_hosts_file = Some(path.into());
        self
    }

    /// The SSH configuration to read, instead of the usual files.
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config_file = Some(path.into());
        self
    }

    /// How long connecting may take; 15 seconds if not said.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.common.connect_timeout = Some(timeout);
        self
    }

    /// The program to bring there, which then serves. The default is this program if it calls
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

    fn check(self) -> Result<RemoteWorkspace, HostError> {
        let destination = Destination::parse(&self.destination);
        let mut options = SshOptions::new(destination.map_err(|error| {
            wrong(
                &error,
                "write `host` or `user@host`; a port is given with `port`",
            )
        })?);
        options.port = self.port;
        options.identity_file = self.identity_file;
        options.known_hosts_file = self.known_hosts_file;
        options.config_file = self.config_file;
        options.connect_timeout = self.common.timeout_or(options.connect_timeout);
        options.helper = self.common.helper;
        options.remote = self.common.remote;
        RemoteWorkspace::over_ssh(self.name.as_deref(), options, &self.root)
    }
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
            container,
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

    /// The program to bring there, which then serves; see [`Ssh::helper`].
    pub fn helper(mut self, program: impl Into<PathBuf>) -> Self {
        self.common.helper = Helper::Path(program.into());
        self
    }

    /// How the workspace behaves there: variables, limits, what commands see.
    pub fn remote(mut self, options: RemoteOptions) -> Self {
        self.common.remote = options;
        self
    }

    fn check(self) -> Result<RemoteWorkspace, HostError> {
        let hint = "write it as `docker ps` and `docker exec --user` know it";
        let container = ContainerName::parse(&self.container);
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

impl CommonOptions {
    fn timeout_or(&self, usual: Duration) -> Duration {
        self.connect_timeout.unwrap_or(usual)
    }
}

fn wrong(error: &dyn std::error::Error, hint: &str) -> HostError {
    HostError::new(HostErrorKind::Invalid, error.to_string(), hint)
}
