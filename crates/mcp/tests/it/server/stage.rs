//! A runtime in memory, served.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    CallContext, Content, Effects, ErrorKind, NoProgress, Plan, PlanContext, ProviderId, Tool,
    ToolError, ToolSpec,
    erased::{ErasedTool, erase},
};
use haft_mcp::{
    client::{Clients, Question, QuestionKind},
    mounts::{CHANGES_KEPT, Change, Fetch, Mounts},
    server::{Endpoint, LiveCalls, SessionScope, stdio},
};
use haft_testkit::{Harness, harness::HarnessBuilder, sample};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{sync::broadcast, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{Era, Wire, wire::PATIENCE};

/// A runtime in memory, served.
pub(crate) struct Stage {
    pub(crate) harness: Harness,
    pub(crate) calls: Arc<LiveCalls>,
    pub(crate) mounts: Arc<FixedMounts>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) cancel: CancellationToken,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(|endpoint| endpoint, SessionScope::OfEndpoint)
    }

    pub(crate) fn with(change: impl FnOnce(Endpoint) -> Endpoint, sessions: SessionScope) -> Self {
        Self::configured(|harness, _| harness, change, sessions)
    }

    /// A runtime that the test changes, and an endpoint that it changes.
    pub(crate) fn configured(
        configure: impl FnOnce(HarnessBuilder, &Arc<LiveCalls>) -> HarnessBuilder,
        change: impl FnOnce(Endpoint) -> Endpoint,
        sessions: SessionScope,
    ) -> Self {
        let clients = Arc::<Clients>::default();
        let calls = LiveCalls::new(Arc::clone(&clients));
        let mut tools = sample::all();
        tools.push(erase(haft_tools::output::read_output::ReadOutputTool).unwrap());
        tools.push(erase(Speak(clients)).unwrap());
        tools.push(erase(Fetched).unwrap());
        let harness = Harness::memory()
            .tools(tools)
            .configure(|builder| builder.events(Arc::clone(&calls) as _));
        let harness = configure(harness, &calls).build();
        let mounts = Arc::new(FixedMounts::default());
        let endpoint = Endpoint::new(
            harness.runtime.clone(),
            Arc::clone(&harness.principal),
            Arc::clone(&calls),
            sessions,
        );
        let endpoint = change(endpoint.mounts(Arc::clone(&mounts) as _));
        Self {
            harness,
            calls,
            mounts,
            endpoint: Arc::new(endpoint),
            cancel: CancellationToken::new(),
        }
    }

    /// A client over a pipe, and the task that serves it.
    pub(crate) async fn connect(&self, era: Era) -> (Wire, JoinHandle<()>) {
        self.connect_able(era, json!({})).await
    }

    /// A client that says what it can be asked.
    pub(crate) async fn connect_able(
        &self,
        era: Era,
        capabilities: Value,
    ) -> (Wire, JoinHandle<()>) {
        let (ours, served) = self.serve();
        (Wire::begin(ours, era, capabilities).await, served)
    }

    /// A client that speaks this version of the protocol.
    pub(crate) async fn connect_at(&self, version: &str) -> (Wire, JoinHandle<()>) {
        let (ours, served) = self.serve();
        (Wire::begin_at(ours, version, json!({})).await, served)
    }

    fn serve(&self) -> (tokio::io::DuplexStream, JoinHandle<()>) {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(theirs);
        let (endpoint, cancel) = (Arc::clone(&self.endpoint), self.cancel.clone());
        let served = tokio::spawn(async move {
            stdio::serve(endpoint, read, write, &cancel).await.unwrap();
        });
        (ours, served)
    }

    /// Waits until no call runs.
    pub(crate) async fn until_quiet(&self) {
        let quiet = async {
            while self.harness.runtime.in_flight() > 0 || !self.calls.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, quiet).await.expect("quiet");
    }

    /// Waits until a call runs.
    pub(crate) async fn until_busy(&self) {
        let busy = async {
            while self.calls.is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, busy).await.expect("busy");
    }

    /// How the calls so far ended.
    pub(crate) fn terminals(&self) -> Vec<String> {
        let ended = self.harness.events.all().into_iter();
        ended
            .filter_map(|happened| match happened.event {
                haft_contract::CallEvent::Settled { outcome } => {
                    Some(outcome.terminal.as_str().to_owned())
                }
                _ => None,
            })
            .collect()
    }

    /// Registers one more tool.
    pub(crate) fn add_tool(&self, name: &str) {
        let tool: Arc<dyn ErasedTool> = haft_contract::erased::erase_as(
            sample::Echo,
            haft_contract::ToolName::parse(name).unwrap(),
        );
        let registry = self.harness.runtime.registry();
        registry
            .register(&ProviderId::embedded(), vec![tool])
            .unwrap();
    }
}

