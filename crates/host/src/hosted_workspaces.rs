//! The workspaces that a program adds to a running host, each a directory of one tenant. They share
//! the host's tools, rules, approver, mounted servers and record.
//!
//! A workspace that nobody uses is a row of a table: its path, its tenant, and which directory it
//! was. It is opened by its first call, and only the last few that were used stay open. A directory
//! that was replaced in the meantime is not opened.

use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_backends::LocalBackend;
use haft_contract::{BoxFuture, Principal, TenantId, WorkspaceId, ops::Operations};
use haft_runtime::{Workspace, WorkspaceError, Workspaces};
use haft_sandbox::helper::Helper;

use crate::{
    error::{HostError, HostErrorKind, chain},
    web::WebAccess,
};

/// The most workspaces that are held open without a call. Each takes a descriptor.
pub const MAX_OPEN_WORKSPACES: usize = 64;

/// The workspaces of a host.
pub(crate) struct HostedWorkspaces {
    /// What a request means that names no workspace, if anything.
    own: Option<Arc<Workspace>>,
    /// What the others are like.
    like: Arc<Workspace>,
    backend: LocalBackend,
    web: WebAccess,
    helper: Helper,
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    /// By their roots, so that those around a directory are found.
    by_root: BTreeMap<Arc<str>, Arc<Registration>>,
    by_id: HashMap<WorkspaceId, WorkspaceEntry>,
    open: HashMap<WorkspaceId, OpenWorkspace>,
    /// Counts uses, to know which was longest ago.
    uses: u64,
}

/// What a host knows of a workspace.
#[derive(Debug, PartialEq, Eq)]
struct Registration {
    id: WorkspaceId,
    root: Arc<str>,
    tenant: TenantId,
    /// The device and inode of the directory.
    identity: (u64, u64),
}

/// A workspace and its handle. The handle is never upgraded and dropped while the table is locked,
/// because dropping the last one locks the table.
struct WorkspaceEntry {
    registered: Arc<Registration>,
    handle: Weak<HostedWorkspace>,
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
    pub(crate) backend: LocalBackend,
    pub(crate) web: WebAccess,
    pub(crate) helper: Helper,
    /// Whether the workspace that the host was opened with is one.
    pub(crate) has_own: bool,
}

impl Hosting {
    /// The workspaces of a host that was opened with this one.
    pub(crate) fn beside(self, first: Arc<Workspace>) -> Arc<HostedWorkspaces> {
        Arc::new(HostedWorkspaces {
            own: self.has_own.then(|| Arc::clone(&first)),
            like: first,
            backend: self.backend,
            web: self.web,
            helper: self.helper,
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
        let backend = self
            .backend
            .open_beside(root)
            .map_err(|error| HostError::config(chain(&error), "name a directory that exists"))?;
        let operations = backend.operations();
        let registered = Registration {
            id: operations.workspace_id(),
            root: Arc::clone(&operations.root),
            tenant: tenant.clone(),
            identity: backend.root_identity(),
        };
        let mut table = self.table();
        if let Some(known) = table.by_id.get(&registered.id)
            && *known.registered == registered
            && let Some(handle) = known.handle.upgrade()
        {
            return Ok(handle);
        }
        if table
            .around(&registered.root)
            .any(|known| known.tenant != *tenant)
        {
            return Err(HostError::new(
                HostErrorKind::Refused,
                format!(
                    "`{}` is, lies in or contains a workspace of another tenant",
                    registered.root
                ),
                "give every tenant directories of its own",
            ));
        }
        let registered = Arc::new(registered);
        let handle = Arc::new(HostedWorkspace {
            registered: Arc::clone(&registered),
            of: Arc::downgrade(self),
        });
        let closed = table.forget(&registered);
        let root = Arc::clone(&registered.root);
        table.by_root.insert(root, Arc::clone(&registered));
        let entry = WorkspaceEntry {
            registered: Arc::clone(&registered),
            handle: Arc::downgrade(&handle),
        };
        table.by_id.insert(registered.id.clone(), entry);
        drop(table);
        drop(closed);
        Ok(handle)
    }

    fn open_again(&self, known: &Registration) -> Result<Arc<Workspace>, WorkspaceError> {
        let unavailable = |why: &str| {
            WorkspaceError::unavailable(format!("the workspace cannot be opened: {why}"))
        };
        let backend = self.backend.open_beside(Path::new(&*known.root));
        let backend = backend.map_err(|error| unavailable(&chain(&error)))?;
        if backend.root_identity() != known.identity {
            return Err(unavailable("its directory was replaced by another one"));
        }
        let mut operations: Operations = backend.operations();
        let root = Path::new(&*known.root);
        self.web.add_to(
            &mut operations.world,
            &known.tenant,
            self.helper.clone(),
            root,
        );
        Ok(self.like.over_for(operations, known.tenant.clone()))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while the lock is held, and the data would be consistent anyway.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The workspaces that are this directory, contain it, or lie in it.
    fn around(&self, root: &str) -> impl Iterator<Item = &Registration> {
        let above = Path::new(root).ancestors().filter_map(Path::to_str);
        let above = above.filter_map(|path| self.by_root.get(path));
        let inside = format!("{}/", root.trim_end_matches('/'));
        let first: Arc<str> = inside.as_str().into();
        let below = self.by_root.range(first..);
        let below = below.take_while(move |(path, _)| path.starts_with(&inside));
        above
            .chain(below.map(|(_, known)| known))
            .map(|known| &**known)
    }

    /// The workspace with this id, if it is this principal's.
    fn known_to(&self, principal: &Principal, id: &WorkspaceId) -> Option<&Arc<Registration>> {
        let known = &self.by_id.get(id)?.registered;
        (known.tenant == principal.tenant).then_some(known)
    }

    fn forget(&mut self, known: &Registration) -> Option<OpenWorkspace> {
        self.by_root.remove(&known.root);
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
            let known = self.table().known_to(principal, id).cloned();
            let known = known.ok_or_else(|| WorkspaceError::not_found(id))?;
            let opened = self.open_again(&known)?;
            let mut table = self.table();
            // Another call may have opened it meanwhile, or the program may have dropped its handle.
            table
                .known_to(principal, id)
                .ok_or_else(|| WorkspaceError::not_found(id))?;
            if let Some(first) = table.used(id) {
                return Ok(first);
            }
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

    /// Its directory.
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
            .field("root", &self.registered.root)
            .field("tenant", &self.registered.tenant)
            .finish_non_exhaustive()
    }
}
