//! Tools that show output left by earlier calls.

pub mod read_output;
