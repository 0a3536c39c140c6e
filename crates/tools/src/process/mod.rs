//! Tools that run commands and manage their processes.

pub mod bash;
pub mod processes;
pub mod view;

pub(crate) mod follow;
mod keys;
mod stay;
