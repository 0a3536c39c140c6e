//! Tenants on one database: who may do what, and that a statement that forgot its tenant finds nothing.

use haft_contract::{
    CallId, Terminal, WorkspaceId,
    host::{
        CallFilter, CallQuery, Durability, Epoch, Grant, GrantId, GrantScope, History as _,
        Ledger as _, StatsKey, StatsQuery,
    },
};
use haft_ledger::{OpenError, StoredLedger};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage, error::SqlState};

use super::{PostgresFixture, migration, statements};
use crate::{
    engine::{assert_intact, calls},
    gateway,
    suite::SuiteFixture,
    support::{
        NOW, approve, principal, question, reads, request, settled, started, tenant, whole_call,
    },
    transfer,
};

async fn client(url: &str) -> Client {
    let (client, driver) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(driver);
    let path = "SET search_path = haft";
    client.batch_execute(path).await.unwrap();
    client
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_role_that_no_policy_holds_for_is_refused() {
    let fixture = PostgresFixture::new().await;
    fixture
        .server
        .sql("CREATE ROLE sly LOGIN BYPASSRLS IN ROLE haft_service");
    for role in ["postgres", "sly"] {
        let refused = StoredLedger::open(fixture.options(role)).await.unwrap_err();
        assert!(matches!(refused, OpenError::PrivilegedRole(name) if name == role));
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn what_is_recorded_is_not_taken_back() {
    let fixture = PostgresFixture::new().await;
    let ledger = fixture.open().await;
    let (_, record) = whole_call(&ledger, "s1", "done").await;
    record.settled().await.unwrap();
    ledger.close().await.unwrap();
    let month = "SELECT tableoid::regclass FROM haft.record LIMIT 1";
    let month = fixture.server.sql(month);
    assert!(
        month.contains("record_2"),
        "a call is in the part of its month: {month}"
    );
    for role in ["app", "auditor"] {
        let client = client(&fixture.server.url(role)).await;
        let act = "SELECT set_config('haft.tenants', 'local', false)";
        client.batch_execute(act).await.unwrap();
        for denied in [
            "UPDATE record SET terminal = 1".to_owned(),
            "DELETE FROM record".to_owned(),
            "TRUNCATE record".to_owned(),
            "DELETE FROM checkpoint".to_owned(),
            format!("DELETE FROM {month}"),
            "DROP TABLE record".to_owned(),
            "ALTER TABLE record DISABLE ROW LEVEL SECURITY".to_owned(),
        ] {
            let error = client.batch_execute(&denied).await.unwrap_err();
            let code = error.code().unwrap().clone();
            assert_eq!(code, SqlState::INSUFFICIENT_PRIVILEGE, "{role}: {denied}");
        }
    }
}

/// Whoever only reads cannot act for every tenant.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn an_auditor_sees_one_tenant_at_a_time() {
    let fixture = PostgresFixture::new().await;
    let ledger = fixture.open().await;
    let (_, record) = whole_call(&ledger, "s1", "done").await;
    record.settled().await.unwrap();
    ledger.flush().await.unwrap();
    while ledger.catch_up().await.unwrap() > 0 {}
    ledger.close().await.unwrap();
    let client = client(&fixture.server.url("auditor")).await;
    for (settings, rows, found) in [
        ("", 0, 0),
        ("SELECT set_config('haft.every', 'on', false)", 0, 0),
        ("SELECT set_config('haft.tenants', 'another', false)", 0, 0),
        ("SELECT set_config('haft.tenants', 'local', false)", 2, 1),
    ] {
        client.batch_execute(settings).await.unwrap();
        let seen = client.query("SELECT 1 FROM record", &[]).await.unwrap();
        assert_eq!(seen.len(), rows, "{settings}");
        for newest_first in [true, false] {
            let search = "SELECT find_text('done', 9223372036854775807, 0, $1, 10)";
            let seen = client.query(search, &[&newest_first]).await.unwrap();
            assert_eq!(seen.len(), found, "searched: {settings}");
        }
    }
    // The words themselves are not for anybody's eyes: no policy holds for them.
    let words = client.query("SELECT 1 FROM call_text", &[]).await;
    let code = words.unwrap_err().code().unwrap().clone();
    assert_eq!(code, SqlState::INSUFFICIENT_PRIVILEGE);
    // Nor is what logs somebody in.
    for table in ["credential", "request_key"] {
        let select = format!("SELECT 1 FROM {table}");
        let code = client.query(&select, &[]).await.unwrap_err();
        assert_eq!(code.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE));
    }
}

/// Every statement the ledger has, with the values it had, as the server logged it: run again without
/// saying for whom, and for another tenant, none of them finds or changes a row, or can write one. A
/// statement in the source that did not run here is named.
#[test]
#[ignore = "ci: needs PostgreSQL"]
fn a_statement_without_its_tenant_finds_nothing() {
    use haft_testkit::suite::{self, ledger as cases};
    let SuiteFixture { record, .. } =
        SuiteFixture::opened_by(async || PostgresFixture::new().await);
    record.server.log_statements();
    let log = record.server.log_file();
    let mut logged = Vec::new();
    macro_rules! run {
        ($($case:ident),+ $(,)?) => {
            $(suite::run(async {
                // One server for all of them, so that there is one log, and it stays until it is read.
                let record = record.on_a_new_database().await;
                cases::$case(SuiteFixture::on(record).await).await;
            });)+
        };
    }
    run!(
        a_settled_call_is_recorded,
        open_calls_are_unknown_after_reopening,
        a_file_is_seen_per_session,
        spilled_output_belongs_to_its_session,
        a_session_knows_whose_tools_it_used,
        mc_27_a_start_is_refused_when_its_session_has_read_more,
        calls_filter_by_session_and_outcome,
        calls_are_found_by_what_they_touched,
        calls_can_be_followed,
        sessions_are_most_recent_first,
        calls_filter_by_workspace_agent_tool_and_time,
        open_calls_are_listed_until_they_end,
        sessions_and_workspaces_are_told_apart,
        calls_are_counted_in_groups,
        calls_are_replayed_in_batches,
        changes_come_back_as_they_happened,
        an_untouched_chain_is_intact,
        the_same_question_is_asked_once,
        only_the_first_answer_counts,
        an_answer_is_not_withdrawn_with_its_question,
        whoever_waits_is_told,
        open_questions_are_listed,
        ap_01_an_approval_starts_one_call,
        a_grant_ends,
        a_sessions_grants_end_with_it,
        a_counted_grant_is_used_up,
        a_memory_belongs_to_its_agent_and_user,
        a_memory_is_forgotten_by_its_owner_alone,
        what_a_memory_was_made_of_counts_as_read,
        the_same_request_is_accepted_once,
        a_claim_is_exclusive,
        a_superseded_claim_cannot_settle,
        a_claimed_call_outlives_whoever_claimed_it,
        an_agents_question_is_asked_and_received_once,
        an_agents_question_is_no_approval_and_an_approval_no_question,
        an_agents_question_ends,
        calls_are_paged_newest_first,
    );
    gateway_cases(&record);
    other_cases(&record);
    let run = logged_statements(&std::fs::read_to_string(log).unwrap());
    assert_all_ran(&run);
    logged.extend(run.into_iter().filter(Logged::is_data));
    logged.sort();
    logged.dedup_by(|one, other| (&one.database, &one.text) == (&other.database, &other.text));
    let mut kinds = std::collections::BTreeMap::<&str, usize>::new();
    suite::run(async {
        for statement in &logged {
            let url = record.server.url_of("app", &statement.database);
            let client = client(&url).await;
            for tenants in ["", "another"] {
                if !tenants.is_empty() && statement.is_about_nobodys_rows() {
                    continue;
                }
                let act = format!("BEGIN; SELECT set_config('haft.tenants', '{tenants}', true)");
                client.batch_execute(&act).await.unwrap();
                assert_finds_nothing(&client, &statement.with_values()).await;
                client.batch_execute("ROLLBACK").await.unwrap();
            }
            *kinds.entry(statement.kind()).or_default() += 1;
        }
    });
    // Without the policies some of the same statements find rows, so this can fail.
    let mut found = 0;
    suite::run(async {
        let reads = logged
            .iter()
            .filter(|statement| statement.kind() == "SELECT");
        for statement in reads {
            let turn_off = "ALTER TABLE haft.record DISABLE ROW LEVEL SECURITY; \
                ALTER TABLE haft.tenant DISABLE ROW LEVEL SECURITY";
            record.server.sql_in(&statement.database, turn_off);
            let client = client(&record.server.url_of("app", &statement.database)).await;
            let rows = client.simple_query(&statement.with_values()).await.unwrap();
            let is_row = |one: &SimpleQueryMessage| matches!(one, SimpleQueryMessage::Row(_));
            found += usize::from(rows.iter().any(is_row));
        }
    });
    assert!(found > 10, "{found}");
    // The server's own log was understood: there is some of everything.
    for (kind, fewest) in [("SELECT", 40), ("INSERT", 10), ("UPDATE", 4), ("DELETE", 3)] {
        let found = kinds.get(kind).copied().unwrap_or(0);
        assert!(found >= fewest, "{kind}: {kinds:?}");
    }
}

/// What is no case of a suite.
fn other_cases(server: &PostgresFixture) {
    use haft_testkit::suite;
    suite::run(count_some(server));
    suite::run(carry_over(server));
    suite::run(async {
        let database = server.on_a_new_database().await;
        migration::there_and_back(&database).await;
    });
}

/// The cases of what a gateway needs that have a statement of their own.
fn gateway_cases(server: &PostgresFixture) {
    macro_rules! run_for_gateways {
        ($($case:ident),+ $(,)?) => {
            $(haft_testkit::suite::run(async {
                gateway::$case(&server.on_a_new_database().await).await;
            });)+
        };
    }
    run_for_gateways!(
        a_credential_is_verified_by_its_secret,
        a_credential_belongs_to_its_tenant,
        a_revoked_credential_is_refused_by_every_instance,
        a_login_code_is_used_once,
        ended_credentials_are_swept,
        the_first_request_with_a_key_wins,
        an_old_request_key_is_replaced,
        accepted_calls_are_unfinished_until_their_outcome,
    );
}

async fn assert_finds_nothing(client: &Client, statement: &str) {
    match client.simple_query(statement).await {
        Ok(answers) => {
            for answer in answers {
                match answer {
                    // A count, or a maximum that is not there.
                    SimpleQueryMessage::Row(row) => {
                        for column in 0..row.len() {
                            let value = row.get(column).unwrap_or("0");
                            let is_nothing = row.len() <= 2 && ["0", "1"].contains(&value);
                            let is_aggregate =
                                statement.contains("max(") || statement.contains("count(");
                            assert!(is_nothing && is_aggregate, "{statement}: {value}");
                        }
                    }
                    SimpleQueryMessage::CommandComplete(rows) => {
                        let is_read = statement.trim_start().starts_with("SELECT");
                        assert!(is_read || rows == 0, "{statement}: {rows} rows");
                    }
                    _ => {}
                }
            }
        }
        Err(error) => {
            let refused = error.as_db_error().unwrap();
            let expected = statement.trim_start().starts_with("INSERT")
                && *refused.code() == SqlState::INSUFFICIENT_PRIVILEGE;
            assert!(expected, "{statement}: {refused}");
        }
    }
}

/// A statement of the server's log, with its values.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Logged {
    database: String,
    text: String,
    values: Vec<String>,
}

