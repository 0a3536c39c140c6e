//! The server edge, spoken to as a client does: JSON on a line, in both eras.

mod approvals;
mod callers;
mod calls;
pub(crate) mod http;
mod items;
mod lists;
mod notices;
mod questions;
mod stage;
pub(crate) mod web;
pub(crate) mod wire;

pub(crate) use stage::Stage;
use wire::{Era, Wire};
