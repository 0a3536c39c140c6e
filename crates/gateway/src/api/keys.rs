//! API keys: making, listing and revoking them. A key is shown once, where it is made; the record has its
//! hash.

use std::{collections::BTreeSet, time::Duration};

use axum::{
    Json,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use haft_contract::{AgentId, UserId, WorkspaceId, host::Clock as _, identity::Scope};
use haft_ledger::{Credential, CredentialId, CredentialKind, MAX_CREDENTIAL_NAME_CHARS};
use haft_runtime::SystemClock;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::page::Page;
use crate::{
    Gateway,
    body::JsonBody,
    identify::{
        ADMIN, Identified,
        key::{ApiKeyText, KeyEnvironment},
    },
    limits::MAX_PAGE,
    problem::{Problem, ProblemKind},
    time::rfc3339,
};

/// The longest name of a key.
const MAX_NAME: usize = MAX_CREDENTIAL_NAME_CHARS;

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(make, list))
        .routes(routes!(revoke))
}

/// A key.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ApiKey)]
pub(crate) struct KeyView {
    /// Its id, which is a part of the key and no secret.
    pub(crate) id: String,
    /// What people call it.
    pub(crate) name: String,
    /// The person it acts for.
    pub(crate) user: String,
    /// The agent that uses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) agent: Option<String>,
    /// What it may do.
    pub(crate) scopes: Vec<String>,
    /// The workspaces it may work in; none means all of the tenant's.
    pub(crate) workspaces: Vec<String>,
    /// Who made it.
    pub(crate) made_by: String,
    /// When it was made.
    #[schema(format = DateTime)]
    pub(crate) made: String,
    /// When it ends by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(crate) expires: Option<String>,
    /// When it was revoked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub(crate) revoked: Option<String>,
}

/// A new key, with its text.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NewApiKey)]
pub(crate) struct MadeKeyView {
    /// The key itself. It is shown only here.
    pub(crate) key: String,
    #[serde(flatten)]
    pub(crate) about: KeyView,
}

impl KeyView {
    pub(crate) fn of(credential: &Credential) -> Self {
        Self {
            id: credential.id.to_string(),
            name: credential.name.clone(),
            user: credential.user.to_string(),
            agent: credential.agent.as_ref().map(ToString::to_string),
            scopes: credential.scopes.iter().map(ToString::to_string).collect(),
            workspaces: credential
                .workspaces
                .iter()
                .map(ToString::to_string)
                .collect(),
            made_by: credential.made_by.clone(),
            made: rfc3339(credential.made),
            expires: credential.expires.map(rfc3339),
            revoked: credential.revoked.map(rfc3339),
        }
    }
}

/// A key to be made.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewKey {
    /// What people call it.
    #[schema(example = "deploy bot", max_length = 80)]
    pub(crate) name: String,
    /// The agent that uses it; without it `api`.
    pub(crate) agent: Option<String>,
    /// The person it acts for; without it whoever makes it.
    pub(crate) user: Option<String>,
    /// What it may do: `call`, `read`, `approve`, `admin`, and scopes that rules ask for. No more than the
    /// credential that makes it.
    #[schema(example = json!(["call"]))]
    pub(crate) scopes: Vec<String>,
    /// The workspaces it may work in, by id or name; without it all of the tenant's.
    #[serde(default)]
    pub(crate) workspaces: Vec<String>,
    /// How long it lasts; without it until it is revoked.
    #[schema(minimum = 1)]
    pub(crate) for_ms: Option<u64>,
}

