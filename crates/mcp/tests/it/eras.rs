//! Every combination of a client's era and a mounted server's: progress of the server reaches the
//! client that asked and no other, and a client's cancel reaches the server, which says so. With and
//! without `initialize` on either side, over pipes and HTTP on either side. The server is the Python
//! SDK's; clients are our own wire, and the Python SDK's over HTTP.

use std::{process::Command, time::Duration};

use haft_mcp::upstream::{connection, supervise::Options};
use serde_json::{Value, json};

use crate::{
    caller::{Caller, Over},
    house::{House, named},
    server::{
        web::TOKEN,
        wire::{Era, PATIENCE},
    },
    upstream::peers::{Peer, Reachable, fixture, installed},
};

/// A mounted server, the house in front of it, and how often it was told to stop so far.
struct Cell {
    house: House,
    _reachable: Reachable,
    stopped: usize,
}

impl Cell {
    async fn of(over: Over, era: connection::ProtocolEra) -> Self {
        let reachable = Peer::Python.reachable(over, era).await;
        let options = Options {
            start_timeout: PATIENCE,
            ..Options::default()
        };
        let house = House::of(reachable.connector(), options).await;
        let agreed = house.fleet.status().remove(0).era;
        assert_eq!(agreed, Some(era));
        Self {
            house,
            _reachable: reachable,
            stopped: 0,
        }
    }

    /// Waits until the server says that one more call of it was cancelled, and no more than that.
    async fn is_told_to_stop(&mut self) {
        self.stopped += 1;
        let mut client = self.house.client(Over::Pipes, Era::Modern).await;
        let told = async {
            loop {
                let often = client.said(&named("how_often_cancelled"), json!({})).await;
                let often: usize = often.parse().unwrap();
                assert!(often <= self.stopped, "{often} of {}", self.stopped);
                if often == self.stopped {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let told = tokio::time::timeout(PATIENCE, told).await;
        told.unwrap_or_else(|_| panic!("the server did not hear of cancel {}", self.stopped));
    }
}

/// What a client heard of progress: how far, and of how much, all under its own token.
fn reports(heard: &[Value], token: &str) -> Vec<(f64, f64)> {
    let report = |message: &Value| {
        assert_eq!(message["method"], "notifications/progress", "{message}");
        assert_eq!(message["params"]["progressToken"], token, "{message}");
        let number = |name: &str| message["params"][name].as_f64().unwrap();
        (number("progress"), number("total"))
    };
    heard.iter().map(report).collect()
}

/// Calls `steps` and returns what was heard before the answer.
async fn steps(client: &mut Caller, count: usize, token: Option<&str>) -> Vec<Value> {
    let (tool, arguments) = (named("steps"), json!({"count": count}));
    let id = client.start(&tool, arguments, token).await;
    let (heard, answer) = client.answer(id).await;
    let text = &answer["result"]["content"][0]["text"];
    assert_eq!(text, "done", "{answer}");
    heard
}

/// Calls what never ends, and returns once the server works on it.
async fn hang(client: &mut Caller, token: &str) -> i64 {
    let id = client.start(&named("hangs"), json!({}), Some(token)).await;
    let first = client.next(id).await;
    assert_eq!(reports(&[first], token), [(1.0, 2.0)]);
    id
}

async fn progress_reaches_who_asked(cell: &Cell, over: Over, era: Era) {
    let mut one = cell.house.client(over, era).await;
    let mut other = cell.house.client(over, era).await;
    // At the same time, so that reports could be mixed up.
    let (ones, others, nobodys) = {
        let mut third = cell.house.client(over, era).await;
        tokio::join!(
            steps(&mut one, 9, Some("one")),
            steps(&mut other, 7, Some("other")),
            async { steps(&mut third, 5, None).await },
        )
    };
    for (heard, token, count) in [(ones, "one", 9.0), (others, "other", 7.0)] {
        let reports = reports(&heard, token);
        assert!(reports.len() >= 2, "{over:?} {reports:?}");
        assert!(reports.is_sorted_by(|a, b| a.0 < b.0), "{reports:?}");
        let totals: Vec<f64> = reports.iter().map(|report| report.1).collect();
        assert_eq!(totals, vec![count; reports.len()]);
        assert_eq!(reports.last().map(|report| report.0), Some(count));
    }
    assert!(nobodys.is_empty(), "{nobodys:?}");
}

async fn a_cancel_reaches_the_server(cell: &mut Cell, over: Over, era: Era) {
    let mut one = cell.house.client(over, era).await;
    let mut other = cell.house.client(over, era).await;
    let id = hang(&mut one, "one").await;
    hang(&mut other, "other").await;
    one.cancel(id).await;
    cell.is_told_to_stop().await;
    // Only that one: the other still runs, until its client is gone.
    assert_eq!(cell.house.calls.len(), 1);
    drop(other);
    cell.is_told_to_stop().await;
    cell.house.until_quiet().await;
}

/// The same with a client that others wrote.
async fn works_for_the_python_client(cell: &mut Cell, era: Era) {
    let mode = match era {
        Era::Legacy => "legacy",
        Era::Modern => "2026-07-28",
    };
    let setup = json!({
        "url": cell.house.url(),
        "token": TOKEN,
        "mode": mode,
        "steps": named("steps"),
        "hangs": named("hangs"),
    });
    let client = tokio::task::spawn_blocking(move || {
        Command::new(format!("{}/venv/bin/python", installed()))
            .arg(fixture("caller.py"))
            .arg(setup.to_string())
            .output()
            .unwrap()
    });
    let ended = client.await.unwrap();
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{errors}");
    let saw: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(
        saw["reports"].as_array().unwrap().last(),
        Some(&json!([4.0, 4.0])),
        "{saw}"
    );
    cell.is_told_to_stop().await;
    cell.house.until_quiet().await;
}

/// A combination of eras with a server that is reached one way, for clients of every transport.
async fn check(client: Era, server: connection::ProtocolEra, to_server: Over) {
    let mut cell = Cell::of(to_server, server).await;
    for to_client in Over::BOTH {
        progress_reaches_who_asked(&cell, to_client, client).await;
        a_cancel_reaches_the_server(&mut cell, to_client, client).await;
    }
    works_for_the_python_client(&mut cell, client).await;
    cell.house.end().await;
}

macro_rules! cells {
    ($($name:ident: $client:ident, $server:ident, $over:ident;)*) => {$(
        #[tokio::test]
        #[ignore = "ci: needs the SDKs of .ci/peers"]
        async fn $name() {
            check(Era::$client, connection::ProtocolEra::$server, Over::$over).await;
        }
    )*};
}

cells! {
    a_stateless_client_and_a_stateless_server_over_pipes: Modern, Modern, Pipes;
    a_stateless_client_and_a_stateless_server_over_http: Modern, Modern, Http;
    a_stateless_client_and_a_server_with_initialize_over_pipes: Modern, Legacy, Pipes;
    a_stateless_client_and_a_server_with_initialize_over_http: Modern, Legacy, Http;
    a_client_with_initialize_and_a_stateless_server_over_pipes: Legacy, Modern, Pipes;
    a_client_with_initialize_and_a_stateless_server_over_http: Legacy, Modern, Http;
    a_client_with_initialize_and_a_server_with_initialize_over_pipes: Legacy, Legacy, Pipes;
    a_client_with_initialize_and_a_server_with_initialize_over_http: Legacy, Legacy, Http;
}
