//! What the record needs of a database: connections that run statements, and transactions. Nothing
//! outside `sqlite/` and `postgres/` knows which database it is.
//!
//! Statements are written once, in the part of SQL that every engine has, with `?1`, `?2` for their
//! values. What engines do differently, and what only matters where several processes write at once,
//! are methods of a connection.

use std::{
    fmt::{self, Write as _},
    sync::Arc,
};

use haft_contract::BoxFuture;

use crate::open_error::OpenError;

/// A database that holds a record.
pub(crate) trait Store: Send + Sync {
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
pub(crate) trait Connection: Send {
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
pub(crate) enum Scope<'a> {
    /// Those of these tenants.
    Tenants(&'a [&'a str]),
    /// Everybody's: for what the writer does for all of them, such as settling what a process left.
    Every,
}

/// What only one transaction does at a time, over all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lock {
    /// Changes questions, which are numbered in the order of their changes.
    Answers,
    /// Catches up with what is searchable.
    CatchUp,
}

/// Which of many calls come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    NewestFirst,
    /// For whoever follows the record: what comes next is never skipped for what is newer.
    OldestFirst,
}

/// A search for calls by their words.
#[derive(Debug)]
pub(crate) struct TextSearch<'a> {
    pub(crate) tenant: &'a str,
    /// Each must be the beginning of a word of the call.
    pub(crate) words: &'a [String],
    /// Only calls listed before this position.
    pub(crate) before: i64,
    /// Only calls listed after this position.
    pub(crate) after: i64,
    /// Which of them come first, where there are more than the limit.
    pub(crate) order: Order,
    /// How many at most.
    pub(crate) limit: i64,
}

impl dyn Connection + '_ {
    /// Runs a statement; returns how many rows were changed.
    pub(crate) async fn execute<const N: usize>(
        &mut self,
        statement: &str,
        values: [Value<'_>; N],
    ) -> Result<u64, StoreError> {
        self.execute_all(statement, &[values.to_vec()]).await
    }

    /// The first row of a query, if it has any.
    pub(crate) async fn optional(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.query(statement, values).await?.into_iter().next())
    }

    /// The number that a statement always returns, such as a count.
    pub(crate) async fn number(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<i64, StoreError> {
        let number = self.scalar(statement, values).await?;
        number.ok_or_else(|| StoreError::Unreadable("a number".to_owned()))
    }

    /// The first column of the first row, if there is one.
    pub(crate) async fn scalar<T>(
        &mut self,
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<Option<T>, StoreError>
    where
        T: for<'r> FromCell<'r>,
    {
        let row = self.optional(statement, values).await?;
        row.map(|row| row.first()).transpose()
    }
}

/// A statement that is put together, and its values.
#[derive(Debug, Default)]
pub(crate) struct Statement<'a> {
    text: String,
    values: Vec<Value<'a>>,
}

impl<'a> Statement<'a> {
    /// Begins with this text.
    pub(crate) fn new(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            values: Vec::new(),
        }
    }

    /// Adds text of the program's own.
    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.text.push_str(text);
        self
    }

    /// Adds a value.
    pub(crate) fn value(&mut self, value: impl Into<Value<'a>>) -> &mut Self {
        self.values.push(value.into());
        // Writing to a `String` cannot fail.
        let _ = write!(self.text, "?{}", self.values.len());
        self
    }

    /// Runs it and returns its rows.
    pub(crate) async fn query(
        &self,
        connection: &mut dyn Connection,
    ) -> Result<Vec<Row>, StoreError> {
        connection.query(&self.text, &self.values).await
    }
}

