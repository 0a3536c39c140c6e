//! A whole record is carried from a file to a database and back: all of it or nothing.

use std::{path::Path, sync::Arc, time::Duration};

use haft_contract::{
    CallId, CallRequest, Labels, Principal, TenantId, Terminal, WorkPath, WorkspaceId,
    host::{
        Approval, CallQuery, Durability, Epoch, Grant, GrantId, GrantScope, History as _,
        Ledger as _, LedgerErrorKind, Verification,
    },
    memory::Memory,
    ops::FileVersion,
};
use haft_ledger::{
    Credential, CredentialKind, LedgerOptions, Migrated, MigrationStep, StoredLedger, TransferError,
};
use haft_testkit::{EveryGrant, PATIENCE};
use serde_json::json;

use super::PostgresFixture;
use crate::{
    child,
    gateway::credential,
    memories::memory,
    support::{
        Fixed, NOW, approve, approved, database, principal, question, request, settled, start_with,
        tenant, whole_call,
    },
};

/// Enough for several pages.
const CALLS: usize = 700;

async fn open_file(directory: &Path) -> StoredLedger {
    let options = LedgerOptions::new(directory, Arc::new(Fixed));
    StoredLedger::open(options).await.unwrap().0
}

async fn carry(from: &StoredLedger, to: &StoredLedger) -> Result<Migrated, TransferError> {
    from.migrate_to(to, &|_, _, _| {}).await
}

fn other_tenant() -> TenantId {
    TenantId::parse("other").unwrap()
}

fn grant(rule: &str, uses_left: Option<u32>) -> Grant {
    let mine = principal("s1");
    Grant {
        id: GrantId::new(),
        tenant: tenant(),
        user: mine.user.clone(),
        rule: rule.to_owned(),
        scope: GrantScope::Agent(mine.agent.clone()),
        until: None,
        uses_left,
        made_by: "ada".to_owned(),
        made_at: NOW,
        cause: None,
    }
}

async fn holding(ledger: &StoredLedger) -> Vec<Grant> {
    let (mine, here) = (principal("s1"), WorkspaceId::local());
    let store = ledger.grants();
    let mut holding = store.holding(&mine, &here, NOW, &EveryGrant).await.unwrap();
    holding.sort_by(|one, other| one.rule.cmp(&other.rule));
    holding
}

/// Starts a call with an approval or a grant, and ends it.
pub(crate) async fn start(
    ledger: &StoredLedger,
    approval: Option<&Approval>,
    grants: &[GrantId],
) -> Result<(), haft_contract::host::LedgerError> {
    let asked = request("s1", "sample", json!({}));
    let record = ledger.open(&asked, NOW).await.unwrap();
    let approval = approval.map(|approval| approval.id);
    let started = record
        .append(
            vec![start_with(asked.id, approval, grants)],
            Durability::Durable,
        )
        .await;
    record.settle(vec![settled(asked.id, Terminal::Succeeded, "")]);
    record.settled().await?;
    started
}

/// What was put into a record besides calls.
struct Content {
    pending: Approval,
    unused: Approval,
    used: Approval,
    grants: Vec<Grant>,
    accepted: CallId,
    memory: Memory,
    credential: Credential,
    requested: CallId,
    last: CallId,
}

/// The call that a request with a key made.
async fn remember(ledger: &StoredLedger) -> CallId {
    let (keys, mine) = (ledger.request_keys(), tenant());
    let known = keys.remember(&mine, "owner", "key", [1; 32], CallId::new(), NOW);
    known.await.unwrap().call
}

fn seen_path() -> WorkPath {
    WorkPath::relative("a.txt").unwrap()
}

