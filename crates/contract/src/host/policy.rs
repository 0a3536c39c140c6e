//! Who may do what. A policy is a pure function from facts about a plan to a [`Decision`].

use std::{fmt, net::IpAddr, sync::Arc};

use super::{Grant, GrantId, GrantKey, GrantProposal};
use crate::{
    access::SoleAccess, effects::Effects, identity::Principal, label::Labels, masks::Masks,
    name::ToolKey, plan::SealedPlan, preview::CommandPreview, spec::ActionSpec,
};

/// Decides about plans. Pure: no I/O, no clock, the same answer for the same question.
pub trait Policy: Send + Sync {
    /// Allow, ask or deny, with the rule that decided. Judges the tool and every access of the
    /// plan; the strictest answer wins. Shared, because one that is remembered answers many calls.
    fn decide(&self, question: &Question<'_>) -> Arc<Decision>;

    /// Whether to show a tool to a principal: not if no input of it could be allowed.
    fn visibility(&self, principal: &Principal, tool: &ToolFacts<'_>) -> Visibility;

    /// Identifies the rules in force; changes whenever they do.
    fn version(&self) -> PolicyVersion;

    /// What deny rules keep from this principal's commands in a session that has read from these
    /// sources. The sandbox masks as much of it as it can; see [`SealedPlan::masks`].
    fn masks(&self, principal: &Principal, tool: &ToolFacts<'_>, read_from: &Labels) -> Masks {
        let _ = (principal, tool, read_from);
        Masks::NONE
    }

    /// The addresses that deny rules name for this principal's calls of a tool, in a session that has read
    /// from these sources. Whoever connects refuses names that lead there, too: the rules themselves are
    /// about hosts as a plan names them.
    fn denied_addresses(
        &self,
        principal: &Principal,
        tool: &ToolFacts<'_>,
        read_from: &Labels,
    ) -> Vec<IpAddr> {
        let _ = (principal, tool, read_from);
        Vec::new()
    }

    /// The commands of a plan one by one, as they were judged, for a person to review. Empty for a
    /// policy that does not read commands.
    fn commands(&self, question: &Question<'_>) -> Vec<CommandPreview> {
        let _ = question;
        Vec::new()
    }

    /// The rules a person could accept to avoid being asked about such a call again, narrowest
    /// first. Each of them turns the answer to this question into *allow*.
    fn proposals(&self, question: &Question<'_>) -> Vec<GrantProposal> {
        let _ = question;
        Vec::new()
    }

    /// The keys to find grants with this rule by; see [`GrantKey`]. Every policy of a process gives
    /// a rule the same keys.
    fn grant_rule_keys(&self, rule: &str) -> Vec<GrantKey> {
        let _ = rule;
        vec![GrantKey::ANY]
    }

    /// The keys of every grant that can change the answer to a question.
    fn grant_keys(&self, question: &Question<'_>) -> Vec<GrantKey> {
        let _ = question;
        vec![GrantKey::ANY]
    }
}

/// What a policy is asked to decide.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Who asks.
    pub principal: &'a Principal,
    /// The tool, as rules see it.
    pub tool: ToolFacts<'a>,
    /// What the call will do.
    pub plan: &'a SealedPlan,
    /// The standing approvals that hold for this principal here and now. They turn *ask* into
    /// *allow* for what their rules match, and never permit what is denied.
    pub grants: &'a [Grant],
}

/// What rules can match about a tool.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// Provider and name.
    pub key: &'a ToolKey,
    /// The groups it is in.
    pub groups: &'a [&'static str],
    /// The actions that its plans may name.
    pub actions: &'a [ActionSpec],
    /// Its usual effects.
    pub effects: Effects,
    /// The one kind of thing that its plans name, if they never name another.
    pub touches: Option<SoleAccess>,
}

/// The three answers, ordered from loosest to strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Go ahead.
    Allow,
    /// Ask a person.
    Ask,
    /// No.
    Deny,
}

impl Verdict {
    /// The name used in configuration, JSON and the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }

    /// The verdict with this name, if there is one.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Deny]
            .into_iter()
            .find(|verdict| verdict.as_str() == word)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Allow, ask or deny, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// The rule that decided; absent when no rule matched and the default did.
    pub rule: Option<RuleRef>,
    /// The deciding reason in one sentence, for people and models.
    pub reason: String,
    /// The access that decided, as text; absent when it was the tool as a whole.
    pub access: Option<String>,
    /// Glob patterns of paths that a search over a tree must leave out, because reading them is
    /// not allowed without asking.
    pub withheld: Vec<String>,
    /// The rules that were in force.
    pub policy: PolicyVersion,
    /// The standing approvals it rests on; each is used once when the call starts.
    pub grants: Vec<GrantId>,
}

/// Points at a rule where a person wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleRef {
    /// The rule in the notation it was written in.
    pub text: String,
    /// The file, or `preset careful`, or `built in`.
    pub source: String,
    /// The line, if the source is a file.
    pub line: Option<u32>,
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "`{}` ({}:{line})", self.text, self.source),
            None => write!(f, "`{}` ({})", self.text, self.source),
        }
    }
}

/// Identifies the rules in force.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyVersion(pub String);

/// Whether a tool is shown to a principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visibility {
    /// It is listed.
    Advertised,
    /// It is not listed.
    Hidden {
        /// The rule that hides it, if there is one.
        rule: Option<RuleRef>,
        /// The reason in one sentence.
        reason: String,
    },
}
