//! Questions and policies for tests, in few words.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Access, ActionSpec, AgentId, Deadline, Effects, Label, Labels, Masks, PlanParts, Principal,
    ProviderId, SealedPlan, SessionId, SessionKind, ToolKey, ToolName, ToolSpec, UserId, WorkPath,
    WorkspaceId,
    access::{Command, ProcessAccess, ProcessAct, RunningCommand, SoleAccess},
    background::ProcessId,
    host::{Decision, GrantedWorkspace, Policy as _, Question, ToolFacts, Verdict, Visibility},
    ops::{BackendId, Tier},
};
use haft_policy::{CedarPolicy, PolicySource};

/// The policy of a `haft.toml`.
pub(crate) fn policy(text: &str) -> CedarPolicy {
    CedarPolicy::load(&[PolicySource::new("haft.toml", text)]).unwrap_or_else(|error| {
        panic!("{error}");
    })
}

/// What is wrong with a `haft.toml`.
pub(crate) fn problem(text: &str) -> String {
    match CedarPolicy::load(&[PolicySource::new("haft.toml", text)]) {
        Ok(_) => panic!("loaded: {text}"),
        Err(error) => error.to_string(),
    }
}

pub(crate) fn path(text: &str) -> WorkPath {
    WorkPath::relative(text).unwrap()
}

/// A path that is a symlink, or beneath one.
pub(crate) fn through(access: Access, leads_to: &str) -> Access {
    match access {
        Access::Path(mut access) => {
            access.resolved = Some(path(leads_to));
            Access::Path(access)
        }
        other => other,
    }
}

/// A call, ready to be asked about.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) principal: Principal,
    pub(crate) key: ToolKey,
    pub(crate) groups: Vec<&'static str>,
    /// The actions the tool says it has.
    pub(crate) actions: Vec<ActionSpec>,
    /// The one kind of thing it touches, if it says so.
    pub(crate) touches: Option<SoleAccess>,
    pub(crate) parts: PlanParts,
    /// The parts, sealed.
    pub(crate) plan: SealedPlan,
}

impl Call {
    /// A call of a tool, which is in the groups its name suggests.
    pub(crate) fn of(tool: &str, accesses: Vec<Access>) -> Self {
        Self::from("builtin", tool, accesses)
    }

    pub(crate) fn from(provider: &str, tool: &str, accesses: Vec<Access>) -> Self {
        let key = ToolKey::new(
            ProviderId::parse(provider).unwrap(),
            ToolName::parse(tool).unwrap(),
        );
        let (groups, effects) = match tool {
            "read" | "list" => (vec!["files"], Effects::READ_ONLY),
            "grep" | "find" => (vec!["search"], Effects::READ_ONLY),
            "write" | "edit" | "copy" => (vec!["files"], Effects::REPLACES),
            "bash" | "process" => (vec!["process"], Effects::UNKNOWN),
            _ => (vec![], Effects::UNKNOWN),
        };
        let principal = Principal::local(
            UserId::parse("ada").unwrap(),
            AgentId::parse("main").unwrap(),
            SessionId::parse("s1").unwrap(),
        );
        let parts = PlanParts {
            tool: key.clone(),
            action: None,
            input: serde_json::Value::Null,
            accesses,
            effects,
            backend: BackendId::new("memory"),
            workspace_id: WorkspaceId::local(),
            workspace: "/w".into(),
            tier: Tier::Host,
            egress: None,
            deadline: Duration::from_secs(30),
            read_from: Labels::NONE,
        };
        Self {
            principal,
            key,
            groups,
            actions: Vec::new(),
            touches: None,
            plan: parts.clone().seal(),
            parts,
        }
    }

    /// Seals the parts again after a change.
    fn sealed(mut self) -> Self {
        self.plan = self.parts.clone().seal();
        self
    }

    pub(crate) fn read(text: &str) -> Self {
        Self::of("read", vec![Access::read(path(text))])
    }

    pub(crate) fn write(text: &str) -> Self {
        Self::of("write", vec![Access::write(path(text))])
    }

    pub(crate) fn grep(root: &str) -> Self {
        Self::of("grep", vec![Access::read_tree(path(root))])
    }

