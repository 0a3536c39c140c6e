//! Statements against real databases: attacks and their twins (`attacks/sql`), what reaches the caller
//! and when, how a statement ends, and changes.

mod attacks;
mod changes;
mod ends;
mod rows;
mod sources;
mod support;
mod tool;
