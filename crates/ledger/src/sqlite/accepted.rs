//! Calls accepted for a later claim, and which claim holds each.
//!
//! Both are changes made inside the writer's transaction, so that two processes cannot both accept
//! an id or both claim a call. Later writes of a claimed call are checked against its current claim
//! in `calls.rs` and `checked_start.rs`.

use std::sync::Arc;

use haft_contract::{
    CallId, CallRequest, TenantId,
    host::{Acceptance, Epoch, LedgerError, LedgerErrorKind, Timestamp},
};
use sqlx::{Row as _, SqliteConnection, SqliteExecutor};

use super::{
    change::{Change, ChangeContext},
    checked_start::conflict,
    recover::left_open,
};
use crate::{convert, draft::CallDraft, seal::Seal};

/// Names the signed form.
const FORM: &str = "haft-accepted-1";

/// Accepts a request for a later claim.
pub(super) struct AcceptCall {
    tenant: TenantId,
    call: CallId,
    at: Timestamp,
    /// The request as received.
    request: String,
    digest: [u8; 32],
}

impl AcceptCall {
    pub(super) fn new(request: &CallRequest, at: Timestamp) -> Result<Self, LedgerError> {
        let text = convert::whole_request(request)?;
        Ok(Self {
            tenant: request.principal.tenant.clone(),
            call: request.id,
            at,
            digest: digest(&text),
            request: text,
        })
    }
}

impl Change for AcceptCall {
    type Output = Result<Acceptance, LedgerError>;

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, sqlx::Error> {
        let known = read(changing.connection, changing.key, &self.tenant, self.call).await?;
        match known {
            KnownCall::Accepted(row) if row.digest == self.digest => {
                return Ok(Ok(Acceptance::AcceptedBefore));
            }
            KnownCall::Accepted(_) => {
                return Ok(Err(conflict("another request was accepted under this id")));
            }
            KnownCall::Forged => return Ok(Err(forged())),
            KnownCall::Nothing => {}
        }
        let taken: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM call WHERE tenant = ?1 AND id = ?2)")
                .bind(self.tenant.as_str())
                .bind(self.call.as_uuid().as_bytes().as_slice())
                .fetch_one(&mut *changing.connection)
                .await?;
        if taken {
            return Ok(Err(conflict("a call with this id is on record")));
        }
        sqlx::query(
            "INSERT INTO accepted (tenant, call, at, digest, request, epoch, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6)",
        )
        .bind(self.tenant.as_str())
        .bind(self.call.as_uuid().as_bytes().as_slice())
        .bind(self.at.0)
        .bind(self.digest.as_slice())
        .bind(&self.request)
        .bind(
            seal(
                changing.key,
                &self.tenant,
                self.call,
                self.at,
                &self.digest,
                0,
            )
            .sign()
            .as_slice()
            .to_owned(),
        )
        .execute(&mut *changing.connection)
        .await?;
        Ok(Ok(Acceptance::Accepted))
    }
}

pub(super) struct ClaimCall {
    pub(super) tenant: TenantId,
    pub(super) call: CallId,
    pub(super) epoch: Epoch,
}

/// A call as its claimant sees it.
pub(super) struct ClaimedRecord {
    pub(super) request: CallRequest,
    /// Its row, unless the accepting process was gone before it was written.
    pub(super) row: Option<ClaimedRow>,
    /// Whether an earlier claim started it, so that it may have changed something.
    pub(super) in_doubt: bool,
}

/// A claimed call's list entry, and its position.
pub(super) struct ClaimedRow {
    pub(super) draft: CallDraft,
    pub(super) position: i64,
}

impl Change for ClaimCall {
    type Output = Result<ClaimedRecord, LedgerError>;

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, sqlx::Error> {
        let id = self.call.as_uuid();
        let id = id.as_bytes().as_slice();
        let known = read(changing.connection, changing.key, &self.tenant, self.call).await?;
        let accepted = match known {
            KnownCall::Accepted(row) => row,
            KnownCall::Forged => return Ok(Err(forged())),
            KnownCall::Nothing => {
                let message = format!("no call `{}` was accepted", self.call);
                return Ok(Err(LedgerError::new(LedgerErrorKind::NotFound, message)));
            }
        };
        let Some(request) = accepted.request else {
            return Ok(Err(over()));
        };
        let Some(request) = convert::request_from(self.call, &request) else {
            return Ok(Err(forged()));
        };
        let row = sqlx::query(
            "SELECT *, NULL AS opened_body FROM call WHERE tenant = ?1 AND id = ?2 AND owner = ''",
        )
        .bind(self.tenant.as_str())
        .bind(id)
        .fetch_optional(&mut *changing.connection)
        .await?;
        let (mut listed, mut in_doubt) = (None, false);
        if let Some(row) = row {
            let terminal: Option<String> = row.try_get("terminal")?;
            if terminal.is_some() {
                return Ok(Err(over()));
            }
            let mut found = left_open(&row)?;
            found.draft.principal = Arc::clone(&request.principal);
            in_doubt = found.draft.listed.started.is_some()
                && !found.draft.listed.read_only
                && !is_idempotent(changing.connection, &self.tenant, id).await?;
            listed = Some(ClaimedRow {
                draft: found.draft,
                position: found.position,
            });
        }
        if i64::from(self.epoch.number()) <= accepted.epoch {
            return Ok(Err(superseded(accepted.epoch)));
        }
        let epoch = i64::from(self.epoch.number());
        let (at, digest) = (accepted.at, accepted.digest);
        sqlx::query("UPDATE accepted SET epoch = ?3, mac = ?4 WHERE tenant = ?1 AND call = ?2")
            .bind(self.tenant.as_str())
            .bind(id)
            .bind(epoch)
            .bind(
                seal(changing.key, &self.tenant, self.call, at, &digest, epoch)
                    .sign()
                    .as_slice()
                    .to_owned(),
            )
            .execute(&mut *changing.connection)
            .await?;
        Ok(Ok(ClaimedRecord {
            request,
            row: listed,
            in_doubt,
        }))
    }
}

