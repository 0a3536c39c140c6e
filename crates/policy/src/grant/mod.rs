//! Standing approvals: which rules can be granted, what they cover, and which to propose.
//!
//! A grant answers for a person who would have been asked. It turns *ask* into *allow* for the one
//! access or the one command of a script that its rule matches, and for nothing else: a denial
//! stays a denial, and a plan is allowed only if every part of it is. The host decides where a
//! grant applies, and how long; this module reads no clock.
//!
//! Read in this order: `rule` (what can be granted), `cover` (what it then covers), `keys` (how
//! it is found), `apply` (the decision), `propose` (what to offer), `never_offered` (what not).

mod apply;
mod cover;
mod keys;
mod never_offered;
mod propose;
mod rule;
mod runner;

pub use never_offered::is_never_offered;
pub use propose::narrowest_rules;
pub use rule::{GrantRefusal, GrantRule};

pub(crate) use keys::keys_of;
pub(crate) use rule::GrantRules;
