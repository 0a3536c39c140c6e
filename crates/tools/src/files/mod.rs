//! Tools that read and change files.

pub mod copy;
pub mod edit;
pub mod list;
pub mod patch;
pub mod read;
pub mod write;

mod file_view;
pub(crate) mod media;
mod patch_steps;
mod seen;
mod whole;
