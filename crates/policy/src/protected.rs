//! Paths no rule can open for writing, as built-in rules. The names are in
//! [`haft_contract::protected`], which the back ends share.
//!
//! Names are compared as bytes. On a case-insensitive directory the back end sets
//! `PathAccess::protected`, which counts the same.

use haft_contract::{Access, ProviderId, ToolKey, ops::GitPart, protected::protected_name};

/// The built-in tool that puts back what calls did.
const UNDO: &str = "undo";

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

/// Whether this is `undo`, about to put back a part of git's state. Git is protected because files in
/// it name programs; a ref, `HEAD` and the index name none, the bytes come from the record, and the
/// back end takes nothing else there. Rules apply as they do to any other file.
pub(crate) fn puts_git_back(key: &ToolKey, access: Option<&Access>) -> bool {
    let is_undo = key.provider == ProviderId::builtin() && key.tool.as_str() == UNDO;
    let Some(Access::Path(path)) = access else {
        return false;
    };
    let target = path.resolved.as_ref();
    let leads_there = target.is_none_or(|target| *target == path.path);
    is_undo && leads_there && GitPart::of(&path.path).is_some()
}
