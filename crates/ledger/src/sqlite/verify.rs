//! Checks that a tenant's record is as it was written: the chain of its records, the signed
//! positions along it, and the lists of calls and sessions, which are folded again and compared.
//!
//! Read-only. The search words are not compared (the index does not keep them), and artifacts are
//! checked when they are opened (`artifacts.rs`), not here: they may be gigabytes.

use std::collections::{BTreeMap, HashMap};

use haft_contract::{
    TenantId, Terminal,
    host::{LedgerError, Timestamp, Verification},
};
use serde_json::Value;
use sqlx::{SqliteConnection, SqlitePool, sqlite::SqliteRow};
use uuid::Uuid;

use super::{
    approvals,
    fold::SETTLED_LATE,
    grants, lost,
    read::{column, corrupt, failed, unsigned},
};
use crate::{
    chain::{Hash, Head, Link, Verifier, broken},
    high_water::{HighWater, Read},
    listed::ListedCall,
};

/// Records checked at a time.
const VERIFY_PAGE: i64 = 500;

/// The error when a list was changed.
const LIST_DIFFERS: &str = "the list of calls differs from this record";

/// Recomputes a tenant's chain from its first record, and its lists from the chain.
pub(crate) async fn verify(
    pool: &SqlitePool,
    tenant: &TenantId,
    key: &[u8; 32],
    mark: &HighWater,
) -> Result<Verification, LedgerError> {
    // Read before the snapshot, so that the snapshot includes everything the marks cover.
    let marks = mark.read().map_err(|error| corrupt(&error.to_string()))?;
    // One snapshot for records, checkpoints, lists and the signed end.
    let mut snapshot = pool.begin().await.map_err(failed)?;
    let signed = signed_places(&mut snapshot, tenant, key).await?;
    let mut verifier = Verifier::new();
    let mut lists = Lists::default();
    loop {
        let after = i64::try_from(verifier.head().sequence).unwrap_or(i64::MAX);
        // A call's row is needed where the call begins and ends.
        let rows = sqlx::query(
            "SELECT e.sequence, e.call, e.at, e.kind, e.body, e.hash, c.position, c.session,
                 c.session_kind, c.user, c.agent, c.workspace, c.asked_tool, c.tool, c.opened_at, c.started_at,
                 c.read_only, c.terminal, c.settled_at, c.summary
             FROM event e LEFT JOIN call c ON e.kind IN ('opened', 'settled')
                 AND c.tenant = e.tenant AND c.id = e.call
             WHERE e.tenant = ?1 AND e.sequence > ?2 ORDER BY e.sequence LIMIT ?3",
        )
        .bind(tenant.as_str())
        .bind(after)
        .bind(VERIFY_PAGE)
        .fetch_all(&mut *snapshot)
        .await
        .map_err(failed)?;
        if rows.is_empty() {
            break;
        }
        for row in &rows {
            let link = link(tenant, row)?;
            if let Err(found) = verify_link(&mut verifier, &link, row, &signed.checkpoints)? {
                return Ok(found);
            }
            if let Err(reason) = lists.compare(&link, row)? {
                return Ok(broken(link.sequence, reason));
            }
        }
    }
    let head = verifier.head().sequence;
    if let Some((sequence, _)) = signed.checkpoints.range(head + 1..).next() {
        let missing = format!("it is missing; {sequence} records were signed");
        return Ok(broken(head + 1, missing));
    }
    if let Some(sequence) = signed.forged_checkpoint {
        return Ok(broken(
            sequence,
            "its checkpoint is not signed by this ledger",
        ));
    }
    match verifier.end(signed.end) {
        intact @ Verification::Intact { .. } => {
            if let Some(differs) = lists.compare_rest(&mut snapshot, tenant, head).await? {
                return Ok(differs);
            }
            if let Some(reason) = forged(&mut snapshot, tenant, key).await? {
                return Ok(broken(head + 1, reason));
            }
            let lost = below_mark(&mut snapshot, tenant, marks).await?;
            Ok(lost.map_or(intact, |reason| broken(head + 1, reason)))
        }
        broken @ Verification::Broken { .. } => Ok(broken),
    }
}

