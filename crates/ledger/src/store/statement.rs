//! Statements of the record: how one is put together, and the shapes its answer is read in.

use std::fmt::Write as _;

use super::{Connection, FromCell, Row, StoreError, Value};

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
