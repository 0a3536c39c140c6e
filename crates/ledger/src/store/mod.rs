//! What the record needs of a database: connections that run statements, and transactions. Two databases
//! are built in; a program may bring one of its own ([`LedgerOptions::store`](crate::LedgerOptions::store)).
//!
//! Statements are written once, in the part of SQL that both of them have, with `?1`, `?2` for their values:
//! `INSERT … ON CONFLICT`, `RETURNING` and partial indexes are in it. The tables are those of [`SCHEMA`](crate::SCHEMA).
//! What engines do differently, and what only matters where several processes write at once, are methods
//! of a connection.
//!
//! The record is only as good as what a store promises: that a commit of the writer's survives a power
//! cut, that nobody sees half of a transaction, and that [`Connection::settled_position`] never passes a
//! row that is still to appear. Chains, signatures, redaction and the order of writing are the ledger's
//! own and the same on every store. `ledger_suite!` of `haft-harness` tells whether a store is one.

mod statement;
mod value;

use std::{fmt, sync::Arc};

use haft_contract::BoxFuture;

pub use self::value::{Cell, FromCell, Row, Value};
pub(crate) use self::{statement::Statement, value::values};
pub use crate::open_error::OpenError;

/// A database that a program brings, and the name it is known by.
#[derive(Clone)]
pub struct NamedStore {
    pub(crate) name: String,
    pub(crate) store: Arc<dyn Store>,
}

impl NamedStore {
    /// `name` is the same in every process that writes this database, and another for every other: the
    /// marks that show a loss are kept under it. It is shown when the record cannot be opened.
    pub fn new(name: impl Into<String>, store: Arc<dyn Store>) -> Self {
        Self {
            name: name.into(),
            store,
        }
    }

    /// What it is known by.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for NamedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NamedStore").field(&self.name).finish()
    }
}

/// A database that holds a record. One is made for each ledger, which closes it when it is closed itself.
pub trait Store: Send + Sync {
    /// The writer's first connection, with the newest schema. One process at a time does this.
    fn open(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, OpenError>>;

    /// A connection for the one writer: every commit survives a power cut.
    fn writer(&self) -> BoxFuture<'_, Result<Box<dyn Connection>, StoreError>>;

    /// A connection that only reads, and only what is in its scope.
    fn reader<'a>(
        &'a self,
        scope: Scope<'a>,
    ) -> BoxFuture<'a, Result<Box<dyn Connection>, StoreError>>;

    /// Whether processes on other machines may write it too, which see no file of this one.
    fn is_for_many_machines(&self) -> bool {
        false
    }

    /// Closes the connections that read, and hands out no more.
    fn close(&self);
}

