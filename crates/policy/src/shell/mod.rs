//! Determines what a command line will do before it runs.
//!
//! A script becomes [`Segment`]s, one for each simple command at any depth, with wrappers removed
//! (`timeout 5 sh -c '…'`). Rules are applied to segments. What is not fully understood says why
//! and asks; what exceeds the limits is refused. The parser only ever makes an answer stricter: the
//! sandbox decides what a command *can* do.
//!
//! Without the feature `shell` there is no parser, and every command is refused.
//!
//! Read in this order: `parse` (script to simple commands), `wrapper` (commands inside commands),
//! `entry`, `table`, `star` and `hazard` (what is known about programs), `touch` and `changes`
//! (files), `concern` and `legible` (what presets ask about), `second` (the other parser),
//! `analyse` (all of it together).

mod addresses;
mod analyse;
mod builtins;
mod changes;
mod characters;
mod command_form;
mod concern;
mod doubts;
mod entry;
mod git_settings;
mod hazard;
mod launcher;
mod leads_out;
mod legible;
mod limits;
mod may_name;
#[cfg(not(feature = "shell"))]
mod no_parser;
mod options;
#[cfg(feature = "shell")]
mod parse;
mod parsed;
mod quoted_path;
mod remade;
mod routine;
mod routine_check;
#[cfg(feature = "shell")]
mod second;
mod segment;
mod star;
mod table;
mod touch;
#[cfg(feature = "shell")]
mod tree;
mod unclear;
mod whole_lines;
mod word;
mod wrapper;

pub use analyse::{Analysis, analyse};
pub use concern::Concern;
pub use entry::Class;
pub use limits::Refusal;
pub use segment::Segment;
pub use unclear::UnclearReason;

#[cfg(not(feature = "shell"))]
use no_parser::{opinion, parse};
#[cfg(feature = "shell")]
use {parse::parse, second::opinion};

pub(crate) use segment::{family, name_of};
pub(crate) use star::{
    LeadingOption, has_subcommands, leading, one_name_each, reads_clusters, spellings,
};
pub(crate) use touch::{CommandTouch, TouchOrigin};
pub(crate) use word::{Value, Word};
