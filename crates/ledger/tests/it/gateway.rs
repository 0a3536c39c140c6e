//! What a gateway needs of the record beside calls, on every store: credentials, keys of requests, and the
//! calls that are owed an outcome. Two instances on one store stand for two processes.

use std::{collections::BTreeSet, time::Duration};

use haft_contract::{
    AgentId, CallId, CallRequest, Principal, TenantId, Terminal, UserId, WorkspaceId,
    host::{Epoch, Ledger as _, LedgerErrorKind, Timestamp},
    identity::Scope,
};
use haft_ledger::{
    AcceptedCall, Credential, CredentialId, CredentialKind, ENDED_KEYS_KEPT, MAX_CREDENTIAL_SCOPES,
    MAX_LIVE_CREDENTIALS, MAX_REQUEST_KEY_BYTES, REDACTED, REQUEST_KEYS_KEPT, StoredLedger,
};
use serde_json::json;

use crate::{
    suite::SuiteRecord,
    support::{NOW, principal, request, settled, tenant},
};

/// One test per case, for a record that is made anew for each.
#[macro_export]
macro_rules! gateway_suite {
    (@case $record:expr, $case:ident, [$($tag:tt)*]) => {
        #[tokio::test]
        $($tag)*
        async fn $case() {
            $crate::gateway::$case(&$record).await;
        }
    };
    (@cases $record:expr, $tags:tt: $($case:ident,)+) => {
        mod gateway {
            use super::*;
            $($crate::gateway_suite! { @case $record, $case, $tags })+
        }
    };
    ($record:expr $(, #[$tag:meta])? $(,)?) => {
        $crate::gateway_suite! {
            @cases $record, [$(#[$tag])?]:
            a_credential_is_verified_by_its_secret,
            a_credential_belongs_to_its_tenant,
            an_id_is_taken_once_over_all_tenants,
            a_revoked_credential_is_refused_by_every_instance,
            a_login_code_is_used_once,
            a_session_is_extended_until_it_has_ended,
            an_edited_credential_counts_as_not_there,
            what_a_credential_says_is_clean_and_short,
            live_credentials_are_limited,
            ended_credentials_are_swept,
            the_first_request_with_a_key_wins,
            two_instances_make_one_call_of_a_key,
            an_old_request_key_is_replaced,
            an_edited_request_key_counts_as_not_there,
            accepted_calls_are_unfinished_until_their_outcome,
            a_restarted_process_finishes_what_was_accepted,
        }
    };
}

const HOUR: Duration = Duration::from_hours(1);

/// The hash of a secret of this number.
fn hash(secret: u8) -> [u8; 32] {
    [secret; 32]
}

pub(crate) fn id(name: &str) -> CredentialId {
    CredentialId::parse(&format!("{name:0>16}")).unwrap()
}

/// A credential of `ada`, which holds for an hour.
pub(crate) fn credential(name: &str, kind: CredentialKind) -> Credential {
    Credential {
        id: id(name),
        kind,
        tenant: tenant(),
        user: UserId::parse("ada").unwrap(),
        agent: Some(AgentId::parse("agent").unwrap()),
        name: format!("the one named {name}"),
        scopes: ["calls.read", "calls.write"]
            .map(|scope| Scope::parse(scope).unwrap())
            .into(),
        workspaces: vec![
            WorkspaceId::parse("ws-b").unwrap(),
            WorkspaceId::parse("ws-a").unwrap(),
        ],
        made_by: "the operator".to_owned(),
        made: NOW,
        expires: Some(NOW.after(HOUR)),
        revoked: None,
    }
}

fn other_tenant() -> TenantId {
    TenantId::parse("other").unwrap()
}

fn later(by: Duration) -> Timestamp {
    NOW.after(by)
}

async fn verified(ledger: &StoredLedger, name: &str, secret: u8) -> Option<Credential> {
    let credentials = ledger.credentials();
    credentials
        .verify(&id(name), &hash(secret), NOW)
        .await
        .unwrap()
}

pub(crate) async fn a_credential_is_verified_by_its_secret(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let key = credential("a", CredentialKind::ApiKey);
    let bare = Credential {
        agent: None,
        scopes: BTreeSet::new(),
        workspaces: Vec::new(),
        expires: None,
        ..credential("b", CredentialKind::ApiKey)
    };
    let credentials = ledger.credentials();
    credentials.add(key.clone(), hash(1)).await.unwrap();
    credentials.add(bare.clone(), hash(2)).await.unwrap();
    assert_eq!(verified(&ledger, "a", 1).await, Some(key.clone()));
    assert_eq!(verified(&ledger, "b", 2).await, Some(bare.clone()));
    // Another's secret, and nobody's.
    assert_eq!(verified(&ledger, "a", 2).await, None);
    assert_eq!(verified(&ledger, "b", 3).await, None);
    assert_eq!(verified(&ledger, "c", 1).await, None);
    let at = async |name, secret, now| {
        let found = credentials.verify(&id(name), &hash(secret), now).await;
        found.unwrap()
    };
    let end = key.expires.unwrap();
    assert!(at("a", 1, Timestamp(end.0 - 1)).await.is_some());
    assert!(at("a", 1, end).await.is_none());
    assert!(at("b", 2, later(10_000 * HOUR)).await.is_some());
    ledger.close().await.unwrap();
    let ledger = record.open().await;
    assert_eq!(verified(&ledger, "a", 1).await, Some(key));
    ledger.close().await.unwrap();
}

pub(crate) async fn a_credential_belongs_to_its_tenant(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let credentials = ledger.credentials();
    let mut expect = Vec::new();
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        let made = later(Duration::from_secs(number as u64));
        let key = Credential {
            made,
            ..credential(name, CredentialKind::ApiKey)
        };
        credentials.add(key.clone(), hash(1)).await.unwrap();
        expect.insert(0, key);
    }
    let theirs = Credential {
        tenant: other_tenant(),
        ..credential("d", CredentialKind::ApiKey)
    };
    credentials.add(theirs.clone(), hash(1)).await.unwrap();
    let session = credential("e", CredentialKind::ConsoleSession);
    credentials.add(session.clone(), hash(1)).await.unwrap();
    let list =
        async |tenant: &TenantId, kind, limit| credentials.list(tenant, kind, limit).await.unwrap();
    let (mine, key) = (tenant(), CredentialKind::ApiKey);
    assert_eq!(list(&mine, key, 10).await, expect);
    assert_eq!(list(&mine, key, 2).await, expect[..2]);
    assert_eq!(
        list(&mine, CredentialKind::ConsoleSession, 10).await,
        [session]
    );
    assert_eq!(list(&mine, CredentialKind::LoginCode, 10).await, []);
    // It is verified without saying whose it is, and the answer says it.
    assert_eq!(verified(&ledger, "d", 1).await, Some(theirs.clone()));
    let listed = list(&other_tenant(), key, 10).await;
    assert_eq!(listed, std::slice::from_ref(&theirs));
    assert!(!credentials.revoke(&mine, &theirs.id, NOW).await.unwrap());
    assert!(verified(&ledger, "d", 1).await.is_some());
    ledger.close().await.unwrap();
}

pub(crate) async fn an_id_is_taken_once_over_all_tenants(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let credentials = ledger.credentials();
    let first = credential("a", CredentialKind::ApiKey);
    credentials.add(first.clone(), hash(1)).await.unwrap();
    for tenant in [tenant(), other_tenant()] {
        let second = Credential {
            tenant,
            ..first.clone()
        };
        let error = credentials.add(second, hash(2)).await.unwrap_err();
        assert_eq!(error.kind(), LedgerErrorKind::Conflict);
    }
    assert_eq!(verified(&ledger, "a", 1).await, Some(first));
    assert_eq!(verified(&ledger, "a", 2).await, None);
    ledger.close().await.unwrap();
}

pub(crate) async fn a_revoked_credential_is_refused_by_every_instance(record: &impl SuiteRecord) {
    let (one, two) = (record.open().await, record.open().await);
    let key = credential("a", CredentialKind::ApiKey);
    one.credentials().add(key.clone(), hash(1)).await.unwrap();
    assert!(verified(&two, "a", 1).await.is_some());
    let revoke = async |ledger: &StoredLedger, at| {
        let credentials = ledger.credentials();
        credentials.revoke(&tenant(), &key.id, at).await.unwrap()
    };
    assert!(revoke(&two, NOW).await);
    assert_eq!(verified(&one, "a", 1).await, None);
    assert_eq!(verified(&two, "a", 1).await, None);
    assert!(!revoke(&one, later(HOUR)).await);
    // It is still listed, with when it was taken back.
    let listed = one.credentials();
    let listed = listed.list(&tenant(), key.kind, 10).await.unwrap();
    let revoked = Credential {
        revoked: Some(NOW),
        ..key
    };
    assert_eq!(listed, [revoked]);
    one.close().await.unwrap();
    two.close().await.unwrap();
}

pub(crate) async fn a_login_code_is_used_once(record: &impl SuiteRecord) {
    let (one, two) = (record.open().await, record.open().await);
    let (here, there) = (one.credentials(), two.credentials());
    for name in ["a", "b", "c", "d"] {
        let code = credential(name, CredentialKind::LoginCode);
        here.add(code.clone(), hash(1)).await.unwrap();
        assert_eq!(
            verified(&one, name, 1).await,
            None,
            "only used, never verified"
        );
        assert_eq!(here.use_once(&code.id, &hash(2), NOW).await.unwrap(), None);
        let (id, secret) = (&code.id, &hash(1));
        let used = tokio::join!(
            here.use_once(id, secret, NOW),
            there.use_once(id, secret, NOW),
            here.use_once(id, secret, NOW),
            there.use_once(id, secret, NOW),
        );
        let used: Vec<Credential> = [used.0, used.1, used.2, used.3]
            .into_iter()
            .filter_map(Result::unwrap)
            .collect();
        let revoked = Credential {
            revoked: Some(NOW),
            ..code.clone()
        };
        assert_eq!(used, [revoked], "{name}");
        assert_eq!(there.use_once(id, secret, NOW).await.unwrap(), None);
    }
    let code = credential("e", CredentialKind::LoginCode);
    here.add(code.clone(), hash(1)).await.unwrap();
    let late = there.use_once(&code.id, &hash(1), later(HOUR)).await;
    assert_eq!(late.unwrap(), None);
    // What is not a code is not used up.
    let key = credential("f", CredentialKind::ApiKey);
    here.add(key.clone(), hash(1)).await.unwrap();
    assert_eq!(here.use_once(&key.id, &hash(1), NOW).await.unwrap(), None);
    assert_eq!(verified(&two, "f", 1).await, Some(key));
    one.close().await.unwrap();
    two.close().await.unwrap();
}

pub(crate) async fn a_session_is_extended_until_it_has_ended(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let credentials = ledger.credentials();
    let session = credential("a", CredentialKind::ConsoleSession);
    let over = Credential {
        expires: Some(Timestamp(NOW.0 - 1)),
        ..credential("b", CredentialKind::ConsoleSession)
    };
    let key = credential("c", CredentialKind::ApiKey);
    for credential in [&session, &over, &key] {
        credentials.add(credential.clone(), hash(1)).await.unwrap();
    }
    let until = later(2 * HOUR);
    let extend = async |tenant: &TenantId, credential: &Credential| {
        let extended = credentials.extend(tenant, &credential.id, until).await;
        extended.unwrap()
    };
    let mine = tenant();
    assert!(extend(&mine, &session).await);
    assert!(!extend(&mine, &over).await);
    assert!(!extend(&mine, &key).await);
    assert!(!extend(&other_tenant(), &session).await);
    let extended = Credential {
        expires: Some(until),
        ..session.clone()
    };
    let later_on = later(HOUR + HOUR / 2);
    let found = credentials.verify(&session.id, &hash(1), later_on).await;
    assert_eq!(found.unwrap(), Some(extended));
    assert!(credentials.revoke(&mine, &session.id, NOW).await.unwrap());
    assert!(!extend(&mine, &session).await);
    ledger.close().await.unwrap();
}

/// AU-05: whoever can only edit the database lets nobody in.
pub(crate) async fn an_edited_credential_counts_as_not_there(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let key = credential("a", CredentialKind::ApiKey);
    let credentials = ledger.credentials();
    credentials.add(key.clone(), hash(1)).await.unwrap();
    record
        .edit("CREATE TABLE credential_before AS SELECT * FROM credential")
        .await;
    for edit in [
        "secret = zeroblob(32)",
        "tenant = 'other'",
        "kind = 'console_session'",
        "person = 'mallory'",
        "agent = NULL",
        "agent = 'mallory'",
        "name = 'mine'",
        "scopes = 'admin'",
        "scopes = ''",
        "workspaces = ''",
        "workspaces = 'ws-a'",
        "made_by = 'mallory'",
        "made_at = made_at - 1",
        "expires_at = NULL",
        "expires_at = expires_at + 1",
        "revoked_at = 1",
        "id = '0000000000000000'",
        "mac = zeroblob(32)",
        "mac = secret",
    ] {
        record.edit(&format!("UPDATE credential SET {edit}")).await;
        for name in ["a", "0"] {
            for secret in [0, 1] {
                assert_eq!(verified(&ledger, name, secret).await, None, "{edit}");
            }
        }
        for tenant in [tenant(), other_tenant()] {
            for kind in CredentialKind::ALL {
                let listed = credentials.list(&tenant, kind, 10).await.unwrap();
                assert_eq!(listed, [], "{edit}");
            }
            assert!(!credentials.revoke(&tenant, &key.id, NOW).await.unwrap());
        }
        record
            .edit("DELETE FROM credential; INSERT INTO credential SELECT * FROM credential_before")
            .await;
    }
    assert_eq!(verified(&ledger, "a", 1).await, Some(key));
    // The code of a row that is not signed is not used either.
    let code = credential("b", CredentialKind::LoginCode);
    credentials.add(code.clone(), hash(1)).await.unwrap();
    record
        .edit("UPDATE credential SET expires_at = expires_at + 1 WHERE kind = 'login_code'")
        .await;
    let used = credentials.use_once(&code.id, &hash(1), NOW).await;
    assert_eq!(used.unwrap(), None);
    record.edit("DROP TABLE credential_before").await;
    ledger.close().await.unwrap();
}

pub(crate) async fn what_a_credential_says_is_clean_and_short(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let credentials = ledger.credentials();
    let secret = "sk-aaaaaaaaaaaaaaaaaaaaaaaa";
    let key = Credential {
        name: format!("ci\n\u{202e}{secret}"),
        made_by: "x".repeat(1_000),
        ..credential("a", CredentialKind::ApiKey)
    };
    credentials.add(key, hash(1)).await.unwrap();
    let kept = verified(&ledger, "a", 1).await.unwrap();
    assert_eq!(kept.name, format!("ci  {REDACTED}"));
    assert_eq!(kept.made_by, "x".repeat(80));
    let endless = Credential {
        expires: None,
        ..credential("b", CredentialKind::ConsoleSession)
    };
    let many = (0..=MAX_CREDENTIAL_SCOPES).map(|number| Scope::parse(&format!("s{number}")));
    let mighty = Credential {
        scopes: many.map(Result::unwrap).collect(),
        ..credential("c", CredentialKind::ApiKey)
    };
    for refused in [endless, mighty] {
        let error = credentials.add(refused, hash(1)).await.unwrap_err();
        assert_eq!(error.kind(), LedgerErrorKind::LimitExceeded);
    }
    ledger.close().await.unwrap();
}

pub(crate) async fn live_credentials_are_limited(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let credentials = ledger.credentials();
    // Rows that nobody signed count too: there is no limit on what they cost.
    let fill = |kind: &str, from: usize, to: usize, columns: &str| {
        format!(
            "INSERT INTO credential (tenant, id, kind, person, name, scopes, workspaces, made_by, made_at,
                 expires_at, revoked_at, secret, mac)
             WITH RECURSIVE numbers(n) AS (SELECT {from} UNION ALL SELECT n + 1 FROM numbers WHERE n < {to})
             SELECT 'local', 'filled' || n, '{kind}', 'ada', '', '', '', '', 0, {columns}, zeroblob(32),
                 zeroblob(32) FROM numbers"
        )
    };
    let most = MAX_LIVE_CREDENTIALS;
    let live = format!("CAST({} AS bigint), CAST(NULL AS bigint)", later(HOUR).0);
    record.edit(&fill("api_key", 2, most, &live)).await;
    let ended = format!("CAST({} AS bigint), CAST(NULL AS bigint)", NOW.0);
    record
        .edit(&fill("api_key", most + 1, most + 5, &ended))
        .await;
    let add = async |name, kind| credentials.add(credential(name, kind), hash(1)).await;
    add("a", CredentialKind::ApiKey).await.unwrap();
    let refused = add("b", CredentialKind::ApiKey).await.unwrap_err();
    assert_eq!(refused.kind(), LedgerErrorKind::LimitExceeded);
    // Another kind, and another tenant, have room of their own.
    add("c", CredentialKind::ConsoleSession).await.unwrap();
    let theirs = Credential {
        tenant: other_tenant(),
        ..credential("d", CredentialKind::ApiKey)
    };
    credentials.add(theirs, hash(1)).await.unwrap();
    assert!(credentials.revoke(&tenant(), &id("a"), NOW).await.unwrap());
    add("b", CredentialKind::ApiKey).await.unwrap();
    ledger.close().await.unwrap();
}

pub(crate) async fn ended_credentials_are_swept(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let credentials = ledger.credentials();
    for (name, kind) in [
        ("a", CredentialKind::ApiKey),
        ("b", CredentialKind::ApiKey),
        ("c", CredentialKind::ConsoleSession),
        ("d", CredentialKind::ConsoleSession),
        ("e", CredentialKind::LoginCode),
        ("f", CredentialKind::LoginCode),
    ] {
        let made = Credential {
            tenant: if name == "f" {
                other_tenant()
            } else {
                tenant()
            },
            expires: Some(later(2 * HOUR)).filter(|_| name != "a"),
            ..credential(name, kind)
        };
        credentials.add(made, hash(1)).await.unwrap();
    }
    let left = async || {
        let mut left = Vec::new();
        for tenant in [tenant(), other_tenant()] {
            for kind in CredentialKind::ALL {
                let listed = credentials.list(&tenant, kind, 10).await.unwrap();
                left.extend(listed.into_iter().map(|one| one.id.to_string()));
            }
        }
        left.sort();
        left.concat().replace('0', "")
    };
    assert_eq!(credentials.sweep(NOW).await.unwrap(), 0);
    assert!(credentials.revoke(&tenant(), &id("d"), NOW).await.unwrap());
    assert!(credentials.revoke(&tenant(), &id("b"), NOW).await.unwrap());
    assert_eq!(credentials.sweep(later(HOUR)).await.unwrap(), 1);
    assert_eq!(left().await, "abcef");
    assert_eq!(credentials.sweep(later(2 * HOUR)).await.unwrap(), 3);
    assert_eq!(left().await, "ab");
    assert_eq!(credentials.sweep(later(ENDED_KEYS_KEPT)).await.unwrap(), 1);
    assert_eq!(left().await, "a");
    ledger.close().await.unwrap();
}

pub(crate) async fn the_first_request_with_a_key_wins(record: &impl SuiteRecord) {
    let (one, two) = (record.open().await, record.open().await);
    let remember = async |ledger: &StoredLedger, tenant: &TenantId, owner, key, body| {
        let call = CallId::new();
        let keys = ledger.request_keys();
        let known = keys
            .remember(tenant, owner, key, [body; 32], call, NOW)
            .await;
        let known = known.unwrap();
        assert_eq!(known.is_new, known.call == call);
        known
    };
    let mine = tenant();
    let first = remember(&one, &mine, "owner", "key", 1).await;
    assert!(first.is_new);
    assert_eq!((first.body_digest, first.at), ([1; 32], NOW));
    for ledger in [&one, &two] {
        let again = remember(ledger, &mine, "owner", "key", 2).await;
        assert!(!again.is_new);
        // What was sent first, so that whoever asks sees that this is something else.
        assert_eq!((again.call, again.body_digest), (first.call, [1; 32]));
    }
    // Other keys, and where one ends does not matter.
    assert!(remember(&two, &mine, "owner", "other", 1).await.is_new);
    assert!(remember(&two, &mine, "another", "key", 1).await.is_new);
    assert!(remember(&two, &mine, "ownerk", "ey", 1).await.is_new);
    assert!(
        remember(&two, &other_tenant(), "owner", "key", 1)
            .await
            .is_new
    );
    let long = "k".repeat(MAX_REQUEST_KEY_BYTES + 1);
    let keys = one.request_keys();
    let refused = keys.remember(&mine, "owner", &long, [1; 32], CallId::new(), NOW);
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.kind(), LedgerErrorKind::LimitExceeded);
    one.close().await.unwrap();
    two.close().await.unwrap();
}