/// Compares this tenant and every missing tenant with the high-water mark. Rows that were moved to
/// another tenant are missing from their own.
async fn below_mark(
    snapshot: &mut SqliteConnection,
    tenant: &TenantId,
    marks: Read,
) -> Result<Option<String>, LedgerError> {
    let Read::Marks(mut marks) = marks else {
        let reason = "the record that was here is gone or was replaced: its high-water mark was not \
                      signed by this one";
        return Ok(Some(reason.to_owned()));
    };
    let own = marks.remove_entry(tenant.as_str());
    for (tenant, head) in own.into_iter().chain(marks) {
        let differs = lost::differs(snapshot, &tenant, &head)
            .await
            .map_err(failed)?;
        if let Some(reason) = differs {
            return Ok(Some(format!("the record of tenant `{tenant}` {reason}")));
        }
    }
    Ok(None)
}

/// Finds questions and grants that this ledger did not sign, or whose use differs from the record.
async fn forged(
    snapshot: &mut SqliteConnection,
    tenant: &TenantId,
    key: &[u8; 32],
) -> Result<Option<String>, LedgerError> {
    let used_twice: Option<String> = sqlx::query_scalar(
        "SELECT json_extract(body, '$.approval') FROM event
         WHERE tenant = ?1 AND kind = 'started' AND json_extract(body, '$.approval') IS NOT NULL
         GROUP BY 1 HAVING count(*) > 1 LIMIT 1",
    )
    .bind(tenant.as_str())
    .fetch_optional(&mut *snapshot)
    .await
    .map_err(failed)?;
    if let Some(id) = used_twice {
        return Ok(Some(format!(
            "more than one call was started with approval `{id}`"
        )));
    }
    let mut after = String::new();
    loop {
        let rows = sqlx::query(
            "SELECT a.*, a.state <> 'used' AND EXISTS
                 (SELECT 1 FROM event e WHERE e.tenant = a.tenant AND e.kind = 'started'
                      AND json_extract(e.body, '$.approval') = a.id) AS used_before
             FROM approval a WHERE a.tenant = ?1 AND a.id > ?2 ORDER BY a.id LIMIT ?3",
        )
        .bind(tenant.as_str())
        .bind(&after)
        .bind(VERIFY_PAGE)
        .fetch_all(&mut *snapshot)
        .await
        .map_err(failed)?;
        let Some(last) = rows.last() else {
            break;
        };
        after = column(last, "id")?;
        for row in &rows {
            let is_signed = approvals::row::Columns::read(row, key).map_err(failed)?;
            if is_signed.is_none() || column::<bool>(row, "used_before")? {
                let id: &str = column(row, "id")?;
                return Ok(Some(format!(
                    "approval `{id}` was changed after it was written"
                )));
            }
        }
    }
    // One query returns all of them.
    let rows = sqlx::query("SELECT * FROM grant_rule WHERE tenant = ?1 ORDER BY id")
        .bind(tenant.as_str())
        .fetch_all(&mut *snapshot)
        .await
        .map_err(failed)?;
    for row in &rows {
        if grants::row::read(row, key).map_err(failed)?.is_none() {
            let id: &str = column(row, "id")?;
            return Ok(Some(format!(
                "grant `{id}` was changed after it was written"
            )));
        }
    }
    Ok(None)
}

/// The signed parts of a chain.
struct Signed {
    end: Option<(Head, bool)>,
    checkpoints: BTreeMap<u64, Hash>,
    forged_checkpoint: Option<u64>,
}

