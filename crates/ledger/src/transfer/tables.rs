//! What a record has besides its rows: questions, standing approvals, accepted calls, memories, credentials,
//! keys of requests, and which versions of files were seen. It is carried as it is stored, signatures and all, so it holds where the key is the
//! same.

use super::TransferError;
use crate::{
    accepted, approvals, credentials, grants, memories,
    queue::unavailable,
    request_keys,
    store::{Cell, Connection, Row, Scope, Statement, Store, StoreError, Value},
};

/// Rows carried at a time.
const ROWS_A_PAGE: i64 = 500;

/// A table that is carried.
pub(super) struct CarriedTable {
    name: &'static str,
    /// How people know one of its rows.
    what: &'static str,
    /// Its columns, those of its key first.
    columns: &'static [&'static str],
    key: usize,
    is_signed: fn(&Row, &[u8; 32]) -> Result<bool, StoreError>,
}

impl CarriedTable {
    /// What the database calls it.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// How people know one of its rows.
    pub(super) fn what(&self) -> &'static str {
        self.what
    }
}

pub(super) const QUESTIONS: CarriedTable = CarriedTable {
    name: "approval",
    what: "a question",
    // `changed` numbers the changes of one database, for those who wait there: nobody waits for a row that
    // arrives, and it begins as a new one does.
    columns: &[
        "tenant",
        "id",
        "kind",
        "call",
        "person",
        "agent",
        "session",
        "principal",
        "digest",
        "form",
        "summary",
        "asked_at",
        "expires_at",
        "state",
        "answered_by",
        "answered_at",
        "reason",
        "used_by",
        "mac",
    ],
    key: 2,
    is_signed: |row, key| Ok(approvals::row::Columns::read(row, key)?.is_some()),
};

pub(super) const GRANTS: CarriedTable = CarriedTable {
    name: "grant_rule",
    what: "a standing approval",
    columns: &[
        "tenant",
        "id",
        "person",
        "rule",
        "scope",
        "bound_to",
        "shown",
        "until_at",
        "uses_left",
        "made_by",
        "made_at",
        "cause",
        "changed",
        "mac",
    ],
    key: 2,
    is_signed: |row, key| Ok(grants::row::read(row, key)?.is_some()),
};

pub(super) const ACCEPTED: CarriedTable = CarriedTable {
    name: "accepted",
    what: "an accepted call",
    columns: &["tenant", "call", "at", "digest", "request", "epoch", "mac"],
    key: 2,
    is_signed: accepted::is_signed,
};

pub(super) const SEEN: CarriedTable = CarriedTable {
    name: "seen",
    what: "a file's version",
    columns: &[
        "tenant",
        "session",
        "session_kind",
        "person",
        "agent",
        "workspace",
        "path",
        "version",
    ],
    key: 7,
    is_signed: |_, _| Ok(true),
};

const MEMORIES: CarriedTable = CarriedTable {
    name: "memory",
    what: "a memory",
    columns: &[
        "tenant", "id", "person", "agent", "text", "labels", "session", "call", "at", "mac",
    ],
    key: 2,
    is_signed: |row, key| Ok(memories::row::read(row, key)?.is_some()),
};

const MEMORY_SOURCES: CarriedTable = CarriedTable {
    name: "memory_source",
    what: "a source of memories",
    columns: &["tenant", "session", "provider"],
    key: 3,
    is_signed: |_, _| Ok(true),
};

const CREDENTIALS: CarriedTable = CarriedTable {
    name: "credential",
    what: "a credential",
    columns: &[
        "tenant",
        "id",
        "kind",
        "person",
        "agent",
        "name",
        "scopes",
        "workspaces",
        "made_by",
        "made_at",
        "expires_at",
        "revoked_at",
        "secret",
        "mac",
    ],
    key: 2,
    is_signed: |row, key| Ok(credentials::row::read(row, key)?.is_some()),
};

const REQUEST_KEYS: CarriedTable = CarriedTable {
    name: "request_key",
    what: "a request's key",
    columns: &["tenant", "owner", "key", "body", "call", "at", "mac"],
    key: 3,
    is_signed: request_keys::is_signed,
};

const GRANT_CHANGES: CarriedTable = CarriedTable {
    name: "grant_change",
    what: "a change of standing approvals",
    columns: &["tenant", "person", "changed", "removed"],
    key: 2,
    is_signed: |_, _| Ok(true),
};

const GRANT_COUNTS: CarriedTable = CarriedTable {
    name: "grant_count",
    what: "the number of standing approvals",
    columns: &["tenant", "kept"],
    key: 1,
    is_signed: |_, _| Ok(true),
};

/// Everything that is carried besides the rows of the record.
pub(super) const TABLES: [&CarriedTable; 10] = [
    &QUESTIONS,
    &GRANTS,
    &ACCEPTED,
    &SEEN,
    &GRANT_CHANGES,
    &GRANT_COUNTS,
    &MEMORIES,
    &MEMORY_SOURCES,
    &CREDENTIALS,
    &REQUEST_KEYS,
];