impl Logged {
    fn kind(&self) -> &str {
        self.text.split_whitespace().next().unwrap_or_default()
    }

    /// How far search has caught up, which processes write, and what the key is known by are no tenant's.
    fn is_about_nobodys_rows(&self) -> bool {
        let tables = [
            "caught_up",
            "writer WHERE name",
            "INTO writer",
            "signing_key",
        ];
        tables.iter().any(|table| self.text.contains(table)) && !self.text.contains("tenant")
    }

    /// Whether it is about rows of tenants.
    fn is_data(&self) -> bool {
        matches!(self.kind(), "SELECT" | "INSERT" | "UPDATE" | "DELETE")
            && !NOBODYS.iter().any(|word| self.text.contains(word))
    }

    /// As one text: a value is written as the log has it, which is how SQL writes it.
    fn with_values(&self) -> String {
        let mut text = self.text.clone();
        for (number, value) in (1..)
            .zip(&self.values)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            text = text.replace(&format!("${number}"), value);
        }
        text
    }
}

/// What is nobody's: settings, locks, numbers, the server's own tables, and the schema.
const NOBODYS: [&str; 9] = [
    "set_config",
    "pg_advisory",
    "pg_try_advisory",
    "pg_roles",
    "pg_locks",
    "record_position",
    "nextval",
    "schema_version",
    "make_months",
];