pub(crate) async fn two_instances_make_one_call_of_a_key(record: &impl SuiteRecord) {
    let (one, two) = (record.open().await, record.open().await);
    // Several keys at once in opposite orders, so that transactions of both have several of them.
    for round in 0..5 {
        let mut asked = Vec::new();
        for number in 0..8 {
            for (ledger, number) in [(&one, number), (&two, 7 - number)] {
                let (keys, tenant) = (ledger.request_keys(), tenant());
                asked.push(tokio::spawn(async move {
                    let key = format!("{round}-{number}");
                    let call = CallId::new();
                    let known = keys
                        .remember(&tenant, "owner", &key, [1; 32], call, NOW)
                        .await;
                    (number, known.unwrap())
                }));
            }
        }
        let mut answers = Vec::new();
        for answer in asked {
            answers.push(answer.await.unwrap());
        }
        for number in 0..8 {
            let of_key = answers.iter().filter(|(key, _)| *key == number);
            let of_key: Vec<_> = of_key.map(|(_, known)| known).collect();
            let calls: BTreeSet<CallId> = of_key.iter().map(|known| known.call).collect();
            let new = of_key.iter().filter(|known| known.is_new).count();
            assert_eq!(
                (of_key.len(), calls.len(), new),
                (2, 1, 1),
                "{round}-{number}"
            );
        }
    }
    one.close().await.unwrap();
    two.close().await.unwrap();
}

