//! The workspace that calls work in: a directory on this machine, one on another machine or in a
//! container (`remote_workspace.rs`), or any back end that an embedder opened.

#[cfg(feature = "settings")]
mod of_settings;

use std::path::{Path, PathBuf};

use haft_contract::{TenantId, ops::Operations};

#[cfg(feature = "settings")]
pub use self::of_settings::{local_options, open_local, sandbox_options};
#[cfg(feature = "sandbox")]
use crate::remote_workspace::RemoteWorkspace;
use crate::{
    directory::{Directory, DirectoryOptions},
    error::HostError,
    hosted_workspaces::Hosting,
    tenant_directories::TenantDirectory,
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
        options: Box<DirectoryOptions>,
    },
    /// A directory on another machine or in a container.
    #[cfg(feature = "sandbox")]
    Remote(RemoteWorkspace),
    /// A back end that is already open.
    Opened(Operations),
    /// None: a program adds workspaces once the host is open.
    None {
        /// The back end's options.
        options: Box<DirectoryOptions>,
    },
}

/// What a host without a workspace of its own opens to learn what this machine has. Calls never
/// work in it.
const NOWHERE: &str = "/proc";

impl WorkspaceSource {
    /// Opens it, connecting to where it is.
    pub async fn open(self) -> Result<Operations, HostError> {
        let (operations, _) = self
            .open_to_host(None, &TenantId::local(), WebAccess::default())
            .await?;
        Ok(operations)
    }

    /// Opens it, with what others beside it are opened with: these options, unless it is on this
    /// machine and has its own. Without either there are no others. The tenant is whose it is.
    #[cfg_attr(
        not(feature = "sandbox"),
        expect(
            clippy::unused_async,
            reason = "only connecting to another place waits"
        )
    )]
    pub(crate) async fn open_to_host(
        self,
        beside: Option<Box<DirectoryOptions>>,
        tenant: &TenantId,
        web: WebAccess,
    ) -> Result<(Operations, Option<Hosting>), HostError> {
        #[cfg(not(feature = "sandbox"))]
        drop(beside);
        let (mut operations, local) = match self {
            Self::Local { root, options } => {
                let directory = Directory::open_root(&root, *options)?;
                let own = TenantDirectory::here(&directory, tenant);
                (directory.operations(), Some((directory, Some(own))))
            }
            Self::None { options } => {
                let directory = Directory::open_root(Path::new(NOWHERE), *options)?;
                (directory.operations(), Some((directory, None)))
            }
            #[cfg(feature = "sandbox")]
            Self::Remote(remote) => {
                let operations = remote.connect().await?;
                let own = TenantDirectory::elsewhere(&operations.backend, &operations.root, tenant);
                let beside =
                    beside.map(|options| Directory::open_root(Path::new(NOWHERE), *options));
                let beside = beside.transpose()?;
                (operations, beside.map(|directory| (directory, Some(own))))
            }
            Self::Opened(operations) => return Ok((operations, None)),
        };
        web.open_to(tenant, &mut operations.world);
        let hosting = local.map(|(directory, own)| Hosting {
            directory,
            web,
            tenant: tenant.clone(),
            own,
        });
        Ok((operations, hosting))
    }
}