async fn signed_places(
    connection: &mut SqliteConnection,
    tenant: &TenantId,
    key: &[u8; 32],
) -> Result<Signed, LedgerError> {
    let end = sqlx::query("SELECT sequence, hash, mac FROM chain WHERE tenant = ?1")
        .bind(tenant.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(failed)?;
    let rows = sqlx::query(
        "SELECT sequence, hash, mac FROM checkpoint WHERE tenant = ?1 ORDER BY sequence",
    )
    .bind(tenant.as_str())
    .fetch_all(connection)
    .await
    .map_err(failed)?;
    let mut signed = Signed {
        end: end.map(|row| signed_place(&row, tenant, key)).transpose()?,
        checkpoints: BTreeMap::new(),
        forged_checkpoint: None,
    };
    for row in &rows {
        let (head, is_signed) = signed_place(row, tenant, key)?;
        if is_signed {
            signed.checkpoints.insert(head.sequence, head.hash);
        } else {
            signed.forged_checkpoint.get_or_insert(head.sequence);
        }
    }
    Ok(signed)
}

fn signed_place(
    row: &SqliteRow,
    tenant: &TenantId,
    key: &[u8; 32],
) -> Result<(Head, bool), LedgerError> {
    let hash: &[u8] = column(row, "hash")?;
    let mac: &[u8] = column(row, "mac")?;
    let head = Head {
        sequence: unsigned(column(row, "sequence")?),
        // A hash of the wrong length becomes zeros, which match no record.
        hash: hash.try_into().unwrap_or_default(),
    };
    Ok((head, head.is_signed(tenant.as_str(), key, mac)))
}

fn link<'r>(tenant: &'r TenantId, row: &'r SqliteRow) -> Result<Link<'r>, LedgerError> {
    Ok(Link {
        tenant: tenant.as_str(),
        sequence: unsigned(column(row, "sequence")?),
        call: column(row, "call")?,
        at: column(row, "at")?,
        kind: column(row, "kind")?,
        body: column(row, "body")?,
    })
}

/// Checks one record; the inner error is what `verify` reports.
fn verify_link(
    verifier: &mut Verifier,
    link: &Link<'_>,
    row: &SqliteRow,
    checkpoints: &BTreeMap<u64, Hash>,
) -> Result<Result<(), Verification>, LedgerError> {
    if let Err(found) = verifier.next(link, column(row, "hash")?) {
        return Ok(Err(found));
    }
    let head = verifier.head();
    let checkpoint = checkpoints.get(&head.sequence);
    if checkpoint.is_some_and(|hash| *hash != head.hash) {
        let reason = "it differs from what was signed in a checkpoint";
        return Ok(Err(broken(head.sequence, reason)));
    }
    Ok(Ok(()))
}

/// The lists, folded again from the records seen so far.
#[derive(Default)]
struct Lists {
    /// Calls not settled so far, with their newest records. Bounded by how many calls are open at
    /// once, not by how many there are.
    open: HashMap<Vec<u8>, (ListedCall, u64)>,
    /// The list position of the call opened last. Calls are listed in the order they were opened.
    position: i64,
}

impl Lists {
    /// Folds in a record, and compares the list entry where a call begins and ends.
    fn compare(
        &mut self,
        link: &Link<'_>,
        row: &SqliteRow,
    ) -> Result<Result<(), &'static str>, LedgerError> {
        // The chain covers it, so a body that is not JSON was written that way.
        let body: Value = serde_json::from_str(link.body).unwrap_or_default();
        let at = Timestamp(link.at);
        if link.kind == "opened" {
            let listed = ListedCall::new(&body, at);
            let Some(position) = column::<Option<i64>>(row, "position")? else {
                return Ok(Err(LIST_DIFFERS));
            };
            let agrees = position > self.position
                && is_asked_by(&body, row)?
                && column::<&str>(row, "workspace")? == listed.workspace
                && column::<&str>(row, "asked_tool")? == listed.asked_tool
                && column::<i64>(row, "opened_at")? == link.at;
            self.position = position;
            self.open
                .insert(link.call.to_vec(), (listed, link.sequence));
            return Ok(if agrees { Ok(()) } else { Err(LIST_DIFFERS) });
        }
        // Evidence, which does not affect the call and may follow its outcome.
        if link.kind == SETTLED_LATE {
            return Ok(Ok(()));
        }
        let Some((listed, sequence)) = self.open.get_mut(link.call) else {
            return Ok(Err("it belongs to a call that is not open here"));
        };
        *sequence = link.sequence;
        listed.absorb(link.kind, at, &body);
        if listed.settled.is_none() {
            return Ok(Ok(()));
        }
        let agrees = is_listed(listed, row)?;
        self.open.remove(link.call);
        Ok(if agrees { Ok(()) } else { Err(LIST_DIFFERS) })
    }

    /// Compares the rest: calls that are still open, and rows that no record produced.
    async fn compare_rest(
        &self,
        snapshot: &mut SqliteConnection,
        tenant: &TenantId,
        head: u64,
    ) -> Result<Option<Verification>, LedgerError> {
        for (call, (listed, sequence)) in &self.open {
            let row = sqlx::query(
                "SELECT position, asked_tool, tool, opened_at, started_at, read_only, terminal,
                     settled_at, summary
                 FROM call WHERE tenant = ?1 AND id = ?2",
            )
            .bind(tenant.as_str())
            .bind(call)
            .fetch_one(&mut *snapshot)
            .await
            .map_err(failed)?;
            if !is_listed(listed, &row)? {
                return Ok(Some(broken(*sequence, LIST_DIFFERS)));
            }
        }
        if let Some(call) = call_without_record(snapshot, tenant).await? {
            let reason = format!("it is missing; call `{call}` is listed and no record opened it");
            return Ok(Some(broken(head + 1, reason)));
        }
        let session = session_that_differs(snapshot, tenant).await?;
        Ok(session.map(|(session, sequence)| {
            let reason = format!("the list of sessions differs from the calls of `{session}`");
            broken(sequence.unwrap_or(head + 1), reason)
        }))
    }
}

