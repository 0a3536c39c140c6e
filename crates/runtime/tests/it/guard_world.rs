//! What a running tool can reach beyond the workspace: only the hosts, databases, recipients and remote
//! tools that its plan names.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft_contract::{
    Access, BoxFuture, Effects, ErrorKind, Terminal, WorkPath,
    egress::Host,
    host::Ledger as _,
    ops::{
        DatabaseOps, DatabaseQuery, Fetch, FetchResponse, KeepRows, KeptByTheRuntime, MessageOps,
        NetOps, NetStream, OpsError, OutgoingMessage, PutBackRows, PutBackRun, ReadStatement,
        RemoteToolOps, RowChange, RowsPutBack, SchemaPage, SchemaQuestion, SourceSummary,
        StatementEnd, StatementEstimate, StatementReading, TakeRows, WantedRows, WebScheme, World,
    },
    outcome::DeniedBy,
};
use haft_testkit::{Harness, memory};
use serde_json::json;

use crate::scripted::Scripted;

/// Notes what is asked of it.
#[derive(Clone, Default)]
struct Reached(Arc<Mutex<Vec<String>>>);

impl Reached {
    fn note(&self, what: String) {
        self.0.lock().unwrap().push(what);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn world(&self) -> World {
        World {
            net: Arc::new(self.clone()),
            documents: World::none().documents,
            databases: Arc::new(self.clone()),
            messages: Arc::new(self.clone()),
            remote_tools: Arc::new(self.clone()),
        }
    }
}

struct Closed;

impl NetStream for Closed {
    fn read(&mut self, _: usize) -> BoxFuture<'_, Result<Vec<u8>, OpsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn write<'a>(&'a mut self, _: &'a [u8]) -> BoxFuture<'a, Result<(), OpsError>> {
        Box::pin(async { Ok(()) })
    }
}

impl NetOps for Reached {
    fn connect<'a>(
        &'a self,
        host: &'a Host,
        port: u16,
    ) -> BoxFuture<'a, Result<Box<dyn NetStream>, OpsError>> {
        self.note(format!("connect {host}:{port}"));
        Box::pin(async { Ok(Box::new(Closed) as Box<dyn NetStream>) })
    }

    fn fetch<'a>(&'a self, request: Fetch<'a>) -> BoxFuture<'a, Result<FetchResponse, OpsError>> {
        self.note(format!("fetch {}:{}", request.host, request.port));
        let fetched = FetchResponse {
            status: 200,
            headers: Vec::new(),
            body: Vec::new(),
            kept: None,
        };
        Box::pin(async { Ok(fetched) })
    }
}

/// A statement here is the words of its accesses: `read books.title`, `write stock.count`.
impl ReadStatement for Reached {
    fn sources(&self) -> Vec<SourceSummary> {
        Vec::new()
    }

    fn read_statement(&self, _: &str, statement: &str) -> Result<StatementReading, OpsError> {
        let accesses = statement.split(", ").map(|access| {
            let (verb, source) = access.split_once(' ').unwrap();
            Access::Database {
                source: source.to_owned(),
                writes: verb == "write",
            }
        });
        Ok(StatementReading {
            accesses: accesses.collect(),
            writes: statement.contains("write "),
            functions: Vec::new(),
        })
    }

    /// Of a change the table says what it touches.
    fn read_row_change(&self, change: &RowChange) -> Result<StatementReading, OpsError> {
        self.read_statement(&change.source, &change.table)
    }
}

