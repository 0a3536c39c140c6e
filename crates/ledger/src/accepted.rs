//! Calls accepted for a later claim, and which claim holds each.
//!
//! Both are changes made inside the writer's transaction, so that two processes cannot both accept
//! an id or both claim a call. Later writes of a claimed call are checked against its current claim
//! in `writer/write.rs` and `writer/checked_start.rs`.

use std::sync::Arc;

use haft_contract::{
    CallId, CallRequest, TenantId,
    host::{Acceptance, Epoch, LedgerError, LedgerErrorKind, Timestamp},
};
use uuid::Uuid;

use crate::{
    change::{Change, ChangeContext, conflict},
    convert,
    left_open::taken_up,
    open_call::OpenCall,
    reading::row_limit,
    recorded_call,
    seal::Seal,
    store::{Connection, Row, Statement, StoreError, values},
};

/// Names the signed form.
const FORM: &str = "haft-accepted-1";

/// Accepts a request for a later claim.
pub(crate) struct AcceptCall {
    tenant: TenantId,
    call: CallId,
    at: Timestamp,
    /// The request as received.
    request: String,
    digest: [u8; 32],
}

impl AcceptCall {
    pub(crate) fn new(request: &CallRequest, at: Timestamp) -> Result<Self, LedgerError> {
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

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
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
        let taken = recorded_call::load(changing.connection, self.tenant.as_str(), self.call);
        if taken.await?.is_some() {
            return Ok(Err(conflict("a call with this id is on record")));
        }
        let seal = seal(
            changing.key,
            &self.tenant,
            self.call,
            self.at,
            &self.digest,
            0,
        )
        .sign();
        changing
            .connection
            .execute(
                "INSERT INTO accepted (tenant, call, at, digest, request, epoch, mac)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6)",
                values![
                    self.tenant.as_str(),
                    self.call.as_uuid().as_bytes().as_slice(),
                    self.at.0,
                    self.digest.as_slice(),
                    &self.request,
                    &seal
                ],
            )
            .await?;
        Ok(Ok(Acceptance::Accepted))
    }
}

pub(crate) struct ClaimCall {
    pub(crate) tenant: TenantId,
    pub(crate) call: CallId,
    pub(crate) epoch: Epoch,
}

/// A call as its claimant sees it.
pub(crate) struct ClaimedRecord {
    pub(crate) request: CallRequest,
    /// Its rows, unless the accepting process was gone before they were written.
    pub(crate) call: Option<OpenCall>,
    /// Whether an earlier claim started it, so that it may have changed something.
    pub(crate) in_doubt: bool,
}

impl Change for ClaimCall {
    type Output = Result<ClaimedRecord, LedgerError>;

    fn tenant(&self) -> Option<&TenantId> {
        Some(&self.tenant)
    }

    async fn make(&self, changing: &mut ChangeContext<'_>) -> Result<Self::Output, StoreError> {
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
        let recorded = recorded_call::load(changing.connection, self.tenant.as_str(), self.call);
        let (mut call, mut in_doubt) = (None, false);
        if let Some(recorded) = recorded.await? {
            if recorded.terminal.is_some() {
                return Ok(Err(over()));
            }
            in_doubt = recorded.is_damaged
                || recorded.started().is_some()
                    && !recorded.has_effect("read_only")
                    && !recorded.has_effect("idempotent");
            let mut open = taken_up(&recorded)?;
            open.principal = Arc::clone(&request.principal);
            call = Some(open);
        }
        if i64::from(self.epoch.number()) <= accepted.epoch {
            return Ok(Err(superseded(accepted.epoch)));
        }
        let epoch = i64::from(self.epoch.number());
        let (at, digest) = (accepted.at, accepted.digest);
        let seal = seal(changing.key, &self.tenant, self.call, at, &digest, epoch).sign();
        changing
            .connection
            .execute(
                "UPDATE accepted SET epoch = ?3, mac = ?4 WHERE tenant = ?1 AND call = ?2",
                values![self.tenant.as_str(), id, epoch, &seal],
            )
            .await?;
        Ok(Ok(ClaimedRecord {
            request,
            call,
            in_doubt,
        }))
    }
}

/// Whether the claim of this epoch holds a call.
pub(crate) async fn holds(
    connection: &mut dyn Connection,
    tenant: &TenantId,
    call: CallId,
    epoch: Epoch,
) -> Result<bool, StoreError> {
    let held: Option<i64> = connection
        .scalar(
            "SELECT epoch FROM accepted WHERE tenant = ?1 AND call = ?2",
            &values![tenant.as_str(), call.as_uuid().as_bytes()],
        )
        .await?;
    Ok(held == Some(i64::from(epoch.number())))
}

/// The same for the transaction that depends on it: nobody can claim the call before it ends.
pub(crate) async fn still_holds(
    connection: &mut dyn Connection,
    tenant: &TenantId,
    call: CallId,
    epoch: Epoch,
) -> Result<bool, StoreError> {
    let mut select = Statement::new("SELECT epoch FROM accepted WHERE tenant = ");
    let id = call.as_uuid();
    select.value(tenant.as_str()).text(" AND call = ");
    select.value(id.as_bytes()).text(connection.row_lock());
    let rows = select.query(connection).await?;
    let held: Option<i64> = rows.first().map(|row| row.get("epoch")).transpose()?;
    Ok(held == Some(i64::from(epoch.number())))
}

