//! A workspace on another machine or in a container, not connected to yet. It comes from
//! `[ssh.NAME]` and `[docker.NAME]` of `haft.toml`, or from an embedder's code.

use haft_backends::{
    container::{ContainerBackend, ContainerOptions, backend_id},
    remote::ConnectError,
    ssh::{SshBackend, SshOptions, ssh_id},
};
use haft_contract::ops::{BackendId, Operations};

use crate::{
    config::backends::{BackendKind, BackendName},
    error::{HostError, HostErrorKind},
};

/// A directory that is not on this machine, and how to reach it.
#[derive(Debug, Clone, PartialEq)]
pub struct RemoteWorkspace {
    backend: BackendName,
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
    pub(crate) fn ssh(backend: BackendName, options: SshOptions, root: &str) -> Self {
        Self::configured(backend, Reached::Ssh(Box::new(options)), root)
    }

    /// A directory in a container, as a configuration names it.
    pub(crate) fn container(backend: BackendName, options: ContainerOptions, root: &str) -> Self {
        Self::configured(backend, Reached::Container(Box::new(options)), root)
    }

    fn configured(backend: BackendName, reached: Reached, root: &str) -> Self {
        let table = backend.table().unwrap_or_default();
        Self {
            correct: format!("correct {table} in haft.toml, or try again"),
            backend,
            reached,
            root: root.to_owned(),
        }
    }

    /// A directory on another machine, from code. A name tells back ends at one address apart.
    pub fn over_ssh(
        name: Option<&str>,
        options: SshOptions,
        root: &str,
    ) -> Result<Self, HostError> {
        let reached = Reached::Ssh(Box::new(options));
        Self::in_code(BackendKind::Ssh, name, reached, root)
    }

    /// A directory in a running container, from code. A name tells back ends at one address apart.
    pub fn in_container(
        name: Option<&str>,
        options: ContainerOptions,
        root: &str,
    ) -> Result<Self, HostError> {
        let reached = Reached::Container(Box::new(options));
        Self::in_code(BackendKind::Docker, name, reached, root)
    }

    fn in_code(
        kind: BackendKind,
        name: Option<&str>,
        reached: Reached,
        root: &str,
    ) -> Result<Self, HostError> {
        let backend = match name {
            None => BackendName::Plain(kind),
            Some(name) => BackendName::named(kind, name).ok_or_else(|| {
                HostError::new(
                    HostErrorKind::Invalid,
                    format!("`{}` is not a name of a back end", name.escape_debug()),
                    "use letters, digits, `-` and `_`, 64 at most",
                )
            })?,
        };
        Ok(Self {
            backend,
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
    pub(crate) fn backend(&self) -> BackendId {
        let address = match &self.reached {
            Reached::Ssh(options) => ssh_id(&options.destination),
            Reached::Container(options) => backend_id(&options.container),
        };
        self.backend.id_at(&address)
    }

    /// Connects and opens it. Its back end has the name it was given, so that it is never taken for
    /// another one at the same address.
    pub(crate) async fn connect(self) -> Result<Operations, HostError> {
        let backend = self.backend();
        let connected = match self.reached {
            Reached::Ssh(options) => Box::pin(SshBackend::connect(*options, &self.root)).await,
            Reached::Container(options) => {
                Box::pin(ContainerBackend::connect(*options, &self.root)).await
            }
        };
        let mut operations = connected.map_err(|error: ConnectError| {
            let hint = error.hint_text().unwrap_or(&self.correct);
            HostError::new(HostErrorKind::Unavailable, error.message(), hint)
        })?;
        operations.backend = backend;
        Ok(operations)
    }
}
