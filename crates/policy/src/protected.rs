//! Paths no rule can open for writing, as built-in rules. The names are in
//! [`haft_contract::protected`], which the back ends share.
//!
//! Names are compared as bytes. On a case-insensitive directory the back end sets
//! `PathAccess::protected`, which counts the same.

use haft_contract::protected::protected_name;

/// A built-in rule against writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuiltInRule {
    /// In rule notation.
    pub(crate) text: String,
    /// Why it cannot be overruled.
    pub(crate) reason: &'static str,
}

/// The built-in rule that protects this path, if one does.
pub(crate) fn protecting_rule(path: &str) -> Option<BuiltInRule> {
    protected_name(path).map(|name| BuiltInRule {
        text: format!("write(**/{name})"),
        reason: name.reason,
    })
}
