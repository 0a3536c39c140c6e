//! The workspaces that a program adds to a running host, each a directory of one tenant, here, on
//! another machine or in a container. They share the host's tools, rules, approver, mounted servers
//! and record.
//!
//! A workspace that nobody uses is a row of a table: its path, its tenant, and which directory it
//! was or how to reach it. It is opened by its first call, and only the last few that were used stay
//! open. A directory that was replaced in the meantime is not opened, nor one elsewhere that turns
//! out to be another than its path says: nobody could have checked whose that is.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_contract::{
    BoxFuture, Principal, TenantId, WorkspaceId,
    ops::{NetOps, Operations},
};
use haft_runtime::{Workspace, WorkspaceError, Workspaces};
use tokio::time::Instant;

#[cfg(feature = "sandbox")]
use crate::remote_workspace::RemoteWorkspace;
use crate::{
    directory::Directory,
    error::{HostError, HostErrorKind},
};

/// The most workspaces that are held open without a call. Each takes a descriptor, or a connection.
pub const MAX_OPEN_WORKSPACES: usize = 64;

/// The workspaces of a host.
pub(crate) struct HostedWorkspaces {
    /// What a request means that names no workspace, if anything.
    own: Option<Arc<Workspace>>,
    /// What the others are like.
    like: Arc<Workspace>,
    directory: Directory,
    net: Arc<dyn NetOps>,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// By their places, so that those around a directory are found.
    by_place: BTreeMap<Arc<str>, Arc<Registration>>,
    by_id: HashMap<WorkspaceId, WorkspaceEntry>,
    open: HashMap<WorkspaceId, OpenWorkspace>,
    /// Counts uses, to know which was longest ago.
    uses: u64,
}

/// What a host knows of a workspace.
#[derive(Debug, PartialEq)]
struct Registration {
    id: WorkspaceId,
    /// The root, and before it the back end if that is not this machine.
    place: Arc<str>,
    root: Arc<str>,
    tenant: TenantId,
    opened_by: OpeningMethod,
}

/// How a workspace is opened.
#[derive(Debug, PartialEq)]
enum OpeningMethod {
    /// On this machine, if its directory is still the one with this device and inode.
    Here((u64, u64)),
    /// By connecting to it.
    #[cfg(feature = "sandbox")]
    Remote(Box<RemoteWorkspace>),
}

/// A workspace and its handle. The handle is never upgraded and dropped while the table is locked,
/// because dropping the last one locks the table.
struct WorkspaceEntry {
    registered: Arc<Registration>,
    handle: Weak<HostedWorkspace>,
    opening: Arc<tokio::sync::Mutex<OpeningAttempt>>,
}

/// Held by whoever opens a workspace, so that calls that come at once connect once, and fail at once
/// where that fails.
#[derive(Debug, Default)]
struct OpeningAttempt {
    /// The last failure, and when it was.
    failed: Option<(Instant, WorkspaceError)>,
}

struct OpenWorkspace {
    workspace: Arc<Workspace>,
    used: u64,
}

/// A workspace that a program added to a host. Once the last clone of its handle is dropped, the host
/// forgets it.
pub struct HostedWorkspace {
    registered: Arc<Registration>,
    of: Weak<HostedWorkspaces>,
}

/// What a host opens workspaces with that a program adds.
pub(crate) struct Hosting {
    pub(crate) directory: Directory,
    pub(crate) net: Arc<dyn NetOps>,
    /// Whether the workspace that the host was opened with is one.
    pub(crate) has_own: bool,
}

impl Hosting {
    /// The workspaces of a host that was opened with this one.
    pub(crate) fn beside(self, first: Arc<Workspace>) -> Arc<HostedWorkspaces> {
        Arc::new(HostedWorkspaces {
            own: self.has_own.then(|| Arc::clone(&first)),
            like: first,
            directory: self.directory,
            net: self.net,
            table: Mutex::default(),
        })
    }
}

impl HostedWorkspaces {
    /// What the workspaces are like: their tools, their rules, who is asked.
    pub(crate) fn like(&self) -> &Arc<Workspace> {
        &self.like
    }

    /// Adds a directory as a workspace of this tenant, or finds it. Leaves nothing open.
    pub(crate) fn add(
        self: &Arc<Self>,
        root: &Path,
        tenant: &TenantId,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        let directory = self
            .directory
            .open_beside(root)
            .map_err(|why| HostError::config(why, "name a directory that exists"))?;
        let operations = directory.operations();
        self.register(Registration {
            id: operations.workspace_id(),
            place: Arc::clone(&operations.root),
            root: Arc::clone(&operations.root),
            tenant: tenant.clone(),
            opened_by: OpeningMethod::Here(directory.identity()),
        })
    }

