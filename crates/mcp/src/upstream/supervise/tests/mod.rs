//! The supervisor against scripted servers: each test says what every connection does.

mod accepted;
mod kept;

use crate::upstream::owner::CredentialOwner;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    CallContext, ErrorKind, Plan, PlanContext, Terminal, ToolError, ToolName, ToolSpec,
    erased::{ErasedTool, ParsedInput, ToolReply, WithheldReason},
    future::BoxFuture,
    progress::NoProgress,
};
use haft_runtime::{SystemClock, registry::Registry};
use haft_testkit::Harness;
use serde_json::{Value, json};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use super::{Fleet, MakeTools, Mount, Options, State, Status, SupervisorDefaults, UnseenServer};
use crate::{
    mounts::{CHANGES_KEPT, Change},
    name::{ServerId, ToolNaming, tool_name},
    pin::{Filter, Item, MemoryStore, Origin, Store, vet},
    upstream::connection::{
        Connect, ConnectError, Connection, Definitions, LastWords, ProtocolEra, Request,
        RequestError, Server, ServerChange,
    },
};

/// What one attempt to connect does.
#[derive(Clone, Copy)]
enum Attempt {
    Works,
    Hangs,
    Fails(&'static str),
    WantsLogin,
    /// Connects, but never sends its definitions.
    Silent,
}

/// A server whose every connection is scripted; the last attempt is repeated.
struct Scripted {
    attempts: Mutex<VecDeque<Attempt>>,
    connects: AtomicUsize,
    closes: Arc<AtomicUsize>,
    offers: Arc<Mutex<Definitions>>,
    fetches: Arc<AtomicUsize>,
    live: Mutex<Option<Arc<LiveConnection>>>,
    answer: fn(&Request) -> Answer,
}

/// How a request is answered.
enum Answer {
    Value(Value),
    Nothing,
    Dies,
    /// The server says that its schema is a different one.
    Outdated,
}

struct LiveConnection {
    offers: Arc<Mutex<Definitions>>,
    fetches: Arc<AtomicUsize>,
    closes: Arc<AtomicUsize>,
    changes: broadcast::Sender<ServerChange>,
    ended: watch::Sender<Option<String>>,
    silent: bool,
    answer: fn(&Request) -> Answer,
}

impl Scripted {
    fn new(attempts: &[Attempt], tools: &[(&str, &str)]) -> Arc<Self> {
        Arc::new(Self {
            attempts: Mutex::new(attempts.iter().copied().collect()),
            connects: AtomicUsize::new(0),
            closes: Arc::default(),
            offers: Arc::new(Mutex::new(offer(tools))),
            fetches: Arc::default(),
            live: Mutex::new(None),
            answer: |request| Answer::Value(json!({"did": request.method})),
        })
    }

    fn answering(attempts: &[Attempt], answer: fn(&Request) -> Answer) -> Arc<Self> {
        let mut scripted = Self::new(attempts, &[("say", "says")]);
        Arc::get_mut(&mut scripted).unwrap().answer = answer;
        scripted
    }

    fn offers_now(&self, tools: &[(&str, &str)]) {
        *self.offers.lock().unwrap() = offer(tools);
        let live = self.live.lock().unwrap();
        let _ = live
            .as_ref()
            .unwrap()
            .changes
            .send(ServerChange::Definitions);
    }

    fn dies(&self, why: &str) {
        let live = self.live.lock().unwrap();
        live.as_ref().unwrap().ended.send_replace(Some(why.into()));
    }

