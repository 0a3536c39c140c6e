//! From facts about a plan to allow, ask or deny, with the rule that decided.
//!
//! Operators write `allow`, `ask` and `deny` lists ([`load`], [`notation`]); each entry becomes a [`rule`], each
//! rule one Cedar policy ([`compile`]), and the [`engine`] gives Cedar only those policies that can
//! match the question. A command line is parsed first ([`shell`]), and each command in it is judged
//! separately. Decisions can be explained ([`explain`]) and rule files checked before they are used
//! ([`lint`]).
//!
//! INVARIANT: this crate performs no I/O and reads no clock; the same question gets the same
//! answer. What cannot be understood or evaluated is never allowed.
//!
//! ```
//! use haft_policy::{CedarPolicy, PolicySource};
//!
//! let policy = CedarPolicy::load(&[PolicySource::new(
//!     "haft.toml",
//!     r#"
//!     [policy]
//!     preset = "careful"
//!     allow = ["bash(cargo test)"]
//!     deny = ["read(**/.env)"]
//!     "#,
//! )])?;
//! assert!(policy.cedar_text().contains("forbid"));
//! # Ok::<(), haft_policy::LoadError>(())
//! ```

mod access_word;
mod action_pattern;
mod after_reading;
mod audience;
mod cache;
pub mod changes;
mod command_pattern;
pub mod compile;
mod database_pattern;
mod denied_addresses;
pub mod engine;
pub mod examples;
pub mod explain;
pub mod facts;
#[cfg(test)]
mod fuzz;
pub mod grant;
mod host_name;
mod in_doubt;
mod index;
mod judge;
pub mod lint;
pub mod load;
mod masks;
pub mod notation;
mod pattern;
mod pattern_index;
pub mod preset;
mod preview;
mod protected;
mod reader;
mod ruinous;
pub mod rule;
mod segment;
pub mod settings;
pub mod shell;
mod sole_access;
mod suggest;
mod text_pattern;
mod tool_section;
mod unmatched;
mod visibility;

pub use changes::PolicyChange;
pub use compile::CompileError;
pub use engine::CedarPolicy;
pub use examples::{ExpectedMatch, TestedRule, TriedExample};
pub use explain::Explanation;
pub use grant::{GrantRefusal, GrantRule};
pub use lint::{Finding, FindingKind};
pub use load::{LoadError, PolicyFile, PolicySource, Problem};
pub use preset::Preset;
pub use settings::{SessionLevel, SubagentRoute, ToolSettings};
