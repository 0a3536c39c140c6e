//! Databases as operations of a workspace. The only crate that speaks to them for tools.
//!
//! Three fences stand between a statement and a database, because each alone has known ways around
//! it: what the statement says ([`sql`]), what the role may do (checked on every connection), and a
//! transaction that only reads and is always rolled back. Read next: [`databases`] for the way of a
//! statement through them, `postgres/` and `sqlite/` for what each database adds.
//!
//! Nothing here decides whether a call may run; the accesses it finds are judged by policy.

pub mod databases;
pub mod settings;
pub mod sql;

mod batch;
mod halt;
#[cfg(feature = "postgres")]
mod postgres;
mod source_finding;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statement_slot;

pub use batch::BATCH_ROWS;
pub use databases::Databases;
pub use source_finding::SourceFinding;