/// Puts some of everything into a record.
async fn fill(ledger: &StoredLedger, calls: usize) -> Content {
    let mut records = Vec::new();
    let mut last = CallId::new();
    for number in 0..calls {
        let (id, record) = whole_call(ledger, "s1", &format!("number {number} rhubarb")).await;
        last = id;
        records.push(record);
    }
    for record in records {
        record.settled().await.unwrap();
    }
    let mut foreign = Principal::clone(&principal("s1"));
    foreign.tenant = other_tenant();
    let foreign = CallRequest::new("sample", json!({}), Arc::new(foreign));
    let record = ledger.open(&foreign, NOW).await.unwrap();
    record.settle(vec![settled(foreign.id, Terminal::Succeeded, "")]);
    record.settled().await.unwrap();

    let grants = vec![grant("bash(make a)", Some(3)), grant("bash(make b)", None)];
    for grant in &grants {
        ledger.grants().add(grant.clone()).await.unwrap();
    }
    start(ledger, None, &[grants[0].id]).await.unwrap();
    let pending = ledger.approvals().ask(question("s1", 1)).await.unwrap();
    let unused = approved(ledger, 2).await;
    let used = approved(ledger, 3).await;
    start(ledger, Some(&used), &[]).await.unwrap();
    let accepted = request("s1", "sample", json!({"later": true}));
    ledger.accept(&accepted, NOW).await.unwrap();
    let (mine, here) = (principal("s1"), WorkspaceId::local());
    ledger.note_seen(&mine, &here, &seen_path(), &FileVersion::new("v7"));
    let memory = memory("carried");
    let memories = ledger.memories();
    memories.save(memory.clone()).await.unwrap();
    let reader = principal("reader");
    memories
        .note_read(&reader, &memory.read_from)
        .await
        .unwrap();
    let credential = credential("carried", CredentialKind::ApiKey);
    let credentials = ledger.credentials();
    credentials.add(credential.clone(), [1; 32]).await.unwrap();
    let requested = remember(ledger).await;
    ledger.flush().await.unwrap();
    Content {
        memory,
        credential,
        requested,
        pending,
        unused,
        used,
        grants,
        accepted: accepted.id,
        last,
    }
}

