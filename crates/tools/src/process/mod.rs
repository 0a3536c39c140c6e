//! Tools that run commands.

pub mod bash;