impl DatabaseOps for Reached {
    fn query<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
        _: &'a mut dyn TakeRows,
    ) -> BoxFuture<'a, Result<StatementEnd, OpsError>> {
        self.note(format!("query {} {}", query.source, query.writes));
        Box::pin(async { Ok(StatementEnd::default()) })
    }

    fn explain<'a>(
        &'a self,
        query: DatabaseQuery<'a>,
    ) -> BoxFuture<'a, Result<StatementEstimate, OpsError>> {
        self.note(format!("explain {}", query.source));
        Box::pin(async { Ok(StatementEstimate::default()) })
    }

    fn put_back<'a>(
        &'a self,
        request: PutBackRows<'a>,
        _: &'a mut dyn KeepRows,
    ) -> BoxFuture<'a, Result<RowsPutBack, OpsError>> {
        self.note(format!("put back {:?}", request.run));
        Box::pin(async { Ok(RowsPutBack::default()) })
    }

    fn schema<'a>(
        &'a self,
        question: SchemaQuestion<'a>,
    ) -> BoxFuture<'a, Result<SchemaPage, OpsError>> {
        self.note(format!("schema {}", question.source));
        Box::pin(async { Ok(SchemaPage::default()) })
    }
}

/// Wants no rows.
struct NoRows;

impl TakeRows for NoRows {
    fn columns(&mut self, _: &[String]) {}

    fn rows(&mut self, _: Vec<Vec<serde_json::Value>>) -> BoxFuture<'_, WantedRows> {
        Box::pin(async { WantedRows::NoMore })
    }
}

impl MessageOps for Reached {
    fn send<'a>(&'a self, message: OutgoingMessage<'a>) -> BoxFuture<'a, Result<(), OpsError>> {
        self.note(format!("send {} {}", message.channel, message.target));
        Box::pin(async { Ok(()) })
    }
}

impl RemoteToolOps for Reached {
    fn admit(&self, provider: &str, tool: &str) -> Result<(), OpsError> {
        self.note(format!("remote {provider} {tool}"));
        Ok(())
    }
}

fn path(text: &str) -> WorkPath {
    WorkPath::relative(text).unwrap()
}

/// An access in words.
fn claimed(words: &[&str]) -> Access {
    let text = |word: &str| word.to_owned();
    match words {
        ["read", file] => Access::read(path(file)),
        ["tree", directory] => Access::read_tree(path(directory)),
        ["write", file] => Access::write(path(file)),
        ["run", program] => Access::argv(vec![text(program)], WorkPath::root()),
        ["connect", host, port] => Access::Host {
            host: text(host),
            port: port.parse().unwrap(),
        },
        ["query", source, writes] => Access::Database {
            source: text(source),
            writes: *writes == "true",
        },
        ["send", channel, target] => Access::Message {
            channel: text(channel),
            target: text(target),
        },
        ["remote", provider, tool] => Access::RemoteTool {
            provider: text(provider),
            tool: text(tool),
        },
        [kind, target] => Access::custom(kind, target).unwrap(),
        _ => panic!("{words:?}"),
    }
}