    pub(crate) fn bash(script: &str) -> Self {
        Self::of("bash", vec![Access::shell(script, WorkPath::root())])
    }

    /// The same, left running when the call has ended.
    pub(crate) fn staying_bash(script: &str) -> Self {
        Self::of(
            "bash",
            vec![Access::staying_shell(script, WorkPath::root())],
        )
    }

    /// Types something into a process that runs this.
    pub(crate) fn types(text: &str, script: &str) -> Self {
        Self::of(
            "process",
            vec![Access::Process(ProcessAccess {
                id: ProcessId::new(1),
                act: ProcessAct::Write(text.to_owned()),
                running: Some(RunningCommand {
                    command: Command::Shell(script.to_owned()),
                    cwd: WorkPath::root(),
                    tier: Tier::Host,
                }),
            })],
        )
    }

    pub(crate) fn agent(mut self, agent: &str) -> Self {
        self.principal.agent = AgentId::parse(agent).unwrap();
        self
    }

    pub(crate) fn started_by(mut self, agent: &str) -> Self {
        self.principal
            .ancestors
            .push(AgentId::parse(agent).unwrap());
        self
    }

    pub(crate) fn session(mut self, kind: SessionKind) -> Self {
        self.principal.session_kind = kind;
        self
    }

    pub(crate) fn channel(mut self, channel: &str) -> Self {
        self.principal.channel = Some(channel.parse().unwrap());
        self
    }

    /// The call of an action, of a tool that has these.
    pub(crate) fn action(mut self, action: &'static str, of: &[&'static str]) -> Self {
        let spec = of.iter().fold(ToolSpec::new("t", "d"), |spec, name| {
            spec.action(*name, Deadline::default())
        });
        self.actions = spec.actions;
        self.parts.action = Some(action.into());
        self.sealed()
    }

    /// Of a tool that touches nothing of any other kind.
    pub(crate) fn touches_only(mut self, kind: SoleAccess) -> Self {
        self.touches = Some(kind);
        self
    }

    pub(crate) fn tier(mut self, tier: Tier) -> Self {
        self.parts.tier = tier;
        self.sealed()
    }

    pub(crate) fn effects(mut self, effects: Effects) -> Self {
        self.parts.effects = effects;
        self.sealed()
    }

    /// In a session that has read from these.
    pub(crate) fn after(mut self, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| Label::parse(label).unwrap());
        self.parts.read_from = labels.collect();
        self.sealed()
    }

    /// In a sandbox that holds these masks. Comes last, because sealing again removes them.
    pub(crate) fn masked(mut self, masks: Masks) -> Self {
        self.plan = self.plan.with_masks(masks);
        self
    }

    pub(crate) fn question(&self) -> Question<'_> {
        Question {
            principal: &self.principal,
            tool: self.facts(),
            plan: &self.plan,
            grants: &[],
        }
    }

    pub(crate) fn facts(&self) -> ToolFacts<'_> {
        ToolFacts {
            key: &self.key,
            groups: &self.groups,
            actions: &self.actions,
            effects: self.parts.effects,
            touches: self.touches,
        }
    }

    pub(crate) fn decide(&self, policy: &CedarPolicy) -> Decision {
        Arc::unwrap_or_clone(policy.decide(&self.question()))
    }

    pub(crate) fn visibility(&self, policy: &CedarPolicy) -> Visibility {
        policy.visibility(&self.principal, &self.facts())
    }
}

/// Asserts the answer, and that asking again gives the very same one.
#[track_caller]
pub(crate) fn check(policy: &CedarPolicy, call: &Call, expect: Verdict) {
    let decision = call.decide(policy);
    assert_eq!(decision.verdict, expect, "{}", decision.reason);
    assert_eq!(call.decide(policy), decision, "remembered otherwise");
}

/// A workspace a grant can be bound to. That of [`Call`] is `local`.
pub(crate) fn workspace(id: &str) -> GrantedWorkspace {
    GrantedWorkspace {
        id: WorkspaceId::parse(id).unwrap(),
        shown: "/w".to_owned(),
    }
}