/// What a table has, whatever the order of its rows is in a database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TableDigest {
    pub(super) rows: u64,
    hash: [u8; 32],
}

impl TableDigest {
    fn add(&mut self, table: &CarriedTable, row: &Row) -> Result<(), TransferError> {
        let mut hasher = blake3::Hasher::new();
        for column in table.columns {
            let mut add = |kind: u8, bytes: &[u8]| {
                hasher.update(&[kind]);
                hasher.update(&(bytes.len() as u64).to_be_bytes());
                hasher.update(bytes);
            };
            match cell(row, column)? {
                Cell::Null => add(0, &[]),
                Cell::Integer(number) => add(1, &number.to_be_bytes()),
                Cell::Text(text) => add(2, text.as_bytes()),
                Cell::Bytes(bytes) => add(3, bytes),
            }
        }
        // No row is there twice, so none undoes another.
        let hash = hasher.finalize();
        for (all, byte) in self.hash.iter_mut().zip(hash.as_bytes()) {
            *all ^= byte;
        }
        self.rows += 1;
        Ok(())
    }
}

/// Reads a table of a whole record, and hands out its rows in pages.
pub(super) struct TablePages<'t> {
    table: &'t CarriedTable,
    reader: Box<dyn Connection>,
    after: Option<Row>,
}

impl<'t> TablePages<'t> {
    pub(super) async fn open(
        store: &dyn Store,
        table: &'t CarriedTable,
    ) -> Result<Self, TransferError> {
        let reader = store.reader(Scope::Every).await.map_err(failed)?;
        Ok(Self {
            table,
            reader,
            after: None,
        })
    }

    /// The next rows; none after the last.
    pub(super) async fn next(&mut self) -> Result<Vec<Row>, TransferError> {
        let key = self.table.columns.get(..self.table.key).unwrap_or_default();
        let key_columns = key.join(", ");
        let mut select = Statement::new(&format!("SELECT * FROM {}", self.table.name));
        if let Some(after) = &self.after {
            select.text(&format!(" WHERE ({key_columns}) > ("));
            for (number, column) in key.iter().enumerate() {
                select.text(if number > 0 { ", " } else { "" });
                select.value(cell(after, column)?);
            }
            select.text(")");
        }
        select.text(&format!(" ORDER BY {key_columns} LIMIT "));
        select.value(ROWS_A_PAGE);
        let rows = select.query(&mut *self.reader).await.map_err(failed)?;
        self.after = rows.last().cloned();
        Ok(rows)
    }
}

/// What a table has.
pub(super) async fn digest(
    store: &dyn Store,
    table: &CarriedTable,
) -> Result<TableDigest, TransferError> {
    let mut pages = TablePages::open(store, table).await?;
    let mut digest = TableDigest::default();
    loop {
        let rows = pages.next().await?;
        if rows.is_empty() {
            return Ok(digest);
        }
        for row in &rows {
            digest.add(table, row)?;
        }
    }
}

/// Carries a table into a transaction, and refuses what this record did not sign.
pub(super) async fn carry(
    store: &dyn Store,
    table: &CarriedTable,
    key: &[u8; 32],
    target: &mut dyn Connection,
) -> Result<(), TransferError> {
    let columns = table.columns.join(", ");
    let numbers: Vec<String> = (1..=table.columns.len())
        .map(|number| format!("?{number}"))
        .collect();
    let mut insert = format!(
        "INSERT INTO {} ({columns}) VALUES ({})",
        table.name,
        numbers.join(", ")
    );
    if table.name == QUESTIONS.name {
        insert = format!(
            "INSERT INTO {} ({columns}, changed) VALUES ({}, 0)",
            table.name,
            numbers.join(", ")
        );
    }
    let mut pages = TablePages::open(store, table).await?;
    loop {
        let rows = pages.next().await?;
        if rows.is_empty() {
            return Ok(());
        }
        let mut values: Vec<Vec<Value<'_>>> = Vec::with_capacity(rows.len());
        for row in &rows {
            if !(table.is_signed)(row, key).map_err(failed)? {
                return Err(TransferError::Unsigned(table.what));
            }
            let cells = table.columns.iter().map(|column| cell(row, column));
            values.push(
                cells
                    .map(|cell| cell.map(Value::from))
                    .collect::<Result<_, _>>()?,
            );
        }
        target.execute_all(&insert, &values).await.map_err(failed)?;
    }
}

fn cell<'r>(row: &'r Row, column: &str) -> Result<&'r Cell, TransferError> {
    row.get(column).map_err(failed)
}

pub(super) fn failed(error: StoreError) -> TransferError {
    unavailable(&error.to_string()).into()
}