pub(crate) async fn an_old_request_key_is_replaced(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let keys = ledger.request_keys();
    let remember = async |at: Timestamp| {
        let call = CallId::new();
        let known = keys
            .remember(&tenant(), "owner", "key", [1; 32], call, at)
            .await;
        known.unwrap()
    };
    let first = remember(NOW).await;
    let last_moment = Timestamp(later(REQUEST_KEYS_KEPT).0 - 1);
    assert_eq!(remember(last_moment).await.call, first.call);
    let second = remember(later(REQUEST_KEYS_KEPT)).await;
    assert!(second.is_new);
    let again = remember(later(REQUEST_KEYS_KEPT + HOUR)).await;
    assert_eq!((again.call, again.is_new), (second.call, false));
    // What was replaced is as young as its replacement.
    assert_eq!(
        keys.sweep(later(REQUEST_KEYS_KEPT + HOUR)).await.unwrap(),
        0
    );
    assert_eq!(keys.sweep(later(2 * REQUEST_KEYS_KEPT)).await.unwrap(), 1);
    assert!(remember(later(REQUEST_KEYS_KEPT + HOUR)).await.is_new);
    ledger.close().await.unwrap();
}

pub(crate) async fn an_edited_request_key_counts_as_not_there(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let (keys, mine) = (ledger.request_keys(), tenant());
    for edit in [
        "call = zeroblob(16)",
        "body = zeroblob(32)",
        "at = at + 1",
        "mac = zeroblob(32)",
    ] {
        let remember = || keys.remember(&mine, "owner", edit, [1; 32], CallId::new(), NOW);
        let first = remember().await.unwrap();
        record.edit(&format!("UPDATE request_key SET {edit}")).await;
        let replaced = remember().await.unwrap();
        assert!(replaced.is_new && replaced.call != first.call, "{edit}");
        assert_eq!(remember().await.unwrap().call, replaced.call, "{edit}");
    }
    ledger.close().await.unwrap();
}

