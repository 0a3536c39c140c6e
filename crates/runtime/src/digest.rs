//! The SHA-256 of a canonical plan: what an approval binds.
//!
//! The form is RFC 8785 JSON of everything that decides what will happen. Two plans have the same
//! digest only if they mean the same; a change to any field below voids an approval.

use haft_contract::{
    Access, PlanDigest, SealedPlan,
    access::{Command, PathMode, PathScope, ProcessAct},
    egress::{EgressRules, HostRule},
    ops::FileVersion,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Names the form, so that it can change without two forms ever colliding.
const FORM: &str = "haft-plan-1";

/// The digest of a plan and of the versions its targets had when it was made.
pub(crate) fn plan_digest(plan: &SealedPlan, versions: &[Option<FileVersion>]) -> PlanDigest {
    digest_of(&plan_form(plan, versions))
}

/// The canonical form of a plan and of the versions its targets had when it was made.
pub(crate) fn plan_form(plan: &SealedPlan, versions: &[Option<FileVersion>]) -> Value {
    json!({
        "form": FORM,
        "tool": plan.tool.to_string(),
        "action": plan.action,
        "input": plan.input,
        "accesses": plan.accesses.iter().map(access).collect::<Vec<_>>(),
        "effects": [
            plan.effects.read_only,
            plan.effects.idempotent,
            plan.effects.destructive,
            plan.effects.open_world,
        ],
        "backend": plan.backend.as_str(),
        "workspace": plan.workspace,
        "tier": plan.tier.as_str(),
        "egress": plan.egress.as_deref().map(egress),
        "deadline_ms": u64::try_from(plan.deadline.as_millis()).unwrap_or(u64::MAX),
        "withheld": plan.withheld,
        "versions": versions
            .iter()
            .map(|version| version.as_ref().map(FileVersion::as_str))
            .collect::<Vec<_>>(),
    })
}

/// SHA-256 of a form in canonical JSON (RFC 8785): what an approval binds. Whoever shows a form
/// computes this again before they let a person answer.
pub fn digest_of(form: &Value) -> PlanDigest {
    // Canonicalising fails only for numbers JSON cannot hold, which the parser has refused; the
    // plain form is then still bound, just not canonical.
    let bytes = serde_json_canonicalizer::to_vec(form).unwrap_or_else(|_| form.to_string().into());
    PlanDigest(Sha256::digest(&bytes).into())
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
            "resolved": path.resolved.as_ref().map(haft_contract::WorkPath::as_str),
        }),
        Access::Command(command) => json!({
            "kind": "command",
            "command": match &command.command {
                Command::Shell(script) => json!({"shell": script}),
                Command::Argv(argv) => json!({"argv": argv}),
            },
            "cwd": command.cwd.as_str(),
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
    }
}