/// A value of a statement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// The values of a statement, each converted.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::store::Value::from($value)),*] };
}
pub(crate) use values;

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<bool> for Value<'_> {
    fn from(is: bool) -> Self {
        Self::Integer(is.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Self {
        Self::Text(text)
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a> From<&'a Vec<u8>> for Value<'a> {
    fn from(bytes: &'a Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for Value<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A stored value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<Value<'_>> for Cell {
    fn from(value: Value<'_>) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Integer(number) => Self::Integer(number),
            Value::Text(text) => Self::Text(text.to_owned()),
            Value::Bytes(bytes) => Self::Bytes(bytes.to_vec()),
        }
    }
}

impl<'a> From<&'a Cell> for Value<'a> {
    fn from(cell: &'a Cell) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Integer(number) => Self::Integer(*number),
            Cell::Text(text) => Self::Text(text),
            Cell::Bytes(bytes) => Self::Bytes(bytes),
        }
    }
}

/// One row of a query.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    columns: Arc<[String]>,
    cells: Vec<Cell>,
}

impl Row {
    pub(crate) fn new(columns: Arc<[String]>, cells: Vec<Cell>) -> Self {
        Self { columns, cells }
    }

    /// The value of a column.
    pub(crate) fn get<'r, T: FromCell<'r>>(&'r self, name: &str) -> Result<T, StoreError> {
        let column = self.columns.iter().position(|column| column == name);
        let cell = column.and_then(|column| self.cells.get(column));
        let value = cell.and_then(T::from_cell);
        value.ok_or_else(|| StoreError::Unreadable(name.to_owned()))
    }

    /// The value of the first column.
    fn first<T>(&self) -> Result<T, StoreError>
    where
        T: for<'r> FromCell<'r>,
    {
        let value = self.cells.first().and_then(T::from_cell);
        value.ok_or_else(|| StoreError::Unreadable("its first column".to_owned()))
    }
}

/// What a stored value is read as.
pub(crate) trait FromCell<'r>: Sized {
    /// None if it is of another type.
    fn from_cell(cell: &'r Cell) -> Option<Self>;
}

impl<'r> FromCell<'r> for &'r Cell {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        Some(cell)
    }
}

impl FromCell<'_> for i64 {
    fn from_cell(cell: &Cell) -> Option<Self> {
        match cell {
            Cell::Integer(number) => Some(*number),
            Cell::Null | Cell::Text(_) | Cell::Bytes(_) => None,
        }
    }
}

impl FromCell<'_> for bool {
    fn from_cell(cell: &Cell) -> Option<Self> {
        i64::from_cell(cell).map(|number| number != 0)
    }
}

impl<'r> FromCell<'r> for &'r str {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        match cell {
            Cell::Text(text) => Some(text),
            Cell::Null | Cell::Integer(_) | Cell::Bytes(_) => None,
        }
    }
}

impl<'r> FromCell<'r> for String {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        <&str>::from_cell(cell).map(str::to_owned)
    }
}

impl<'r> FromCell<'r> for &'r [u8] {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        match cell {
            Cell::Bytes(bytes) => Some(bytes),
            Cell::Null | Cell::Integer(_) | Cell::Text(_) => None,
        }
    }
}

impl<'r> FromCell<'r> for Vec<u8> {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        <&[u8]>::from_cell(cell).map(<[u8]>::to_vec)
    }
}

impl<'r, T: FromCell<'r>> FromCell<'r> for Option<T> {
    fn from_cell(cell: &'r Cell) -> Option<Self> {
        match cell {
            Cell::Null => Some(None),
            Cell::Integer(_) | Cell::Text(_) | Cell::Bytes(_) => T::from_cell(cell).map(Some),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_what_it_is_and_as_nothing_else() {
        let columns: Arc<[String]> = ["number", "text", "bytes", "none"]
            .map(str::to_owned)
            .into();
        let values = values![7_i64, "a", &[1_u8, 2], None::<i64>];
        let row = Row::new(columns, values.map(Cell::from).to_vec());
        assert_eq!(row.get::<i64>("number").unwrap(), 7);
        assert_eq!(row.get::<&str>("text").unwrap(), "a");
        assert_eq!(row.get::<&[u8]>("bytes").unwrap(), [1, 2]);
        assert_eq!(row.get::<Option<i64>>("none").unwrap(), None);
        assert_eq!(
            row.get::<Option<String>>("text").unwrap(),
            Some("a".to_owned())
        );
        assert!(row.get::<i64>("text").is_err());
        assert!(row.get::<String>("none").is_err());
        assert!(row.get::<i64>("other").is_err());
        assert!(row.get::<Option<i64>>("text").is_err());
    }
}
