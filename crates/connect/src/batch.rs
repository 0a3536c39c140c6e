//! How many rows are handed on at a time.

/// How many rows are handed on at a time.
pub const BATCH_ROWS: usize = 500;