    fn connects(&self) -> usize {
        self.connects.load(Ordering::SeqCst)
    }
}

fn offer(tools: &[(&str, &str)]) -> Definitions {
    let tool = |(name, description): &(&str, &str)| json!({"name": name, "description": description, "inputSchema": {"type": "object"}});
    Definitions {
        tools: tools.iter().map(tool).collect(),
        ..Definitions::default()
    }
}

impl Connect for Scripted {
    fn connect<'a>(
        &'a self,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async move {
            self.connects.fetch_add(1, Ordering::SeqCst);
            let attempt = {
                let mut attempts = self.attempts.lock().unwrap();
                match attempts.len() {
                    0 | 1 => attempts.front().copied().unwrap_or(Attempt::Works),
                    _ => attempts.pop_front().unwrap(),
                }
            };
            let silent = match attempt {
                Attempt::Works => false,
                Attempt::Silent => true,
                Attempt::Hangs => return std::future::pending().await,
                Attempt::Fails(why) => return Err(ConnectError::Unreachable(why.into())),
                Attempt::WantsLogin => return Err(ConnectError::LoginNeeded),
            };
            let live = Arc::new(LiveConnection {
                offers: Arc::clone(&self.offers),
                fetches: Arc::clone(&self.fetches),
                closes: Arc::clone(&self.closes),
                changes: broadcast::channel(16).0,
                ended: watch::channel(None).0,
                silent,
                answer: self.answer,
            });
            *self.live.lock().unwrap() = Some(Arc::clone(&live));
            Ok(live as Arc<dyn Connection>)
        })
    }

    fn last_words(&self) -> LastWords {
        LastWords {
            stderr: "Traceback\u{1b}[31m: no module".to_owned(),
            stray: String::new(),
        }
    }
}

impl Connection for LiveConnection {
    fn era(&self) -> ProtocolEra {
        ProtocolEra::Legacy
    }

    fn under_way(&self) -> usize {
        0
    }

    fn definitions<'a>(
        &'a self,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Definitions, RequestError>> {
        Box::pin(async move {
            self.fetches.fetch_add(1, Ordering::SeqCst);
            if self.silent {
                return std::future::pending().await;
            }
            Ok(self.offers.lock().unwrap().clone())
        })
    }

    fn request<'a>(
        &'a self,
        request: Request,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Value, RequestError>> {
        Box::pin(async move {
            match (self.answer)(&request) {
                Answer::Value(value) => Ok(value),
                Answer::Nothing => tokio::select! {
                    () = cancel.cancelled() => Err(RequestError::Cancelled),
                    () = tokio::time::sleep(request.deadline) => Err(RequestError::Slow(request.deadline)),
                },
                Answer::Outdated => Err(RequestError::Outdated("no".into())),
                Answer::Dies => {
                    self.ended
                        .send_replace(Some("it exited with code 1".into()));
                    Err(RequestError::Lost("it exited with code 1".into()))
                }
            }
        })
    }

    fn changes(&self) -> broadcast::Receiver<ServerChange> {
        self.changes.subscribe()
    }

    fn closed(&self) -> BoxFuture<'_, String> {
        Box::pin(async move {
            let mut ended = self.ended.subscribe();
            let ended = ended.wait_for(Option::is_some).await.unwrap();
            ended.clone().unwrap_or_default()
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.closes.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(()))
    }
}

/// A tool made from a definition that asks its server and returns the answer.
struct AskingTool {
    name: ToolName,
    item: Item,
    server: Arc<dyn Server>,
}

impl ErasedTool for AskingTool {
    fn name(&self) -> &ToolName {
        &self.name
    }
    fn spec(&self) -> ToolSpec {
        ToolSpec::new(&self.item.key.name, "asks a server")
    }
    fn input_schema(&self) -> Value {
        json!({"type": "object"})
    }
    fn output_schema(&self) -> Value {
        json!({})
    }

    fn program_digest(&self) -> Option<[u8; 32]> {
        None
    }

    fn withheld(&self) -> Option<WithheldReason> {
        None
    }
    fn parse(&self, input: &Value) -> Result<ParsedInput, ToolError> {
        Ok(ParsedInput::new(input.clone()))
    }
    fn plan(&self, _: &ParsedInput, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }
    fn run(
        &self,
        input: ParsedInput,
        cx: CallContext<NoProgress>,
    ) -> BoxFuture<'_, Result<ToolReply, ToolError>> {
        let _ = (input, cx);
        Box::pin(async move {
            let cancel = CancellationToken::new();
            let request = call(&self.item.key.name);
            match self.server.request(request, &cancel).await {
                Ok(structured) => Ok(ToolReply {
                    content: Vec::new(),
                    structured,
                }),
                Err(error) => Err(ToolError::new(ErrorKind::Unavailable, error.to_string())),
            }
        })
    }
}