/// Claims a call and ends it.
async fn finish(ledger: &StoredLedger, accepted: &AcceptedCall) {
    let epoch = accepted.epoch.map_or(Epoch::FIRST, Epoch::next);
    let (tenant, call) = (&accepted.tenant, accepted.call);
    let claimed = ledger.claim(tenant, call, epoch, NOW).await.unwrap();
    assert_eq!(claimed.request.id, call);
    let end = settled(call, Terminal::Succeeded, "done");
    claimed.record.settle(vec![end]);
    claimed.record.settled().await.unwrap();
}

pub(crate) async fn accepted_calls_are_unfinished_until_their_outcome(record: &impl SuiteRecord) {
    let (one, two) = (record.open().await, record.open().await);
    assert_eq!(one.unfinished(10).await.unwrap(), []);
    let mut foreign = Principal::clone(&principal("s1"));
    foreign.tenant = other_tenant();
    let foreign = CallRequest::new("sample", json!({}), std::sync::Arc::new(foreign));
    let asked = [
        request("s1", "sample", json!({"number": 1})),
        foreign,
        request("s1", "sample", json!({"number": 3})),
    ];
    // Accepted in another order than that of their ids.
    let mut expect = Vec::new();
    for (request, second) in asked.iter().zip([3, 1, 2]) {
        let at = later(Duration::from_secs(second));
        one.accept(request, at).await.unwrap();
        expect.push(AcceptedCall {
            tenant: request.principal.tenant.clone(),
            call: request.id,
            epoch: None,
            at,
        });
    }
    expect.sort_by_key(|accepted| accepted.at);
    // A call that runs where it was asked for is no part of it.
    let plain = request("s1", "sample", json!({}));
    let open = one.open(&plain, NOW).await.unwrap();
    for ledger in [&one, &two] {
        assert_eq!(ledger.unfinished(10).await.unwrap(), expect);
        assert_eq!(ledger.unfinished(2).await.unwrap(), expect[..2]);
    }
    let claimed = two
        .claim(&expect[0].tenant, expect[0].call, Epoch::FIRST, NOW)
        .await
        .unwrap();
    expect[0].epoch = Some(Epoch::FIRST);
    assert_eq!(one.unfinished(10).await.unwrap(), expect);
    let end = settled(expect[0].call, Terminal::Succeeded, "done");
    claimed.record.settle(vec![end]);
    claimed.record.settled().await.unwrap();
    assert_eq!(one.unfinished(10).await.unwrap(), expect[1..]);
    // Nobody can claim what was not written by the ledger.
    record
        .edit("UPDATE accepted SET at = at - 1 WHERE tenant = 'local' AND request IS NOT NULL")
        .await;
    assert_eq!(one.unfinished(10).await.unwrap(), []);
    drop(open);
    one.close().await.unwrap();
    two.close().await.unwrap();
}

pub(crate) async fn a_restarted_process_finishes_what_was_accepted(record: &impl SuiteRecord) {
    let ledger = record.open().await;
    let asked = [1, 2, 3].map(|number| request("s1", "sample", json!({ "number": number })));
    for request in &asked {
        ledger.accept(request, NOW).await.unwrap();
    }
    let mine = tenant();
    let claim = ledger.claim(&mine, asked[0].id, Epoch::FIRST, NOW);
    drop(claim.await.unwrap());
    ledger.close().await.unwrap();
    let ledger = record.open().await;
    let unfinished = ledger.unfinished(10).await.unwrap();
    assert!(unfinished.len() >= 2, "{unfinished:?}");
    for accepted in &unfinished {
        finish(&ledger, accepted).await;
    }
    assert_eq!(ledger.unfinished(10).await.unwrap(), []);
    ledger.close().await.unwrap();
}
