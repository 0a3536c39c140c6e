//! The SHA-256 of a canonical plan: what an approval binds.
//!
//! The form is RFC 8785 JSON of everything that decides what will happen, and of the preview a
//! person is shown. Two plans have the same digest only if they mean the same; a change to any
//! field below voids an approval. People are shown the form itself, so nothing can be shown that is
//! not bound.

use haft_contract::{
    Access, ActionName, Label, PlanDigest, Principal, SealedPlan, WorkPath,
    access::{Command, PathMode, PathScope, ProcessAct},
    egress::{EgressRules, HostRule},
    host::PolicyVersion,
    identity::{AgentId, ChannelId},
    ops::FileVersion,
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{preview::Program, registry::Entry};

/// The version of the form. It lets the form change without two versions ever colliding.
const FORM: &str = "haft-plan-4";

/// Everything an approval binds.
pub(crate) struct ApprovalBinding<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) tool: [u8; 32],
    pub(crate) policy: &'a PolicyVersion,
    pub(crate) plan: &'a SealedPlan,
    /// What a search over a tree must leave out.
    pub(crate) withheld: &'a [String],
    /// The version of each access's target.
    pub(crate) versions: &'a [Option<FileVersion>],
    /// The files of the workspace that its commands run or name.
    pub(crate) programs: &'a [Program],
    /// What the person is shown, as written by [`crate::preview::to_json`].
    pub(crate) preview: &'a Value,
}

/// The canonical form of a plan.
pub(crate) fn plan_form(bound: &ApprovalBinding<'_>) -> Value {
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
    form
}

/// SHA-256 of a form in canonical JSON (RFC 8785): what an approval binds. Whoever shows a form
/// must recompute this before letting a person answer.
pub fn digest_of(form: &Value) -> PlanDigest {
    // Canonicalising fails only for numbers that JSON cannot hold, which the parser has refused.
    // Even then the plain form is bound, just not canonically.
    let mut bytes =
        serde_json_canonicalizer::to_vec(form).unwrap_or_else(|_| form.to_string().into());
    // The canonical form treats numbers as doubles, so several large integers are written alike.
    // Each is bound by its location and its digits, after a byte that never occurs in JSON.
    let mut large = Vec::new();
    large_numbers(form, &mut Vec::new(), &mut large);
    for number in large {
        bytes.push(0);
        bytes.extend(number.to_string().into_bytes());
    }
    PlanDigest(Sha256::digest(&bytes).into())
}

/// The integers beyond 2^53 in a form, each as its digits preceded by the names and positions that
/// lead to it. A large number that is not an integer has a distinct text in the canonical form, and
/// differs from an integer by being absent here.
fn large_numbers(form: &Value, place: &mut Vec<Value>, found: &mut Vec<Value>) {
    const MAX_EXACT: u64 = (1 << 53) - 1;
    let mut enter = |step: Value, value: &Value| {
        place.push(step);
        large_numbers(value, place, found);
        place.pop();
    };
    match form {
        Value::Number(number) => {
            let whole = number.as_i64().map(i64::unsigned_abs).or(number.as_u64());
            if whole.is_some_and(|whole| whole > MAX_EXACT) {
                found.push(json!([place, number.to_string()]));
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                enter(json!(at), value);
            }
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            for (name, value) in members {
                enter(json!(name), value);
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// SHA-256 of a tool's definition. A built-in tool is defined by the version of Haft.
pub(crate) fn tool_digest(entry: &Entry) -> [u8; 32] {
    let spec = entry.spec();
    let said = json!({
        "haft": env!("CARGO_PKG_VERSION"),
        "tool": entry.key().to_string(),
        "title": spec.title,
        "description": spec.description,
        "effects": spec.effects.to_string(),
        "sandbox": spec.sandbox.as_str(),
        "groups": spec.groups,
        "input": entry.input_schema(),
        "output": entry.output_schema(),
        "program": entry.tool().program_digest().map(|sha256| PlanDigest(sha256).to_string()),
    });
    digest_of(&said).0
}

fn principal(principal: &Principal) -> Value {
    json!({
        "tenant": principal.tenant.as_str(),
        "user": principal.user.as_str(),
        "agent": principal.agent.as_str(),
        "ancestors": principal.ancestors.iter().map(AgentId::as_str).collect::<Vec<_>>(),
        "session": principal.session.as_str(),
        "kind": principal.session_kind.as_str(),
        "channel": principal.channel.as_ref().map(ChannelId::as_str),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mc_02_large_numbers_that_differ_are_told_apart() {
        let of = |number: Value| digest_of(&json!({"input": {"amount": [number]}}));
        let whole = [
            json!(9_007_199_254_740_992_u64),
            json!(9_007_199_254_740_993_u64),
            json!(-9_007_199_254_740_993_i64),
            json!(u64::MAX),
            json!(u64::MAX - 1),
        ];
        for (at, one) in whole.iter().enumerate() {
            for other in whole.iter().skip(at + 1) {
                assert_ne!(of(one.clone()), of(other.clone()), "{one} {other}");
            }
        }
        // The form that is bound is the one read back from a record.
        let form = json!({"b": u64::MAX, "a": [1, (1_u64 << 53) + 1]});
        let again: Value = serde_json::from_str(&form.to_string()).unwrap();
        assert_eq!(digest_of(&form), digest_of(&again));
        let ordinary = json!({"a": 1});
        let plain = Sha256::digest(br#"{"a":1}"#);
        assert_eq!(digest_of(&ordinary).0, <[u8; 32]>::from(plain));
    }

    #[test]
    fn mc_02_large_numbers_in_each_others_places_are_told_apart() {
        let large = 9_007_199_254_740_993_u64;
        // The canonical form writes all of them alike.
        let (whole, next, float) = (
            json!(large),
            json!(large - 1),
            json!(9_007_199_254_740_992.0),
        );
        for (one, other) in [(&whole, &next), (&whole, &float), (&next, &float)] {
            for form in [
                |one: &Value, other: &Value| json!({"from": one, "to": other}),
                |one: &Value, other: &Value| json!([one, other]),
                |one: &Value, other: &Value| json!([[one], {"[0]": other}]),
            ] {
                let (here, there) = (form(one, other), form(other, one));
                assert_ne!(digest_of(&here), digest_of(&there), "{here} {there}");
            }
        }
    }
}