fn logged_statements(log: &str) -> Vec<Logged> {
    let mut found: Vec<Logged> = Vec::new();
    // The values of what is not run, such as a binding, are said too.
    let mut is_run = false;
    for entry in log
        .split("\n@@")
        .map(|entry| entry.trim_start_matches("@@"))
    {
        let Some((who, said)) = entry.split_once(' ') else {
            continue;
        };
        let Some(("app", database)) = who.split_once('/') else {
            continue;
        };
        if let Some(values) = said.trim().strip_prefix("DETAIL:  parameters: ") {
            if let Some(last) = found.last_mut().filter(|_| is_run) {
                last.values = values_of(values);
            }
            continue;
        }
        is_run = false;
        let Some((_, text)) = said
            .split_once("execute ")
            .and_then(|(_, text)| text.split_once(": "))
        else {
            continue;
        };
        is_run = true;
        found.push(Logged {
            database: database.to_owned(),
            text: text.trim().replace("\n\t", "\n"),
            values: Vec::new(),
        });
    }
    found
}

/// Every text of SQL in the source is in a statement that ran.
fn assert_all_ran(run: &[Logged]) {
    let run: Vec<String> = run
        .iter()
        .map(|logged| statements::normal(&logged.text))
        .collect();
    let is_run = |text: &str| run.iter().any(|statement| statements::has(statement, text));
    let mut missing = Vec::new();
    for (file, text) in statements::of_the_source() {
        if !is_run(&text) {
            missing.push(format!("{file}: {text}"));
        }
    }
    assert!(
        missing.is_empty(),
        "no case here runs these statements, so nothing shows that they find nothing without a \
         tenant; add one to the list of cases or to `carry_over`:\n{}",
        missing.join("\n")
    );
}