/// A tool whose plan names one of each, and which does what its input says.
#[expect(clippy::too_many_lines, reason = "one step for each kind of access")]
fn rogue() -> Scripted {
    let tool = Scripted::new("rogue", |input, cx| async move {
        let words: Vec<&str> = input["does"].as_str().unwrap().split(' ').collect();
        match words[..] {
            ["connect", host, port] => {
                let host = Host::parse(host).unwrap();
                drop(cx.net().connect(&host, port.parse().unwrap()).await?);
            }
            ["fetch", host, port] => {
                let host = Host::parse(host).unwrap();
                let request = Fetch {
                    method: "GET",
                    scheme: WebScheme::Plain,
                    host: &host,
                    port: port.parse().unwrap(),
                    target: "/",
                    headers: &[],
                    body: &[],
                    max_bytes: 1,
                    within: Duration::from_secs(1),
                    keep: false,
                };
                drop(cx.net().fetch(request).await?);
            }
            ["schema", source] => {
                let cancel = cx.cancel().clone();
                let question = SchemaQuestion {
                    source,
                    search: None,
                    table: None,
                    offset: 0,
                    limit: 1,
                    within: Duration::from_secs(1),
                    cancel: &cancel,
                };
                drop(cx.databases().schema(question).await?);
            }
            ["query" | "explain", source, writes, ..] => {
                // The statement, unless it is the source alone.
                let verb = if writes == "true" { "write" } else { "read" };
                let statement = match words[3..] {
                    [] => format!("{verb} {source}"),
                    ["of", ..] => words[4..].join(" "),
                    _ => panic!("{words:?}"),
                };
                let cancel = cx.cancel().clone();
                let query = DatabaseQuery {
                    source,
                    statement: &statement,
                    parameters: &[],
                    writes: writes == "true",
                    expect_rows: None,
                    within: Duration::from_secs(1),
                    cancel: &cancel,
                };
                if words[0] == "query" {
                    drop(cx.databases().query(query, &mut NoRows).await?);
                } else {
                    drop(cx.databases().explain(query).await?);
                }
            }
            ["put_back" | "look", ..] => {
                let change = RowChange {
                    source: "crm".to_owned(),
                    schema: None,
                    table: words[1..].join(" "),
                    key: Vec::new(),
                    columns: Vec::new(),
                    rows: Vec::new(),
                };
                let cancel = cx.cancel().clone();
                let request = PutBackRows {
                    change: &change,
                    run: match words[0] {
                        "look" => PutBackRun::Dry,
                        _ => PutBackRun::ForReal,
                    },
                    within: Duration::from_secs(1),
                    cancel: &cancel,
                };
                let mut keeper = KeptByTheRuntime;
                drop(cx.databases().put_back(request, &mut keeper).await?);
            }
            ["send", channel, target] => {
                let message = OutgoingMessage {
                    channel,
                    target,
                    text: "x",
                };
                cx.messages().send(message).await?;
            }
            ["remote", provider, tool] => cx.remote_tools().admit(provider, tool)?,
            ["claim", ..] => cx.claim(&claimed(&words[1..]))?,
            _ => panic!("{words:?}"),
        }
        Ok(json!("done"))
    });
    let named = |_: &serde_json::Value| {
        vec![
            Access::Host {
                host: "Example.COM".to_owned(),
                port: 443,
            },
            Access::Database {
                source: "books".to_owned(),
                writes: false,
            },
            Access::Database {
                source: "stock".to_owned(),
                writes: true,
            },
            Access::Database {
                source: "crm.users.name".to_owned(),
                writes: false,
            },
            Access::Database {
                source: "crm.orders".to_owned(),
                writes: true,
            },
            Access::Message {
                channel: "team".to_owned(),
                target: "ada".to_owned(),
            },
            Access::RemoteTool {
                provider: "mcp__wiki".to_owned(),
                tool: "search".to_owned(),
            },
            Access::custom("payment", "eur/120").unwrap(),
            Access::read_tree(path("docs")),
            Access::write(path("out")),
        ]
    };
    tool.effects(Effects::UNKNOWN).accesses(named)
}

#[tokio::test]
async fn a_tool_reaches_nothing_that_its_plan_does_not_name() {
    let reached = Reached::default();
    let (mut operations, _) = memory::operations();
    operations.world = reached.world();
    let harness = Harness::on(operations).tools(vec![rogue().tool()]).build();
    for planned in [
        "connect example.com 443",
        "fetch example.com 443",
        "query books false",
        "query stock false",
        "query stock true",
        "query crm false of read crm.users.name",
        "explain crm false of read crm.users.name, read crm.orders.total",
        "query crm true of write crm.orders.total, read crm.users.name",
        "put_back write crm.orders.total, read crm.users.name",
        "look write crm.orders.total, read crm.users.name",
        "schema books",
        "send team ada",
        "remote mcp__wiki search",
    ] {
        harness.call("rogue", json!({"does": planned})).await;
        assert_eq!(reached.take().len(), 1, "{planned}");
    }
    for unplanned in [
        "connect example.org 443",
        "connect example.com 80",
        "connect 127.0.0.1 443",
        "fetch example.org 443",
        "put_back write crm.orders.total, write crm.users.name",
        "put_back write crm.users.email",
        "look write crm.orders.total, read crm.users.email",
        "fetch example.com.evil.example 443",
        "fetch 169.254.169.254 80",
        "query books true",
        "query other false",
        "query crm false",
        "query crm false of read crm.users.email",
        "query crm false of read crm.users.*",
        "query crm false of read crm.users.names",
        "query crm true of write crm.users.name",
        // Passed as reading, and it writes what may be written.
        "query crm false of write crm.orders.total",
        // A source whose name begins like a planned one.
        "query crmx false of read crm.users.name",
        "explain crm false of read crm.users.email",
        "schema crm",
        "schema other",
        "send team bob",
        "send other ada",
        "remote mcp__wiki delete",
        "remote mcp__mail search",
    ] {
        let outcome = harness.fail("rogue", json!({"does": unplanned})).await;
        assert_eq!(outcome.terminal, Terminal::Denied, "{unplanned}");
        let kind = outcome.error.as_ref().unwrap().kind;
        assert_eq!(kind, ErrorKind::NotInPlan, "{unplanned}");
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Sandbox));
        assert_eq!(reached.take(), Vec::<String>::new(), "{unplanned}");
    }
}

