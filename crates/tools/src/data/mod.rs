//! Tools for data beyond files.

pub mod database_query;
mod expectation;
mod table_text;
