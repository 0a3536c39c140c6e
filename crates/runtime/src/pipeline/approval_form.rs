//! What an approval binds: the canonical form of a plan.
//!
//! The form holds everything that decides what will happen, and the preview a person is shown. Two
//! plans have the same form only if they mean the same; a change to any field below voids an
//! approval. People are shown the form itself, so nothing can be shown that is not bound.
//! `digest` hashes it.

use haft_contract::{
    Access, ActionName, Label, PlanDigest, Principal, SealedPlan, WorkPath,
    access::{Command, PathMode, PathScope, ProcessAct},
    egress::{EgressRules, HostRule},
    host::PolicyVersion,
    identity::{AgentId, ChannelId},
    ops::FileVersion,
};
use serde_json::{Value, json};

use crate::preview::Program;

/// The version of the form. It lets the form change without two versions ever colliding.
const FORM: &str = "haft-plan-4";

/// Everything an approval binds.
pub(super) struct ApprovalBinding<'a> {
    pub(super) principal: &'a Principal,
    pub(super) tool: [u8; 32],
    pub(super) policy: &'a PolicyVersion,
    pub(super) plan: &'a SealedPlan,
    /// What a search over a tree must leave out.
    pub(super) withheld: &'a [String],
    /// The version of each access's target.
    pub(super) versions: &'a [Option<FileVersion>],
    /// The files of the workspace that its commands run or name.
    pub(super) programs: &'a [Program],
    /// What the person is shown, as written by [`crate::preview::to_json`].
    pub(super) preview: &'a Value,
}

/// The canonical form of a plan.
pub(super) fn plan_form(bound: &ApprovalBinding<'_>) -> Value {
    let plan = bound.plan;
    let mut form = json!({
        "form": FORM,
        "principal": principal(bound.principal),
        "policy": bound.policy.0,
        "tool": plan.tool().to_string(),
        "tool_digest": PlanDigest(bound.tool).to_string(),
        "action": plan.action().map(ActionName::as_str),
        "input": plan.input(),
        "accesses": plan.accesses().iter().map(access).collect::<Vec<_>>(),
        "effects": [
            plan.effects().read_only,
            plan.effects().idempotent,
            plan.effects().destructive,
            plan.effects().open_world,
        ],
        "backend": plan.backend().as_str(),
        "workspace_id": plan.workspace_id().as_str(),
        "workspace": plan.workspace(),
        "tier": plan.tier().as_str(),
        "egress": plan.egress().map(|rules| egress(rules)),
        "deadline_ms": u64::try_from(plan.deadline().as_millis()).unwrap_or(u64::MAX),
        "withheld": bound.withheld,
        "versions": bound
            .versions
            .iter()
            .map(|version| version.as_ref().map(FileVersion::as_str))
            .collect::<Vec<_>>(),
        "programs": bound
            .programs
            .iter()
            .map(|program| json!({
                "path": program.path.as_str(),
                "resolved": program.resolved.as_ref().map(WorkPath::as_str),
                "version": program.version.as_ref().map(FileVersion::as_str),
                "content": program.content,
            }))
            .collect::<Vec<_>>(),
        "preview": bound.preview,
    });
    // A form without this field is that of a session that has read from nothing.
    if !plan.read_from().is_empty()
        && let Value::Object(fields) = &mut form
    {
        let labels = plan.read_from().iter().map(Label::as_str);
        fields.insert("read_from".to_owned(), labels.collect());
    }
    // Likewise, one without these fields is that of commands that nothing is masked for.
    let masks = plan.masks();
    for (name, patterns) in [("hidden", &masks.hidden), ("read_only", &masks.read_only)] {
        if !patterns.is_empty()
            && let Value::Object(fields) = &mut form
        {
            fields.insert(name.to_owned(), json!(patterns));
        }
    }
    form
}

fn principal(principal: &Principal) -> Value {
    let mut form = json!({
        "tenant": principal.tenant.as_str(),
        "user": principal.user.as_str(),
        "agent": principal.agent.as_str(),
        "ancestors": principal.ancestors.iter().map(AgentId::as_str).collect::<Vec<_>>(),
        "session": principal.session.as_str(),
        "kind": principal.session_kind.as_str(),
        "channel": principal.channel.as_ref().map(ChannelId::as_str),
    });
    if let (Some(kind), Value::Object(fields)) = (principal.narrowed_from, &mut form) {
        fields.insert("narrowed_from".to_owned(), json!(kind.as_str()));
    }
    form
}

fn egress(rules: &EgressRules) -> Value {
    let written = |rules: &[HostRule]| rules.iter().map(HostRule::to_string).collect::<Vec<_>>();
    json!({"allow": written(&rules.allow), "deny": written(&rules.deny)})
}

fn act(act: &ProcessAct) -> Value {
    match act {
        ProcessAct::Write(text) => json!({"write": text}),
        ProcessAct::CloseInput => json!("close_input"),
        ProcessAct::Resize(size) => json!({"resize": [size.rows, size.columns]}),
        ProcessAct::Signal(signal) => json!({"signal": signal.as_str()}),
        ProcessAct::Kill => json!("kill"),
    }
}

fn access(access: &Access) -> Value {
    match access {
        Access::Path(path) => json!({
            "kind": "path",
            "mode": match path.mode { PathMode::Read => "read", PathMode::Write => "write" },
            "scope": match path.scope { PathScope::File => "file", PathScope::Tree => "tree" },
            "path": path.path.as_str(),
            "resolved": path.resolved.as_ref().map(WorkPath::as_str),
            "protected": path.protected,
        }),
        Access::Command(command) => json!({
            "kind": "command",
            "command": match &command.command {
                Command::Shell(script) => json!({"shell": script}),
                Command::Argv(argv) => json!({"argv": argv}),
            },
            "cwd": command.cwd.as_str(),
            "stays": command.stays,
        }),
        Access::Process(process) => json!({
            "kind": "process",
            "id": process.id.to_string(),
            "act": act(&process.act),
            "running": process.running.as_ref().map(|running| json!({
                "command": running.command.text(),
                "cwd": running.cwd.as_str(),
                "tier": running.tier.as_str(),
            })),
        }),
        Access::Host { host, port } => json!({"kind": "host", "host": host, "port": port}),
        Access::Database { source, writes } => {
            json!({"kind": "database", "source": source, "writes": writes})
        }
        Access::Message { channel, target } => {
            json!({"kind": "message", "channel": channel, "target": target})
        }
        Access::RemoteTool { provider, tool } => {
            json!({"kind": "remote_tool", "provider": provider, "tool": tool})
        }
        Access::Custom(custom) => json!({
            "kind": "custom",
            "name": custom.kind().as_str(),
            "target": custom.target().as_str(),
        }),
    }
}
