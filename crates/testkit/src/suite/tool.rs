//! stub
pub const CASES: &[&str] = &[];
