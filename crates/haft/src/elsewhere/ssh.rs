//! A directory on another machine, over SSH.

use std::{path::PathBuf, time::Duration};

use haft_backends::{
    remote::RemoteOptions,
    ssh::{Destination, SshOptions},
};
use haft_host::{HostError, RemoteWorkspace};
use haft_sandbox::helper::Helper;

use super::{CommonOptions, wrong};

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

    pub(super) fn check(self) -> Result<RemoteWorkspace, HostError> {
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
