//! Databases as operations of a workspace. The only crate that speaks to them for tools.
//!
//! Three fences stand between a statement and a database, because each alone has known ways around
//! it: what the statement says ([`sql`]), what the role may do (checked on every connection), and a
//! transaction that only reads and is always rolled back. Read next: [`databases`] for the way of a
//! statement through them, `postgres/`, `sqlite/` and `mariadb/` for what each database adds.
//!
//! Nothing here decides whether a call may run; the accesses it finds are judged by policy.

pub mod databases;
pub mod settings;
pub mod sql;

mod batch;
mod halt;
mod kept_rows;
#[cfg(feature = "mariadb")]
mod mariadb;
mod masked_rows;
mod parameter_count;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(any(feature = "mariadb", feature = "postgres"))]
mod role_password;
mod row_comparison;
mod source_finding;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statement_slot;
#[cfg(any(feature = "mariadb", feature = "postgres"))]
mod whole_number;

pub use batch::BATCH_ROWS;
pub use databases::Databases;
pub use masked_rows::MASKED_VALUE;
pub use source_finding::SourceFinding;
