//! A server that breaks the protocol, over both transports: what it does costs its own request, or
//! its own connection, and never more. Most of group MC is data (`attacks/mc.toml`); here is what
//! needs a client, a process or a clock to be seen.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use haft_mcp::{
    client::Client,
    upstream::connection::{Progress, Request, RequestError, ServerChange},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    Person, call,
    peers::{Mounted, Peer},
    text,
};

/// For requests that are answered.
const ANSWERED: Duration = haft_testkit::PATIENCE;

/// For requests that are not.
const UNANSWERED: Duration = Duration::from_millis(500);

async fn both() -> [Mounted; 2] {
    [
        Peer::Hostile.over_pipes().await,
        Peer::Hostile.over_http().await,
    ]
}

async fn how(mounted: &Mounted, how: &str, deadline: Duration) -> Result<Value, RequestError> {
    let request = Request {
        deadline,
        ..call("t", json!({ "how": how }))
    };
    let never = CancellationToken::new();
    mounted.connection.request(request, &never).await
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn mc_13_what_nobody_can_be_asked_is_refused() {
    for mounted in both().await {
        // With a method that does not exist, to an address no person is sent to.
        let person = Arc::new(Person::default());
        for (way, code) in [("strange_method", "-32601"), ("sends_away", "-32602")] {
            let request = Request {
                client: Some(Arc::clone(&person) as Arc<dyn Client>),
                ..call("t", json!({ "how": way }))
            };
            let never = CancellationToken::new();
            let got = mounted.connection.request(request, &never).await.unwrap();
            assert_eq!(text(&got), code, "{way}");
        }
        assert!(person.asked.lock().unwrap().is_empty());
    }
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn mc_15_a_flood_is_one_change_and_its_answer_still_comes() {
    for mounted in both().await {
        let mut changes = mounted.connection.changes();
        let reports: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let sink = Arc::clone(&reports);
        let request = Request {
            progress: Some(Arc::new(move |report| sink.lock().unwrap().push(report))),
            ..call("t", json!({ "how": "flood" }))
        };
        let began = Instant::now();
        let never = CancellationToken::new();
        let flooded = mounted.connection.request(request, &never).await.unwrap();
        assert_eq!(text(&flooded), "ok");
        let took = began.elapsed();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut told: u128 = 0;
        while let Ok(change) = changes.try_recv() {
            assert_eq!(change, ServerChange::Definitions);
            told += 1;
        }
        let most = 2 + took.as_millis() / 100;
        assert!(told <= most, "{told} changes in {took:?}");
        let reports = reports.lock().unwrap().clone();
        assert!(
            reports
                .windows(2)
                .all(|two| two[0].progress < two[1].progress)
        );
    }
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn progress_of_another_request_is_not_ours() {
    for mounted in both().await {
        let reports: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let sink = Arc::clone(&reports);
        let request = Request {
            progress: Some(Arc::new(move |report| sink.lock().unwrap().push(report))),
            ..call("t", json!({ "how": "foreign_progress" }))
        };
        let never = CancellationToken::new();
        mounted.connection.request(request, &never).await.unwrap();
        assert!(reports.lock().unwrap().is_empty());
    }
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn mc_16_a_server_that_never_answers_is_told_to_stop() {
    for mounted in both().await {
        let silent = how(&mounted, "silent", UNANSWERED).await;
        assert_eq!(silent, Err(RequestError::Slow(UNANSWERED)));
        let began = Instant::now();
        loop {
            let counted = how(&mounted, "was_cancelled", ANSWERED).await.unwrap();
            if text(&counted) == "1" {
                break;
            }
            assert!(began.elapsed() < ANSWERED, "it did not hear of the cancel");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn mc_17_what_is_printed_is_counted_and_what_was_forked_ends_with_the_server() {
    let mounted = Peer::Hostile.over_pipes().await;
    let printed = how(&mounted, "prints", ANSWERED).await.unwrap();
    assert_eq!(text(&printed), "ok");
    assert_eq!(mounted.dropped()[0], 2);
    let words = mounted.last_words();
    assert!(words.len() <= 16 * 1024 && words.ends_with("the last words\n"));
    let forked = how(&mounted, "forks", ANSWERED).await.unwrap();
    let process = text(&forked).to_owned();
    assert!(runs(&process));
    mounted.connection.close().await;
    assert!(!runs(&process), "{:?}", state(&process));
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn mc_18_a_server_has_its_own_secrets_and_nothing_of_anybody_else() {
    let mounted = Peer::sandboxed(("API_KEY", "its own")).await;
    let environment = how(&mounted, "environment", ANSWERED).await.unwrap();
    let environment: Value = serde_json::from_str(text(&environment)).unwrap();
    assert_eq!(environment["API_KEY"], json!("its own"));
    for name in ["HAFT_MCP_PEERS", "CARGO_MANIFEST_DIR", "SSH_AUTH_SOCK"] {
        assert_eq!(environment.get(name), None, "{name}");
    }
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("secret");
    std::fs::write(&secret, "another server's").unwrap();
    let read = how(&mounted, &format!("reads {}", secret.display()), ANSWERED).await;
    assert_eq!(read.unwrap()["isError"], json!(true));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connected = how(&mounted, &format!("connects {port}"), ANSWERED).await;
    assert_eq!(connected.unwrap()["isError"], json!(true));
    mounted.connection.close().await;
}

/// What a process does, by the kernel's letter; none once it is gone.
fn state(process: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process runs; one that only waits to be buried does not.
fn runs(process: &str) -> bool {
    state(process).is_some_and(|state| state != 'Z')
}
