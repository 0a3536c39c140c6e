//! Where a workspace is: a directory on this machine, on another one over SSH, or in a container.
//!
//! Each place is a type of its own and never part of a path: a text that means a path or a machine,
//! depending on what is in it, would let a directory's name decide where calls go.

#[cfg(feature = "containers")]
mod container;
#[cfg(feature = "ssh")]
mod ssh;

use std::path::{Path, PathBuf};
#[cfg(any(feature = "containers", feature = "ssh"))]
use std::time::Duration;

#[cfg(any(feature = "containers", feature = "ssh"))]
use haft_backends::remote::RemoteOptions;
use haft_host::HostError;
#[cfg(any(feature = "containers", feature = "ssh"))]
use haft_host::{HostErrorKind, RemoteWorkspace};
#[cfg(any(feature = "containers", feature = "ssh"))]
use haft_sandbox::helper::Helper;

#[cfg(feature = "containers")]
pub use self::container::Container;
#[cfg(feature = "ssh")]
pub use self::ssh::Ssh;

/// Where a workspace is. A path is a directory on this machine; `Ssh` and `Container` are others.
#[derive(Debug, Clone)]
pub struct WorkspaceLocation(Location);

#[derive(Debug, Clone)]
enum Location {
    Directory(PathBuf),
    #[cfg(feature = "ssh")]
    Ssh(Box<Ssh>),
    #[cfg(feature = "containers")]
    Container(Box<Container>),
}

/// What has been checked of a [`WorkspaceLocation`].
pub(crate) enum CheckedLocation {
    Directory(PathBuf),
    #[cfg(any(feature = "containers", feature = "ssh"))]
    Remote(RemoteWorkspace),
}

impl WorkspaceLocation {
    /// Reports what was said wrongly of it.
    #[cfg_attr(
        not(any(feature = "containers", feature = "ssh")),
        expect(
            clippy::unnecessary_wraps,
            reason = "only a place elsewhere can be wrong"
        )
    )]
    pub(crate) fn check(self) -> Result<CheckedLocation, HostError> {
        match self.0 {
            Location::Directory(root) => Ok(CheckedLocation::Directory(root)),
            #[cfg(feature = "ssh")]
            Location::Ssh(ssh) => ssh.check().map(CheckedLocation::Remote),
            #[cfg(feature = "containers")]
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

#[cfg(feature = "ssh")]
impl From<Ssh> for WorkspaceLocation {
    fn from(ssh: Ssh) -> Self {
        Self(Location::Ssh(Box::new(ssh)))
    }
}

#[cfg(feature = "containers")]
impl From<Container> for WorkspaceLocation {
    fn from(container: Container) -> Self {
        Self(Location::Container(Box::new(container)))
    }
}

/// What both kinds have.
#[cfg(any(feature = "containers", feature = "ssh"))]
#[derive(Debug, Clone, Default)]
struct CommonOptions {
    connect_timeout: Option<Duration>,
    helper: Helper,
    remote: RemoteOptions,
}

#[cfg(any(feature = "containers", feature = "ssh"))]
impl CommonOptions {
    fn timeout_or(&self, usual: Duration) -> Duration {
        self.connect_timeout.unwrap_or(usual)
    }
}

#[cfg(any(feature = "containers", feature = "ssh"))]
fn wrong(error: &dyn std::error::Error, hint: &str) -> HostError {
    HostError::new(HostErrorKind::Invalid, error.to_string(), hint)
}
