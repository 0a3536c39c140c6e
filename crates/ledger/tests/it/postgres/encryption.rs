//! Connections that leave the machine are encrypted and verified, or not made. The host that is far away is
//! a name; `hostaddr` says that the test's own server answers for it.

use std::{
    net::Ipv4Addr,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use haft_contract::host::{Ledger as _, Timestamp};
use haft_ledger::{LedgerOptions, OpenError, StoredLedger};
use haft_testkit::{PATIENCE, certificates::CertificateAuthority, postgres_server::PostgresServer};

use serde_json::json;

use crate::support::{Fixed, request};

/// Opens the record there, records a call and closes it.
async fn record_a_call(url: &str) -> Result<(), OpenError> {
    let folder = tempfile::tempdir().unwrap();
    record_a_call_from(folder.path(), url).await
}

async fn record_a_call_from(folder: &Path, url: &str) -> Result<(), OpenError> {
    let options = LedgerOptions::new(folder.join("record"), Arc::new(Fixed)).database(url);
    let (ledger, _) = StoredLedger::open(options).await?;
    ledger
        .open(&request("s1", "read", json!({})), Timestamp(1))
        .await
        .unwrap();
    ledger.close().await.unwrap();
    Ok(())
}

/// The address of a far host that the server at this address answers for.
fn far(role: &str, host: &str, address: Ipv4Addr, more: &str) -> String {
    format!("postgres://{role}:{role}@{host}/haft?hostaddr={address}{more}")
}

fn said(error: &OpenError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    format!("{error}: {}", cause.unwrap_or_default())
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_far_database_is_used_encrypted_and_verified() {
    let authority = CertificateAuthority::new();
    let address = PostgresServer::own_address();
    let certificate = authority.issue(&format!("DNS:db.example,IP:{address}"));
    let server = PostgresServer::start_listening(address, Some(&certificate));
    let trusted = format!("&sslrootcert={}", authority.certificate().display());
    let folder = tempfile::tempdir().unwrap();
    let owner = far("haft_owner", "db.example", address, &trusted);
    record_a_call_from(folder.path(), &owner).await.unwrap();

    // A password's proof is bound to the certificate, and nothing weaker is asked of the server.
    for more in ["&sslmode=prefer", "&channel_binding=require"] {
        let url = far("app", "db.example", address, &format!("{trusted}{more}"));
        let options =
            LedgerOptions::new(folder.path().join("record"), Arc::new(Fixed)).database(url);
        let (ledger, _) = StoredLedger::open(options).await.unwrap();
        ledger
            .open(&request("s1", "read", json!({})), Timestamp(1))
            .await
            .unwrap();
        let plain = server.sql(
            "SELECT count(*) FILTER (WHERE ssl), count(*) FILTER (WHERE NOT ssl)
             FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'app'",
        );
        let (encrypted, plain) = plain.split_once('|').unwrap();
        assert!(
            encrypted != "0" && plain == "0",
            "{more}: {encrypted}, {plain}"
        );
        ledger.close().await.unwrap();
        until_gone(&server).await;
    }

    // On loopback only if it is asked for.
    for (mode, is_encrypted) in [("prefer", "f"), ("require", "t")] {
        let url = format!("postgres://app:app@{address}/haft?sslmode={mode}{trusted}");
        let options =
            LedgerOptions::new(folder.path().join("record"), Arc::new(Fixed)).database(url);
        let (ledger, _) = StoredLedger::open(options).await.unwrap();
        let ssl = server.sql(
            "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
             WHERE usename = 'app'",
        );
        assert_eq!(ssl, is_encrypted, "{mode}");
        ledger.close().await.unwrap();
        until_gone(&server).await;
    }
}

/// Waits until the server has noticed that nobody is connected any more.
async fn until_gone(server: &PostgresServer) {
    let began = Instant::now();
    while server.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'app'") != "0" {
        assert!(began.elapsed() < PATIENCE, "the connections end");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_server_that_is_not_who_it_should_be_is_told_nothing() {
    let (authority, other) = (CertificateAuthority::new(), CertificateAuthority::new());
    let address = PostgresServer::own_address();
    let certificate = authority.issue("DNS:db.example");
    let server = PostgresServer::start_listening(address, Some(&certificate));
    let trust = |authority: &CertificateAuthority| {
        format!("&sslrootcert={}", authority.certificate().display())
    };
    for (url, expect) in [
        (
            // An authority that only has the same name.
            far("haft_owner", "db.example", address, &trust(&other)),
            "BadSignature",
        ),
        // The system does not know the test's authority.
        (
            far("haft_owner", "db.example", address, ""),
            "UnknownIssuer",
        ),
        (
            far("haft_owner", "db.other", address, &trust(&authority)),
            "not valid for name",
        ),
        (
            format!(
                "postgres://haft_owner:haft_owner@{address}/haft?sslmode=require{}",
                trust(&authority)
            ),
            "not valid for name",
        ),
        (
            format!(
                "postgres://haft_owner:haft_owner@/haft?hostaddr={address}&host=db.other{}",
                trust(&authority)
            ),
            "not valid for name",
        ),
    ] {
        let refused = record_a_call(&url).await.unwrap_err();
        assert!(
            matches!(refused, OpenError::Database(_)),
            "{url}: {refused:?}"
        );
        let said = said(&refused);
        assert!(
            said.contains("certificate is not accepted"),
            "{url}: {said}"
        );
        assert!(said.contains(expect), "{url}: {said}");
    }
    let refused = record_a_call(&far("app", "db.example", address, "&sslmode=disable")).await;
    assert!(
        matches!(refused, Err(OpenError::NotEncrypted)),
        "{refused:?}"
    );
    assert_eq!(
        server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'haft'"),
        "0"
    );
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn a_far_database_that_does_not_encrypt_is_not_used() {
    let address = PostgresServer::own_address();
    let server = PostgresServer::start_listening(address, None);
    for mode in ["", "&sslmode=prefer", "&sslmode=allow", "&sslmode=require"] {
        let refused = record_a_call(&far("haft_owner", "db.example", address, mode)).await;
        let said = said(&refused.unwrap_err());
        assert!(
            said.contains("does not encrypt connections"),
            "{mode}: {said}"
        );
    }
    assert_eq!(
        server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'haft'"),
        "0"
    );
    // It would have been accepted: the same server is used on loopback.
    record_a_call(&format!("postgres://haft_owner:haft_owner@{address}/haft"))
        .await
        .unwrap();
}
