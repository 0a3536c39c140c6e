//! Calls to record: requests, a whole call's events, outcomes.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Access, CallEvent, CallId, CallRequest, Content, Effects, ErrorKind, Facts, Labels, Outcome,
    PlanParts, Principal, ProviderId, SealedPlan, Terminal, ToolKey, ToolName,
    event::RecordedEvent,
    host::{
        ApprovalId, ArtifactId, CallRecord, Decision, Durability, GrantId, LedgerError,
        PolicyVersion, Timestamp, Verdict,
    },
    ops::{BackendId, Tier},
    outcome::Failure,
};
use serde_json::json;

use super::LedgerFixture;
use crate::suite::fixture::{at, works};

/// The moment the first call of a case is opened.
pub(super) const START: Timestamp = crate::clock::START;

/// A moment this many seconds after [`START`].
pub(super) fn second(number: u64) -> Timestamp {
    START.after(Duration::from_secs(number))
}

/// A call that runs a command.
pub(super) fn request(principal: &Arc<Principal>, command: &str) -> CallRequest {
    CallRequest::new("bash", json!({ "command": command }), Arc::clone(principal))
}

/// An event at [`START`].
pub(super) fn happened(call: CallId, event: CallEvent) -> RecordedEvent {
    RecordedEvent {
        call,
        at: START,
        event,
    }
}

/// The events of a call that runs a command, up to its start.
pub(super) fn started(call: CallId, command: &str) -> Vec<RecordedEvent> {
    let decision = Arc::new(Decision {
        verdict: Verdict::Allow,
        rule: None,
        reason: "the suite says so".to_owned(),
        access: None,
        withheld: Vec::new(),
        policy: PolicyVersion("suite".to_owned()),
        grants: Vec::new(),
    });
    [
        CallEvent::Resolved { tool: tool() },
        CallEvent::Validated {
            coercions: vec!["cmd to command".to_owned()],
        },
        CallEvent::Planned {
            plan: Arc::new(plan(command)),
        },
        CallEvent::Decided { decision },
        CallEvent::Admitted {
            waited: Duration::from_millis(1),
        },
        CallEvent::Started {
            tier: Tier::Host,
            approval: None,
            grants: Vec::new(),
            read_from: None,
        },
    ]
    .map(|event| happened(call, event))
    .into()
}

/// The same for a tool of another provider.
pub(super) fn started_of(provider: &str, call: CallId) -> Vec<RecordedEvent> {
    let provider = ProviderId::parse(provider).expect("a provider");
    let tool = ToolKey::new(provider, tool().tool);
    let mut events = started(call, "x");
    for happened in &mut events {
        match &mut happened.event {
            CallEvent::Resolved { tool: resolved } => *resolved = tool.clone(),
            CallEvent::Planned { plan: planned } => {
                *planned = Arc::new(plan_of(tool.clone(), "x"));
            }
            _ => {}
        }
    }
    events
}

/// The same for a call with other effects.
pub(super) fn started_with_effects(call: CallId, effects: Effects) -> Vec<RecordedEvent> {
    let mut events = started(call, "x");
    for happened in &mut events {
        if let CallEvent::Planned { plan: planned } = &mut happened.event {
            *planned = Arc::new(parts(tool(), effects, "x").seal());
        }
    }
    events
}

/// The same for a start judged by what the session had read.
pub(super) fn started_after(
    provider: &str,
    call: CallId,
    judged_with: &Labels,
) -> Vec<RecordedEvent> {
    let mut events = started_of(provider, call);
    for happened in &mut events {
        if let CallEvent::Started { read_from, .. } = &mut happened.event {
            *read_from = Some(judged_with.clone());
        }
    }
    events
}

/// The events of a call up to a start that depends on an approval or grants.
pub(super) fn start_with(
    call: CallId,
    approval: Option<ApprovalId>,
    grants: &[GrantId],
    at: Timestamp,
) -> Vec<RecordedEvent> {
    let mut events = started(call, "echo");
    events.pop();
    let event = CallEvent::Started {
        tier: Tier::Host,
        approval,
        grants: grants.to_vec(),
        read_from: None,
    };
    events.push(RecordedEvent { call, at, event });
    events
}

