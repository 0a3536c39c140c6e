//! Whether a caller is shown a tool, and if not, why: it is off, withheld, needs a scope, or a rule
//! denies it for every input.

use haft_contract::{
    Principal, ProviderId,
    erased::WithheldUntil,
    host::{Policy as _, RuleRef, Visibility},
};
use haft_runtime::registry::Entry;

use crate::{assembly::Assembly, own_tools::off_until_named};

/// Whether a caller is shown a tool, and why.
#[derive(Debug, Clone)]
pub struct WhyShown {
    /// The tool, with its provider.
    pub tool: String,
    /// Whether it is shown.
    pub shown: bool,
    /// Why, in a sentence.
    pub reason: String,
    /// What a person can do.
    pub hint: Option<String>,
    /// The rule that hides it, if one does.
    pub rule: Option<RuleRef>,
}

impl Assembly {
    /// Why a caller is shown the tool of this name, or not; `None` if there is no such tool.
    pub fn why_shown(&self, name: &str, principal: &Principal) -> Option<WhyShown> {
        let tools = self.runtime.registry().snapshot();
        if let Some(entry) = tools.get(name) {
            return Some(self.why(entry, name, principal));
        }
        off_until_named(name).map(|off| WhyShown {
            tool: format!("{}/{}", ProviderId::builtin(), off.tool),
            shown: false,
            reason: off.reason,
            hint: Some(off.hint),
            rule: None,
        })
    }

    fn why(&self, entry: &Entry, name: &str, principal: &Principal) -> WhyShown {
        let tool = entry.key().tool.as_str();
        let alias = if tool == name {
            String::new()
        } else {
            format!("`{name}` is another name of `{tool}`; ")
        };
        let (shown, reason, rule) = self.visibility(entry, principal);
        WhyShown {
            tool: entry.key().to_string(),
            shown,
            reason: format!("{alias}{reason}"),
            hint: entry.withheld().map(|withheld| withheld.hint.clone()),
            rule,
        }
    }

    fn visibility(&self, entry: &Entry, principal: &Principal) -> (bool, String, Option<RuleRef>) {
        if let Some(why) = entry.quarantine() {
            let state = match entry.withheld().map(|withheld| withheld.until) {
                Some(WithheldUntil::Ready | WithheldUntil::TierAvailable) => "not ready",
                Some(WithheldUntil::Accepted) | None => "quarantined",
            };
            return (false, format!("it is {state}: {why}"), None);
        }
        if let Some(scope) = entry.missing_scope(principal) {
            let why = format!("it needs the scope `{scope}`, which this caller does not have");
            return (false, why, None);
        }
        match self.policy.visibility(principal, &entry.facts()) {
            Visibility::Hidden { rule, reason } => (false, reason, rule),
            Visibility::Advertised => {
                let why = "it is shown: the rules could allow some of its inputs (`haft policy check` says which)";
                (true, why.to_owned(), None)
            }
        }
    }
}
