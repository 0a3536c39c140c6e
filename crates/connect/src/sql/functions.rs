//! Functions that compute from their arguments and nothing else. What is not on the list is refused,
//! because a function may write, read files, wait, take locks or end other sessions.

use std::{collections::HashSet, sync::LazyLock};

use super::SqlDialect;

/// The lists: a name per word, `#` for notes.
static POSTGRES: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("functions/postgres.txt")));
static SQLITE: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("functions/sqlite.txt")));
static MARIADB: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("functions/mariadb.txt")));

/// PostgreSQL takes `t.f` for `f(t)` where `t` has no column `f`. These take a whole row, and give
/// more than its number.
static OF_ROWS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| words(include_str!("functions/postgres_of_rows.txt")));

fn words(text: &'static str) -> HashSet<&'static str> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default());
    lines.flat_map(str::split_whitespace).collect()
}

/// Whether a built-in function only computes.
pub(crate) fn is_harmless(dialect: SqlDialect, name: &str) -> bool {
    match dialect {
        SqlDialect::Postgres => POSTGRES.contains(name),
        SqlDialect::Sqlite => SQLITE.contains(name),
        SqlDialect::MariaDb => MARIADB.contains(name),
    }
}

/// Whether a name after a table's may stand for its whole row.
pub(super) fn may_take_a_row(dialect: SqlDialect, name: &str) -> bool {
    dialect == SqlDialect::Postgres && OF_ROWS.contains(name)
}
