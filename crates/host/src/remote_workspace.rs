//! A workspace on another machine or in a container, not connected to yet. It comes from
//! `[ssh.NAME]` and `[docker.NAME]` of `haft.toml`, or from an embedder's code.

use std::{path::Path, sync::Arc};

use haft_backends::{
    container::{ContainerBackend, ContainerOptions, backend_id},
    remote::ConnectError,
    ssh::{SshOptions, ssh_id},
};
use haft_contract::ops::{BackendId, Operations};
use haft_sandbox::{helper::Helper, reader::ConfinedReader};

#[cfg(feature = "settings")]
use crate::config::backends::BackendName;
use crate::error::{HostError, HostErrorKind};

/// The longest name of a back end.
const MAX_NAME_BYTES: usize = 64;

/// Whether a back end may have this name.
pub(crate) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !text.is_empty() && text.len() <= MAX_NAME_BYTES && text.chars().all(plain)
}

/// The id of a back end in plans and in the record. A name is part of it, so that back ends at one
/// address (other ports, other users) share no grant and no lock. No address has a `#`.
pub(crate) fn id_at(address: &str, name: Option<&str>) -> BackendId {
    match name {
        None => BackendId::new(address),
        Some(name) => BackendId::new(&format!("{address}#{name}")),
    }
}

/// A directory that is not on this machine, and how to reach it.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteWorkspace {
    backend: BackendId,
    reached: Reached,
    root: String,
    /// What to correct where it cannot be reached.
    correct: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Reached {
    Ssh(Box<SshOptions>),
    Container(Box<ContainerOptions>),
}

impl RemoteWorkspace {
    /// A directory on another machine, as a configuration names it.
    #[cfg(feature = "settings")]
    pub(crate) fn ssh(backend: &BackendName, options: SshOptions, root: &str) -> Self {
        Self::configured(backend, Reached::Ssh(Box::new(options)), root)
    }

    /// A directory in a container, as a configuration names it.
    #[cfg(feature = "settings")]
    pub(crate) fn container(backend: &BackendName, options: ContainerOptions, root: &str) -> Self {
        Self::configured(backend, Reached::Container(Box::new(options)), root)
    }

    #[cfg(feature = "settings")]
    fn configured(backend: &BackendName, reached: Reached, root: &str) -> Self {
        let table = backend.table().unwrap_or_default();
        Self {
            backend: id_at(&reached.address(), backend.name()),
            reached,
            root: root.to_owned(),
            correct: format!("correct {table} in haft.toml, or try again"),
        }
    }

    /// A directory on another machine, from code. A name tells back ends at one address apart.
    pub fn over_ssh(
        name: Option<&str>,
        options: SshOptions,
        root: &str,
    ) -> Result<Self, HostError> {
        let reached = Reached::Ssh(Box::new(options));
        Self::in_code(name, reached, root)
    }

    /// A directory in a running container, from code. A name tells back ends at one address apart.
    pub fn in_container(
        name: Option<&str>,
        options: ContainerOptions,
        root: &str,
    ) -> Result<Self, HostError> {
        let reached = Reached::Container(Box::new(options));
        Self::in_code(name, reached, root)
    }

    fn in_code(name: Option<&str>, reached: Reached, root: &str) -> Result<Self, HostError> {
        if let Some(name) = name.filter(|name| !is_name(name)) {
            return Err(HostError::new(
                HostErrorKind::Invalid,
                format!("`{}` is not a name of a back end", name.escape_debug()),
                "use letters, digits, `-` and `_`, 64 at most",
            ));
        }
        Ok(Self {
            backend: id_at(&reached.address(), name),
            reached,
            root: root.to_owned(),
            correct: "correct the address or the options in the program, or try again".to_owned(),
        })
    }

    /// The directory over there, as written.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Its back end, as plans and the record name it.
    pub(crate) fn backend(&self) -> &BackendId {
        &self.backend
    }

    /// Connects and opens it. Its back end has the name it was given, so that it is never taken for
    /// another one at the same address.
    pub(crate) async fn connect(self) -> Result<Operations, HostError> {
        let connected = match self.reached {
            Reached::Ssh(options) => Box::pin(over_ssh(*options, &self.root)).await,
            Reached::Container(options) => {
                Box::pin(ContainerBackend::connect(*options, &self.root)).await
            }
        };
        let mut operations = connected.map_err(|error: ConnectError| {
            let hint = error.hint_text().unwrap_or(&self.correct);
            HostError::new(HostErrorKind::Unavailable, error.message(), hint)
        })?;
        operations.backend = self.backend;
        // What tools fetched is read here, wherever they work.
        let reader = ConfinedReader::new(Helper::default(), Path::new("/proc"));
        operations.world.documents = Arc::new(reader);
        Ok(operations)
    }
}

impl Reached {
    fn address(&self) -> String {
        match self {
            Self::Ssh(options) => ssh_id(&options.destination),
            Self::Container(options) => backend_id(&options.container),
        }
    }
}

#[cfg(feature = "ssh")]
async fn over_ssh(options: SshOptions, root: &str) -> Result<Operations, ConnectError> {
    haft_backends::ssh::SshBackend::connect(options, root).await
}

#[cfg(not(feature = "ssh"))]
#[expect(clippy::unused_async, reason = "as with the feature, which waits")]
async fn over_ssh(_: SshOptions, _: &str) -> Result<Operations, ConnectError> {
    Err(ConnectError::new(
        "this program was built without the feature `ssh`",
    ))
}
