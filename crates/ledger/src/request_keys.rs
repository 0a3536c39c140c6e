//! Which call a request made, by the key that its sender gave it: whoever sends the same again gets the same
//! call. The first one to write a key wins, over all processes. Read next: `docs/adr/0076-*.md`.

use std::{fmt, sync::Arc, time::Duration};

use haft_contract::{
    CallId, TenantId,
    host::{LedgerError, LedgerErrorKind, Timestamp},
};
use uuid::Uuid;

use crate::{
    change::{Change, ChangeContext},
    queue::Queue,
    seal::Seal,
    store::{Row, Statement, StoreError, values},
};

/// How long a key is remembered. From then on it is as if it had never been sent.
pub const REQUEST_KEYS_KEPT: Duration = Duration::from_hours(7 * 24);

/// The longest key that is taken, in bytes.
pub const MAX_REQUEST_KEY_BYTES: usize = 255;

/// The longest name of an owner, in bytes.
pub const MAX_REQUEST_OWNER_BYTES: usize = 255;

/// How many rows one sweep removes.
pub const REQUEST_KEYS_SWEPT_AT_ONCE: usize = 10_000;

/// Names the signed form below. Other columns or another order need another name.
const FORM: &str = "haft-ledger-request-key-1";

/// Names what the sender's own key is hashed with.
const KEY_FORM: &str = "haft-ledger-request-key-hash-1";

/// The keys of requests, of a record. Clones share it.
#[derive(Clone)]
pub struct RequestKeys {
    pub(crate) queue: Arc<Queue>,
    pub(crate) key: [u8; 32],
}

/// What is remembered of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestKey {
    /// The call that it made.
    pub call: CallId,
    /// The digest of what was sent with the key first.
    pub body_digest: [u8; 32],
    /// When that was.
    pub at: Timestamp,
    /// Whether this is the first request with the key, so that its call is to be made.
    pub is_new: bool,
}

impl RequestKeys {
    /// Remembers a request under the key that `owner` gave it, unless one is remembered already: then that
    /// one is returned, whatever its body was. Durable when it returns.
    ///
    /// Keys of different owners are different keys. The key itself is not stored, only a hash that nobody
    /// can make without the ledger's own key.
    pub async fn remember(
        &self,
        tenant: &TenantId,
        owner: &str,
        key: &str,
        body_digest: [u8; 32],
        call: CallId,
        at: Timestamp,
    ) -> Result<RequestKey, LedgerError> {
        let too_long = key.len() > MAX_REQUEST_KEY_BYTES || owner.len() > MAX_REQUEST_OWNER_BYTES;
        if too_long {
            return Err(LedgerError::new(
                LedgerErrorKind::LimitExceeded,
                format!("a request's key has at most {MAX_REQUEST_KEY_BYTES} bytes"),
            ));
        }
        let hash = Seal::new(KEY_FORM, &self.key)
            .text(tenant.as_str())
            .text(owner)
            .text(key)
            .sign();
        let request = NewRequest {
            tenant: tenant.clone(),
            owner: owner.to_owned(),
            hash,
            body_digest,
            call,
            at,
        };
        self.queue.change(request).await
    }

    /// Removes keys that are not remembered any more, of every tenant. Returns how many; call it again if
    /// that is [`REQUEST_KEYS_SWEPT_AT_ONCE`].
    pub async fn sweep(&self, now: Timestamp) -> Result<u64, LedgerError> {
        self.queue.change(SweepRequestKeys(now)).await
    }
}

impl fmt::Debug for RequestKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestKeys").finish_non_exhaustive()
    }
}

struct NewRequest {
    tenant: TenantId,
    owner: String,
    hash: [u8; 32],
    body_digest: [u8; 32],
    call: CallId,
    at: Timestamp,
}

