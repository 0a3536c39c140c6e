//! How much SQLite takes and makes for one statement. What it makes within one step cannot be
//! interrupted, so these also bound for how long it does not heed a stop.

use rusqlite::{Connection, limits::Limit};

/// The longest text or blob that SQLite reads or makes, in bytes.
pub(super) const MAX_VALUE_BYTES: i32 = 8 * 1024 * 1024;

/// The longest text that SQLite parses, in bytes: of a statement, which is far shorter, or of what made
/// a table.
const MAX_SQL_BYTES: i32 = 1024 * 1024;

/// The most columns of a table or a result.
const MAX_COLUMNS: i32 = 2_000;

/// How deep expressions nest. A chain of operators nests as deep as it is long.
const MAX_EXPRESSION_DEPTH: i32 = 1_000;

/// The most queries in a `UNION`.
const MAX_COMPOUND: i32 = 200;

/// The most instructions of a compiled statement.
const MAX_INSTRUCTIONS: i32 = 100_000;

/// The most arguments of a function.
const MAX_ARGUMENTS: i32 = 100;

/// The longest pattern of `LIKE` and `GLOB`, in bytes: matching takes as long as the text times the
/// pattern.
const MAX_PATTERN_BYTES: i32 = 256;

/// The most placeholders.
const MAX_PLACEHOLDERS: i32 = 1_000;

/// How deep triggers nest. None does anything here; the actions of foreign keys count as some.
const MAX_TRIGGER_DEPTH: i32 = 10;

/// Sets the limits of a connection.
pub(super) fn limit(connection: &Connection) -> rusqlite::Result<()> {
    for (limit, most) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_SQL_BYTES),
        (Limit::SQLITE_LIMIT_COLUMN, MAX_COLUMNS),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, MAX_EXPRESSION_DEPTH),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, MAX_COMPOUND),
        (Limit::SQLITE_LIMIT_VDBE_OP, MAX_INSTRUCTIONS),
        (Limit::SQLITE_LIMIT_FUNCTION_ARG, MAX_ARGUMENTS),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN_BYTES),
        (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, MAX_PLACEHOLDERS),
        (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, MAX_TRIGGER_DEPTH),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, most)?;
    }
    Ok(())
}
