//! Tools that run commands.

pub mod bash;

pub(crate) mod follow;
