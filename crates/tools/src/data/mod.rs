//! Tools for data beyond files.

pub mod database_query;
mod table_text;