/// Whether a call's row names the same principal as the record that opened it.
fn is_asked_by(opened: &Value, row: &SqliteRow) -> Result<bool, LedgerError> {
    for name in ["session", "session_kind", "user", "agent"] {
        let recorded = opened.get("principal").and_then(|who| who.get(name));
        if recorded.and_then(Value::as_str) != column(row, name)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a call's row matches its records.
fn is_listed(listed: &ListedCall, row: &SqliteRow) -> Result<bool, LedgerError> {
    if column::<Option<i64>>(row, "position")?.is_none() {
        return Ok(false);
    }
    let terminal: Option<&str> = column(row, "terminal")?;
    let settled: Option<i64> = column(row, "settled_at")?;
    let expected = listed.settled;
    Ok(column::<&str>(row, "asked_tool")? == listed.asked_tool
        && column::<Option<&str>>(row, "tool")? == listed.tool.as_deref()
        && column::<i64>(row, "opened_at")? == listed.opened.0
        && column::<Option<i64>>(row, "started_at")? == listed.started.map(|at| at.0)
        && column::<bool>(row, "read_only")? == listed.read_only
        && terminal == expected.map(|(terminal, _)| Terminal::as_str(terminal))
        && settled == expected.map(|(_, at)| at.0)
        && column::<&str>(row, "summary")? == listed.summary)
}

/// A listed call that no record opened.
async fn call_without_record(
    snapshot: &mut SqliteConnection,
    tenant: &TenantId,
) -> Result<Option<Uuid>, LedgerError> {
    let id: Option<Vec<u8>> = sqlx::query_scalar(
        "SELECT c.id FROM call c WHERE c.tenant = ?1 AND NOT EXISTS
             (SELECT 1 FROM event e
              WHERE e.tenant = c.tenant AND e.call = c.id AND e.kind = 'opened')
         ORDER BY c.position LIMIT 1",
    )
    .bind(tenant.as_str())
    .fetch_optional(snapshot)
    .await
    .map_err(failed)?;
    id.map(|id| Uuid::from_slice(&id).map_err(|_| corrupt("a call's id")))
        .transpose()
}

/// A listed session that does not match its calls, which were already compared; with the record
/// that opened its first call, if it has one.
async fn session_that_differs(
    snapshot: &mut SqliteConnection,
    tenant: &TenantId,
) -> Result<Option<(String, Option<u64>)>, LedgerError> {
    let session: Option<String> = sqlx::query_scalar(
        "SELECT s.id FROM session s WHERE s.tenant = ?1 AND NOT EXISTS
             (SELECT 1 FROM call c WHERE c.tenant = s.tenant AND c.session = s.id GROUP BY c.session
              HAVING count(*) = s.calls AND min(c.opened_at) = s.first_at
                  AND max(c.opened_at) = s.last_at)
         UNION ALL
         SELECT s.id FROM session s WHERE s.tenant = ?1 AND (s.kind, s.agent) <>
             (SELECT c.session_kind, c.agent FROM call c
              WHERE c.tenant = s.tenant AND c.session = s.id ORDER BY c.position LIMIT 1)
         UNION ALL
         SELECT c.session FROM call c WHERE c.tenant = ?1 AND NOT EXISTS
             (SELECT 1 FROM session s WHERE s.tenant = c.tenant AND s.id = c.session)
         LIMIT 1",
    )
    .bind(tenant.as_str())
    .fetch_optional(&mut *snapshot)
    .await
    .map_err(failed)?;
    let Some(session) = session else {
        return Ok(None);
    };
    let sequence: Option<i64> = sqlx::query_scalar(
        "SELECT e.sequence FROM call c
         JOIN event e ON e.tenant = c.tenant AND e.call = c.id AND e.kind = 'opened'
         WHERE c.tenant = ?1 AND c.session = ?2 ORDER BY c.position LIMIT 1",
    )
    .bind(tenant.as_str())
    .bind(&session)
    .fetch_optional(snapshot)
    .await
    .map_err(failed)?;
    Ok(Some((session, sequence.map(unsigned))))
}