    /// Adds a directory elsewhere as a workspace of this tenant, or finds it. Connects to nothing.
    #[cfg(feature = "sandbox")]
    pub(crate) fn add_remote(
        self: &Arc<Self>,
        remote: RemoteWorkspace,
        tenant: &TenantId,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        let (backend, root) = (remote.backend(), remote.root());
        if !root.starts_with('/') {
            return Err(HostError::config(
                format!("`{}` is not an absolute path", root.escape_debug()),
                "name the directory as the other machine sees it, such as `/srv/app`",
            ));
        }
        self.register(Registration {
            id: WorkspaceId::of_root(backend, root),
            place: format!("{backend}:{root}").into(),
            root: root.into(),
            tenant: tenant.clone(),
            opened_by: OpeningMethod::Remote(Box::new(remote)),
        })
    }

    fn register(
        self: &Arc<Self>,
        registered: Registration,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        let mut table = self.table();
        if let Some(known) = table.by_id.get(&registered.id)
            && *known.registered == registered
            && let Some(handle) = known.handle.upgrade()
        {
            return Ok(handle);
        }
        let is_anothers = |known: &Registration| known.tenant != registered.tenant;
        if table.around(&registered.place).any(is_anothers) {
            return Err(HostError::new(
                HostErrorKind::Refused,
                format!(
                    "`{}` is, lies in or contains a workspace of another tenant",
                    registered.place
                ),
                "give every tenant directories of its own",
            ));
        }
        if let Some(known) = table.by_id.get(&registered.id)
            && !matches!(registered.opened_by, OpeningMethod::Here(_))
            && known.registered.opened_by != registered.opened_by
            && known.handle.strong_count() > 0
        {
            return Err(HostError::new(
                HostErrorKind::Refused,
                format!(
                    "`{}` is a workspace that is reached in another way",
                    registered.place
                ),
                "give one of the two back ends a name, if they are not the same",
            ));
        }
        let registered = Arc::new(registered);
        let handle = Arc::new(HostedWorkspace {
            registered: Arc::clone(&registered),
            of: Arc::downgrade(self),
        });
        let closed = table.forget(&registered);
        let place = Arc::clone(&registered.place);
        table.by_place.insert(place, Arc::clone(&registered));
        let entry = WorkspaceEntry {
            registered: Arc::clone(&registered),
            handle: Arc::downgrade(&handle),
            opening: Arc::default(),
        };
        table.by_id.insert(registered.id.clone(), entry);
        drop(table);
        drop(closed);
        Ok(handle)
    }

    #[cfg_attr(
        not(feature = "sandbox"),
        expect(clippy::unused_async, reason = "a directory here is only found")
    )]
    async fn open_again(&self, known: &Registration) -> Result<Arc<Workspace>, WorkspaceError> {
        let unavailable = |why: &str| {
            WorkspaceError::unavailable(format!("the workspace cannot be opened: {why}"))
        };
        let mut operations: Operations = match &known.opened_by {
            OpeningMethod::Here(identity) => {
                let directory = self.directory.open_beside(Path::new(&*known.root));
                let directory = directory.map_err(|why| unavailable(&why))?;
                if directory.identity() != *identity {
                    return Err(unavailable("its directory was replaced by another one"));
                }
                directory.operations()
            }
            #[cfg(feature = "sandbox")]
            OpeningMethod::Remote(remote) => {
                let connected = RemoteWorkspace::clone(remote).connect().await;
                let operations = connected.map_err(|error| unavailable(&error.to_string()))?;
                if operations.root != known.root {
                    let why = format!(
                        "`{}` is `{}` over there, and has to be named so",
                        known.root, operations.root
                    );
                    return Err(unavailable(&why));
                }
                operations
            }
        };
        operations.world.net = Arc::clone(&self.net);
        Ok(self.like.over_for(operations, known.tenant.clone()))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while the lock is held, and the data would be consistent anyway.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The workspaces that are this directory, contain it, or lie in it.
    fn around(&self, place: &str) -> impl Iterator<Item = &Registration> {
        let above = Path::new(place).ancestors().filter_map(Path::to_str);
        let above = above.filter_map(|path| self.by_place.get(path));
        let inside = format!("{}/", place.trim_end_matches('/'));
        let first: Arc<str> = inside.as_str().into();
        let below = self.by_place.range(first..);
        let below = below.take_while(move |(path, _)| path.starts_with(&inside));
        above
            .chain(below.map(|(_, known)| known))
            .map(|known| &**known)
    }

    /// The workspace with this id, if it is this principal's.
    fn known_to(&self, principal: &Principal, id: &WorkspaceId) -> Option<&WorkspaceEntry> {
        let known = self.by_id.get(id)?;
        (known.registered.tenant == principal.tenant).then_some(known)
    }

    fn forget(&mut self, known: &Registration) -> Option<OpenWorkspace> {
        self.by_place.remove(&known.place);
        self.by_id.remove(&known.id);
        self.open.remove(&known.id)
    }

    fn used(&mut self, id: &WorkspaceId) -> Option<Arc<Workspace>> {
        self.uses += 1;
        let open = self.open.get_mut(id)?;
        open.used = self.uses;
        Some(Arc::clone(&open.workspace))
    }

    /// Keeps a workspace open, instead of the one that was used longest ago. What is returned is
    /// dropped where the table is not locked.
    fn keep(&mut self, workspace: Arc<Workspace>) -> Option<OpenWorkspace> {
        let is_full = self.open.len() >= MAX_OPEN_WORKSPACES;
        let oldest = self.open.iter().min_by_key(|(_, open)| open.used);
        let oldest = oldest.filter(|_| is_full).map(|(id, _)| id.clone());
        let closed = oldest.and_then(|id| self.open.remove(&id));
        self.uses += 1;
        let used = self.uses;
        let id = workspace.id().clone();
        self.open.insert(id, OpenWorkspace { workspace, used });
        closed
    }
}

