//! A record of every version of the schema there has been is brought up to date: nothing is lost, what is
//! derived from the calls is derived anew, and the schema is the one that a new record gets.
//!
//! `schemas/` has the text of each version, and in `rows.sql` a record as version 3 wrote it: four calls,
//! three questions, a standing approval and a memory.//! `schema_steps.rs` shows that the texts are what the steps make.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::Arc,
    time::Duration,
};

use haft_contract::{
    agent_question::AgentQuestion,
    host::{
        AgentQuestionState, ApprovalState, CallFilter, CallQuery, History as _, Ledger as _,
        LedgerErrorKind, NewAgentQuestion, StatsKey, StatsQuery, Verification,
    },
};
use haft_ledger::{CredentialKind, LedgerOptions, SCHEMA_VERSION, StoredLedger};
use haft_testkit::postgres_server::PostgresServer;

use crate::{
    engine::EngineFixture,
    gateway::credential,
    memories::memory,
    postgres::{PostgresFixture, migration::start},
    schema_steps::{VERSIONS, committed, postgres_catalog, sqlite_schema, texts},
    support::{Fixture, NOW, approve, principal, question, request, tenant, whole_call},
};

/// What the rows are signed with.
const KEY: [u8; 32] = [7; 32];

/// What a record of the first version had derived from its calls.
const DERIVED_BEFORE: &str =
    "INSERT INTO session_calls (session, tenant, kind, agent, first_at, last_at, calls)
        SELECT id, tenant, 'main', 'agent', 0, 0, 3 FROM session;
    UPDATE caught_up SET position = (SELECT max(position) FROM record);";

fn prepare(directory: &Path) {
    fs::create_dir(directory).unwrap();
    fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
    let key = directory.join("checkpoint.key");
    fs::write(&key, KEY).unwrap();
    fs::set_permissions(key, Permissions::from_mode(0o600)).unwrap();
}

/// The rows that a version has a table for.
fn rows(version: usize) -> String {
    let later: &[&str] = match version {
        1 | 2 => &["INSERT INTO memory "],
        _ => &[],
    };
    let is_there = |row: &&str| !later.iter().any(|table| row.starts_with(table));
    let rows = fs::read_to_string(texts().join("rows.sql")).unwrap();
    let mut rows: String = rows.lines().filter(is_there).collect::<Vec<_>>().join("\n");
    if version == 1 {
        rows.push_str(DERIVED_BEFORE);
    }
    rows
}

async fn sqlite_of(version: usize) -> Fixture {
    let fixture = Fixture::new();
    prepare(&fixture.directory());
    fs::write(fixture.directory().join("ledger.db"), "").unwrap();
    let marks = format!("PRAGMA application_id = 0x68616674; PRAGMA user_version = {version};");
    EngineFixture::tamper(&fixture, &committed("sqlite", version)).await;
    EngineFixture::tamper(&fixture, &rows(version)).await;
    EngineFixture::tamper(&fixture, &marks).await;
    fixture
}

fn postgres_of(version: usize) -> PostgresFixture {
    let fixture = PostgresFixture::without_schema(Arc::new(PostgresServer::start()));
    prepare(&fixture.directory());
    let schema = committed("postgres", version);
    fixture.sql(&format!("SET ROLE haft_owner; {schema}"));
    let rows = rows(version)
        .replace("x'", "'\\x")
        .replace(") VALUES (", ") OVERRIDING SYSTEM VALUE VALUES (");
    let numbers = ["tenant", "session", "principal", "writer"].map(|table| {
        format!("SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table};")
    });
    fixture.sql(&format!(
        "SET search_path = haft; {rows}
         INSERT INTO schema_version (version) SELECT generate_series(1, {version});
         SELECT setval('record_position', max(position)) FROM record;
         SELECT setval('approval_change', max(changed)) FROM approval; {}",
        numbers.concat()
    ));
    fixture
}