/// Every host that a tool asks for anything is a source of its session, and no other host is.
#[tokio::test]
async fn a_session_has_read_from_the_hosts_that_its_tools_ask() {
    let reached = Reached::default();
    let (mut operations, _) = memory::operations();
    operations.world = reached.world();
    let harness = Harness::on(operations).tools(vec![rogue().tool()]).build();
    let sources = async || {
        let who = &harness.principal;
        let used = harness.ledger.providers_used(&who.tenant, &who.session, 9);
        let mut used: Vec<String> = used.await.unwrap();
        used.retain(|used| used.starts_with("web:"));
        used
    };
    harness
        .call("rogue", json!({"does": "query books false"}))
        .await;
    harness
        .fail("rogue", json!({"does": "fetch example.org 443"}))
        .await;
    assert_eq!(sources().await, [""; 0]);
    harness
        .call("rogue", json!({"does": "connect example.com 443"}))
        .await;
    harness
        .call("rogue", json!({"does": "fetch example.com 443"}))
        .await;
    assert_eq!(sources().await, ["web:example.com"]);
}

/// What a tool touches by means of its own is held to the plan where the tool claims it.
#[tokio::test]
async fn a_tool_claims_only_what_its_plan_names() {
    let harness = Harness::memory().tools(vec![rogue().tool()]).build();
    for planned in [
        "payment eur/120",
        "read docs/a",
        "tree docs",
        "write out",
        "read out",
        "connect EXAMPLE.com 443",
        "query books false",
        "query stock true",
        "send team ada",
        "remote mcp__wiki search",
    ] {
        let does = format!("claim {planned}");
        harness.call("rogue", json!({"does": does})).await;
    }
    for unplanned in [
        "payment eur/121",
        "payment eur/12",
        "payment eur/*",
        "transfer eur/120",
        "read secret",
        "tree .",
        "write docs/a",
        "run false",
        "connect example.com 80",
        "connect not/a/host 443",
        "query books true",
        "send team bob",
        "remote mcp__wiki delete",
    ] {
        let does = format!("claim {unplanned}");
        let outcome = harness.fail("rogue", json!({"does": does})).await;
        assert_eq!(outcome.terminal, Terminal::Denied, "{unplanned}");
        let kind = outcome.error.as_ref().unwrap().kind;
        assert_eq!(kind, ErrorKind::NotInPlan, "{unplanned}");
        assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Sandbox));
    }
}

#[tokio::test]
async fn a_workspace_without_a_world_reaches_nothing() {
    let harness = Harness::memory().tools(vec![rogue().tool()]).build();
    for planned in [
        "connect example.com 443",
        "fetch example.com 443",
        "query books false",
        "send team ada",
    ] {
        let outcome = harness.fail("rogue", json!({"does": planned})).await;
        let kind = outcome.error.as_ref().unwrap().kind;
        assert_eq!(kind, ErrorKind::Unavailable, "{planned}");
    }
}
