//! What an interrupted run leaves behind is settled once, and run again only if it only read and
//! somebody asks. The interrupted run is played by a ledger that is closed with a call still open.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    Access, AgentId, CallEvent, CallId, CallRequest, Effects, Labels, PlanParts, Principal,
    ProviderId, SessionId, ToolKey, ToolName, UserId, WorkPath,
    event::RecordedEvent,
    host::{Durability, Ledger as _, Timestamp},
    ops::{BackendId, Tier},
};
use haft_ledger::{LedgerOptions, StoredLedger};
use haft_runtime::SystemClock;
use serde_json::{Value, json};

use crate::support::Stage;

/// Leaves a started call on record, as a program that was killed would.
fn interrupt(stage: &Stage, tool: &str, input: &Value, effects: Effects) -> CallId {
    let principal = Principal::local(
        UserId::parse("ada").unwrap(),
        AgentId::parse("cli").unwrap(),
        SessionId::parse("main").unwrap(),
    );
    let request = CallRequest::new(tool, input.clone(), Arc::new(principal));
    let plan = PlanParts {
        tool: ToolKey::new(ProviderId::builtin(), ToolName::parse(tool).unwrap()),
        action: None,
        input: input.clone(),
        accesses: vec![Access::read(WorkPath::root())],
        effects,
        backend: BackendId::new("local"),
        workspace_id: haft_contract::WorkspaceId::local(),
        workspace: stage.work.display().to_string().into(),
        tier: Tier::InProcess,
        egress: None,
        deadline: Duration::from_secs(30),
        read_from: Labels::NONE,
    };
    let at = Timestamp(1_700_000_000_000_000);
    let events = [
        CallEvent::Opened {
            workspace: haft_contract::WorkspaceId::local(),
        },
        CallEvent::Planned {
            plan: Arc::new(plan.seal()),
        },
        CallEvent::Started {
            tier: Tier::InProcess,
            approval: None,
            grants: Vec::new(),
            read_from: None,
        },
    ];
    let events = events.map(|event| RecordedEvent {
        call: request.id,
        at,
        event,
    });
    let record = stage.home.join(".local/share/haft/record");
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let options = LedgerOptions::new(record, Arc::new(SystemClock));
        let (ledger, _) = StoredLedger::open(options).await.unwrap();
        let open = ledger.open(&request, at).await.unwrap();
        open.append(events.to_vec(), Durability::Durable)
            .await
            .unwrap();
        ledger.close().await.unwrap();
    });
    request.id
}

#[test]
fn a_call_that_only_read_is_run_again_when_asked_and_no_other_is() {
    let stage = Stage::new();
    stage.write("a.txt", "still here\n");
    let read = interrupt(
        &stage,
        "read",
        &json!({"path": "a.txt"}),
        Effects::READ_ONLY,
    );
    let wrote = interrupt(
        &stage,
        "write",
        &json!({"path": "b.txt", "content": "x"}),
        Effects::REPLACES,
    );
    let ran = stage.haft(&["recover", "--rerun-read-only", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // The second interrupted run has settled what the first left open.
    assert_eq!(lines[0]["unknown"], json!([wrote.to_string()]));
    assert_eq!(lines[0]["can_run_again"], json!([]));
    assert_eq!(lines.len(), 1);
    assert!(
        !stage.exists("b.txt"),
        "what changes something is never repeated"
    );
    assert_eq!(
        stage.json(&["show", &read.to_string(), "--json"])["outcome"],
        "unknown"
    );

    let read = interrupt(
        &stage,
        "read",
        &json!({"path": "a.txt"}),
        Effects::READ_ONLY,
    );
    let ran = stage.haft(&["recover", "--rerun-read-only", "--json"]);
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines[0]["can_run_again"], json!([read.to_string()]));
    assert_eq!(lines[1]["outcome"], "succeeded");
    assert_ne!(lines[1]["call"], json!(read.to_string()), "as a new call");
    assert!(lines[1]["content"].to_string().contains("still here"));
    assert_eq!(stage.haft(&["recover"]).ok(), "nothing was left open\n");
}

#[test]
fn any_command_settles_what_was_left_open_and_says_so_once() {
    let stage = Stage::new();
    interrupt(
        &stage,
        "read",
        &json!({"path": "a.txt"}),
        Effects::READ_ONLY,
    );
    let ran = stage.haft(&["call", "list", "path=."]);
    assert!(
        ran.stderr.contains(
            "note: 1 call of an earlier run ended unknown; `haft log --all-workspaces` shows them"
        ),
        "{}",
        ran.all()
    );
    assert_eq!(stage.haft(&["log"]).stderr, "");
    let unknown = stage
        .haft(&["log", "--outcome", "unknown", "--all-workspaces", "--jsonl"])
        .ok();
    assert_eq!(unknown.lines().count(), 1, "{unknown}");
}
