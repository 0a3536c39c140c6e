//! Standing approvals: a rule a person accepted so as not to be asked again.
//!
//! A grant turns *ask* into *allow* for what its rule matches, within its scope and lifetime. It
//! never permits what policy denies. It is stored with the record, not in a project's files,
//! because nothing in a repository is ever configuration.

use super::{LedgerError, Timestamp};
use crate::{
    call::CallId,
    future::BoxFuture,
    identity::{AgentId, Principal, SessionId, TenantId, UserId, WorkspaceId},
    ops::Operations,
    plan::SealedPlan,
    uuid_id::uuid_id,
};

uuid_id!(
    /// Identifies a grant.
    GrantId
);

/// A standing approval and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The grant.
    pub id: GrantId,
    /// The tenant whose rules it extends.
    pub tenant: TenantId,
    /// The person it was made for.
    pub user: UserId,
    /// The rule, in the notation of `allow` lists.
    pub rule: String,
    /// Where it holds.
    pub scope: GrantScope,
    /// When it ends; absent when only [`Grant::uses_left`] or a person ends it.
    pub until: Option<Timestamp>,
    /// How many more calls may start with it; absent when uses are not limited.
    pub uses_left: Option<u32>,
    /// Who made it.
    pub made_by: String,
    /// When it was made.
    pub made_at: Timestamp,
    /// The call that led to it, if there was one.
    pub cause: Option<CallId>,
}

/// Where a grant holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantScope {
    /// In one conversation.
    Session(SessionId),
    /// In one workspace, for every agent.
    Project(GrantedWorkspace),
    /// For one agent, in every workspace.
    Agent(AgentId),
}

/// The workspace a grant holds in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedWorkspace {
    /// The workspace.
    pub id: WorkspaceId,
    /// Its root when the grant was made, so that people recognise it.
    pub shown: String,
}

impl GrantedWorkspace {
    /// The workspace a plan runs in.
    pub fn of_plan(plan: &SealedPlan) -> Self {
        Self {
            id: plan.workspace_id().clone(),
            shown: plan.workspace().to_owned(),
        }
    }

    /// The workspace of these operations, for a host that keeps no list of its workspaces.
    pub fn of_operations(operations: &Operations) -> Self {
        Self {
            id: operations.workspace_id(),
            shown: operations.root.to_string(),
        }
    }
}

impl GrantScope {
    /// The name used in configuration, JSON and the ledger.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Project(_) => "project",
            Self::Agent(_) => "agent",
        }
    }

    /// The id it is bound to.
    pub fn bound_to(&self) -> &str {
        match self {
            Self::Session(session) => session.as_str(),
            Self::Project(workspace) => workspace.id.as_str(),
            Self::Agent(agent) => agent.as_str(),
        }
    }

    /// What it is bound to, in a form people recognise.
    pub fn shown(&self) -> &str {
        match self {
            Self::Project(workspace) => &workspace.shown,
            Self::Session(_) | Self::Agent(_) => self.bound_to(),
        }
    }
}

impl Grant {
    /// Whether it now holds for a principal in a workspace.
    pub fn holds(&self, principal: &Principal, workspace: &WorkspaceId, now: Timestamp) -> bool {
        let here = match &self.scope {
            GrantScope::Session(session) => *session == principal.session,
            GrantScope::Project(project) => project.id == *workspace,
            GrantScope::Agent(agent) => *agent == principal.agent,
        };
        here && self.tenant == principal.tenant && self.user == principal.user && self.is_alive(now)
    }

    /// Whether it has neither expired nor been used up.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| now < until) && self.uses_left != Some(0)
    }
}

/// A rule a person could accept, proposed for one call that asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantProposal {
    /// The rules to accept together: a script may need one for each of its commands.
    pub rules: Vec<String>,
    /// How wide it is.
    pub breadth: GrantBreadth,
    /// What accepting it means, in one sentence.
    pub meaning: String,
}

/// How wide a proposed grant is, narrowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrantBreadth {
    /// Exactly this call.
    Exact,
    /// Everything that begins the same way.
    Prefix,
    /// The program, in the directory it was called in.
    Program,
    /// The hosts it names.
    Hosts,
}

/// What a person wants to allow from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRequest {
    /// The rules to accept.
    pub rules: Vec<String>,
    /// Where they hold.
    pub scope: GrantScope,
    /// When they end.
    pub until: Option<Timestamp>,
    /// How many calls they hold for.
    pub uses: Option<u32>,
}

impl GrantRequest {
    /// The grants that this request creates for a principal.
    pub fn grants(
        &self,
        principal: &Principal,
        made_by: &str,
        made_at: Timestamp,
        cause: CallId,
    ) -> Vec<Grant> {
        let grant = |rule: &String| Grant {
            id: GrantId::new(),
            tenant: principal.tenant.clone(),
            user: principal.user.clone(),
            rule: rule.clone(),
            scope: self.scope.clone(),
            until: self.until,
            uses_left: self.uses,
            made_by: made_by.to_owned(),
            made_at,
            cause: Some(cause),
        };
        self.rules.iter().map(grant).collect()
    }
}

/// What a grant is found by. A rule has a few keys, and so has a call; a grant can matter to a call
/// only if they share one. Two rules may have the same key by accident: a key only narrows the
/// search, and the policy decides what a grant covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrantKey(pub u64);

impl GrantKey {
    /// The key of every rule, for a policy that does not tell them apart.
    pub const ANY: Self = Self(0);
}

/// Finds the grants that can matter to a call, so that nobody looks at all of them. Every finder
/// used with a store gives a rule the same keys.
pub trait GrantFinder: Send + Sync {
    /// The keys of a rule; none if a grant with it can matter to nothing.
    fn rule_keys(&self, rule: &str) -> Vec<GrantKey>;

    /// The keys of the call.
    fn call_keys(&self) -> Vec<GrantKey>;
}

/// Keeps grants.
pub trait GrantStore: Send + Sync {
    /// Keeps a grant, durably.
    fn add(&self, grant: Grant) -> BoxFuture<'_, Result<(), LedgerError>>;

    /// The grants that hold for a principal in a workspace now and share a key with the call,
    /// oldest first. A store may return others that hold.
    fn holding<'a>(
        &'a self,
        principal: &'a Principal,
        workspace: &'a WorkspaceId,
        now: Timestamp,
        finder: &'a dyn GrantFinder,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>>;

    /// Every live grant of a tenant, oldest first. Expired and used-up grants are not listed.
    fn list<'a>(
        &'a self,
        tenant: &'a TenantId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Vec<Grant>, LedgerError>>;

    /// Ends a grant at once; returns whether the tenant had it.
    fn revoke<'a>(
        &'a self,
        tenant: &'a TenantId,
        id: GrantId,
    ) -> BoxFuture<'a, Result<bool, LedgerError>>;
}