/// Deletes the request of a call that has its outcome: nobody runs it again.
pub(crate) async fn forget_request(
    connection: &mut dyn Connection,
    tenant: &TenantId,
    call: CallId,
) -> Result<(), StoreError> {
    connection
        .execute(
            "UPDATE accepted SET request = NULL WHERE tenant = ?1 AND call = ?2",
            values![tenant.as_str(), call.as_uuid().as_bytes()],
        )
        .await?;
    Ok(())
}

/// A call that was accepted and has no outcome yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedCall {
    /// Whose it is.
    pub tenant: TenantId,
    /// The call.
    pub call: CallId,
    /// The claim that holds it; none before the first. Whoever claims it next does so in the epoch after
    /// this one.
    pub epoch: Option<Epoch>,
    /// When it was accepted.
    pub at: Timestamp,
}

/// Accepted calls of every tenant that have no outcome, oldest first. A row that this ledger did not
/// write is left out, as nobody can claim its call.
pub(crate) async fn unfinished(
    connection: &mut dyn Connection,
    key: &[u8; 32],
    limit: usize,
) -> Result<Vec<AcceptedCall>, StoreError> {
    // Not the request itself, which may have megabytes: its digest is signed, and claiming compares it.
    let rows = connection
        .query(
            "SELECT tenant, call, at, digest, epoch, mac FROM accepted WHERE request IS NOT NULL
             ORDER BY at, call LIMIT ?1",
            &values![row_limit(limit)],
        )
        .await?;
    let mut unfinished = Vec::with_capacity(rows.len());
    for row in &rows {
        unfinished.extend(unfinished_call(row, key)?);
    }
    Ok(unfinished)
}

/// A row without its request; none if this ledger did not write it.
fn unfinished_call(row: &Row, key: &[u8; 32]) -> Result<Option<AcceptedCall>, StoreError> {
    let (digest, mac): (&[u8], &[u8]) = (row.get("digest")?, row.get("mac")?);
    let (at, epoch) = (Timestamp(row.get("at")?), row.get::<i64>("epoch")?);
    let (Ok(tenant), Ok(call), Ok(digest), Ok(number)) = (
        TenantId::parse(row.get("tenant")?),
        Uuid::from_slice(row.get("call")?),
        <[u8; 32]>::try_from(digest),
        u32::try_from(epoch),
    ) else {
        return Ok(None);
    };
    let call = call.into();
    let is_signed = seal(key, &tenant, call, at, &digest, epoch).is(mac);
    Ok(is_signed.then_some(AcceptedCall {
        tenant,
        call,
        epoch: Epoch::new(number),
        at,
    }))
}

/// The error for continuing with a superseded claim.
pub(crate) fn superseded_claim(epoch: Epoch) -> LedgerError {
    let message = format!("a claim newer than epoch {epoch} holds the call");
    LedgerError::new(LedgerErrorKind::Superseded, message)
}

fn superseded(by: i64) -> LedgerError {
    let message = format!("the call is held by a claim in epoch {by}");
    LedgerError::new(LedgerErrorKind::Superseded, message)
}

/// The error for claiming a call that is over.
pub(crate) fn over() -> LedgerError {
    LedgerError::new(LedgerErrorKind::Over, "the call already has its outcome")
}

fn forged() -> LedgerError {
    let message = "the stored call differs from the call that was accepted";
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
    connection: &mut dyn Connection,
    key: &[u8; 32],
    tenant: &TenantId,
    call: CallId,
) -> Result<KnownCall, StoreError> {
    let mut select = Statement::new("SELECT at, digest, request, epoch, mac FROM accepted");
    let id = call.as_uuid();
    select.text(" WHERE tenant = ").value(tenant.as_str());
    select.text(" AND call = ").value(id.as_bytes());
    select.text(connection.row_lock());
    let rows = select.query(connection).await?;
    let Some(row) = rows.first() else {
        return Ok(KnownCall::Nothing);
    };
    Ok(match understood(row, key, tenant, call)? {
        Some(accepted) => KnownCall::Accepted(accepted),
        None => KnownCall::Forged,
    })
}

/// Whether this ledger wrote a row.
pub(crate) fn is_signed(row: &Row, key: &[u8; 32]) -> Result<bool, StoreError> {
    let names = (
        TenantId::parse(row.get::<&str>("tenant")?),
        Uuid::from_slice(row.get("call")?),
    );
    let (Ok(tenant), Ok(call)) = names else {
        return Ok(false);
    };
    Ok(understood(row, key, &tenant, call.into())?.is_some())
}

/// A row; none if this ledger did not write it.
fn understood(
    row: &Row,
    key: &[u8; 32],
    tenant: &TenantId,
    call: CallId,
) -> Result<Option<AcceptedRow>, StoreError> {
    let (digest, mac): (&[u8], &[u8]) = (row.get("digest")?, row.get("mac")?);
    let Ok(digest) = <[u8; 32]>::try_from(digest) else {
        return Ok(None);
    };
    let (at, epoch) = (Timestamp(row.get("at")?), row.get("epoch")?);
    let request: Option<String> = row.get("request")?;
    let is_its_own = request
        .as_deref()
        .is_none_or(|text| self::digest(text) == digest);
    let is_signed = is_its_own && seal(key, tenant, call, at, &digest, epoch).is(mac);
    Ok(is_signed.then_some(AcceptedRow {
        at,
        digest,
        request,
        epoch,
    }))
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