/// Records a whole call whose start depends on an approval or grants; returns whether it started.
pub(super) async fn start(
    fixture: &impl LedgerFixture,
    principal: &Arc<Principal>,
    approval: Option<ApprovalId>,
    grants: &[GrantId],
    at: Timestamp,
) -> Result<(), LedgerError> {
    let request = request(principal, "echo");
    let record = works("open", fixture.ledger().open(&request, START).await);
    let events = start_with(request.id, approval, grants, at);
    let started = record.append(events, Durability::Durable).await;
    record.settle(settled(request.id, Terminal::Succeeded, ""));
    works("settled", record.settled().await);
    started
}

/// The settlement of a call.
pub(super) fn settled(call: CallId, terminal: Terminal, text: &str) -> Vec<RecordedEvent> {
    settled_with(call, terminal, text, Facts::default())
}

/// The settlement of a call whose output was spilled.
pub(super) fn spilled(call: CallId, artifact: ArtifactId) -> Vec<RecordedEvent> {
    let mut facts = Facts::default();
    facts.artifact = Some(artifact);
    settled_with(call, Terminal::Succeeded, "", facts)
}

/// Opens a call, records its events up to its start, and returns the open record.
pub(super) async fn open(
    fixture: &impl LedgerFixture,
    request: &CallRequest,
    durability: Durability,
) -> Box<dyn CallRecord> {
    open_at(fixture, request, START, durability).await
}

/// Records a whole call and waits until it is durable.
pub(super) async fn record(
    fixture: &impl LedgerFixture,
    principal: &Arc<Principal>,
    command: &str,
    terminal: Terminal,
) -> CallId {
    record_at(fixture, principal, command, terminal, START).await
}

/// Records a whole call opened at a moment.
pub(super) async fn record_at(
    fixture: &impl LedgerFixture,
    principal: &Arc<Principal>,
    command: &str,
    terminal: Terminal,
    opened: Timestamp,
) -> CallId {
    let request = request(principal, command);
    let record = open_at(fixture, &request, opened, Durability::Queued).await;
    record.settle(settled(
        request.id,
        terminal,
        &format!("output of {command}"),
    ));
    works("settled", record.settled().await);
    request.id
}

/// The tool every call of the suite uses.
pub(super) fn tool() -> ToolKey {
    let name = ToolName::parse("bash").expect("a name");
    ToolKey::new(ProviderId::builtin(), name)
}

pub(super) async fn open_at(
    fixture: &impl LedgerFixture,
    request: &CallRequest,
    at: Timestamp,
    durability: Durability,
) -> Box<dyn CallRecord> {
    let ledger = fixture.ledger();
    let record = works("open", ledger.open(request, at).await);
    let command = match &request.arguments {
        haft_contract::Arguments::Value(value) => value["command"].as_str().unwrap_or_default(),
        haft_contract::Arguments::Text(text) => text,
    };
    let events = started(request.id, command);
    works("append", record.append(events, durability).await);
    record
}

fn plan(command: &str) -> SealedPlan {
    plan_of(tool(), command)
}

fn plan_of(tool: ToolKey, command: &str) -> SealedPlan {
    parts(tool, Effects::UNKNOWN, command).seal()
}

fn parts(tool: ToolKey, effects: Effects, command: &str) -> PlanParts {
    PlanParts {
        tool,
        action: None,
        input: json!({ "command": command }),
        accesses: vec![Access::shell(command, at("."))],
        effects,
        backend: BackendId::new("memory"),
        workspace_id: haft_contract::WorkspaceId::local(),
        workspace: "/workspace".into(),
        tier: Tier::Host,
        egress: None,
        deadline: Duration::from_secs(30),
        read_from: Labels::NONE,
    }
}

pub(super) fn settled_with(
    call: CallId,
    terminal: Terminal,
    text: &str,
    facts: Facts,
) -> Vec<RecordedEvent> {
    let failure = Failure {
        kind: ErrorKind::CommandFailed,
        message: "it did not work".to_owned(),
        at: None,
        hint: None,
    };
    let outcome = Outcome {
        call,
        tool: Some(tool()),
        terminal,
        content: vec![Content::text(text)],
        structured: None,
        error: (terminal != Terminal::Succeeded).then_some(failure),
        facts,
    };
    let outcome = Arc::new(outcome);
    vec![happened(call, CallEvent::Settled { outcome })]
}