/// What no case of the suite does: a record that is searched, checked with questions and grants in it,
/// exported whole and in part, and imported into another one, twice.
async fn carry_over(server: &PostgresFixture) {
    let record = server.on_a_new_database().await;
    let from = record.open().await;
    let approved = transfer::approved_call(&from).await;
    let (id, record_of_call) = whole_call(&from, "s1", "some words").await;
    record_of_call.settled().await.unwrap();
    take_an_id_twice(&from, id).await;
    settle_late(&from, &record.open().await).await;
    answer_from_elsewhere(&from, &record.open().await).await;
    from.grants().add(grant()).await.unwrap();
    from.flush().await.unwrap();
    let search = CallQuery {
        search: Some("words".to_owned()),
        limit: 5,
        ..CallQuery::default()
    };
    assert_eq!(from.calls(&tenant(), &search).await.unwrap().len(), 1);
    assert_intact(&from, "before it is exported").await;
    let other = server.on_a_new_database().await;
    let to = other.open().await;
    let exported = transfer::export(&from).await;
    let unsigned = || transfer::import(&to, &exported, transfer::UNSIGNED);
    unsigned().await.unwrap();
    assert!(calls(&to).await.iter().any(|call| call.id == approved));
    // It is there already.
    assert!(unsigned().await.is_err());
    assert_intact(&to, "after it was imported").await;
    transfer::export_since(&from, Some(NOW)).await.unwrap();
    from.close().await.unwrap();
    too_many_grants(&record).await;
    open_with_an_older_mark(&record).await;
}

/// Counts with a filter of each kind.
async fn count_some(server: &PostgresFixture) {
    let ledger = server.on_a_new_database().await.open().await;
    let query = StatsQuery {
        filter: CallFilter {
            workspaces: vec![WorkspaceId::local()],
            agent: Some("agent".to_owned()),
            tool: Some("sample".to_owned()),
            since: Some(NOW),
            until: Some(NOW),
        },
        by: StatsKey::All,
        limit: 10,
    };
    assert_eq!(ledger.stats(&tenant(), &query).await.unwrap(), []);
    ledger.close().await.unwrap();
}

async fn take_an_id_twice(ledger: &StoredLedger, taken: CallId) {
    let mut again = request("s1", "sample", serde_json::json!({}));
    again.id = taken;
    if let Ok(record) = ledger.open(&again, NOW).await {
        record.settle(vec![settled(taken, Terminal::Failed, "again")]);
        let _ = record.settled().await;
    }
}

