//! Tools that show what earlier calls left behind.

pub mod read_output;