impl Change for NewRequest {
    type Output = RequestKey;

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let (tenant, owner) = (self.tenant.as_str(), self.owner.as_str());
        let new = RequestKey {
            call: self.call,
            body_digest: self.body_digest,
            at: self.at,
            is_new: true,
        };
        let mac = seal(changing.key, (tenant, owner, &self.hash), &new).sign();
        // Waits for another process that has just written it; after that its row is seen below.
        let inserted = changing
            .connection
            .execute(
                "INSERT INTO request_key (tenant, owner, key, body, call, at, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
                values![
                    tenant,
                    owner,
                    &self.hash,
                    &self.body_digest,
                    self.call.as_uuid().as_bytes(),
                    self.at.0,
                    &mac
                ],
            )
            .await?;
        if inserted == 1 {
            return Ok(new);
        }
        let mut select = Statement::new("SELECT * FROM request_key WHERE tenant = ");
        select.value(tenant).text(" AND owner = ").value(owner);
        select.text(" AND key = ").value(&self.hash);
        select.text(changing.connection.row_lock());
        let rows = select.query(changing.connection).await?;
        let Some(row) = rows.first() else {
            // Swept in between.
            let why = "a request's key was removed while it was read";
            return Err(StoreError::Busy(why.to_owned()));
        };
        if let Some(first) = read(row, changing.key)?
            && first.at.after(REQUEST_KEYS_KEPT) > self.at
        {
            return Ok(first);
        }
        // Too old, or nothing that this ledger wrote.
        changing
            .connection
            .execute(
                "UPDATE request_key SET body = ?4, call = ?5, at = ?6, mac = ?7
             WHERE tenant = ?1 AND owner = ?2 AND key = ?3",
                values![
                    tenant,
                    owner,
                    &self.hash,
                    &self.body_digest,
                    self.call.as_uuid().as_bytes(),
                    self.at.0,
                    &mac
                ],
            )
            .await?;
        Ok(new)
    }
}

struct SweepRequestKeys(Timestamp);

impl Change for SweepRequestKeys {
    type Output = u64;

    const IS_ABOUT_CALLS: bool = false;

    fn tenant(&self) -> Option<&TenantId> {
        None
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
        let kept_for = i64::try_from(REQUEST_KEYS_KEPT.as_micros()).unwrap_or(i64::MAX);
        let at_once = i64::try_from(REQUEST_KEYS_SWEPT_AT_ONCE).unwrap_or(i64::MAX);
        changing
            .connection
            .execute(
                "DELETE FROM request_key WHERE (tenant, owner, key) IN
                 (SELECT tenant, owner, key FROM request_key WHERE at <= ?1 ORDER BY at LIMIT ?2)",
                values![self.0.0.saturating_sub(kept_for), at_once],
            )
            .await
    }
}

/// Whether this ledger wrote a row.
pub(crate) fn is_signed(row: &Row, key: &[u8; 32]) -> Result<bool, StoreError> {
    Ok(read(row, key)?.is_some())
}

/// Reads a row; none if this ledger did not sign it.
fn read(row: &Row, key: &[u8; 32]) -> Result<Option<RequestKey>, StoreError> {
    let (tenant, owner): (&str, &str) = (row.get("tenant")?, row.get("owner")?);
    let (hash, body): (&[u8], &[u8]) = (row.get("key")?, row.get("body")?);
    let (call, mac): (&[u8], &[u8]) = (row.get("call")?, row.get("mac")?);
    let at = Timestamp(row.get("at")?);
    let (Ok(call), Ok(body_digest)) = (Uuid::from_slice(call), body.try_into()) else {
        return Ok(None);
    };
    let read = RequestKey {
        call: call.into(),
        body_digest,
        at,
        is_new: false,
    };
    Ok(seal(key, (tenant, owner, hash), &read)
        .is(mac)
        .then_some(read))
}

fn seal(key: &[u8; 32], (tenant, owner, hash): (&str, &str, &[u8]), request: &RequestKey) -> Seal {
    Seal::new(FORM, key)
        .text(tenant)
        .text(owner)
        .bytes(hash)
        .bytes(&request.body_digest)
        .bytes(request.call.as_uuid().as_bytes())
        .number(request.at.0)
}
