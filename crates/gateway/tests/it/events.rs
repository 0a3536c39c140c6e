//! Streams of events: everything once, in order, soon, and on from where a reader left off.

use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};

use crate::served::{CAREFUL, Client, PATIENCE, Served, until};

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
struct SentEvent {
    id: Option<u64>,
    name: String,
    data: Value,
    at: Instant,
}

/// Reads a stream to its end, or until it has this many numbered events.
async fn read(client: &Client, call: &str, after: Option<u64>, most: usize) -> Vec<SentEvent> {
    read_once_open(client, call, after, most, || {}).await
}

/// The same, and says when the stream is open.
async fn read_once_open(
    client: &Client,
    call: &str,
    after: Option<u64>,
    most: usize,
    is_open: impl FnOnce(),
) -> Vec<SentEvent> {
    let request = client.request(Method::GET, &format!("/v1/calls/{call}/events"));
    let mut request = request.header("accept", "text/event-stream");
    if let Some(after) = after {
        request = request.header("last-event-id", after);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    is_open();
    let (mut events, mut text) = (Vec::new(), String::new());
    let mut bytes = answer.bytes_stream();
    while events
        .iter()
        .filter(|one: &&SentEvent| one.id.is_some())
        .count()
        < most
    {
        let Some(chunk) = tokio::time::timeout(PATIENCE, bytes.next()).await.unwrap() else {
            break;
        };
        text.push_str(std::str::from_utf8(&chunk.unwrap()).unwrap());
        while let Some((event, rest)) = text
            .split_once("\n\n")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
        {
            text = rest;
            events.extend(parsed(&event));
        }
    }
    events
}

fn parsed(event: &str) -> Option<SentEvent> {
    let field = |name: &str| {
        let mut lines = event.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    Some(SentEvent {
        id: field("id").map(|id| id.parse().unwrap()),
        name: field("event")?.to_owned(),
        data: serde_json::from_str(field("data")?).unwrap(),
        at: Instant::now(),
    })
}

fn numbered(events: &[SentEvent]) -> Vec<(u64, String)> {
    let recorded = events
        .iter()
        .filter_map(|one| Some((one.id?, one.name.clone())));
    recorded.collect()
}

async fn listed(client: &Client, call: &str) -> Vec<(u64, String)> {
    let events = client.get(&format!("/v1/calls/{call}/events")).await;
    let listed = events.is(200).items().iter().map(|one| {
        let name = one["event"].as_str().unwrap().to_owned();
        (one["id"].as_u64().unwrap(), name)
    });
    listed.collect()
}

#[tokio::test]
async fn a_stream_has_every_event_once_and_ends_with_the_call() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let admin = served.admin("acme").await;
    let body =
        json!({"tool": "write", "arguments": {"path": "a.txt", "content": "x"}, "wait_ms": 0});
    let accepted = agent.post("/v1/calls", body).await;
    let call = accepted.is(202).text("/call").to_owned();
    let streamed = {
        let (agent, call) = (agent.clone(), call.clone());
        tokio::spawn(async move { read(&agent, &call, None, usize::MAX).await })
    };
    let question = until(|| async {
        let open = admin.get("/v1/approvals").await;
        open.items().first().cloned()
    })
    .await;
    let path = format!(
        "/v1/approvals/{}/answer",
        question["question"].as_str().unwrap()
    );
    let yes = json!({"verdict": "approve", "digest": question["digest"]});
    admin.post(&path, yes).await.is(200);

    let streamed = streamed.await.unwrap();

    let names: Vec<_> = numbered(&streamed)
        .into_iter()
        .map(|(_, name)| name)
        .collect();
    for name in [
        "opened",
        "planned",
        "decided",
        "approval_asked",
        "approval_answered",
        "started",
        "settled",
    ] {
        assert_eq!(
            names.iter().filter(|one| *one == name).count(),
            1,
            "{name}: {names:?}"
        );
    }
    assert_eq!(names.last().unwrap(), "settled");
    let ids: Vec<_> = numbered(&streamed).into_iter().map(|(id, _)| id).collect();
    let expect: Vec<u64> = (1..=u64::try_from(ids.len()).unwrap()).collect();
    assert_eq!(ids, expect, "without gap or double");
    assert_eq!(numbered(&streamed), listed(&agent, &call).await);
    for after in [0, 1, 4, u64::try_from(ids.len()).unwrap()] {
        let rest = read(&agent, &call, Some(after), usize::MAX).await;
        let expect: Vec<_> = numbered(&streamed)
            .into_iter()
            .filter(|(id, _)| *id > after)
            .collect();
        assert_eq!(numbered(&rest), expect, "after {after}");
    }
    served.close().await;
}

/// Broken off after each event in turn, and gone on with from there.
#[tokio::test]
async fn a_stream_that_breaks_goes_on_where_it_was() {
    let served =
        Served::open("[policy]\nallow = [\"bash\"]\n[tools.bash]\nsandbox = \"off\"\n").await;
    let agent = served.client("acme", "runner", &["call"]).await;
    let body = json!({
        "tool": "bash",
        "arguments": {"command": "for i in 1 2 3; do echo line $i; sleep 0.1; done"},
        "wait_ms": 0,
    });
    let accepted = agent.post("/v1/calls", body).await;
    let call = accepted.is(202).text("/call").to_owned();
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let part = read(&agent, &call, after, 1).await;
        let Some((id, name)) = numbered(&part).into_iter().next() else {
            break;
        };
        after = Some(id);
        seen.push((id, name));
    }
    assert_eq!(seen, listed(&agent, &call).await);
    assert_eq!(seen.last().unwrap().1, "settled");
    served.close().await;
}

