//! Reads a tenant's record as a stream, from one snapshot of a store.

use std::sync::Arc;

use haft_contract::{
    TenantId,
    host::{LedgerError, Timestamp},
};
use uuid::Uuid;

use super::{SignedEnd, TransferBegin, TransferEnd, TransferRow};
use crate::{
    chain::Head,
    reading::{column, corrupt, failed, unsigned},
    store::{Connection, Row, Scope, Store, values},
};

/// Rows read at a time.
const ROWS_A_PAGE: i64 = 500;

/// A snapshot that is read from its first row to its last.
pub(crate) struct TransferSource {
    snapshot: Box<dyn Connection>,
    tenant: TenantId,
    after: i64,
    rows: u64,
    /// The newest position.
    pub(crate) newest: i64,
    /// Names of the row before, because most rows have the same.
    writer: Arc<str>,
    principal: Arc<str>,
}

impl TransferSource {
    /// Begins a snapshot, with the first call of this moment or later.
    pub(crate) async fn open(
        store: &dyn Store,
        tenant: &TenantId,
        since: Option<Timestamp>,
    ) -> Result<(Self, TransferBegin), LedgerError> {
        let scope = [tenant.as_str()];
        let snapshot = store.reader(Scope::Tenants(&scope));
        let mut snapshot = snapshot.await.map_err(failed)?;
        snapshot.begin().await.map_err(failed)?;
        let reading = &mut *snapshot;
        let newest = reading
            .number("SELECT coalesce(max(position), 0) FROM record", &[])
            .await
            .map_err(failed)?;
        let mut begin = TransferBegin {
            tenant: tenant.clone(),
            since,
            starts: Vec::new(),
        };
        let mut after = 0;
        if let Some(since) = since {
            let first: Option<i64> = reading
                .scalar(
                    "SELECT position FROM record
                     WHERE tenant = (SELECT id FROM tenant WHERE name = ?1) AND part = 0 AND at >= ?2
                     ORDER BY position LIMIT 1",
                    &values![tenant.as_str(), since.0],
                )
                .await
                .map_err(failed)?;
            after = first.map_or(newest, |first| first - 1);
            begin.starts = starts(reading, tenant, after).await?;
        }
        let source = Self {
            snapshot,
            tenant: tenant.clone(),
            after,
            rows: 0,
            newest,
            writer: Arc::from(""),
            principal: Arc::from(""),
        };
        Ok((source, begin))
    }

    /// The next rows; none after the last.
    pub(crate) async fn next(&mut self) -> Result<Vec<TransferRow>, LedgerError> {
        let rows = self
            .snapshot
            .query(
                "SELECT r.position, r.call, r.part, r.listed, r.at, r.terminal, r.sequence, r.form, r.body,
                     r.hash, coalesce(w.name, '') AS writer, coalesce(p.stored, '') AS stored
                 FROM record r LEFT JOIN writer w ON w.id = r.writer
                 LEFT JOIN principal p ON p.id = r.principal AND p.tenant = r.tenant
                 WHERE r.tenant = (SELECT id FROM tenant WHERE name = ?1) AND r.position > ?2
                 ORDER BY r.position LIMIT ?3",
                &values![self.tenant.as_str(), self.after, ROWS_A_PAGE],
            )
            .await
            .map_err(failed)?;
        let rows: Vec<TransferRow> = rows
            .iter()
            .map(|row| self.row(row))
            .collect::<Result<_, _>>()?;
        if let Some(last) = rows.last() {
            self.after = last.position;
            self.rows += rows.len() as u64;
        }
        Ok(rows)
    }

    fn row(&mut self, row: &Row) -> Result<TransferRow, LedgerError> {
        let hash: &[u8] = column(row, "hash")?;
        let call = Uuid::from_slice(column(row, "call")?);
        Ok(TransferRow {
            position: column(row, "position")?,
            writer: same_or(&mut self.writer, column(row, "writer")?),
            sequence: unsigned(column(row, "sequence")?),
            call: call.map_err(|_| corrupt("a call's id"))?,
            part: column(row, "part")?,
            listed: column(row, "listed")?,
            principal: same_or(&mut self.principal, column(row, "stored")?),
            at: column(row, "at")?,
            terminal: column(row, "terminal")?,
            form: column(row, "form")?,
            body: column(row, "body")?,
            // One of the wrong length is not the row's; that is noticed when it is checked.
            hash: hash.try_into().unwrap_or_default(),
        })
    }

    /// Where the chains end, signed.
    pub(crate) async fn end(mut self) -> Result<TransferEnd, LedgerError> {
        let rows = self
            .snapshot
            .query(
                "SELECT coalesce(w.name, '') AS name, c.sequence, c.hash, c.mac
                 FROM chain c LEFT JOIN writer w ON w.id = c.writer
                 WHERE c.tenant = (SELECT id FROM tenant WHERE name = ?1) AND c.sequence > 0
                 ORDER BY name",
                &values![self.tenant.as_str()],
            )
            .await
            .map_err(failed)?;
        let mut chains = Vec::with_capacity(rows.len());
        for row in &rows {
            chains.push(SignedEnd {
                writer: column(row, "name")?,
                head: head(row)?,
                mac: column(row, "mac")?,
            });
        }
        self.snapshot.commit().await.map_err(failed)?;
        Ok(TransferEnd {
            rows: self.rows,
            chains,
        })
    }
}

/// Where the chains stand that began up to a position.
async fn starts(
    snapshot: &mut dyn Connection,
    tenant: &TenantId,
    after: i64,
) -> Result<Vec<(String, Head)>, LedgerError> {
    let writers = snapshot
        .query(
            "SELECT c.writer, coalesce(w.name, '') AS name FROM chain c
             LEFT JOIN writer w ON w.id = c.writer
             WHERE c.tenant = (SELECT id FROM tenant WHERE name = ?1) ORDER BY name",
            &values![tenant.as_str()],
        )
        .await
        .map_err(failed)?;
    let mut starts = Vec::new();
    for writer in &writers {
        let row = snapshot
            .optional(
                "SELECT sequence, hash FROM record
                 WHERE tenant = (SELECT id FROM tenant WHERE name = ?1) AND writer = ?2 AND position <= ?3
                 ORDER BY position DESC LIMIT 1",
                &values![tenant.as_str(), column::<i64>(writer, "writer")?, after],
            )
            .await
            .map_err(failed)?;
        if let Some(row) = row {
            starts.push((column(writer, "name")?, head(&row)?));
        }
    }
    Ok(starts)
}

fn head(row: &Row) -> Result<Head, LedgerError> {
    let hash: &[u8] = column(row, "hash")?;
    Ok(Head {
        sequence: unsigned(column(row, "sequence")?),
        hash: hash.try_into().unwrap_or_default(),
    })
}

/// The text before if it is the same.
fn same_or(last: &mut Arc<str>, text: &str) -> Arc<str> {
    if **last != *text {
        *last = Arc::from(text);
    }
    Arc::clone(last)
}
