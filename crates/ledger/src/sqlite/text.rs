//! Full text: words of settled calls in an index of SQLite's own. The tenant is one of the words, so that
//! a search looks at nobody else's.

use std::fmt::Write as _;

use crate::{
    search_words::tenant_token,
    store::{Row, StoreError, TextSearch, Value, values},
};

pub(super) const INDEX: &str = "INSERT INTO call_text (rowid, text) VALUES (?1, ?2)";

pub(super) const FIND: &str = "SELECT rowid AS listed FROM call_text
    WHERE call_text MATCH ?1 AND rowid < ?2 AND rowid > ?3 ORDER BY rowid DESC LIMIT ?4";

pub(super) const FIND_NEXT: &str = "SELECT rowid AS listed FROM call_text
    WHERE call_text MATCH ?1 AND rowid < ?2 AND rowid > ?3 ORDER BY rowid LIMIT ?4";

/// What is indexed for a call of this tenant.
pub(super) fn indexed(tenant: &str, text: &str) -> String {
    format!("{} {text}", tenant_token(tenant))
}

/// Matches every word, as a prefix, in this tenant's calls. The input is quoted, never syntax.
pub(super) fn match_expression(search: &TextSearch<'_>) -> String {
    let mut expression = format!("\"{}\"", tenant_token(search.tenant));
    for word in search.words {
        // Writing to a `String` cannot fail. A word has letters and digits only.
        let _ = write!(expression, " AND \"{word}\" *");
    }
    expression
}

/// The values of a search, in the order of its statement.
pub(super) fn values_of<'a>(search: &TextSearch<'_>, expression: &'a str) -> [Value<'a>; 4] {
    values![expression, search.before, search.after, search.limit]
}

/// Where the calls are listed.
pub(super) fn listed(rows: &[Row]) -> Result<Vec<i64>, StoreError> {
    rows.iter().map(|row| row.get("listed")).collect()
}
