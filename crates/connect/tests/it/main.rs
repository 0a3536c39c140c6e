//! Statements against real databases: attacks and their twins (`attacks/sql`), what reaches the caller
//! and when, how a statement ends, and changes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests"
)]

mod attacks;
mod changes;
mod ends;
mod grants;
mod mariadb_changes;
mod mariadb_grants;
mod mariadb_put_back;
mod masks;
mod million;
mod put_back;
mod rows;
mod sizes;
mod sources;
mod support;
mod tool;
mod views;