#[tokio::test]
async fn every_schema_of_sqlite_is_brought_up_to_date() {
    let new = Fixture::new();
    new.open().await.close().await.unwrap();
    let newest = sqlite_schema(&new.directory()).await;
    for version in 1..=VERSIONS {
        let fixture = sqlite_of(version).await;
        is_brought_up_to_date(&fixture, fixture.options()).await;
        let found = fixture.number("PRAGMA user_version").await;
        assert_eq!(found, SCHEMA_VERSION, "version {version}");
        let schema = sqlite_schema(&fixture.directory()).await;
        assert_eq!(schema, newest, "version {version}");
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn every_schema_of_postgresql_is_brought_up_to_date() {
    let newest = postgres_catalog(&PostgresFixture::new().await);
    for version in 1..=VERSIONS {
        let fixture = postgres_of(version);
        is_brought_up_to_date(&fixture, fixture.options("haft_owner")).await;
        // What `tamper` needed.
        fixture.sql("DROP FUNCTION haft.zeroblob(integer)");
        assert_eq!(postgres_catalog(&fixture), newest, "version {version}");
    }
}

/// What is found by these questions.
async fn answers(ledger: &StoredLedger) -> (usize, usize, usize, u64) {
    let all = CallQuery {
        limit: 10,
        ..CallQuery::default()
    };
    let search = CallQuery {
        search: Some("number".to_owned()),
        ..all.clone()
    };
    let stats = StatsQuery {
        filter: CallFilter::default(),
        by: StatsKey::Agent,
        limit: 10,
    };
    let counted = ledger.stats(&tenant(), &stats).await.unwrap();
    (
        ledger.calls(&tenant(), &all).await.unwrap().len(),
        ledger.calls(&tenant(), &search).await.unwrap().len(),
        ledger.sessions(&tenant(), &[], 10).await.unwrap().len(),
        counted.iter().map(|row| row.calls).sum(),
    )
}

async fn is_brought_up_to_date(fixture: &impl EngineFixture, owner: LedgerOptions) {
    let memories = "SELECT count(*) FROM memory";
    // Whoever may changes the schema, and then everybody works with it.
    let (ledger, _) = StoredLedger::open(owner).await.unwrap();
    ledger.close().await.unwrap();
    let memories = fixture.number(memories).await;
    let ledger = fixture.open().await;
    assert_eq!(answers(&ledger).await, (4, 4, 1, 4));
    assert_intact(&ledger).await;
    let (_, record) = whole_call(&ledger, "s2", "number 4").await;
    record.settled().await.unwrap();
    assert_eq!(answers(&ledger).await, (5, 5, 2, 5));
    ledger.memories().save(memory("kept")).await.unwrap();
    let listed = ledger.memories().list(&tenant(), 10).await.unwrap();
    assert_eq!(listed.len(), usize::try_from(memories).unwrap() + 1);
    assert!(memories == 0 || listed.iter().any(|memory| memory.text == "saved before"));
    old_questions_are_approvals(&ledger, fixture).await;
    agents_may_ask(&ledger).await;
    gateways_may_be_used(&ledger).await;
    assert_intact(&ledger).await;
    ledger.close().await.unwrap();
}

async fn assert_intact(ledger: &StoredLedger) {
    let verified = ledger.verify(&tenant()).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
}

/// One was asked, one answered, and one used before questions had a kind. None lapses by it, and what
/// signs them makes none of them anything else.
async fn old_questions_are_approvals(ledger: &StoredLedger, fixture: &impl EngineFixture) {
    let approvals = ledger.approvals();
    let (mine, agents) = (tenant(), ledger.agent_questions());
    for (edit, back) in [
        (
            "UPDATE approval SET kind = 'question' WHERE state = 'pending'",
            "UPDATE approval SET kind = 'approval' WHERE state = 'pending'",
        ),
        (
            "UPDATE approval SET summary = summary || '!' WHERE state = 'pending'",
            "UPDATE approval SET summary = rtrim(summary, '!') WHERE state = 'pending'",
        ),
    ] {
        fixture.tamper(edit).await;
        let found = approvals.pending(&mine, NOW, 10).await.unwrap();
        assert_eq!(found, [], "{edit}");
        let found = agents.pending(&mine, NOW, 10).await.unwrap();
        assert_eq!(found, [], "{edit}");
        fixture.tamper(back).await;
    }
    let pending = approvals.pending(&mine, NOW, 10).await.unwrap();
    let [pending] = pending.as_slice() else {
        panic!("{pending:?}");
    };
    assert_eq!(pending.summary, "question 1");
    let answered = approve(ledger, pending).await.unwrap();
    let unused = approvals.ask(question("s1", 2)).await.unwrap();
    for approved in [&answered, &unused] {
        let is_approved = matches!(approved.state, ApprovalState::Approved { .. });
        assert!(is_approved, "{approved:?}");
        start(ledger, Some(approved), &[]).await.unwrap();
        let again = start(ledger, Some(approved), &[]).await.unwrap_err();
        assert_eq!(again.kind(), LedgerErrorKind::Conflict);
    }
    let asked_again = approvals.ask(question("s1", 3)).await.unwrap();
    assert_eq!(asked_again.state, ApprovalState::Pending);
}

async fn gateways_may_be_used(ledger: &StoredLedger) {
    let (credentials, key) = (
        ledger.credentials(),
        credential("a", CredentialKind::ApiKey),
    );
    credentials.add(key.clone(), [1; 32]).await.unwrap();
    let verified = credentials.verify(&key.id, &[1; 32], NOW).await.unwrap();
    assert_eq!(verified, Some(key));
    let asked = request("s1", "sample", serde_json::json!({}));
    ledger.accept(&asked, NOW).await.unwrap();
    let (keys, mine) = (ledger.request_keys(), tenant());
    let known = keys.remember(&mine, "owner", "key", [1; 32], asked.id, NOW);
    assert!(known.await.unwrap().is_new);
    let unfinished = ledger.unfinished(10).await.unwrap();
    assert!(unfinished.iter().any(|call| call.call == asked.id));
}

async fn agents_may_ask(ledger: &StoredLedger) {
    let asked = NewAgentQuestion {
        call: haft_contract::CallId::new(),
        principal: principal("s1"),
        question: Arc::new(AgentQuestion::new("which one?", &[], None).unwrap()),
        words: [9; 32],
        asked: NOW,
        expires: NOW.after(Duration::from_hours(1)),
        most_open: 1,
    };
    let asked = ledger.agent_questions().ask(asked).await.unwrap();
    assert_eq!(asked.state, AgentQuestionState::Pending);
}