struct Making(ToolNaming);

impl MakeTools for Making {
    fn tool(&self, server: &Arc<dyn Server>, item: &Item) -> Result<Arc<dyn ErasedTool>, String> {
        let name = tool_name(server.id(), &item.key.name, self.0);
        Ok(Arc::new(AskingTool {
            name: name.map_err(|error| error.to_string())?,
            item: item.clone(),
            server: Arc::clone(server),
        }))
    }
}

fn call(tool: &str) -> Request {
    Request {
        principal: haft_testkit::principal(),
        method: "tools/call",
        parameters: json!({"name": tool, "arguments": {}}),
        deadline: Duration::from_mins(1),
        progress: None,
        client: None,
    }
}

fn origin() -> Origin {
    Origin::new(json!({"url": "https://one.example"}))
}

fn id(text: &str) -> ServerId {
    ServerId::parse(text).unwrap()
}

/// A fleet of scripted servers.
struct Bench {
    shared: SupervisorDefaults,
    fleet: Fleet,
}

impl Bench {
    fn start(servers: &[(&str, &Arc<Scripted>)], options: Options) -> Self {
        Self::start_on(shared(), servers, options, ToolNaming::Prefixed)
    }

    fn start_on(
        shared: SupervisorDefaults,
        servers: &[(&str, &Arc<Scripted>)],
        options: Options,
        naming: ToolNaming,
    ) -> Self {
        Self::start_from(shared, servers, options, naming, &origin())
    }

    fn start_from(
        shared: SupervisorDefaults,
        servers: &[(&str, &Arc<Scripted>)],
        options: Options,
        naming: ToolNaming,
        origin: &Origin,
    ) -> Self {
        let mounts = servers.iter().map(|(name, scripted)| Mount {
            server: id(name),
            naming,
            filter: Filter::default(),
            origin: origin.clone(),
            owner: CredentialOwner::local(),
            connect: Arc::clone(scripted) as Arc<dyn Connect>,
            make: Arc::new(Making(naming)),
            options,
        });
        let fleet = Fleet::start(mounts.collect(), &shared, UnseenServer::Start).unwrap();
        Self { shared, fleet }
    }

    /// Acts as a person would: looks at the server's last offer, and accepts all of it.
    fn accept(&self, server: &str) {
        accept(&*self.shared.store, server);
    }

    fn status(&self, server: &str) -> Status {
        let all = self.fleet.status();
        all.into_iter()
            .find(|one| one.server == id(server))
            .unwrap()
    }

    async fn ask(&self, server: &str, tool: &str) -> Result<Value, RequestError> {
        let server = self.fleet.server(&id(server)).unwrap();
        server.request(call(tool), &CancellationToken::new()).await
    }

    /// Waits for something that happens in the background.
    async fn until(&self, server: &str, holds: impl Fn(&Status) -> bool) -> Status {
        for _ in 0..20_000 {
            let status = self.status(server);
            if holds(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never happened: {:?}", self.status(server));
    }
}

fn shared() -> SupervisorDefaults {
    SupervisorDefaults {
        store: Arc::new(MemoryStore::default()),
        registry: Arc::new(Registry::new()),
        clock: Arc::new(SystemClock),
        changes: broadcast::channel(CHANGES_KEPT).0,
    }
}

fn accept(store: &dyn Store, server: &str) {
    let server = id(server);
    let seen = store.seen(&server, &origin()).unwrap().unwrap();
    let filter = Filter::default();
    let vetted = vet(&server, ToolNaming::Prefixed, &filter, &seen.definitions).unwrap();
    let mut change = |pins: &mut crate::pin::Pins| {
        pins.review(&vetted.items);
        for item in &vetted.items {
            pins.accept(item).unwrap();
        }
    };
    store
        .change(&server, &origin(), &vetted.items, &mut change)
        .unwrap();
}

fn listed(registry: &Registry) -> Vec<String> {
    let tools = registry.snapshot();
    let shown = tools.list(&haft_runtime::registry::Filter::default());
    shown
        .iter()
        .map(|entry| entry.key().tool.as_str().to_owned())
        .collect()
}
