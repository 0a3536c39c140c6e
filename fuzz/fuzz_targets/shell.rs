//! Any bytes as a script: read without a panic, twice the same, within its bounds. The function is
//! the one that CI tries with known scripts and mutations of them.
#![no_main]

#[path = "../../crates/policy/tests/it/shell_bytes.rs"]
mod shell_bytes;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| shell_bytes::hold(bytes));
