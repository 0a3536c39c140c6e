//! A ledger in a temporary directory, and the events tests put into it.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use haft_contract::{
    Access, AgentId, CallEvent, CallId, CallRequest, Content, Effects, ErrorKind, Facts, Labels,
    Outcome, PlanDigest, PlanParts, Principal, ProviderId, SessionId, TenantId, Terminal, ToolKey,
    ToolName, UserId, WorkPath,
    event::RecordedEvent,
    host::{
        AnswerError, AnswerPlace, Answerer, Approval, ApprovalId, ApprovalQuestion, CallRecord,
        Clock, Durability, GivenAnswer, GivenVerdict, GrantId, Ledger as _, Timestamp,
    },
    ops::{BackendId, Tier},
    outcome::Failure,
};
use haft_ledger::{LedgerOptions, Recovery, StoredLedger};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection};

/// A moment in 2023.
pub(crate) const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

pub(crate) struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        NOW
    }
}

/// A directory that a ledger is opened in, again and again.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.folder.path().join("record")
    }

    pub(crate) fn options(&self) -> LedgerOptions {
        LedgerOptions::new(self.directory(), Arc::new(Fixed))
    }

    pub(crate) async fn open(&self) -> StoredLedger {
        self.recover().await.0
    }

    pub(crate) async fn recover(&self) -> (StoredLedger, Recovery) {
        StoredLedger::open(self.options()).await.unwrap()
    }

    /// Changes the database behind the ledger's back.
    pub(crate) async fn tamper(&self, sql: &'static str) {
        let mut connection = database(&self.directory()).await;
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
    }

    pub(crate) async fn number(&self, sql: &'static str) -> i64 {
        let mut connection = database(&self.directory()).await;
        let number = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
        connection.close().await.unwrap();
        number.unwrap()
    }
}

pub(crate) async fn database(directory: &Path) -> SqliteConnection {
    let path = directory.join("ledger.db");
    SqliteConnection::connect(&format!("sqlite://{}", path.display()))
        .await
        .unwrap()
}

pub(crate) fn principal(session: &str) -> Arc<Principal> {
    Arc::new(Principal::local(
        UserId::parse("ada").unwrap(),
        AgentId::parse("agent").unwrap(),
        SessionId::parse(session).unwrap(),
    ))
}

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("local").unwrap()
}

pub(crate) fn request(session: &str, tool: &str, input: Value) -> CallRequest {
    CallRequest::new(tool, input, principal(session))
}

pub(crate) fn at(call: CallId, event: CallEvent) -> RecordedEvent {
    RecordedEvent {
        call,
        at: NOW,
        event,
    }
}

pub(crate) fn planned(call: CallId, effects: Effects, access: Access) -> RecordedEvent {
    let plan = PlanParts {
        tool: ToolKey::new(ProviderId::builtin(), ToolName::parse("sample").unwrap()),
        action: None,
        input: json!({"what": "a sample"}),
        accesses: vec![access],
        effects,
        backend: BackendId::new("memory"),
        workspace_id: haft_contract::WorkspaceId::local(),
        workspace: "/work".into(),
        tier: Tier::InProcess,
        egress: None,
        deadline: Duration::from_secs(30),
        read_from: Labels::NONE,
    };
    at(
        call,
        CallEvent::Planned {
            plan: Arc::new(plan.seal()),
        },
    )
}

pub(crate) fn writes(call: CallId) -> RecordedEvent {
    let path = WorkPath::relative("src/lib.rs").unwrap();
    planned(call, Effects::CHANGES, Access::write(path))
}

pub(crate) fn reads(call: CallId) -> RecordedEvent {
    let path = WorkPath::relative("src/lib.rs").unwrap();
    planned(call, Effects::READ_ONLY, Access::read(path))
}

pub(crate) fn started(call: CallId) -> RecordedEvent {
    at(
        call,
        CallEvent::Started {
            tier: Tier::InProcess,
            approval: None,
            grants: Vec::new(),
            read_from: None,
        },
    )
}

/// A start that rests on an approval or grants.
pub(crate) fn start_with(
    call: CallId,
    approval: Option<ApprovalId>,
    grants: &[GrantId],
) -> RecordedEvent {
    let event = CallEvent::Started {
        tier: Tier::InProcess,
        approval,
        grants: grants.to_vec(),
        read_from: None,
    };
    at(call, event)
}

/// A question, another one for each number.
pub(crate) fn question(session: &str, number: u8) -> ApprovalQuestion {
    ApprovalQuestion {
        call: CallId::new(),
        principal: principal(session),
        digest: PlanDigest([number; 32]),
        form: Arc::new(json!({"tool": "sample", "number": number})),
        summary: format!("question {number}"),
        asked: NOW,
        expires: NOW.after(Duration::from_hours(1)),
        most_open: 100,
    }
}

/// Says yes to a question from the record.
pub(crate) async fn approve(
    ledger: &StoredLedger,
    asked: &Approval,
) -> Result<Approval, AnswerError> {
    let yes = GivenAnswer {
        verdict: GivenVerdict::Approve,
        digest: asked.digest,
        by: Answerer::Person {
            name: "ada".to_owned(),
            place: AnswerPlace::Elsewhere,
        },
    };
    let store = ledger.approvals();
    store.answer(&tenant(), asked.id, yes, NOW).await
}

/// An approved question of session `s1`.
pub(crate) async fn approved(ledger: &StoredLedger, number: u8) -> Approval {
    let asked = ledger.approvals().ask(question("s1", number)).await;
    approve(ledger, &asked.unwrap()).await.unwrap()
}

pub(crate) fn outcome(call: CallId, terminal: Terminal, text: &str) -> Outcome {
    Outcome {
        call,
        tool: None,
        terminal,
        content: vec![Content::text(text)],
        structured: None,
        error: (terminal != Terminal::Succeeded).then(|| Failure {
            kind: ErrorKind::CommandFailed,
            message: "it went wrong".to_owned(),
            at: None,
            hint: None,
        }),
        facts: Facts::default(),
    }
}

pub(crate) fn settled(call: CallId, terminal: Terminal, text: &str) -> RecordedEvent {
    let outcome = Arc::new(outcome(call, terminal, text));
    at(call, CallEvent::Settled { outcome })
}

/// A whole call that changes something, settled but not yet waited for.
pub(crate) async fn whole_call(
    ledger: &StoredLedger,
    session: &str,
    text: &str,
) -> (CallId, Box<dyn CallRecord>) {
    let request = request(session, "sample", json!({"text": text}));
    let id = request.id;
    let record = ledger.open(&request, NOW).await.unwrap();
    record
        .append(vec![writes(id)], Durability::Queued)
        .await
        .unwrap();
    record
        .append(vec![started(id)], Durability::Durable)
        .await
        .unwrap();
    record.settle(vec![settled(id, Terminal::Succeeded, text)]);
    (id, record)
}
