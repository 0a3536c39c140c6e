//! Policies a test writes in one line. The real engine is in `haft-policy`.

use std::{collections::BTreeMap, sync::Arc};

use haft_contract::{
    Principal,
    host::{
        Decision, Grant, GrantFinder, GrantId, GrantKey, Policy, PolicyVersion, Question, RuleRef,
        ToolFacts, Verdict, Visibility,
    },
};

/// A policy with an answer fixed by the test.
#[derive(Clone)]
pub struct FixedPolicy {
    decide: Arc<dyn Fn(&Question<'_>) -> Verdict + Send + Sync>,
    hidden: Arc<dyn Fn(&ToolFacts<'_>) -> bool + Send + Sync>,
    withheld: Vec<String>,
    /// Whether grants count.
    granting: bool,
    version: Arc<dyn Fn() -> String + Send + Sync>,
}

impl FixedPolicy {
    /// Every plan gets the same verdict; a denied tool is hidden.
    pub fn always(verdict: Verdict) -> Self {
        Self {
            decide: Arc::new(move |_| verdict),
            hidden: Arc::new(move |_| verdict == Verdict::Deny),
            withheld: Vec::new(),
            granting: false,
            version: Arc::new(|| "fixed".to_owned()),
        }
    }

    /// Everything is allowed.
    pub fn allow_all() -> Self {
        Self::always(Verdict::Allow)
    }

    /// Everything asks.
    pub fn ask_all() -> Self {
        Self::always(Verdict::Ask)
    }

    /// Everything is denied.
    pub fn deny_all() -> Self {
        Self::always(Verdict::Deny)
    }

    /// A verdict per tool name; tools that are not named are denied.
    pub fn per_tool<const N: usize>(verdicts: [(&str, Verdict); N]) -> Self {
        let verdicts: Arc<BTreeMap<String, Verdict>> = Arc::new(
            verdicts
                .map(|(name, verdict)| (name.to_owned(), verdict))
                .into(),
        );
        let of = move |tool: &ToolFacts<'_>| {
            let verdict = verdicts.get(tool.key.tool.as_str());
            verdict.copied().unwrap_or(Verdict::Deny)
        };
        let hidden = of.clone();
        Self {
            decide: Arc::new(move |question| of(&question.tool)),
            hidden: Arc::new(move |tool| hidden(tool) == Verdict::Deny),
            withheld: Vec::new(),
            granting: false,
            version: Arc::new(|| "fixed".to_owned()),
        }
    }

    /// A verdict computed from the question; no tool is hidden.
    pub fn by(decide: impl Fn(&Question<'_>) -> Verdict + Send + Sync + 'static) -> Self {
        Self {
            decide: Arc::new(decide),
            hidden: Arc::new(|_| false),
            withheld: Vec::new(),
            granting: false,
            version: Arc::new(|| "fixed".to_owned()),
        }
    }

    /// Also withholds these patterns from searches over a tree.
    #[must_use]
    pub fn withholding(mut self, patterns: &[&str]) -> Self {
        self.withheld = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        self
    }
}

impl FixedPolicy {
    /// Also lets a grant whose rule is the tool's name turn *ask* into *allow*.
    #[must_use]
    pub fn granting(mut self) -> Self {
        self.granting = true;
        self
    }

    /// Also takes the version of the rules in force from the test.
    #[must_use]
    pub fn versioned(mut self, version: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.version = Arc::new(version);
        self
    }

    /// The grant that allows a question, if grants count.
    fn opened_by(&self, question: &Question<'_>) -> Option<GrantId> {
        let opens = |grant: &&Grant| grant.rule == question.tool.key.tool.as_str();
        let found = question.grants.iter().find(opens);
        found.filter(|_| self.granting).map(|grant| grant.id)
    }
}

impl Policy for FixedPolicy {
    fn decide(&self, question: &Question<'_>) -> Arc<Decision> {
        let (verdict, grants) = match ((self.decide)(question), self.opened_by(question)) {
            (Verdict::Ask, Some(grant)) => (Verdict::Allow, vec![grant]),
            (verdict, _) => (verdict, Vec::new()),
        };
        Arc::new(Decision {
            verdict,
            rule: Some(rule()),
            reason: format!("the test says {verdict}"),
            access: None,
            withheld: self.withheld.clone(),
            policy: self.version(),
            grants,
        })
    }

    fn visibility(&self, _: &Principal, tool: &ToolFacts<'_>) -> Visibility {
        if (self.hidden)(tool) {
            return Visibility::Hidden {
                rule: Some(rule()),
                reason: "the test hides it".to_owned(),
            };
        }
        Visibility::Advertised
    }

    fn version(&self) -> PolicyVersion {
        PolicyVersion((self.version)())
    }
}

/// Finds every grant, as for a policy that does not tell rules apart.
pub struct EveryGrant;

impl GrantFinder for EveryGrant {
    fn rule_keys(&self, _: &str) -> Vec<GrantKey> {
        vec![GrantKey::ANY]
    }

    fn call_keys(&self) -> Vec<GrantKey> {
        vec![GrantKey::ANY]
    }
}

fn rule() -> RuleRef {
    RuleRef {
        text: "fixed".to_owned(),
        source: "test".to_owned(),
        line: None,
    }
}
