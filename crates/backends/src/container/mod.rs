//! A workspace in a running container, through the command line of Docker or Podman.
//!
//! `docker exec` starts Haft's own helper (`remote/`) in the container, which is brought there once
//! (`upload.rs`); its streams are the connection. The command line is constant: the operator's
//! container and user and a hash, never a shell, no path, argument or byte of a call. The container
//! comes from configuration alone and is neither started nor changed otherwise. Must not fall back
//! to anything less: no helper, no workspace.

mod connect;
mod destination;
pub mod development;
mod diagnose;
pub(crate) mod install;
mod options;
mod program;
mod upload;

use std::sync::Arc;

use haft_contract::ops::{BackendId, Operations};

use self::connect::ContainerPlace;
pub use self::{
    destination::{ContainerName, ContainerNameError, ContainerUser},
    options::{ContainerOptions, ContainerProgram},
};
use crate::{
    client_program::ProgramConnect,
    remote::{ConnectError, RemoteBackend},
};

/// A workspace in a container.
#[derive(Debug, Clone, Copy)]
pub struct ContainerBackend;

impl ContainerBackend {
    /// Connects and opens a workspace. The root is an absolute path in the container.
    pub async fn connect(
        options: ContainerOptions,
        root: &str,
    ) -> Result<Operations, ConnectError> {
        if !root.starts_with('/') {
            return Err(ConnectError::new(format!(
                "`{}` is not an absolute path in the container",
                root.escape_debug()
            ))
            .hint("write the workspace's path as the container sees it, such as \"/workspace\""));
        }
        let backend = BackendId::new(&backend_id(&options.container));
        let remote = options.remote.clone();
        let connect = ProgramConnect::new(ContainerPlace(options)).await?;
        RemoteBackend::connect(backend, Arc::new(connect), root, remote).await
    }
}

/// What a container's back end is called in plans and in the record, whichever program reaches it.
pub fn backend_id(container: &ContainerName) -> String {
    format!("docker:{container}")
}