async fn assert_intact(ledger: &StoredLedger) {
    for tenant in [tenant(), other_tenant()] {
        let verified = ledger.verify(&tenant).await.unwrap();
        let is_intact = matches!(verified, Verification::Intact { records } if records > 0);
        assert!(is_intact, "{verified:?}");
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_record_is_carried_to_a_database_and_back_with_everything() {
    let fixture = PostgresFixture::new().await;
    let file = open_file(&fixture.directory()).await;
    let content = fill(&file, CALLS).await;
    let here = file.calls(&tenant(), &all()).await.unwrap();
    let target = fixture.open().await;
    let carried = carry(&file, &target).await.unwrap();
    let calls = CALLS as u64 + 4;
    assert_eq!((carried.calls, carried.tenants), (calls, 2), "{carried}");
    assert!(carried.records > carried.calls, "{carried}");
    let others = (
        carried.questions,
        carried.grants,
        carried.accepted,
        carried.seen,
    );
    assert_eq!(others, (3, 2, 1, 1), "{carried}");
    assert!(!carried.was_there);
    // Once more finds it there and changes nothing.
    let mut again = carry(&file, &target).await.unwrap();
    assert!(std::mem::take(&mut again.was_there));
    assert_eq!(again, carried);

    assert_intact(&target).await;
    let there = target.calls(&tenant(), &all()).await.unwrap();
    let ids = |calls: &[haft_contract::host::StoredCall]| {
        calls
            .iter()
            .map(|call| (call.id, call.terminal))
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(&here), ids(&there));
    let query = CallQuery {
        search: Some(format!("{} rhubarb", CALLS - 1)),
        ..all()
    };
    let found = target.calls(&tenant(), &query).await.unwrap();
    assert_eq!(found.first().map(|call| call.id), Some(content.last));

    // Back into a file of another directory with the same key, as it is.
    let home = open_file(&fixture.other_machine("home")).await;
    let back = carry(&target, &home).await.unwrap();
    assert_eq!(back, carried);
    assert_intact(&home).await;
    for ledger in [&target, &home] {
        assert_everything_is_of_use(ledger, &content).await;
        assert_intact(ledger).await;
    }

    // What was used since is another record.
    let refused = carry(&file, &target).await.unwrap_err();
    assert!(matches!(refused, TransferError::NotEmpty(_)), "{refused}");
    let refused = carry(&target, &fixture.open().await).await.unwrap_err();
    assert!(matches!(refused, TransferError::SameRecord), "{refused}");
    for ledger in [file, target, home] {
        ledger.close().await.unwrap();
    }
}

/// Carries some of everything to a database and back.
pub(super) async fn there_and_back(fixture: &PostgresFixture) {
    let file = open_file(&fixture.directory()).await;
    fill(&file, 3).await;
    let target = fixture.open().await;
    carry(&file, &target).await.unwrap();
    let home = open_file(&fixture.other_machine("home")).await;
    carry(&target, &home).await.unwrap();
    for ledger in [file, target, home] {
        ledger.close().await.unwrap();
    }
}

fn all() -> CallQuery {
    CallQuery {
        limit: 10_000,
        ..CallQuery::default()
    }
}

/// What was carried decides as it did.
async fn assert_everything_is_of_use(ledger: &StoredLedger, content: &Content) {
    let found = holding(ledger).await;
    let ids: Vec<GrantId> = found.iter().map(|grant| grant.id).collect();
    let expect: Vec<GrantId> = content.grants.iter().map(|grant| grant.id).collect();
    assert_eq!(ids, expect);
    // One of three was used before.
    assert_eq!(found[0].uses_left, Some(2));
    for is_there in [true, true, false] {
        let used = start(ledger, None, &[content.grants[0].id]).await;
        assert_eq!(used.is_ok(), is_there, "{used:?}");
    }
    start(ledger, None, &[content.grants[1].id]).await.unwrap();

    let asked = ledger.approvals().ask(question("s1", 1)).await.unwrap();
    assert_eq!(asked.id, content.pending.id);
    let answered = approve(ledger, &content.pending).await.unwrap();
    start(ledger, Some(&answered), &[]).await.unwrap();
    start(ledger, Some(&content.unused), &[]).await.unwrap();
    for spent in [&content.unused, &content.used] {
        let refused = start(ledger, Some(spent), &[]).await.unwrap_err();
        assert_eq!(refused.kind(), LedgerErrorKind::Conflict);
    }
    let mine = tenant();
    let claimed = ledger.claim(&mine, content.accepted, Epoch::FIRST, NOW);
    let claimed = claimed.await.unwrap();
    let end = settled(content.accepted, Terminal::Succeeded, "claimed");
    claimed.record.settle(vec![end]);
    claimed.record.settled().await.unwrap();
    let (mine, here) = (principal("s1"), WorkspaceId::local());
    let seen = ledger.last_seen(&mine, &here, &seen_path()).await.unwrap();
    assert_eq!(seen, Some(FileVersion::new("v7")));
    let kept = ledger.memories().list(&mine.tenant, 10).await.unwrap();
    assert_eq!(kept, std::slice::from_ref(&content.memory));
    let reader = principal("reader");
    let used = ledger.providers_used(&reader.tenant, &reader.session, 10);
    let used = Labels::of_providers(&used.await.unwrap());
    assert_eq!(used, content.memory.read_from);
    let credential = &content.credential;
    let credentials = ledger.credentials();
    let verified = credentials.verify(&credential.id, &[1; 32], NOW).await;
    assert_eq!(verified.unwrap().as_ref(), Some(credential));
    assert_eq!(remember(ledger).await, content.requested);
}

/// Whether anything of a record is in a database.
fn is_empty(fixture: &PostgresFixture) -> bool {
    let found = fixture.server.sql(
        "SELECT (SELECT count(*) FROM haft.record) + (SELECT count(*) FROM haft.approval)
             + (SELECT count(*) FROM haft.grant_rule) + (SELECT count(*) FROM haft.accepted)
             + (SELECT count(*) FROM haft.memory) + (SELECT count(*) FROM haft.memory_source)
             + (SELECT count(*) FROM haft.credential) + (SELECT count(*) FROM haft.request_key)
             + (SELECT count(*) FROM haft.seen) + (SELECT count(*) FROM haft.chain)",
    );
    found == "0"
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn nothing_of_a_record_that_was_tampered_with_is_carried() {
    let fixture = PostgresFixture::new().await;
    let file = open_file(&fixture.directory()).await;
    fill(&file, 20).await;
    let target = fixture.open().await;
    for (tamper, put_back) in [
        (
            "UPDATE record SET terminal = 2 WHERE position = 5",
            "UPDATE record SET terminal = NULL WHERE position = 5",
        ),
        (
            "UPDATE grant_rule SET rule = 'bash(rm *)' WHERE rule = 'bash(make b)'",
            "UPDATE grant_rule SET rule = 'bash(make b)' WHERE rule = 'bash(rm *)'",
        ),
        (
            "UPDATE approval SET summary = summary || '!' WHERE state = 'pending'",
            "UPDATE approval SET summary = rtrim(summary, '!') WHERE state = 'pending'",
        ),
        (
            "UPDATE memory SET text = 'carry this'",
            "UPDATE memory SET text = 'carried'",
        ),
        (
            "UPDATE credential SET person = 'mallory'",
            "UPDATE credential SET person = 'ada'",
        ),
        (
            "UPDATE request_key SET at = at + 1",
            "UPDATE request_key SET at = at - 1",
        ),
        (
            "UPDATE accepted SET request = request || ' '",
            "UPDATE accepted SET request = rtrim(request)",
        ),
    ] {
        run(&fixture, tamper).await;
        let refused = carry(&file, &target).await.unwrap_err();
        let is_named = matches!(
            refused,
            TransferError::Broken { .. } | TransferError::Unsigned(_)
        );
        assert!(is_named, "{tamper}: {refused:?}");
        assert!(is_empty(&fixture), "{tamper}");
        run(&fixture, put_back).await;
    }
    // It was that and nothing else.
    carry(&file, &target).await.unwrap();
    file.close().await.unwrap();
    target.close().await.unwrap();
}

async fn run(fixture: &PostgresFixture, sql: &'static str) {
    let mut connection = database(&fixture.directory()).await;
    let changed = sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    assert_eq!(changed.rows_affected(), 1, "{sql}");
}

/// Both engines say who is there: a file by locks, a database by its connections.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_record_that_somebody_uses_is_not_carried() {
    let fixture = PostgresFixture::new().await;
    let other = second_database(&fixture).await;
    let url = fixture.server.url("app");
    for is_file in [true, false] {
        let directory = fixture.directory();
        let (player, from) = if is_file {
            let player = child::play("started", &directory);
            (player, open_file(&directory).await)
        } else {
            let elsewhere = fixture.other_machine("elsewhere");
            let player = child::play_on("started", &elsewhere, &url);
            (player, fixture.open().await)
        };
        let target = StoredLedger::open(on_database(&fixture, "app", &other));
        let target = target.await.unwrap().0;
        let running = from.calls(&tenant(), &all()).await.unwrap();
        let running = running.iter().find(|call| call.terminal.is_none()).unwrap();
        let refused = carry(&from, &target).await.unwrap_err();
        let said = refused.to_string();
        assert!(matches!(refused, TransferError::InUse(_)), "{said}");
        assert!(said.contains(&format!("process {}", player.id())), "{said}");
        assert!(said.contains(&running.id.to_string()), "{said}");
        assert!(is_empty_in(&fixture, &other), "{said}");
        from.close().await.unwrap();
        target.close().await.unwrap();
        player.kill();
    }
    // Whoever opens it next settles what the process left; then it is carried.
    let file = open_file(&fixture.directory()).await;
    let target = StoredLedger::open(on_database(&fixture, "app", &other));
    let target = target.await.unwrap().0;
    let carried = carry(&file, &target).await.unwrap();
    assert_eq!(carried.calls, 1, "{carried}");
    // Its own calls count too.
    let open = request("s1", "sample", json!({}));
    let record = file.open(&open, NOW).await.unwrap();
    record
        .append(vec![start_with(open.id, None, &[])], Durability::Durable)
        .await
        .unwrap();
    let refused = carry(&file, &target).await.unwrap_err();
    assert!(
        matches!(&refused, TransferError::StillRunning(calls)
        if *calls == open.id.to_string()),
        "{refused}"
    );
}

/// Another database, begun with the same key.
async fn second_database(fixture: &PostgresFixture) -> String {
    let database = fixture.server.new_database();
    let owner = StoredLedger::open(on_database(fixture, "haft_owner", &database));
    owner.await.unwrap().0.close().await.unwrap();
    database
}

fn on_database(fixture: &PostgresFixture, role: &str, database: &str) -> LedgerOptions {
    let url = fixture.server.url_of(role, database);
    LedgerOptions::new(fixture.directory(), Arc::new(Fixed)).database(url)
}

fn is_empty_in(fixture: &PostgresFixture, database: &str) -> bool {
    let found = fixture
        .server
        .sql_in(database, "SELECT count(*) FROM haft.record");
    found == "0"
}

/// Carries a record and stops for good in the middle of it.
pub(crate) async fn carry_halfway(directory: &Path, database: &str) {
    let file = open_file(directory).await;
    let options = LedgerOptions::new(directory, Arc::new(Fixed)).database(database);
    let (target, _) = StoredLedger::open(options).await.unwrap();
    let stop = |step, _, _| {
        if step == MigrationStep::Carrying {
            println!("at its point");
            loop {
                std::thread::park();
            }
        }
    };
    file.migrate_to(&target, &stop).await.unwrap();
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_migration_that_was_killed_leaves_nothing_and_is_done_again() {
    let fixture = PostgresFixture::new().await;
    let directory = fixture.directory();
    let file = open_file(&directory).await;
    fill(&file, CALLS).await;
    file.close().await.unwrap();
    let url = fixture.server.url("app");
    child::play_on("migrate", &directory, &url).kill();
    // The server needs a moment to notice.
    let began = std::time::Instant::now();
    while fixture
        .server
        .sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'")
        != "0"
    {
        assert!(began.elapsed() < PATIENCE, "the connections end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_empty(&fixture));
    let file = open_file(&directory).await;
    let target = fixture.open().await;
    let carried = carry(&file, &target).await.unwrap();
    assert!(!carried.was_there);
    assert_intact(&target).await;
    // As if it had been killed after all was written.
    let again = carry(&file, &target).await.unwrap();
    assert!(again.was_there);
    file.close().await.unwrap();
    target.close().await.unwrap();
}

/// Another machine has no file to wait for. What it may have recorded would stay behind.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_record_that_another_machine_opens_meanwhile_is_not_to_be_left() {
    let fixture = PostgresFixture::new().await;
    let from = fixture.open().await;
    fill(&from, 3).await;
    let home = open_file(&fixture.other_machine("home")).await;
    let elsewhere = fixture.options_at(&fixture.other_machine("elsewhere"), "app");
    let opens = std::sync::Once::new();
    let progress = |step, _, _| {
        if step == MigrationStep::CheckingTarget {
            opens.call_once(|| {
                let elsewhere = elsewhere.clone();
                let opened = std::thread::spawn(|| {
                    let runtime = tokio::runtime::Runtime::new().unwrap();
                    runtime.block_on(async {
                        let (ledger, _) = StoredLedger::open(elsewhere).await.unwrap();
                        ledger.close().await.unwrap();
                    });
                });
                opened.join().unwrap();
            });
        }
    };
    let refused = from.migrate_to(&home, &progress).await.unwrap_err();
    assert!(
        matches!(&refused, TransferError::Differs(why) if why.contains("opened it meanwhile")),
        "{refused}"
    );
    // Once nobody does, what arrived is found to be all.
    assert!(carry(&from, &home).await.unwrap().was_there);
}