/// Whether the claim of this epoch holds a call.
pub(super) async fn holds(
    connection: impl SqliteExecutor<'_>,
    tenant: &TenantId,
    call: CallId,
    epoch: Epoch,
) -> Result<bool, sqlx::Error> {
    let held: Option<i64> =
        sqlx::query_scalar("SELECT epoch FROM accepted WHERE tenant = ?1 AND call = ?2")
            .bind(tenant.as_str())
            .bind(call.as_uuid().as_bytes().to_vec())
            .fetch_optional(connection)
            .await?;
    Ok(held == Some(i64::from(epoch.number())))
}

/// Deletes the request of a call that has its outcome: nobody runs it again.
pub(super) async fn forget_request(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    call: CallId,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE accepted SET request = NULL WHERE tenant = ?1 AND call = ?2")
        .bind(tenant.as_str())
        .bind(call.as_uuid().as_bytes().to_vec())
        .execute(connection)
        .await?;
    Ok(())
}

/// The error for continuing with a superseded claim.
pub(super) fn superseded_claim(epoch: Epoch) -> LedgerError {
    let message = format!("a newer claim than that in epoch {epoch} holds the call");
    LedgerError::new(LedgerErrorKind::Superseded, message)
}

fn superseded(by: i64) -> LedgerError {
    let message = format!("the call is held by a claim in epoch {by}");
    LedgerError::new(LedgerErrorKind::Superseded, message)
}

/// The error for claiming a call that is over.
pub(super) fn over() -> LedgerError {
    LedgerError::new(LedgerErrorKind::Over, "the call has its outcome already")
}

fn forged() -> LedgerError {
    let message = "what is stored of the accepted call is not what was accepted";
    LedgerError::new(LedgerErrorKind::Corrupt, message)
}

/// What the store knows about an id.
enum KnownCall {
    Nothing,
    Accepted(AcceptedRow),
    /// A row that this ledger did not write.
    Forged,
}

struct AcceptedRow {
    at: Timestamp,
    digest: [u8; 32],
    request: Option<String>,
    epoch: i64,
}

async fn read(
    connection: &mut SqliteConnection,
    key: &[u8; 32],
    tenant: &TenantId,
    call: CallId,
) -> Result<KnownCall, sqlx::Error> {
    let row = sqlx::query(
        "SELECT at, digest, request, epoch, mac FROM accepted WHERE tenant = ?1 AND call = ?2",
    )
    .bind(tenant.as_str())
    .bind(call.as_uuid().as_bytes().as_slice())
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else {
        return Ok(KnownCall::Nothing);
    };
    let (digest, mac): (&[u8], &[u8]) = (row.try_get("digest")?, row.try_get("mac")?);
    let Ok(digest) = <[u8; 32]>::try_from(digest) else {
        return Ok(KnownCall::Forged);
    };
    let (at, epoch) = (Timestamp(row.try_get("at")?), row.try_get("epoch")?);
    let request: Option<String> = row.try_get("request")?;
    let is_its_own = request
        .as_deref()
        .is_none_or(|text| self::digest(text) == digest);
    if !is_its_own || !seal(key, tenant, call, at, &digest, epoch).is(mac) {
        return Ok(KnownCall::Forged);
    }
    Ok(KnownCall::Accepted(AcceptedRow {
        at,
        digest,
        request,
        epoch,
    }))
}

async fn is_idempotent(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    call: &[u8],
) -> Result<bool, sqlx::Error> {
    let said: Option<Option<bool>> = sqlx::query_scalar(
        "SELECT json_extract(body, '$.effects.idempotent') FROM event
         WHERE tenant = ?1 AND call = ?2 AND kind = 'planned' ORDER BY sequence DESC LIMIT 1",
    )
    .bind(tenant.as_str())
    .bind(call)
    .fetch_optional(connection)
    .await?;
    Ok(said.flatten() == Some(true))
}

fn digest(text: &str) -> [u8; 32] {
    *blake3::hash(text.as_bytes()).as_bytes()
}

fn seal(
    key: &[u8; 32],
    tenant: &TenantId,
    call: CallId,
    at: Timestamp,
    digest: &[u8; 32],
    epoch: i64,
) -> Seal {
    Seal::new(FORM, key)
        .text(tenant.as_str())
        .bytes(call.as_uuid().as_bytes())
        .number(at.0)
        .bytes(digest)
        .number(epoch)
}
