//! Rules that name a tool and a pattern, and cannot match anything the tool touches: the author of
//! `deny = ["deploy(production)"]` meant a host, but without `domain:` it is a path. Such a rule
//! would allow everything it was written to stop, so the call is denied with the form that can
//! match. So does a rule about an action that the tool does not have. Of our own tools, those that
//! touch one kind of thing only say so (`sole_access.rs`); the others touch what their patterns are
//! about.

use haft_contract::{
    Access, ProviderId,
    access::SoleAccess,
    host::{Question, RuleRef, Verdict},
};

use crate::{
    engine::CedarPolicy,
    host_name,
    pattern::{Pattern, PatternKind},
    rule::{Rule, Section, Selector},
    sole_access,
};

/// The provider whose tools are known.
const BUILT_IN: &str = "builtin";

/// A rule that cannot match the call, and what to write instead.
pub(crate) struct UnmatchableRule {
    pub(crate) rule: RuleRef,
    pub(crate) reason: String,
}

impl CedarPolicy {
    /// The rule that names the call's tool and cannot match anything it touches.
    pub(crate) fn unmatched(&self, question: &Question<'_>) -> Option<UnmatchableRule> {
        let provider: &ProviderId = &question.tool.key.provider;
        let kind = question.tool.touches;
        if provider.as_str() == BUILT_IN && kind.is_none() {
            return None;
        }
        let accesses = &question.plan.accesses();
        let misses = |pattern: &Pattern| match kind {
            Some(kind) => !sole_access::names(pattern, kind),
            None => !accesses.iter().any(|access| can_match(pattern, access)),
        };
        let rule = self.rules.iter().find(|rule| {
            let pattern = rule.pattern.as_ref();
            let action = rule.action.as_ref();
            let mut actions = question.tool.actions.iter();
            rule.verdict != Verdict::Allow
                && names(&rule.selector, question)
                && holds_for(&rule.section, question)
                && (pattern.is_some_and(misses)
                    || action
                        .is_some_and(|action| !actions.any(|known| action.matches(&known.name))))
        })?;
        let reason = format!(
            "{} cannot match anything this call touches, so the call is denied; {}",
            rule.origin,
            instead(rule, accesses, kind)
        );
        Some(UnmatchableRule {
            rule: rule.origin.clone(),
            reason,
        })
    }
}

fn names(selector: &Selector, question: &Question<'_>) -> bool {
    match selector {
        Selector::Named(name) => *name == question.tool.key.tool,
        Selector::Provided(key) => key == question.tool.key,
        // Whoever wrote `db(x)` may have meant the tool of that name.
        Selector::Accesses(word) => {
            word.is_reserved() && word.as_str() == question.tool.key.tool.as_str()
        }
        Selector::Like(_) | Selector::Group(_) => false,
    }
}

fn holds_for(section: &Section, question: &Question<'_>) -> bool {
    let principal = question.principal;
    match section {
        Section::Everyone => true,
        Section::Agent(agent) => *agent == principal.agent || principal.ancestors.contains(agent),
        Section::Session(kind) => principal.session_kinds().any(|known| known == *kind),
        Section::NonMainSessions => principal.session_kind != haft_contract::SessionKind::Main,
        Section::Channel(channel) => principal.channel.as_ref() == Some(channel),
        Section::Tenant(tenant) => *tenant == principal.tenant,
        Section::User(user) => *user == principal.user,
        Section::Scope(scope) => principal.scopes.contains(scope),
        Section::WithoutScope(scope) => !principal.scopes.contains(scope),
        Section::Subagents => principal.is_subagent(),
    }
}

/// Whether such a pattern can match such an access at all.
fn can_match(pattern: &Pattern, access: &Access) -> bool {
    let kind = pattern.kind();
    match access {
        Access::Host { .. } => pattern.host.is_some(),
        Access::Command(_) | Access::Process(_) => {
            matches!(kind, PatternKind::Command | PatternKind::Path)
        }
        Access::Path(_) | Access::Custom(_) => kind == PatternKind::Path,
        Access::Database { .. } => matches!(kind, PatternKind::Path | PatternKind::Database),
        Access::Message { .. } => matches!(kind, PatternKind::Path | PatternKind::Message),
        Access::RemoteTool { .. } => false,
    }
}

/// The rule that would match.
fn instead(rule: &Rule, accesses: &[Access], kind: Option<SoleAccess>) -> String {
    if let (Some(pattern), Some(kind)) = (&rule.pattern, kind) {
        return sole_access::form(&rule.selector, pattern, kind);
    }
    let text = rule.pattern.as_ref().map_or("", |pattern| &pattern.text);
    let selector = &rule.selector;
    let pattern = rule.pattern.as_ref();
    let is_host = |pattern: &Pattern| {
        pattern.kind() == PatternKind::Path && host_name::after_domain(&pattern.text).is_ok()
    };
    let hosts = pattern.is_some_and(is_host)
        && accesses
            .iter()
            .any(|access| matches!(access, Access::Host { .. }));
    if rule.action.is_some() {
        format!("`{selector}` has no such action; write `{selector}` for every call")
    } else if hosts {
        format!("write `{selector}(domain:{text})` for a host")
    } else {
        format!("write `{selector}` without a pattern, which matches every call")
    }
}
