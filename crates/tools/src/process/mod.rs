//! Tools that run commands and look after them.

pub mod bash;
pub mod processes;
pub mod view;

pub(crate) mod follow;
mod keys;
mod stay;
