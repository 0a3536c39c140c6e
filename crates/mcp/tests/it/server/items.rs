//! What a call finds is shown to its client before the call ends: the call goes on only once the client
//! has seen the first item.

use std::{
    fmt, fs,
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, channel},
    },
};

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    CallContext, CallEvent, Effects, NoProgress, Plan, PlanContext, Tool, ToolError, ToolSpec,
    erased::erase,
    event::{EventSink, RecordedEvent},
};
use haft_mcp::server::SessionScope;
use haft_tools::search::grep::GrepTool;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use super::{Era, Stage, Wire};

/// Starts a call that reports, and returns its id.
async fn start(wire: &mut Wire, tool: &str, arguments: Value) -> i64 {
    let parameters = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "p"}});
    wire.start("tools/call", parameters).await
}

/// The next message, which must be about an item and not the answer.
async fn told(wire: &mut Wire) -> String {
    let heard = wire.next().await.unwrap();
    assert_eq!(heard["method"], "notifications/progress", "{heard}");
    assert_eq!(heard["params"]["progressToken"], "p");
    heard["params"]["message"].as_str().unwrap().to_owned()
}

/// The result of a call, after whatever else it still reports.
async fn result(wire: &mut Wire, call: i64) -> Value {
    loop {
        let heard = wire.next().await.unwrap();
        if heard["id"] == json!(call) {
            return heard["result"].clone();
        }
    }
}

/// A made-up query: it has its first row, and waits for the second until it may go on.
struct Query(Arc<Semaphore>);

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
struct QueryInput {}

/// One of its rows.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Row {
    id: u32,
    name: &'static str,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.id, self.name)
    }
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
struct Rows {
    rows: Vec<Row>,
}

impl Tool for Query {
    type Input = QueryInput;
    type Output = Rows;
    type Progress = NoProgress;
    const NAME: &'static str = "query";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Query", "Asks for rows.")
            .effects(Effects::READ_ONLY)
            .streams::<Row>("row")
    }

    fn plan(&self, _: &QueryInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, _: QueryInput, cx: CallContext<NoProgress>) -> Result<Rows, ToolError> {
        let rows = [(1, "ada"), (2, "bob")].map(|(id, name)| Row { id, name });
        let [first, second] = &rows;
        cx.emit(first);
        self.0.acquire().await.unwrap().forget();
        cx.emit(second);
        Ok(Rows {
            rows: rows.to_vec(),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_row_of_a_query_is_shown_before_the_call_ends() {
    let go = Arc::new(Semaphore::new(0));
    let tool = erase(Query(Arc::clone(&go))).unwrap();
    let stage = Stage::configured(
        |harness, _| harness.tools(vec![tool]),
        |endpoint| endpoint,
        SessionScope::OfEndpoint,
    );
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let call = start(&mut wire, "query", json!({})).await;
        let first = told(&mut wire).await;
        assert!(first.starts_with("1 ada (at most "), "{first}");
        go.add_permits(1);
        let rows = json!([{"id": 1, "name": "ada"}, {"id": 2, "name": "bob"}]);
        let result = result(&mut wire, call).await;
        assert_eq!(result["structuredContent"]["rows"], rows);
    }
}

/// Holds whatever emits the first item of a call, until the test lets it go on.
struct HeldAtFirstItem(Mutex<Receiver<()>>);

impl EventSink for HeldAtFirstItem {
    fn happened(&self, happened: &RecordedEvent) {
        if matches!(&happened.event, CallEvent::Item(item) if item.number == 1) {
            // If the test has failed, there is nothing to wait for.
            let _ = tokio::task::block_in_place(|| self.0.lock().unwrap().recv());
        }
    }
}

/// A real search of real files, held where it found the first match. The second file is made after
/// the first match was shown, so the search cannot have been over by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_match_of_a_grep_is_shown_before_the_search_ends() {
    let directory = tempfile::tempdir().unwrap();
    let later = directory.path().join("later");
    fs::write(directory.path().join("a.txt"), "needle one\n").unwrap();
    fs::create_dir(&later).unwrap();
    fs::write(later.join("b.txt"), "hay\n").unwrap();
    let operations = LocalBackend::open(directory.path(), LocalOptions::default())
        .unwrap()
        .operations();
    let (go, going) = channel();
    let held = Arc::new(HeldAtFirstItem(Mutex::new(going)));
    let stage = Stage::configured(
        |harness, _| {
            harness
                .tools(vec![erase(GrepTool).unwrap()])
                .configure(|builder| builder.operations(operations).events(held))
        },
        |endpoint| endpoint,
        SessionScope::OfEndpoint,
    );
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let call = start(&mut wire, "grep", json!({"pattern": "needle"})).await;
        let first = told(&mut wire).await;
        assert!(
            first.starts_with("a.txt:1: needle one (at most "),
            "{first}"
        );
        fs::write(later.join("c.txt"), "needle two\n").unwrap();
        go.send(()).unwrap();
        let result = result(&mut wire, call).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("needle one"), "{text}");
        assert!(text.contains("needle two"), "{text}");
        fs::remove_file(later.join("c.txt")).unwrap();
    }
}