/// One connection. Dropping it in the middle of a transaction undoes the transaction. What changes
/// something is refused unless a connection can write.
pub trait Connection: Send {
    /// Runs a statement and returns its rows.
    fn query<'a>(
        &'a mut self,
        statement: &'a str,
        values: &'a [Value<'a>],
    ) -> BoxFuture<'a, Result<Vec<Row>, StoreError>>;

    /// Runs a statement once for each row of values; returns how many rows were changed.
    fn execute_all<'a>(
        &'a mut self,
        statement: &'a str,
        rows: &'a [Vec<Value<'a>>],
    ) -> BoxFuture<'a, Result<u64, StoreError>> {
        let _ = (statement, rows);
        only_reads()
    }

    /// Begins a transaction. A reader's sees one state of the database until it ends.
    fn begin(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Ends the transaction; for the writer, once it would survive a power cut.
    fn commit(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Undoes the transaction.
    fn rollback(&mut self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Whose rows the statements that follow in this transaction are about. An engine that can has the
    /// database hide all others, so that a statement that forgot to name its tenant finds nothing.
    fn act_for<'a>(&'a mut self, scope: Scope<'a>) -> BoxFuture<'a, Result<(), StoreError>> {
        let _ = scope;
        Box::pin(std::future::ready(Ok(())))
    }

    /// Waits until nobody else holds this lock, and holds it until the transaction ends. Nothing to do
    /// where only one transaction writes at a time.
    fn lock(&mut self, lock: Lock) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = lock;
        Box::pin(std::future::ready(Ok(())))
    }

    /// How a `SELECT` ends that keeps others from changing its rows until the transaction ends.
    fn row_lock(&self) -> &'static str {
        ""
    }

    /// The number of the next change of a question. Taken under [`Lock::Answers`], so that numbers
    /// become visible in their order.
    fn next_change(&mut self) -> BoxFuture<'_, Result<i64, StoreError>> {
        only_reads()
    }

    /// Positions for new rows, each greater than all that this writer was given before.
    fn next_positions(&mut self, count: usize) -> BoxFuture<'_, Result<Vec<i64>, StoreError>> {
        let _ = count;
        only_reads()
    }

    /// The position up to which no row will appear any more, whoever writes it.
    fn settled_position(&mut self) -> BoxFuture<'_, Result<i64, StoreError>>;

    /// Makes calls of a tenant searchable: where each is listed, and its text.
    fn index_texts<'a>(
        &'a mut self,
        tenant: &'a str,
        calls: &'a [(i64, String)],
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        let _ = (tenant, calls);
        only_reads()
    }

    /// Where calls are listed whose text has all of these words, newest first.
    fn find_text<'a>(
        &'a mut self,
        search: &'a TextSearch<'a>,
    ) -> BoxFuture<'a, Result<Vec<i64>, StoreError>>;

    /// Says for as long as this connection lives that the writer with this number does; false if
    /// somebody else says so. Nothing to do where lock files say it to everybody.
    fn hold_writer(&mut self, writer: i64) -> BoxFuture<'_, Result<bool, StoreError>> {
        let _ = writer;
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Writers on any machine that have open calls and are gone; held until they are let go.
    fn hold_abandoned_writers(&mut self) -> BoxFuture<'_, Result<Vec<i64>, StoreError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// What a database needs every day for as long as it is written. Outside a transaction.
    fn daily_upkeep(&mut self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Holds a writer no more.
    fn let_writer_go(&mut self, writer: i64) -> BoxFuture<'_, Result<(), StoreError>> {
        let _ = writer;
        Box::pin(std::future::ready(Ok(())))
    }
}

fn only_reads<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, StoreError>> {
    let refused = StoreError::Refused("this connection only reads".to_owned());
    Box::pin(std::future::ready(Err(refused)))
}

/// Whose rows a connection sees and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Those of these tenants.
    Tenants(&'a [&'a str]),
    /// Everybody's: for what the writer does for all of them, such as settling what a process left.
    Every,
}

/// What only one transaction does at a time, over all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// Changes questions, which are numbered in the order of their changes.
    Answers,
    /// Catches up with what is searchable.
    CatchUp,
}

/// Which of many calls come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The newest first.
    NewestFirst,
    /// For whoever follows the record: what comes next is never skipped for what is newer.
    OldestFirst,
}

/// A search for calls by their words.
#[derive(Debug)]
#[non_exhaustive]
pub struct TextSearch<'a> {
    /// Whose calls.
    pub tenant: &'a str,
    /// Each must be the beginning of a word of the call.
    pub words: &'a [String],
    /// Only calls listed before this position.
    pub before: i64,
    /// Only calls listed after this position.
    pub after: i64,
    /// Which of them come first, where there are more than the limit.
    pub order: Order,
    /// How many at most.
    pub limit: i64,
}

/// Why the database did not do what was asked.
#[derive(Debug)]
#[non_exhaustive]
pub enum StoreError {
    /// It refused; its own words, which name no path and no statement.
    Refused(String),
    /// It cannot be reached.
    Unreachable(String),
    /// Another transaction was in the way. Nothing was written; the same transaction may succeed when
    /// it is tried again.
    Busy(String),
    /// A stored value is not what was written.
    Unreadable(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) | Self::Unreachable(why) | Self::Busy(why) => f.write_str(why),
            Self::Unreadable(what) => write!(f, "a stored value cannot be read: {what}"),
        }
    }
}

impl std::error::Error for StoreError {}
