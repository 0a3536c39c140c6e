//! Who a request is from. Everything that decides what somebody may do comes from the credential: the
//! tenant, the person, the agent, the scopes, the workspaces. A body can only narrow it.

pub(crate) mod key;
pub(crate) mod session;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use axum::extract::FromRequestParts;
use haft_contract::{
    AgentId, Principal, SessionId, SessionKind, TenantId, UserId, WorkspaceId,
    host::{APPROVE_SCOPE, Clock as _},
    identity::Scope,
};
use haft_ledger::{Credential, CredentialKind};
use haft_runtime::SystemClock;
use http::{
    HeaderValue,
    header::{AUTHORIZATION, WWW_AUTHENTICATE},
    request::Parts,
};
use tokio::time::Instant;

use self::key::ApiKeyText;
use crate::{
    Gateway,
    gateway::GatewayWorkspace,
    problem::{Problem, ProblemKind},
    request_rates::LeftOfRate,
};

/// Makes calls, and reads those of the same person and agent.
pub(crate) const CALL: &str = "call";

/// Reads everything of the tenant.
pub(crate) const READ: &str = "read";

/// Answers questions, ends standing approvals, takes calls back.
pub(crate) const APPROVE: &str = APPROVE_SCOPE;

/// Makes and revokes credentials.
pub(crate) const ADMIN: &str = "admin";

/// The scopes that mean something to the gateway. Others are for rules about tools.
pub(crate) const SCOPES: [&str; 4] = [CALL, READ, APPROVE, ADMIN];

/// The agent of a credential that names none.
const AGENT: &str = "api";

/// How long the record may take to say whose a credential is.
const IDENTIFY_WAIT: Duration = Duration::from_secs(10);

/// Who a request is from.
#[derive(Debug, Clone)]
pub(crate) struct Identified {
    credential: Arc<Credential>,
    agent: AgentId,
}

impl Identified {
    pub(crate) fn of(credential: Credential) -> Result<Self, Problem> {
        let agent = match &credential.agent {
            Some(agent) => agent.clone(),
            None => AgentId::parse(AGENT).map_err(|_| unknown())?,
        };
        let credential = Arc::new(credential);
        Ok(Self { credential, agent })
    }

    pub(crate) fn tenant(&self) -> &TenantId {
        &self.credential.tenant
    }

    pub(crate) fn user(&self) -> &UserId {
        &self.credential.user
    }

    pub(crate) fn agent(&self) -> &AgentId {
        &self.agent
    }

    /// What the record and the logs call the credential; no secret.
    pub(crate) fn credential_id(&self) -> String {
        self.credential.id.to_string()
    }

    pub(crate) fn has(&self, scope: &str) -> bool {
        let mut scopes = self.credential.scopes.iter();
        scopes.any(|held| held.as_str() == scope)
    }

    /// Fails without this scope.
    pub(crate) fn needs(&self, scope: &str) -> Result<(), Problem> {
        if self.has(scope) {
            Ok(())
        } else {
            Err(Problem::missing_scope(scope))
        }
    }

    /// The principal of calls in a session. Nobody makes a session more than it is: a kind that a body
    /// names narrows the credential's own.
    pub(crate) fn principal(
        &self,
        session: Option<&str>,
        kind: Option<SessionKind>,
    ) -> Result<Arc<Principal>, Problem> {
        let own;
        let session = if let Some(named) = session {
            named
        } else {
            own = format!("api-{}", self.credential.id);
            &own
        };
        let session = SessionId::parse(session)
            .map_err(|error| Problem::new(ProblemKind::BadRequest, error.to_string()))?;
        let mut principal = Principal::local(self.user().clone(), self.agent.clone(), session);
        principal.tenant = self.tenant().clone();
        principal.scopes.clone_from(&self.credential.scopes);
        if let Some(kind) = kind {
            principal.narrow_session(kind);
        }
        Ok(Arc::new(principal))
    }