#[tokio::test]
async fn output_is_shown_while_the_call_runs() {
    let served =
        Served::open("[policy]\nallow = [\"bash\"]\n[tools.bash]\nsandbox = \"off\"\n").await;
    let agent = served.client("acme", "runner", &["call"]).await;
    let body = json!({
        "tool": "bash",
        "arguments": {"command": "echo first; while [ ! -e go ]; do sleep 0.01; done; echo last"},
        "wait_ms": 0,
    });
    let accepted = agent.post("/v1/calls", body).await;
    let call = accepted.is(202).text("/call").to_owned();
    let go = served.root().join("acme/go");
    let watched = {
        let (agent, call) = (agent.clone(), call.clone());
        tokio::spawn(async move { read(&agent, &call, None, usize::MAX).await })
    };
    // Only once it runs does the command go on, so its last line was put out while somebody watched.
    until(|| async {
        let events = listed(&agent, &call).await;
        events
            .iter()
            .any(|(_, name)| name == "started")
            .then_some(())
    })
    .await;
    tokio::fs::write(go, "").await.unwrap();
    let watched = watched.await.unwrap();
    let output: String = watched
        .iter()
        .filter(|one| one.name == "output")
        .map(|one| one.data["body"]["text"].as_str().unwrap())
        .collect();
    assert!(output.contains("last"), "{watched:?}");
    served.close().await;
}

#[tokio::test]
async fn streams_are_bounded_and_given_back() {
    let served = Served::open(&format!("{CAREFUL}[serve]\nstreams_per_credential = 2\n")).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let body =
        json!({"tool": "write", "arguments": {"path": "a.txt", "content": "x"}, "wait_ms": 0});
    let call = agent
        .post("/v1/calls", body)
        .await
        .is(202)
        .text("/call")
        .to_owned();
    let open = || {
        let request = agent.request(Method::GET, &format!("/v1/calls/{call}/events"));
        request.header("accept", "text/event-stream").send()
    };
    let (first, second) = (open().await.unwrap(), open().await.unwrap());
    assert_eq!(
        (first.status().as_u16(), second.status().as_u16()),
        (200, 200)
    );
    assert_eq!(open().await.unwrap().status(), 429);
    drop(first);
    until(|| async { (open().await.unwrap().status() == 200).then_some(()) }).await;
    drop(second);
    agent
        .post(&format!("/v1/calls/{call}/cancel"), json!({}))
        .await
        .is(202);
    served.close().await;
}

/// Whoever reads while the server ends is told, and finds the rest on the next one.
#[tokio::test]
async fn a_stream_is_told_that_the_server_ends() {
    let served = Served::open(CAREFUL).await;
    let agent = served.client("acme", "writer", &["call"]).await;
    let body =
        json!({"tool": "write", "arguments": {"path": "a.txt", "content": "x"}, "wait_ms": 0});
    let call = agent
        .post("/v1/calls", body)
        .await
        .is(202)
        .text("/call")
        .to_owned();
    until(|| async {
        let events = listed(&agent, &call).await;
        events
            .iter()
            .any(|(_, name)| name == "approval_asked")
            .then_some(())
    })
    .await;
    let (opened, is_open) = tokio::sync::oneshot::channel();
    let watching = {
        let (agent, call) = (agent.clone(), call.clone());
        tokio::spawn(async move {
            let told = || opened.send(()).unwrap();
            read_once_open(&agent, &call, None, usize::MAX, told).await
        })
    };
    is_open.await.unwrap();
    let served = served.again().await;
    let watched = watching.await.unwrap();
    assert_eq!(watched.last().unwrap().name, "ending", "{watched:?}");
    let last = numbered(&watched).last().map_or(0, |(id, _)| *id);
    let agent = Client {
        base: served.base(),
        ..agent
    };
    let rest = read(&agent, &call, Some(last), usize::MAX).await;
    let mut all = numbered(&watched);
    all.extend(numbered(&rest));
    assert_eq!(all, listed(&agent, &call).await);
    assert_eq!(all.last().unwrap().1, "settled");
    served.close().await;
}

/// What is promised in wall time; these tests run alone.
mod wall_time {
    use super::*;

    /// From the moment that somebody answers to the moment that a reader has it. The best of some, because
    /// the machine of a test is never quiet.
    #[tokio::test]
    async fn an_event_is_seen_within_100_ms() {
        let served = Served::open(CAREFUL).await;
        let agent = served.client("acme", "writer", &["call"]).await;
        let admin = served.admin("acme").await;
        let mut best = Duration::MAX;
        for round in 0..10 {
            let path = format!("{round}.txt");
            let body =
                json!({"tool": "write", "arguments": {"path": path, "content": "x"}, "wait_ms": 0});
            let call = agent
                .post("/v1/calls", body)
                .await
                .is(202)
                .text("/call")
                .to_owned();
            let question = until(|| async {
                let open = admin.get("/v1/approvals").await;
                open.items().first().cloned()
            })
            .await;
            let before = listed(&agent, &call).await.len();
            let (opened, is_open) = tokio::sync::oneshot::channel();
            let watching = {
                let (agent, call) = (agent.clone(), call.clone());
                let after = u64::try_from(before).unwrap();
                tokio::spawn(async move {
                    let told = || opened.send(()).unwrap();
                    read_once_open(&agent, &call, Some(after), 1, told).await
                })
            };
            is_open.await.unwrap();
            let path = format!(
                "/v1/approvals/{}/answer",
                question["question"].as_str().unwrap()
            );
            let answered = Instant::now();
            let no = json!({"verdict": "refuse", "digest": question["digest"]});
            admin.post(&path, no).await.is(200);
            let seen = watching.await.unwrap();
            best = best.min(seen[0].at.duration_since(answered));
        }
        assert!(best < Duration::from_millis(100), "{best:?}");
        served.close().await;
    }
}
