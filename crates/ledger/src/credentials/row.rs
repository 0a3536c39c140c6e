//! A credential as a row: its columns, their signature, and what they mean.

use std::collections::BTreeSet;

use haft_contract::{
    AgentId, TenantId, UserId, WorkspaceId, host::Timestamp, identity::Scope as CredentialScope,
};

use super::credential::{Credential, CredentialId, CredentialKind};
use crate::{
    seal::Seal,
    store::{Connection, Row, Statement, StoreError, values},
};

/// Names the signed form below. Other columns or another order need another name.
const FORM: &str = "haft-ledger-credential-1";

/// A credential and the hash of its secret, which stays in this folder.
pub(crate) struct StoredCredential {
    pub(super) credential: Credential,
    secret: [u8; 32],
}

impl StoredCredential {
    pub(super) fn new(credential: Credential, secret: [u8; 32]) -> Self {
        Self { credential, secret }
    }

    /// Whether this is the hash of its secret. Takes as long whatever the difference is.
    pub(super) fn has_secret(&self, hash: &[u8; 32]) -> bool {
        // `blake3::Hash` compares in constant time, whatever made the bytes.
        blake3::Hash::from_bytes(self.secret) == blake3::Hash::from_bytes(*hash)
    }
}

/// Reads a row; `None` if this ledger did not sign it, or it cannot be understood.
pub(crate) fn read(row: &Row, key: &[u8; 32]) -> Result<Option<StoredCredential>, StoreError> {
    let text = |name: &str| row.get::<String>(name);
    let (id, kind, tenant) = (text("id")?, text("kind")?, text("tenant")?);
    let (person, agent) = (text("person")?, row.get::<Option<String>>("agent")?);
    let (name, made_by) = (text("name")?, text("made_by")?);
    let (scopes, workspaces) = (text("scopes")?, text("workspaces")?);
    let made = Timestamp(row.get("made_at")?);
    let expires: Option<i64> = row.get("expires_at")?;
    let revoked: Option<i64> = row.get("revoked_at")?;
    let secret: &[u8] = row.get("secret")?;
    let understood = || {
        Some(StoredCredential {
            credential: Credential {
                id: CredentialId::parse(&id)?,
                kind: CredentialKind::parse(&kind)?,
                tenant: TenantId::parse(&tenant).ok()?,
                user: UserId::parse(&person).ok()?,
                agent: match agent {
                    Some(agent) => Some(AgentId::parse(&agent).ok()?),
                    None => None,
                },
                name,
                scopes: scopes
                    .lines()
                    .map(|scope| CredentialScope::parse(scope).ok())
                    .collect::<Option<BTreeSet<_>>>()?,
                // One that is not understood must not be left out: none at all means every workspace.
                workspaces: workspaces
                    .lines()
                    .map(|workspace| WorkspaceId::parse(workspace).ok())
                    .collect::<Option<Vec<_>>>()?,
                made_by,
                made,
                expires: expires.map(Timestamp),
                revoked: revoked.map(Timestamp),
            },
            secret: secret.try_into().ok()?,
        })
    };
    let mac: &[u8] = row.get("mac")?;
    Ok(understood().filter(|stored| seal(stored, key).is(mac)))
}

/// The row with this id, whosever it is. The connection decides whose rows it sees.
pub(super) async fn find(
    connection: &mut dyn Connection,
    id: &CredentialId,
) -> Result<Option<Row>, StoreError> {
    connection
        .optional(
            "SELECT * FROM credential WHERE id = ?1",
            &values![id.as_str()],
        )
        .await
}

/// The same, and nobody else changes it before the transaction ends.
pub(super) async fn find_locked(
    connection: &mut dyn Connection,
    id: &CredentialId,
) -> Result<Option<Row>, StoreError> {
    let mut select = Statement::new("SELECT * FROM credential WHERE id = ");
    select.value(id.as_str()).text(connection.row_lock());
    Ok(select.query(connection).await?.into_iter().next())
}

/// Inserts a new credential; returns whether its id was free in every tenant.
pub(super) async fn insert(
    connection: &mut dyn Connection,
    key: &[u8; 32],
    stored: &StoredCredential,
) -> Result<bool, StoreError> {
    let credential = &stored.credential;
    let inserted = connection
        .execute(
            "INSERT INTO credential (tenant, id, kind, person, agent, name, scopes, workspaces, made_by,
             made_at, expires_at, revoked_at, secret, mac)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) ON CONFLICT DO NOTHING",
            values![
                credential.tenant.as_str(),
                credential.id.as_str(),
                credential.kind.as_str(),
                credential.user.as_str(),
                credential.agent.as_ref().map(AgentId::as_str),
                &credential.name,
                &scopes(credential),
                &workspaces(credential),
                &credential.made_by,
                credential.made.0,
                credential.expires.map(|expires| expires.0),
                credential.revoked.map(|revoked| revoked.0),
                &stored.secret,
                seal(stored, key).sign().as_slice()
            ],
        )
        .await?;
    Ok(inserted == 1)
}

/// Writes until when a credential holds, and whether it was taken back.
pub(super) async fn update_end(
    connection: &mut dyn Connection,
    key: &[u8; 32],
    stored: &StoredCredential,
) -> Result<(), StoreError> {
    let credential = &stored.credential;
    connection
        .execute(
            "UPDATE credential SET expires_at = ?3, revoked_at = ?4, mac = ?5
             WHERE tenant = ?1 AND id = ?2",
            values![
                credential.tenant.as_str(),
                credential.id.as_str(),
                credential.expires.map(|expires| expires.0),
                credential.revoked.map(|revoked| revoked.0),
                seal(stored, key).sign().as_slice()
            ],
        )
        .await?;
    Ok(())
}

/// The scopes, one a line, as they are stored and signed.
fn scopes(credential: &Credential) -> String {
    let scopes: Vec<&str> = credential
        .scopes
        .iter()
        .map(CredentialScope::as_str)
        .collect();
    scopes.join("\n")
}

/// The workspaces, one a line.
fn workspaces(credential: &Credential) -> String {
    let workspaces: Vec<&str> = credential
        .workspaces
        .iter()
        .map(WorkspaceId::as_str)
        .collect();
    workspaces.join("\n")
}

fn seal(stored: &StoredCredential, key: &[u8; 32]) -> Seal {
    let credential = &stored.credential;
    let number = |at: Option<Timestamp>| at.map(|at| at.0.to_be_bytes());
    let (expires, revoked) = (number(credential.expires), number(credential.revoked));
    Seal::new(FORM, key)
        .text(credential.tenant.as_str())
        .text(credential.id.as_str())
        .text(credential.kind.as_str())
        .text(credential.user.as_str())
        .maybe(
            credential
                .agent
                .as_ref()
                .map(|agent| agent.as_str().as_bytes()),
        )
        .text(&credential.name)
        .text(&scopes(credential))
        .text(&workspaces(credential))
        .text(&credential.made_by)
        .number(credential.made.0)
        .maybe(expires.as_ref().map(<[u8; 8]>::as_slice))
        .maybe(revoked.as_ref().map(<[u8; 8]>::as_slice))
        .bytes(&stored.secret)
}
