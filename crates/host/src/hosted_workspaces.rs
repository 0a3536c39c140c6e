//! The workspaces that a program adds to a running host, each a directory of one tenant, here, on
//! another machine or in a container. They share the host's tools, rules, approver, mounted servers
//! and record.
//!
//! A workspace that nobody uses is a row of a table: its path, its tenant, and which directory it
//! was or how to reach it. It is opened by its first call, and only the last few that were used stay
//! open. A directory that was replaced in the meantime is not opened, nor one elsewhere that turns
//! out to be another than its path says: nobody could have checked whose that is.

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use haft_contract::{
    BoxFuture, Principal, TenantId, WorkspaceId,
    ops::{DatabaseOps, Operations},
};
use haft_runtime::{Workspace, WorkspaceError, Workspaces};
use tokio::time::Instant;

#[cfg(feature = "sandbox")]
use crate::remote_workspace::RemoteWorkspace;
use crate::{
    directory::Directory,
    error::{HostError, HostErrorKind},
    tenant_directories::{DirectoryConflict, TenantDirectories, TenantDirectory},
    web::WebAccess,
};

/// The most workspaces that are held open without a call. Each takes a descriptor, or a connection.
pub const MAX_OPEN_WORKSPACES: usize = 64;

/// The workspaces of a host.
pub(crate) struct HostedWorkspaces {
    /// The workspaces that the host was opened with, if there are any.
    own: Option<OwnWorkspaces>,
    /// What the others are like.
    like: Arc<Workspace>,
    directory: Directory,
    web: WebAccess,
    sources: TenantSources,
    table: Mutex<Table>,
}

/// The workspaces that a host was opened with, for its own tenant: also what a request means that
/// names none.
struct OwnWorkspaces {
    workspaces: Arc<dyn Workspaces>,
    tenant: TenantId,
}

/// The configured databases, which are the host's own tenant's in every workspace.
struct TenantSources {
    tenant: TenantId,
    databases: Option<Arc<dyn DatabaseOps>>,
}

#[derive(Default)]
struct Table {
    /// Whose they are, the host's own among them, and those that were left.
    directories: TenantDirectories,
    /// Workspaces that were forgotten while something may still have worked in them, numbered.
    left: Vec<(u64, Arc<Registration>)>,
    /// How many were ever forgotten.
    forgotten: u64,
    by_id: HashMap<WorkspaceId, WorkspaceEntry>,
    open: HashMap<WorkspaceId, OpenWorkspace>,
    /// Counts uses, to know which was longest ago.
    uses: u64,
}

/// What a host knows of a workspace.
#[derive(Debug, PartialEq)]
struct Registration {
    id: WorkspaceId,
    directory: TenantDirectory,
    root: Arc<str>,
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
    pub(crate) web: WebAccess,
    /// The host's own tenant.
    pub(crate) tenant: TenantId,
    /// The workspace that the host was opened with, if it was opened with one.
    pub(crate) own: Option<TenantDirectory>,
}

impl Hosting {
    /// The workspaces of a host that was opened with these, of which the first is open.
    pub(crate) fn beside(
        self,
        first: Arc<Workspace>,
        own: Arc<dyn Workspaces>,
        databases: Option<Arc<dyn DatabaseOps>>,
    ) -> Arc<HostedWorkspaces> {
        let mut table = Table::default();
        let own = self.own.map(|directory| {
            table.directories.insert(&directory);
            OwnWorkspaces {
                workspaces: own,
                tenant: directory.tenant,
            }
        });
        Arc::new(HostedWorkspaces {
            own,
            like: first,
            directory: self.directory,
            web: self.web,
            sources: TenantSources {
                tenant: self.tenant,
                databases,
            },
            table: Mutex::new(table),
        })
    }
}

/// What is told of a directory that a tenant cannot have.
fn refusal(root: &str, conflict: DirectoryConflict) -> HostError {
    let (why, hint) = match conflict {
        DirectoryConflict::Taken => (
            "is, lies in or contains a workspace of another tenant",
            "give every tenant directories of its own, and do not pass one on before what another \
             tenant started there has ended",
        ),
        DirectoryConflict::Shown => (
            "is, contains or lies in a place that sandboxed commands of every tenant see",
            "keep workspaces of tenants outside `/usr`, `/opt`, the toolchains of the host's user and \
             what the sandbox shows in addition",
        ),
        DirectoryConflict::SeesOthers => (
            "would have commands that see a workspace of another tenant",
            "keep every tenant's workspaces outside `/usr`, `/opt`, the toolchains of the host's user \
             and what the sandbox shows in addition",
        ),
    };
    HostError::new(HostErrorKind::Refused, format!("`{root}` {why}"), hint)
}

impl HostedWorkspaces {
    /// What the workspaces are like: their tools, their rules, who is asked.
    pub(crate) fn like(&self) -> &Arc<Workspace> {
        &self.like
    }

    /// Adds a directory as a workspace of this tenant, or finds it. Leaves nothing open. `at_work` says
    /// in which workspaces something runs.
    pub(crate) fn add(
        self: &Arc<Self>,
        root: &Path,
        tenant: &TenantId,
        at_work: impl FnOnce() -> HashSet<(TenantId, WorkspaceId)>,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        let directory = self
            .directory
            .open_beside(root)
            .map_err(|why| HostError::config(why, "name a directory that exists"))?;
        let operations = directory.operations();
        let registered = Registration {
            id: operations.workspace_id(),
            directory: TenantDirectory::here(&directory, tenant),
            root: Arc::clone(&operations.root),
            opened_by: OpeningMethod::Here(directory.identity()),
        };
        self.register(registered, at_work)
    }