/// A worker taken for dead reports what it saw after its call has ended.
async fn settle_late(one: &StoredLedger, two: &StoredLedger) {
    let asked = request("s1", "sample", serde_json::json!({}));
    one.accept(&asked, NOW).await.unwrap();
    let claim = |ledger: &StoredLedger, epoch: Epoch| {
        let ledger = ledger.clone();
        async move { ledger.claim(&tenant(), asked.id, epoch, NOW).await.unwrap() }
    };
    let stale = claim(one, Epoch::FIRST).await;
    let start = vec![reads(asked.id), started(asked.id)];
    stale
        .record
        .append(start, Durability::Durable)
        .await
        .unwrap();
    let holder = claim(two, Epoch::FIRST.next()).await;
    for (claimed, text) in [(holder, "in time"), (stale, "too late")] {
        let end = settled(asked.id, Terminal::Succeeded, text);
        claimed.record.settle(vec![end]);
        let _ = claimed.record.settled().await;
    }
    two.close().await.unwrap();
}

/// Whoever waits looks for what another process answered.
async fn answer_from_elsewhere(here: &StoredLedger, there: &StoredLedger) {
    let asked = here.approvals().ask(question("s1", 7)).await.unwrap();
    let store = here.approvals();
    let (tenant, id) = (tenant(), asked.id);
    let wait = tokio::spawn(async move { store.answered(&tenant, id).await });
    approve(there, &asked).await.unwrap();
    let told = tokio::time::timeout(haft_testkit::PATIENCE, wait).await;
    told.unwrap().unwrap().unwrap();
    there.close().await.unwrap();
}

fn grant() -> Grant {
    let mine = principal("s1");
    Grant {
        id: GrantId::new(),
        tenant: tenant(),
        user: mine.user.clone(),
        rule: "bash(cargo test)".to_owned(),
        scope: GrantScope::Agent(mine.agent.clone()),
        until: None,
        uses_left: None,
        made_by: "ada".to_owned(),
        made_at: NOW,
        cause: None,
    }
}

async fn too_many_grants(record: &PostgresFixture) {
    let mut options = record.options("app");
    options.max_grants = 1;
    let (ledger, _) = StoredLedger::open(options).await.unwrap();
    assert!(ledger.grants().add(grant()).await.is_err());
    ledger.close().await.unwrap();
}

/// The mark lags behind when it could not be written.
async fn open_with_an_older_mark(record: &PostgresFixture) {
    let marks = std::fs::read_dir(record.directory()).unwrap();
    let marks: Vec<_> = marks
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (std::fs::read(&path).unwrap(), path))
        .collect();
    let ledger = record.open().await;
    let (_, call) = whole_call(&ledger, "s1", "one more").await;
    call.settled().await.unwrap();
    ledger.close().await.unwrap();
    for (bytes, path) in marks {
        std::fs::write(path, bytes).unwrap();
    }
    let (ledger, recovery) = record.open_at(&record.directory()).await;
    assert!(recovery.lost.is_empty(), "{:?}", recovery.lost);
    ledger.close().await.unwrap();
}

/// `$1 = 'a', $2 = NULL` as what stands behind each sign.
fn values_of(text: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut rest = text;
    while let Some((_, value)) = rest.split_once(" = ") {
        let end = match value.strip_prefix('\'') {
            Some(quoted) => {
                let mut end = 0;
                loop {
                    end += quoted[end..].find('\'').unwrap();
                    if quoted[end + 1..].starts_with('\'') {
                        end += 2;
                    } else {
                        break end + 2;
                    }
                }
            }
            None => value.find(',').unwrap_or(value.len()),
        };
        values.push(value[..end].trim().to_owned());
        rest = &value[end..];
    }
    values
}

/// The list of calls of one tenant does not grow with another's.
#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_tenant_that_is_not_there_looks_like_one_without_calls() {
    let fixture = PostgresFixture::new().await;
    let ledger = fixture.open().await;
    let (id, record) = whole_call(&ledger, "s1", "done").await;
    record.settled().await.unwrap();
    let other = haft_contract::TenantId::parse("other").unwrap();
    assert!(ledger.call(&other, id).await.unwrap().is_none());
    let all = CallQuery::default();
    assert!(ledger.calls(&other, &all).await.unwrap().is_empty());
    assert!(ledger.call(&tenant(), id).await.unwrap().is_some());
    ledger.close().await.unwrap();
}
