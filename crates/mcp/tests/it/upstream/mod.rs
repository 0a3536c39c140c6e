//! Haft as a client of real servers: over pipes and HTTP, in both eras.

mod hostile;
pub(crate) mod http;
pub(crate) mod peers;
pub(crate) mod tool;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use haft_contract::future::BoxFuture;
use haft_mcp::{
    client::{AskError, Client, ClientAbilities, Question, QuestionKind},
    upstream::connection::{
        Connection, Definitions, Progress, ProtocolEra, Request, RequestError, ServerChange,
    },
};
use haft_testkit::PATIENCE;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::peers::{Mounted, Peer};

const LONG: Duration = PATIENCE;

fn call(tool: &str, arguments: Value) -> Request {
    Request {
        principal: haft_testkit::principal(),
        method: "tools/call",
        parameters: json!({ "name": tool, "arguments": arguments }),
        deadline: LONG,
        progress: None,
        client: None,
    }
}

async fn run(connection: &dyn Connection, request: Request) -> Value {
    let result = connection.request(request, &CancellationToken::new()).await;
    result.unwrap()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn names(list: &[Value]) -> Vec<&str> {
    list.iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

/// A client that answers every question the same way and remembers what it was asked and told.
#[derive(Default)]
pub(crate) struct Person {
    asked: Mutex<Vec<Question>>,
    told: AtomicUsize,
}

impl Person {
    /// How many log messages came.
    pub(crate) fn told(&self) -> usize {
        self.told.load(Ordering::Relaxed)
    }
}

impl Client for Person {
    fn abilities(&self) -> ClientAbilities {
        ClientAbilities {
            elicit_form: true,
            elicit_url: true,
            sample: true,
            roots: true,
        }
    }

    fn ask<'a>(
        &'a self,
        questions: Vec<Question>,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Vec<Value>, AskError>> {
        let answer = json!({ "action": "accept", "content": { "name": "Ada", "confirm": true } });
        let answers = vec![answer; questions.len()];
        self.asked.lock().unwrap().extend(questions);
        Box::pin(std::future::ready(Ok(answers)))
    }

    fn log(&self, _: Value) {
        self.told.fetch_add(1, Ordering::Relaxed);
    }
}

async fn definitions(connection: &dyn Connection) -> Definitions {
    connection
        .definitions(&CancellationToken::new())
        .await
        .unwrap()
}

/// Everything a server on the Python SDK must be able to do through us, in whatever era.
async fn works_in_full(mounted: &Mounted, era: ProtocolEra) {
    let connection = &*mounted.connection;
    assert_eq!(connection.era(), era);
    let offered = definitions(connection).await;
    assert_eq!(offered.server["name"], json!("peer"));
    assert!(names(&offered.tools).contains(&"kinds"));
    assert_eq!(offered.resources[0]["uri"], json!("peer://note"));
    assert_eq!(
        offered.templates[0]["uriTemplate"],
        json!("peer://by/{name}")
    );
    assert_eq!(names(&offered.prompts), ["greeting"]);

    let echoed = run(connection, call("echo", json!({ "text": "hi" }))).await;
    assert_eq!(text(&echoed), "hi");
    let kinds = run(connection, call("kinds", json!({}))).await;
    let kinds = kinds["content"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.map(|piece| piece["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "text",
            "image",
            "audio",
            "resource",
            "resource",
            "resource_link"
        ]
    );
    let failed = run(connection, call("fails", json!({}))).await;
    assert_eq!(failed["isError"], json!(true));
    assert_eq!(text(&failed), "it is broken");
    let read = Request {
        principal: haft_testkit::principal(),
        method: "resources/read",
        parameters: json!({ "uri": "peer://note" }),
        ..call("", json!({}))
    };
    let read = run(connection, read).await;
    assert_eq!(read["contents"][0]["text"], json!("a note"));

    progress_arrives(connection).await;
    a_cancel_arrives(connection).await;
    a_question_is_answered(connection).await;
}

async fn progress_arrives(connection: &dyn Connection) {
    let reports: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let sink = Arc::clone(&reports);
    let request = Request {
        progress: Some(Arc::new(move |report| sink.lock().unwrap().push(report))),
        ..call("steps", json!({ "count": 5 }))
    };
    assert_eq!(text(&run(connection, request).await), "done");
    let reports = reports.lock().unwrap();
    assert!(!reports.is_empty());
    let last = reports.last().unwrap();
    assert_eq!((last.progress, last.total), (5.0, Some(5.0)));
    assert_eq!(last.message.as_deref(), Some("step 5"));
    assert!(
        reports
            .windows(2)
            .all(|two| two[0].progress < two[1].progress)
    );
}

async fn a_cancel_arrives(connection: &dyn Connection) {
    let cancel = CancellationToken::new();
    let fire = cancel.clone();
    let request = Request {
        // Cancelled once it is known to run.
        progress: Some(Arc::new(move |_| fire.cancel())),
        ..call("hangs", json!({}))
    };
    let cancelled = connection.request(request, &cancel).await;
    assert_eq!(cancelled, Err(RequestError::Cancelled));
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        let often = run(connection, call("how_often_cancelled", json!({}))).await;
        if text(&often) == "1" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the server did not hear of the cancel");
}

async fn a_question_is_answered(connection: &dyn Connection) {
    let person = Arc::new(Person::default());
    let request = Request {
        client: Some(Arc::clone(&person) as Arc<dyn Client>),
        ..call("greets", json!({}))
    };
    let greeted = run(connection, request).await;
    assert_eq!(text(&greeted), "hello, Ada");
    let asked = person.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].kind, QuestionKind::Elicit);
    assert_eq!(asked[0].parameters["message"], json!("What is your name?"));
    // Where nobody can be asked, the server hears that instead of waiting.
    let never = CancellationToken::new();
    let unasked = connection.request(call("greets", json!({})), &never);
    let unasked = tokio::time::timeout(LONG, unasked).await.unwrap();
    assert!(
        matches!(
            &unasked,
            Err(RequestError::Answered { .. } | RequestError::Protocol(_))
        ) || unasked
            .as_ref()
            .is_ok_and(|result| result["isError"] == json!(true)),
        "{unasked:?}"
    );
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_python_server_works_over_pipes_in_the_stateless_era() {
    let mounted = Peer::Python.over_pipes().await;
    works_in_full(&mounted, ProtocolEra::Modern).await;
    assert!(mounted.last_words().contains("prints something to stderr"));
    assert_eq!(
        mounted.dropped()[0],
        1,
        "what was printed to stdout is counted"
    );
    mounted.connection.close().await;
    let why = mounted.connection.closed().await;
    assert_eq!(why, "it was closed");
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_python_server_works_over_pipes_in_the_older_era() {
    let mounted = Peer::Python.over_pipes_as(ProtocolEra::Legacy).await;
    works_in_full(&mounted, ProtocolEra::Legacy).await;
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_python_server_works_over_http_in_the_stateless_era() {
    let mounted = Peer::Python.over_http().await;
    works_in_full(&mounted, ProtocolEra::Modern).await;
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_python_server_works_over_http_in_the_older_era() {
    let mounted = Peer::Python.over_http_as(ProtocolEra::Legacy).await;
    works_in_full(&mounted, ProtocolEra::Legacy).await;
}

/// A server tells of its own that its tools changed, and the new tool is there.
async fn a_change_is_noticed(mounted: &Mounted) {
    let connection = &*mounted.connection;
    assert_eq!(connection.era(), ProtocolEra::Modern);
    assert_eq!(
        names(&definitions(connection).await.tools),
        ["echo", "widen"]
    );
    let mut changes = connection.changes();
    // Listening begins beside the first requests, so a first change may come before it.
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        run(connection, call("widen", json!({}))).await;
        let noticed = tokio::time::timeout(Duration::from_secs(2), changes.recv()).await;
        if let Ok(Ok(noticed)) = noticed {
            assert_eq!(noticed, ServerChange::Definitions);
            return;
        }
    }
    panic!("no change was noticed");
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_typescript_server_tells_of_changes_over_pipes() {
    let mounted = Peer::TypeScript.over_pipes().await;
    a_change_is_noticed(&mounted).await;
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_typescript_server_tells_of_changes_over_http() {
    let mounted = Peer::TypeScript.over_http().await;
    a_change_is_noticed(&mounted).await;
    let offered = definitions(&*mounted.connection).await;
    assert_eq!(names(&offered.tools), ["echo", "widen", "extra"]);
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn the_reference_server_works_over_pipes() {
    let mounted = Peer::Everything.over_pipes().await;
    the_reference_server_works(&mounted).await;
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn the_reference_server_works_over_http() {
    let mounted = Peer::Everything.over_http().await;
    the_reference_server_works(&mounted).await;
}

async fn the_reference_server_works(mounted: &Mounted) {
    let connection = &*mounted.connection;
    assert_eq!(connection.era(), ProtocolEra::Legacy);
    let offered = definitions(connection).await;
    assert!(offered.tools.len() > 5);
    assert!(!offered.resources.is_empty() && !offered.prompts.is_empty());
    let echoed = run(connection, call("echo", json!({ "message": "hi" }))).await;
    assert_eq!(text(&echoed), "Echo: hi");
    let reports: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let sink = Arc::clone(&reports);
    let long = call(
        "trigger-long-running-operation",
        json!({ "duration": 1, "steps": 4 }),
    );
    let request = Request {
        progress: Some(Arc::new(move |report| sink.lock().unwrap().push(report))),
        ..long
    };
    run(connection, request).await;
    assert!(!reports.lock().unwrap().is_empty());
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn the_file_server_works_over_pipes() {
    let mounted = Peer::Filesystem.over_pipes().await;
    std::fs::write(mounted.folder().path().join("note.txt"), "a note").unwrap();
    let path = mounted.folder().path().join("note.txt");
    let read = call("read_text_file", json!({ "path": path }));
    let read = run(&*mounted.connection, read).await;
    assert_eq!(text(&read), "a note");
    assert_eq!(read["structuredContent"]["content"], json!("a note"));
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_server_that_dies_loses_what_was_under_way() {
    let mounted = Peer::Python.over_pipes().await;
    let connection = Arc::clone(&mounted.connection);
    let cancel = CancellationToken::new();
    let (running, ran) = tokio::sync::oneshot::channel();
    let running = Mutex::new(Some(running));
    let request = Request {
        progress: Some(Arc::new(move |_| {
            if let Some(running) = running.lock().unwrap().take() {
                let _ = running.send(());
            }
        })),
        ..call("hangs", json!({}))
    };
    let hanging = tokio::spawn(async move { connection.request(request, &cancel).await });
    ran.await.unwrap();
    mounted.connection.close().await;
    let lost = hanging.await.unwrap();
    assert!(matches!(lost, Err(RequestError::Lost(_))), "{lost:?}");
    let never = CancellationToken::new();
    let after = mounted.connection.request(call("echo", json!({})), &never);
    let after = after.await;
    assert!(
        matches!(after, Err(RequestError::NotSent(_) | RequestError::Lost(_))),
        "{after:?}"
    );
}