impl NewKey {
    fn credential(
        &self,
        gateway: &Gateway,
        who: &Identified,
        key: &ApiKeyText,
    ) -> Result<Credential, Problem> {
        let odd = |what: String| Problem::new(ProblemKind::BadRequest, what);
        let name = self.name.trim();
        if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control)
        {
            return Err(odd(format!(
                "`name` has 1 to {MAX_NAME} printable characters"
            )));
        }
        let scopes = self.scopes.iter().map(|scope| Scope::parse(scope));
        let scopes: Result<BTreeSet<Scope>, _> = scopes.collect();
        let scopes = scopes.map_err(|error| odd(error.to_string()))?;
        if let Some(more) = scopes.iter().find(|scope| !who.scopes().contains(*scope)) {
            return Err(Problem::new(
                ProblemKind::Forbidden,
                format!("`{more}` is more than the credential has that makes it"),
            )
            .denied_by("scope"));
        }
        let agent = self.agent.as_deref().map(AgentId::parse).transpose();
        let user = self.user.as_deref().map(UserId::parse).transpose();
        let named = self
            .workspaces
            .iter()
            .map(|named| who.workspace(gateway, Some(named)));
        let named: Result<Vec<_>, _> = named.collect();
        let mut workspaces: Vec<WorkspaceId> = named?.iter().map(|one| one.id.clone()).collect();
        if workspaces.is_empty() {
            workspaces.clone_from(who.only_workspaces());
        }
        let now = SystemClock.now();
        Ok(Credential {
            id: key.id().clone(),
            kind: CredentialKind::ApiKey,
            tenant: who.tenant().clone(),
            user: user
                .map_err(|error| odd(error.to_string()))?
                .unwrap_or_else(|| who.user().clone()),
            agent: agent.map_err(|error| odd(error.to_string()))?,
            name: name.to_owned(),
            scopes,
            workspaces,
            made_by: who.user().to_string(),
            made: now,
            expires: self.for_ms.map(|ms| now.after(Duration::from_millis(ms))),
            revoked: None,
        })
    }
}

/// Make a key.
///
/// The answer has its text, which is shown nowhere else. Needs the scope `admin`, and gives no more than the
/// credential has that makes it.
#[utoipa::path(
    post,
    path = "/v1/keys",
    tag = "keys",
    request_body = NewKey,
    responses((status = 201, description = "The key", body = MadeKeyView)),
)]
async fn make(
    State(gateway): State<Gateway>,
    who: Identified,
    JsonBody { value: new }: JsonBody<NewKey>,
) -> Result<Response, Problem> {
    let made = make_key(&gateway, &who, &new).await?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

pub(crate) async fn make_key(
    gateway: &Gateway,
    who: &Identified,
    new: &NewKey,
) -> Result<MadeKeyView, Problem> {
    who.needs(ADMIN)?;
    let key = ApiKeyText::make(KeyEnvironment::Live).map_err(|error| {
        tracing::error!(%error, "a key could not be made");
        Problem::new(ProblemKind::Internal, "the key could not be made")
    })?;
    let credential = new.credential(gateway, who, &key)?;
    let about = KeyView::of(&credential);
    gateway
        .ledger()
        .credentials()
        .add(credential, key.hash())
        .await?;
    Ok(MadeKeyView {
        key: key.text().to_owned(),
        about,
    })
}

/// List the keys of the tenant, without their secrets.
#[utoipa::path(
    get,
    path = "/v1/keys",
    tag = "keys",
    responses((status = 200, description = "All of them", body = Page<KeyView>)),
)]
async fn list(
    State(gateway): State<Gateway>,
    who: Identified,
) -> Result<Json<Page<KeyView>>, Problem> {
    Ok(Json(Page::whole(known_keys(&gateway, &who).await?)))
}

pub(crate) async fn known_keys(
    gateway: &Gateway,
    who: &Identified,
) -> Result<Vec<KeyView>, Problem> {
    who.needs(ADMIN)?;
    let credentials = gateway.ledger().credentials();
    let known = credentials
        .list(who.tenant(), CredentialKind::ApiKey, MAX_PAGE)
        .await?;
    Ok(known.iter().map(KeyView::of).collect())
}

/// Revoke a key at once.
#[utoipa::path(
    delete,
    path = "/v1/keys/{id}",
    tag = "keys",
    params(("id" = String, Path, description = "The key's id")),
    responses((status = 204, description = "It is refused from now on")),
)]
async fn revoke(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    revoke_key(&gateway, &who, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn revoke_key(
    gateway: &Gateway,
    who: &Identified,
    id: &str,
) -> Result<(), Problem> {
    who.needs(ADMIN)?;
    let unknown = || Problem::not_found("key");
    let id = CredentialId::parse(id).ok_or_else(unknown)?;
    let credentials = gateway.ledger().credentials();
    let had = credentials
        .revoke(who.tenant(), &id, SystemClock.now())
        .await?;
    if had { Ok(()) } else { Err(unknown()) }
}
