//! Rules that name a tool and a pattern, and cannot match anything the tool touches: the author of
//! `deny = ["deploy(prod.example.com)"]` meant a host, but without `domain:` it is a path. Such a
//! rule would allow everything it was written to stop, so the call is denied with the form that can
//! match. Our own tools are known to touch what their patterns are about.

use haft_contract::{
    Access, ProviderId,
    host::{Question, RuleRef, Verdict},
};

use crate::{
    engine::CedarPolicy,
    pattern::PatternKind,
    rule::{Rule, Section, Selector},
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
        if provider.as_str() == BUILT_IN {
            return None;
        }
        let accesses = &question.plan.accesses();
        let rule = self.rules.iter().find(|rule| {
            let pattern = rule.pattern.as_ref();
            rule.verdict != Verdict::Allow
                && names(&rule.selector, question)
                && holds_for(&rule.section, question)
                && pattern.is_some_and(|pattern| {
                    !accesses
                        .iter()
                        .any(|access| can_match(pattern.kind(), access))
                })
        })?;
        let reason = format!(
            "{} cannot match anything this call touches, so the call is denied; {}",
            rule.origin,
            instead(rule, accesses)
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
        Selector::Like(_) | Selector::Group(_) | Selector::Accesses(_) => false,
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

/// Whether a pattern of this kind can match an access at all.
fn can_match(kind: PatternKind, access: &Access) -> bool {
    match access {
        Access::Host { .. } => kind == PatternKind::Host,
        Access::Command(_) | Access::Process(_) => kind != PatternKind::Host,
        Access::Path(_) | Access::Database { .. } | Access::Message { .. } => {
            kind == PatternKind::Path
        }
        Access::RemoteTool { .. } => false,
    }
}

/// The rule that would match.
fn instead(rule: &Rule, accesses: &[Access]) -> String {
    let text = rule.pattern.as_ref().map_or("", |pattern| &pattern.text);
    let selector = &rule.selector;
    let hosts = accesses
        .iter()
        .any(|access| matches!(access, Access::Host { .. }));
    if hosts {
        format!("write `{selector}(domain:{text})` for a host")
    } else {
        format!("write `{selector}` without a pattern, which matches every call")
    }
}