    /// Adds a directory elsewhere as a workspace of this tenant, or finds it. Connects to nothing.
    #[cfg(feature = "sandbox")]
    pub(crate) fn add_remote(
        self: &Arc<Self>,
        remote: RemoteWorkspace,
        tenant: &TenantId,
        at_work: impl FnOnce() -> HashSet<(TenantId, WorkspaceId)>,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        let (backend, root) = (remote.backend(), remote.root());
        if !root.starts_with('/') {
            return Err(HostError::config(
                format!("`{}` is not an absolute path", root.escape_debug()),
                "name the directory as the other machine sees it, such as `/srv/app`",
            ));
        }
        let registered = Registration {
            id: WorkspaceId::of_root(backend, root),
            directory: TenantDirectory::elsewhere(backend, root, tenant),
            root: root.into(),
            opened_by: OpeningMethod::Remote(Box::new(remote)),
        };
        self.register(registered, at_work)
    }

    /// The workspaces of a tenant that somebody added and still holds.
    pub(crate) fn of_tenant(&self, tenant: &TenantId) -> Vec<Arc<HostedWorkspace>> {
        let table = self.table();
        let known = table.by_id.values();
        let known = known.filter(|known| known.registered.directory.tenant == *tenant);
        let handles = known.filter_map(|known| known.handle.upgrade()).collect();
        // Before the handles, of which each may be the last.
        drop(table);
        handles
    }

    fn register(
        self: &Arc<Self>,
        registered: Registration,
        at_work: impl FnOnce() -> HashSet<(TenantId, WorkspaceId)>,
    ) -> Result<Arc<HostedWorkspace>, HostError> {
        self.drop_left(at_work);
        let mut table = self.table();
        if let Some(known) = table.by_id.get(&registered.id)
            && *known.registered == registered
            && let Some(handle) = known.handle.upgrade()
        {
            return Ok(handle);
        }
        if let Some(conflict) = table.directories.conflict(&registered.directory) {
            return Err(refusal(&registered.directory.place, conflict));
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
                    registered.directory.place
                ),
                "give one of the two back ends a name, if they are not the same",
            ));
        }
        let registered = Arc::new(registered);
        let handle = Arc::new(HostedWorkspace {
            registered: Arc::clone(&registered),
            of: Arc::downgrade(self),
        });
        let closed = table.forget(&registered.id);
        table.directories.insert(&registered.directory);
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

    /// Gives up the directories of forgotten workspaces in which nothing runs any more.
    fn drop_left(&self, at_work: impl FnOnce() -> HashSet<(TenantId, WorkspaceId)>) {
        let before = {
            let table = self.table();
            if table.left.is_empty() {
                return;
            }
            table.forgotten
        };
        // Not while the table is locked. Nothing new starts in a workspace that is forgotten, but one
        // may be forgotten meanwhile.
        let at_work = at_work();
        let mut table = self.table();
        let Table {
            left, directories, ..
        } = &mut *table;
        left.retain(|(number, known)| {
            let key = (known.directory.tenant.clone(), known.id.clone());
            let stays = *number > before || at_work.contains(&key);
            if !stays {
                directories.remove(&known.directory);
            }
            stays
        });
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
        let tenant = &known.directory.tenant;
        self.web.open_to(tenant, &mut operations.world);
        if let Some(databases) = self.sources.of(tenant) {
            operations.world.databases = Arc::clone(databases);
        }
        Ok(self
            .like
            .over_for(operations, known.directory.tenant.clone()))
    }

    /// The workspaces that the host was opened with, if they are this principal's.
    fn own_of(&self, principal: &Principal) -> Option<&Arc<dyn Workspaces>> {
        let own = self.own.as_ref()?;
        (own.tenant == principal.tenant).then_some(&own.workspaces)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics while the lock is held, and the data would be consistent anyway.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The workspace with this id, if it is this principal's.
    fn known_to(&self, principal: &Principal, id: &WorkspaceId) -> Option<&WorkspaceEntry> {
        let known = self.by_id.get(id)?;
        (known.registered.directory.tenant == principal.tenant).then_some(known)
    }

    /// Forgets a workspace. Its directory stays its tenant's while something runs there.
    fn forget(&mut self, id: &WorkspaceId) -> Option<OpenWorkspace> {
        if let Some(known) = self.by_id.remove(id) {
            self.forgotten += 1;
            self.left.push((self.forgotten, known.registered));
        }
        self.open.remove(id)
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
        let own = self.own_of(principal);
        if let Some(opened) = own.and_then(|own| own.opened(principal, id)) {
            return Some(opened);
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
            let known = {
                let table = self.table();
                let known = table.known_to(principal, id);
                known.map(|known| (Arc::clone(&known.registered), Arc::clone(&known.opening)))
            };
            let Some((known, opening)) = known else {
                return match self.own_of(principal) {
                    Some(own) => own.open(principal, id).await,
                    None => Err(WorkspaceError::not_found(id)),
                };
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

impl TenantSources {
    fn of(&self, tenant: &TenantId) -> Option<&Arc<dyn DatabaseOps>> {
        self.databases.as_ref().filter(|_| self.tenant == *tenant)
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
        &self.registered.directory.tenant
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
            let closed = table.forget(&self.registered.id);
            drop(table);
            drop(closed);
        }
    }
}

impl std::fmt::Debug for HostedWorkspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedWorkspace")
            .field("place", &self.registered.directory.place)
            .field("tenant", &self.registered.directory.tenant)
            .finish_non_exhaustive()
    }
}
