//! Who may use the gateway: API keys, sessions of the console and login codes, kept and taken back by the
//! writer, read as they are stored. A credential is no part of the record; what is done with it is. Nothing
//! here makes a secret or sees one, only its hash. Read next: `docs/adr/0076-*.md`.

pub(crate) mod credential;
pub(crate) mod row;

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{
    TenantId,
    host::{LedgerError, LedgerErrorKind, Timestamp},
};

use self::{
    credential::{Credential, CredentialId, CredentialKind, shown_name},
    row::StoredCredential,
};
use crate::{
    change::{Change, ChangeContext, conflict},
    queue::Queue,
    reading::{failed, row_limit},
    redact::Redactor,
    store::{Scope, Store, StoreError, values},
};

/// How many live credentials of each kind a tenant may have: sessions that nobody ends keep no key from
/// being made. Two processes that add at once may go over it by what one transaction of each adds.
pub const MAX_LIVE_CREDENTIALS: usize = 10_000;

/// How long an API key is still listed after its end.
pub const ENDED_KEYS_KEPT: Duration = Duration::from_hours(90 * 24);

/// How many rows one sweep removes.
pub const CREDENTIALS_SWEPT_AT_ONCE: usize = 10_000;

/// The credentials of a record. Clones share it.
#[derive(Clone)]
pub struct Credentials {
    pub(crate) queue: Arc<Queue>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) key: [u8; 32],
}

impl Credentials {
    /// Keeps a credential with the SHA-256 of its secret. Fails with `Conflict` if the id is taken, and
    /// with `LimitExceeded` if the tenant has too many of its kind.
    pub async fn add(
        &self,
        credential: Credential,
        secret_hash: [u8; 32],
    ) -> Result<(), LedgerError> {
        if let Some(refusal) = credential.refusal() {
            return Err(LedgerError::new(LedgerErrorKind::LimitExceeded, refusal));
        }
        let stored = StoredCredential::new(credential, secret_hash);
        self.queue.change(AddCredential(stored)).await?
    }

    /// The credential with this id, if this is the hash of its secret and it holds now. A login code is
    /// never returned: see [`use_once`](Self::use_once).
    pub async fn verify(
        &self,
        id: &CredentialId,
        secret_hash: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<Credential>, LedgerError> {
        // Over every tenant, because only the row says whose it is. That is safe: the statement names one
        // id, which is nobody else's in any tenant, and the row is given out only to whoever has its
        // secret, only if this ledger signed it, tenant and all. Whoever guesses ids learns nothing: an
        // unknown one and a wrong secret look the same. A role that may not act for everybody, as an
        // auditor's, finds no row.
        let reader = self.store.reader(Scope::Every).await;
        let row = row::find(&mut *reader.map_err(failed)?, id).await;
        let Some(row) = row.map_err(failed)? else {
            return Ok(None);
        };
        let stored = row::read(&row, &self.key).map_err(failed)?;
        let live = stored.filter(|stored| holds(stored, secret_hash, now));
        let credential = live.map(|stored| stored.credential);
        Ok(credential.filter(|credential| match credential.kind {
            CredentialKind::ApiKey | CredentialKind::ConsoleSession => true,
            CredentialKind::LoginCode => false,
        }))
    }

    /// A tenant's credentials of a kind, newest first, also those that have ended and are still kept.
    pub async fn list(
        &self,
        tenant: &TenantId,
        kind: CredentialKind,
        limit: usize,
    ) -> Result<Vec<Credential>, LedgerError> {
        let scope = [tenant.as_str()];
        let reader = self.store.reader(Scope::Tenants(&scope)).await;
        let rows = reader
            .map_err(failed)?
            .query(
                "SELECT * FROM credential WHERE tenant = ?1 AND kind = ?2
                 ORDER BY made_at DESC, id DESC LIMIT ?3",
                &values![tenant.as_str(), kind.as_str(), row_limit(limit)],
            )
            .await;
        let mut credentials = Vec::new();
        for row in &rows.map_err(failed)? {
            let stored = row::read(row, &self.key).map_err(failed)?;
            credentials.extend(stored.map(|stored| stored.credential));
        }
        Ok(credentials)
    }

    /// Takes a credential back; returns whether it had not been before. It is refused from then on, by
    /// every process.
    pub async fn revoke(
        &self,
        tenant: &TenantId,
        id: &CredentialId,
        at: Timestamp,
    ) -> Result<bool, LedgerError> {
        let change = ChangeEnd {
            tenant: tenant.clone(),
            id: id.clone(),
            end: NewEnd::RevokedAt(at),
        };
        self.queue.change(change).await
    }

    /// Lets a session of the console hold until another moment; returns whether there is one with this id
    /// that still holds. What has ended is not brought back.
    pub async fn extend(
        &self,
        tenant: &TenantId,
        id: &CredentialId,
        expires: Timestamp,
    ) -> Result<bool, LedgerError> {
        let change = ChangeEnd {
            tenant: tenant.clone(),
            id: id.clone(),
            end: NewEnd::ExpiresAt(expires),
        };
        self.queue.change(change).await
    }

    /// The login code with this id, if this is the hash of its secret and it holds now; it does not hold
    /// any more once this returns. Of several processes that use it at once, one gets it.
    pub async fn use_once(
        &self,
        id: &CredentialId,
        secret_hash: &[u8; 32],
        now: Timestamp,
    ) -> Result<Option<Credential>, LedgerError> {
        let (id, secret_hash) = (id.clone(), *secret_hash);
        let change = UseLoginCode {
            id,
            secret_hash,
            now,
        };
        self.queue.change(change).await
    }

    /// Removes sessions and login codes that have ended, and API keys that ended
    /// [a while ago](ENDED_KEYS_KEPT), of every tenant. Returns how many; call it again if that is
    /// [`CREDENTIALS_SWEPT_AT_ONCE`].
    pub async fn sweep(&self, now: Timestamp) -> Result<u64, LedgerError> {
        self.queue.change(SweepCredentials(now)).await
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

/// Whether whoever has a secret with this hash may use it now.
fn holds(stored: &StoredCredential, secret_hash: &[u8; 32], now: Timestamp) -> bool {
    // The secret first: nobody learns without it whether a credential has ended.
    stored.has_secret(secret_hash) && stored.credential.is_live(now)
}

struct AddCredential(StoredCredential);

impl Change for AddCredential {
    type Output = Result<(), LedgerError>;

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.0.credential.tenant)
    }

    fn prepare(&mut self, redactor: &Redactor) {
        let Credential { name, made_by, .. } = &mut self.0.credential;
        for shown in [name, made_by] {
            *shown = shown_name(&redactor.text(shown));
        }
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let credential = &self.0.credential;
        let live = changing
            .connection
            .number(
                "SELECT count(*) FROM credential WHERE tenant = ?1 AND kind = ?2
                     AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ?3)",
                &values![
                    credential.tenant.as_str(),
                    credential.kind.as_str(),
                    changing.now.0
                ],
            )
            .await?;
        if live >= i64::try_from(MAX_LIVE_CREDENTIALS).unwrap_or(i64::MAX) {
            return Ok(Err(LedgerError::new(
                LedgerErrorKind::LimitExceeded,
                format!("there are {live} credentials of this kind; revoke some first"),
            )));
        }
        if row::insert(changing.connection, changing.key, &self.0).await? {
            return Ok(Ok(()));
        }
        Ok(Err(conflict("there is a credential with this id already")))
    }
}

