//! Databases, by the names the operator gave them. A tool passes a name and a statement; it never
//! sees an address or a credential.
//!
//! A statement is read before it runs: what it touches are the accesses of the plan, and the guard
//! reads it again when the tool runs it, so that a tool cannot run another one than was planned.

use std::{fmt, time::Duration};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{KeepRows, OpsError, PutBackRows, RowChange, RowsPutBack};
use crate::{access::Access, future::BoxFuture};

/// Databases of a workspace.
pub trait DatabaseOps: ReadStatement {
    /// Runs one statement. Its rows go to `rows` as they arrive.
    fn query<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
        rows: &'a mut dyn TakeRows,
    ) -> BoxFuture<'a, Result<StatementEnd, OpsError>>;

    /// Says what the database expects a statement to cost, without running it. A preview asks this of
    /// no statement that calls [functions](StatementReading::functions) which the operator lists.
    fn explain<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
    ) -> BoxFuture<'a, Result<StatementEstimate, OpsError>>;

    /// Takes back what a statement did to rows, as a change of its own. A row that is not what the
    /// statement left stays as it is.
    fn put_back<'a>(
        &'a self,
        request: PutBackRows<'a>,
        keeper: &'a mut dyn KeepRows,
    ) -> BoxFuture<'a, Result<RowsPutBack, OpsError>>;

    /// Lists tables and columns.
    fn schema<'a>(
        &'a self,
        question: SchemaQuestion<'a>,
    ) -> BoxFuture<'a, Result<SchemaPage, OpsError>>;
}

/// Tells what a statement touches from its text alone; no database is asked.
pub trait ReadStatement: Send + Sync {
    /// The databases there are, sorted by name.
    fn sources(&self) -> Vec<SourceSummary>;

    /// What a statement touches. Fails with [`ErrorKind::Denied`](crate::ErrorKind::Denied) unless
    /// every part of it is understood and known to be harmless where it only reads.
    fn read_statement(&self, source: &str, statement: &str) -> Result<StatementReading, OpsError>;

    /// What taking a change back touches. Fails if the source takes no changes.
    fn read_row_change(&self, change: &RowChange) -> Result<StatementReading, OpsError>;
}

/// A database as models and people know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceSummary {
    /// The configured name.
    pub name: String,
    /// What kind of database it is: `postgres`, `sqlite`, `mariadb`.
    pub engine: &'static str,
    /// Whether statements that change data are taken at all.
    pub writable: bool,
}

/// What a statement touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatementReading {
    /// The accesses, sorted: `crm.users.email`, `crm.users.*`, `crm.users.(rows)`.
    pub accesses: Vec<Access>,
    /// Whether it changes data.
    pub writes: bool,
    /// The functions it calls that the operator lists. A database may run them to say what it expects.
    pub functions: Vec<String>,
}

/// One statement.
#[derive(Debug, Clone)]
pub struct DatabaseQuery<'a> {
    /// The configured source.
    pub source: &'a str,
    /// The statement, with placeholders.
    pub statement: &'a str,
    /// The values of the placeholders.
    pub parameters: &'a [Value],
    /// Whether it may change data. A statement planned as read-only is run so that it cannot.
    pub writes: bool,
    /// How many rows a statement that changes data must change. With another number nothing is
    /// changed.
    pub expect_rows: Option<u64>,
    /// How long it may run, the wait for a connection included.
    pub within: Duration,
    /// Ends it.
    pub cancel: &'a CancellationToken,
}

/// Takes the rows of a statement.
pub trait TakeRows: Send {
    /// Takes the names of the columns, before the first row.
    fn columns(&mut self, names: &[String]);

    /// Takes the next rows, and says whether it wants more.
    fn rows(&mut self, rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows>;

    /// What keeps the rows that a change replaces. The runtime has one for every call; what a tool
    /// gives is not used.
    fn keeper(&mut self) -> Option<&mut dyn KeepRows> {
        None
    }
}

/// Whether more rows are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedRows {
    /// Go on.
    More,
    /// Stop the statement.
    NoMore,
}

/// How a statement ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementEnd {
    /// How many rows it changed.
    pub changed: Option<u64>,
    /// Why what it changed cannot be taken back, if it cannot.
    pub not_kept: Option<String>,
    /// Whether it was stopped because no more rows were wanted.
    pub stopped: bool,
    /// What the database had expected.
    pub estimate: Option<StatementEstimate>,
}

/// What a database expects of a statement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatementEstimate {
    /// The cost in the database's own unit, without decimals.
    pub cost: Option<u64>,
    /// How many rows it will return or change.
    pub rows: Option<u64>,
    /// The steps, as the database describes them.
    pub steps: String,
    /// The tables of which it would read every row.
    pub scans: Vec<TableScan>,
    /// Why what it changes could not be taken back, as far as the database's definitions say.
    pub not_kept: Option<String>,
}

/// A table of which a database would read every row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableScan {
    /// Its name, with its schema where that is not the usual one, or what the statement calls it.
    pub table: String,
    /// About how many rows it has, if the database knows without counting.
    pub rows: Option<u64>,
}

/// A question about tables and columns.
#[derive(Debug, Clone)]
pub struct SchemaQuestion<'a> {
    /// The configured source.
    pub source: &'a str,
    /// Part of the name of a table or a column.
    pub search: Option<&'a str>,
    /// One table, with its columns.
    pub table: Option<&'a str>,
    /// How many tables to leave out.
    pub offset: usize,
    /// The most tables to return.
    pub limit: usize,
    /// How long it may take.
    pub within: Duration,
    /// Ends it.
    pub cancel: &'a CancellationToken,
}

/// Some of the tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SchemaPage {
    /// The tables, sorted by name.
    pub tables: Vec<TableSummary>,
    /// Whether there are more.
    pub more: bool,
}

/// A table or a view.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSummary {
    /// Its name, with its schema where that is not the usual one.
    pub name: String,
    /// `table`, `view` or what the database calls it.
    pub kind: String,
    /// About how many rows it has, as the database knows without counting.
    pub estimated_rows: Option<u64>,
    /// Its columns, if one table was asked for.
    pub columns: Vec<ColumnSummary>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSummary {
    /// Its name.
    pub name: String,
    /// Its type in the database's words.
    pub kind: String,
    /// Whether it may be null.
    pub nullable: bool,
}

impl fmt::Display for StatementEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.cost, self.rows) {
            (Some(cost), Some(1)) => write!(f, "cost {cost}, about 1 row"),
            (None, Some(1)) => f.write_str("about 1 row"),
            (Some(cost), Some(rows)) => write!(f, "cost {cost}, about {rows} rows"),
            (Some(cost), None) => write!(f, "cost {cost}"),
            (None, Some(rows)) => write!(f, "about {rows} rows"),
            (None, None) => f.write_str("no estimate"),
        }
    }
}
