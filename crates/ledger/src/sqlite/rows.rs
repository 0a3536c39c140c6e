//! Writes many rows with one statement. A statement costs a round trip to SQLite's own thread,
//! which is more than a row costs there.
//!
//! A batch of any size is split into powers of two, so that a few variants of each statement cover
//! all sizes and stay prepared.

use std::sync::{Arc, OnceLock};

use sqlx::{
    Arguments as _, AssertSqlSafe, Encode, Sqlite, SqliteConnection, Type,
    query::Query,
    sqlite::{SqliteArguments, SqliteRow},
};

/// Variants of a statement: for 1, 2, 4 rows and so on, up to [`MOST_ROWS`].
const FORMS: usize = 7;

/// The most rows of one statement.
const MOST_ROWS: usize = 1 << (FORMS - 1);

/// A statement over rows with this many columns.
pub(super) struct Rows<const COLUMNS: usize> {
    before: &'static str,
    after: &'static str,
    forms: [OnceLock<Arc<str>>; FORMS],
}

impl<const COLUMNS: usize> Rows<COLUMNS> {
    /// `before`, then `VALUES` and the rows, then `after`.
    pub(super) const fn new(before: &'static str, after: &'static str) -> Self {
        Self {
            before,
            after,
            forms: [const { OnceLock::new() }; FORMS],
        }
    }

    /// Runs the statement for all rows; returns how many were changed.
    pub(super) async fn execute<R>(
        &self,
        connection: &mut SqliteConnection,
        rows: &[R],
        bind: impl Fn(&R, &mut Values),
    ) -> Result<u64, sqlx::Error> {
        let mut changed = 0;
        let mut rest = rows;
        while let Some((statement, later)) = self.next(rest, &bind) {
            changed += statement?.execute(&mut *connection).await?.rows_affected();
            rest = later;
        }
        Ok(changed)
    }

    /// Runs the statement for all rows, and returns its results.
    pub(super) async fn fetch<R>(
        &self,
        connection: &mut SqliteConnection,
        rows: &[R],
        bind: impl Fn(&R, &mut Values),
    ) -> Result<Vec<SqliteRow>, sqlx::Error> {
        let mut returned = Vec::new();
        let mut rest = rows;
        while let Some((statement, later)) = self.next(rest, &bind) {
            returned.extend(statement?.fetch_all(&mut *connection).await?);
            rest = later;
        }
        Ok(returned)
    }

    /// The statement for the next rows, and the rows after them; `None` if there are none.
    #[expect(
        clippy::type_complexity,
        reason = "a statement and a rest, used twice above"
    )]
    fn next<'r, R>(
        &self,
        rows: &'r [R],
        bind: impl Fn(&R, &mut Values),
    ) -> Option<(
        Result<Query<'static, Sqlite, SqliteArguments>, sqlx::Error>,
        &'r [R],
    )> {
        let form = rows.len().min(MOST_ROWS).checked_ilog2()? as usize;
        let (now, later) = rows.split_at_checked(1 << form)?;
        let text = Arc::clone(self.forms.get(form)?.get_or_init(|| self.text(now.len())));
        let mut values = Values::new(now.len() * COLUMNS);
        for row in now {
            bind(row, &mut values);
        }
        let statement = values
            .finish()
            .map(|values| sqlx::query_with(AssertSqlSafe(text), values));
        Some((statement, later))
    }

    /// Contains only the two texts and question marks.
    fn text(&self, rows: usize) -> Arc<str> {
        let row = format!("({})", ["?"; COLUMNS].join(","));
        let rows = vec![row; rows].join(",");
        Arc::from(format!("{} VALUES {rows} {}", self.before, self.after))
    }
}

/// The values of all rows in order.
pub(super) struct Values {
    values: SqliteArguments,
    failed: Option<sqlx::error::BoxDynError>,
}

impl Values {
    fn new(number: usize) -> Self {
        let mut values = SqliteArguments::default();
        values.reserve(number, 0);
        Self {
            values,
            failed: None,
        }
    }

    /// Adds the next value.
    pub(super) fn add<'v>(&mut self, value: impl Encode<'v, Sqlite> + Type<Sqlite>) -> &mut Self {
        if let Err(error) = self.values.add(value) {
            self.failed.get_or_insert(error);
        }
        self
    }

    fn finish(self) -> Result<SqliteArguments, sqlx::Error> {
        match self.failed {
            None => Ok(self.values),
            Some(error) => Err(sqlx::Error::Encode(error)),
        }
    }
}