enum NewEnd {
    RevokedAt(Timestamp),
    ExpiresAt(Timestamp),
}

struct ChangeEnd {
    tenant: TenantId,
    id: CredentialId,
    end: NewEnd,
}

impl Change for ChangeEnd {
    type Output = bool;

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let Some(row) = row::find_locked(changing.connection, &self.id).await? else {
            return Ok(false);
        };
        let Some(mut stored) = row::read(&row, changing.key)? else {
            return Ok(false);
        };
        let credential = &mut stored.credential;
        // A file hides nobody's rows, so it is asked here too.
        if credential.tenant != self.tenant || credential.revoked.is_some() {
            return Ok(false);
        }
        match self.end {
            NewEnd::RevokedAt(at) => credential.revoked = Some(at),
            NewEnd::ExpiresAt(expires) => {
                let is_session = credential.kind == CredentialKind::ConsoleSession;
                if !is_session || !credential.is_live(changing.now) {
                    return Ok(false);
                }
                credential.expires = Some(expires);
            }
        }
        row::update_end(changing.connection, changing.key, &stored).await?;
        Ok(true)
    }
}

struct UseLoginCode {
    id: CredentialId,
    secret_hash: [u8; 32],
    now: Timestamp,
}

impl Change for UseLoginCode {
    type Output = Option<Credential>;

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        // As for `verify`: only the row says whose it is.
        None
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        // Locked, so that of two processes the second sees what the first has written.
        let Some(row) = row::find_locked(changing.connection, &self.id).await? else {
            return Ok(None);
        };
        let Some(mut stored) = row::read(&row, changing.key)? else {
            return Ok(None);
        };
        let is_code = stored.credential.kind == CredentialKind::LoginCode;
        if !is_code || !holds(&stored, &self.secret_hash, self.now) {
            return Ok(None);
        }
        stored.credential.revoked = Some(self.now);
        row::update_end(changing.connection, changing.key, &stored).await?;
        Ok(Some(stored.credential))
    }
}

struct SweepCredentials(Timestamp);

impl Change for SweepCredentials {
    type Output = u64;

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let kept_for = i64::try_from(ENDED_KEYS_KEPT.as_micros()).unwrap_or(i64::MAX);
        let at_once = i64::try_from(CREDENTIALS_SWEPT_AT_ONCE).unwrap_or(i64::MAX);
        changing
            .connection
            .execute(
                "DELETE FROM credential WHERE (tenant, id) IN
                 (SELECT tenant, id FROM credential WHERE (expires_at <= ?1 OR revoked_at <= ?1)
                      AND (kind <> 'api_key' OR expires_at <= ?2 OR revoked_at <= ?2) LIMIT ?3)",
                values![self.0.0, self.0.0.saturating_sub(kept_for), at_once],
            )
            .await
    }
}