/// Speaks to its client while it runs, as a mounted server does.
pub(crate) struct Speak(Arc<Clients>);

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct SpeakInput {
    /// Log messages to pass on.
    #[serde(default)]
    logs: Vec<Value>,
    /// A method to ask with, and its parameters.
    #[serde(default)]
    ask: Option<(String, Value)>,
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SpeakOutput {
    /// The answer, or why there is none.
    answered: Value,
}

impl Tool for Speak {
    type Input = SpeakInput;
    type Output = SpeakOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "speak";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Speak", "Speaks to its client.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &SpeakInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(
        &self,
        input: SpeakInput,
        cx: CallContext<NoProgress>,
    ) -> Result<SpeakOutput, ToolError> {
        let missing = || ToolError::new(ErrorKind::Internal, "there is no client");
        let client = self.0.of(cx.call()).ok_or_else(missing)?;
        for message in input.logs {
            client.log(message);
        }
        let answered = match input.ask {
            None => Value::Null,
            Some((method, parameters)) => {
                let question = Question {
                    key: "q".to_owned(),
                    kind: QuestionKind::of_method(&method).unwrap(),
                    parameters,
                };
                match client.ask(vec![question], cx.cancel()).await {
                    Ok(answers) => json!(answers),
                    Err(error) => json!(error.to_string()),
                }
            }
        };
        Ok(SpeakOutput { answered })
    }
}

/// Gives back what it is given, as the result of a fetch.
pub(crate) struct Fetched;

/// What it takes.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct FetchedInput {
    /// The result.
    result: Value,
}

/// What it gives.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct FetchedOutput {
    result: Value,
}

impl Tool for Fetched {
    type Input = FetchedInput;
    type Output = FetchedOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "fetched";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Fetched", "Gives back a result.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &FetchedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(
        &self,
        input: FetchedInput,
        _: CallContext<NoProgress>,
    ) -> Result<FetchedOutput, ToolError> {
        if input.result["fail"] == json!(true) {
            return Err(ToolError::new(ErrorKind::NotFound, "it is gone"));
        }
        Ok(FetchedOutput {
            result: input.result,
        })
    }

    fn render(&self, _: &FetchedOutput) -> Vec<Content> {
        Vec::new()
    }
}

/// What a mounted server would offer.
pub(crate) struct FixedMounts {
    pub(crate) changes: broadcast::Sender<Change>,
    /// What was subscribed to and unsubscribed from, in order.
    pub(crate) wishes: Mutex<Vec<(String, bool)>>,
    /// How many milliseconds unsubscribing takes.
    pub(crate) takes_ms: AtomicU64,
}

impl Default for FixedMounts {
    fn default() -> Self {
        Self {
            changes: broadcast::channel(CHANGES_KEPT).0,
            wishes: Mutex::default(),
            takes_ms: AtomicU64::new(0),
        }
    }
}

fn fetched(result: Value) -> Fetch {
    Fetch {
        tool: Fetched::NAME.to_owned(),
        arguments: json!({ "result": result }),
    }
}

impl Mounts for FixedMounts {
    fn resources(&self) -> Vec<Value> {
        let resource = |name: &str| json!({"uri": format!("s+file:///{name}"), "name": name});
        ["a", "b", "c"].map(resource).to_vec()
    }

    fn templates(&self) -> Vec<Value> {
        vec![json!({"uriTemplate": "s+file:///{path}", "name": "files"})]
    }

    fn prompts(&self) -> Vec<Value> {
        vec![json!({"name": "greet", "description": "Greets", "arguments": [{"name": "whom"}]})]
    }

    fn read(&self, uri: &str) -> Option<Fetch> {
        let name = uri.strip_prefix("s+file:///")?;
        Some(fetched(match name {
            "gone" => json!({"fail": true}),
            "odd" => json!({"contents": 5}),
            name => json!({"contents": [{"uri": uri, "text": format!("text of {name}")}]}),
        }))
    }

    fn prompt(&self, name: &str, parameters: &Value) -> Option<Fetch> {
        let text = format!("hello {}", parameters["arguments"]["whom"]);
        let message = json!({"role": "user", "content": {"type": "text", "text": text}});
        (name == "greet").then(|| fetched(json!({"messages": [message]})))
    }

    fn completion(&self, parameters: &Value) -> Option<Fetch> {
        let value = format!("{}-completed", parameters["argument"]["value"].as_str()?);
        let known = parameters["ref"]["name"] == json!("greet");
        known.then(|| fetched(json!({"completion": {"values": [value], "total": 1}})))
    }

    fn subscription(&self, uri: &str, wanted: bool) -> Option<Fetch> {
        self.wishes.lock().unwrap().push((uri.to_owned(), wanted));
        let takes = self.takes_ms.load(Ordering::SeqCst);
        if !wanted && takes > 0 {
            let (tool, arguments) = ("sleep".to_owned(), json!({ "ms": takes }));
            return Some(Fetch { tool, arguments });
        }
        Some(fetched(json!({})))
    }

    fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }
}