    /// The person themselves, for what no agent does: taking calls back.
    pub(crate) fn person(&self, session: SessionId) -> Result<Arc<Principal>, Problem> {
        let agent = AgentId::parse(haft_host::undo::PERSON).map_err(|_| unknown())?;
        let mut principal = Principal::local(self.user().clone(), agent, session);
        principal.tenant = self.tenant().clone();
        principal.scopes.clone_from(&self.credential.scopes);
        Ok(Arc::new(principal))
    }

    pub(crate) fn scopes(&self) -> &BTreeSet<Scope> {
        &self.credential.scopes
    }

    /// The workspaces it is bound to; none means all of the tenant's.
    pub(crate) fn only_workspaces(&self) -> &Vec<WorkspaceId> {
        &self.credential.workspaces
    }

    /// Whether it may work in a workspace of its tenant.
    pub(crate) fn reaches(&self, workspace: &WorkspaceId) -> bool {
        let only = &self.credential.workspaces;
        only.is_empty() || only.contains(workspace)
    }

    /// The workspaces it may work in.
    pub(crate) fn workspaces<'a>(
        &'a self,
        gateway: &'a Gateway,
    ) -> impl Iterator<Item = &'a GatewayWorkspace> {
        let all = gateway.workspaces_of(self.tenant());
        all.filter(|workspace| self.reaches(&workspace.id))
    }

    /// The workspace that a request names by id or name, or the first one.
    pub(crate) fn workspace<'a>(
        &'a self,
        gateway: &'a Gateway,
        named: Option<&str>,
    ) -> Result<&'a GatewayWorkspace, Problem> {
        let mut reached = self.workspaces(gateway);
        let found = match named {
            Some(named) => reached.find(|one| one.id.as_str() == named || one.name == named),
            None => reached.next(),
        };
        found.ok_or_else(|| {
            Problem::not_found("workspace")
                .hint("`GET /v1/workspaces` lists those of this credential")
        })
    }
}

/// Nobody has this credential. The same for a key that is mistyped, unknown, revoked or expired.
fn unknown() -> Problem {
    Problem::new(
        ProblemKind::Unauthorized,
        "send the API key as `Authorization: Bearer haft_…`",
    )
    .hint("`haft keys create` makes a key; one that was revoked or has expired is refused")
    .header(
        WWW_AUTHENTICATE,
        HeaderValue::from_static("Bearer realm=\"haft\""),
    )
}

impl FromRequestParts<Gateway> for Identified {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, gateway: &Gateway) -> Result<Self, Problem> {
        let identified = by_key(parts, gateway).await?;
        let left = gateway
            .rates()
            .take(&identified.credential_id(), Instant::now())?;
        // Told to where the answer is, whatever it is.
        if let Some(told) = parts.extensions.get::<LeftOfRate>() {
            told.set(left);
        }
        Ok(identified)
    }
}

async fn by_key(parts: &Parts, gateway: &Gateway) -> Result<Identified, Problem> {
    let mut offered = parts.headers.get_all(AUTHORIZATION).iter();
    let (Some(offered), None) = (offered.next(), offered.next()) else {
        return Err(unknown());
    };
    let offered = offered.to_str().ok().and_then(|it| it.split_once(' '));
    let offered = offered.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let key = offered.and_then(|(_, key)| ApiKeyText::parse(key.trim()));
    let key = key.ok_or_else(unknown)?;
    let credentials = gateway.ledger().credentials();
    let hash = key.hash();
    let found = credentials.verify(key.id(), &hash, SystemClock.now());
    let found = tokio::time::timeout(IDENTIFY_WAIT, found).await;
    let found = found.map_err(|_| {
        Problem::new(ProblemKind::Unavailable, "the record does not answer").denied_by("ledger")
    })??;
    let found = found.filter(|found| found.kind == CredentialKind::ApiKey);
    Identified::of(found.ok_or_else(unknown)?)
}