impl Workspaces for HostedWorkspaces {
    fn opened(&self, principal: &Principal, id: &WorkspaceId) -> Option<Arc<Workspace>> {
        if let Some(own) = self.own.as_ref().filter(|own| own.is_meant_by(id)) {
            return Some(Arc::clone(own));
        }
        let mut table = self.table();
        table.known_to(principal, id)?;
        table.used(id)
    }

    fn open<'a>(
        &'a self,
        principal: &'a Principal,
        id: &'a WorkspaceId,
    ) -> BoxFuture<'a, Result<Arc<Workspace>, WorkspaceError>> {
        Box::pin(async move {
            if let Some(opened) = self.opened(principal, id) {
                return Ok(opened);
            }
            let (known, opening) = {
                let table = self.table();
                let known = table.known_to(principal, id);
                let known = known.ok_or_else(|| WorkspaceError::not_found(id))?;
                (Arc::clone(&known.registered), Arc::clone(&known.opening))
            };
            let asked = Instant::now();
            let mut opening = opening.lock().await;
            if let Some(first) = self.opened(principal, id) {
                return Ok(first);
            }
            if let Some((at, error)) = &opening.failed
                && *at >= asked
            {
                return Err(error.clone());
            }
            let opened = self.open_again(&known).await.inspect_err(|error| {
                opening.failed = Some((Instant::now(), error.clone()));
            })?;
            let mut table = self.table();
            // The program may have dropped its handle meanwhile, or added another in its place.
            table
                .known_to(principal, id)
                .filter(|now| Arc::ptr_eq(&now.registered, &known))
                .ok_or_else(|| WorkspaceError::not_found(id))?;
            let closed = table.keep(Arc::clone(&opened));
            drop(table);
            drop(closed);
            Ok(opened)
        })
    }
}

impl HostedWorkspace {
    /// Its id, which requests name.
    pub fn id(&self) -> &WorkspaceId {
        &self.registered.id
    }

    /// Its directory, as its machine sees it.
    pub fn root(&self) -> &Path {
        Path::new(&*self.registered.root)
    }

    /// The tenant it belongs to.
    pub fn tenant(&self) -> &TenantId {
        &self.registered.tenant
    }
}

impl Drop for HostedWorkspace {
    fn drop(&mut self) {
        let Some(of) = self.of.upgrade() else {
            return;
        };
        let mut table = of.table();
        // It may have been added again meanwhile.
        let known = table.by_id.get(&self.registered.id);
        if known.is_some_and(|known| Arc::ptr_eq(&known.registered, &self.registered)) {
            let closed = table.forget(&self.registered);
            drop(table);
            drop(closed);
        }
    }
}

impl std::fmt::Debug for HostedWorkspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedWorkspace")
            .field("place", &self.registered.place)
            .field("tenant", &self.registered.tenant)
            .finish_non_exhaustive()
    }
}
