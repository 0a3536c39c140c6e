//! The network operations of a workspace, against real servers on this machine, and a tool that is held
//! to its plan on the way to them.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft_contract::{
    Access, CallContext, Effects, ErrorKind, NoProgress, Plan, PlanContext, Tool, ToolError,
    ToolSpec,
    egress::{EgressRules, Host, HostRule},
    erased::erase,
    ops::{Fetch, NetOps, WebScheme, World},
};
use haft_egress::{AdmissionScope, Network, OwnHosts, SystemResolver};
use haft_testkit::{Harness, memory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{Names, Script};

/// A server that counts who comes and answers everybody alike.
struct Server {
    at: SocketAddr,
    visits: Arc<AtomicUsize>,
}

impl Server {
    fn start(answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (at, visits) = (
            listener.local_addr().unwrap(),
            Arc::new(AtomicUsize::new(0)),
        );
        let counted = Arc::clone(&visits);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                counted.fetch_add(1, Ordering::SeqCst);
                // What is asked is of no interest; a head fits into this.
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { at, visits }
    }

    fn visits(&self) -> usize {
        self.visits.load(Ordering::SeqCst)
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nx-kind: test\r\n\r\nhello";
const ELSEWHERE: &str =
    "HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n";

fn loopback() -> Host {
    Host::parse("127.0.0.1").unwrap()
}

fn fetch(host: &Host, port: u16) -> Fetch<'_> {
    Fetch {
        method: "GET",
        scheme: WebScheme::Plain,
        host,
        port,
        target: "/a?b=c",
        headers: &[],
        body: &[],
        max_bytes: 1024,
        within: Duration::from_secs(20),
        keep: false,
    }
}

fn allowing(ports: &[u16]) -> Network {
    let rule = |port: &u16| HostRule::exact(loopback(), *port);
    let rules = EgressRules {
        allow: ports.iter().map(rule).collect(),
        deny: Vec::new(),
    };
    Network::new(
        AdmissionScope::Rules(Arc::new(rules)),
        Arc::new(SystemResolver::default()),
    )
}

#[tokio::test]
async fn what_is_allowed_answers_within_its_limits() {
    let (server, redirects) = (Server::start(HELLO), Server::start(ELSEWHERE));
    // Takes connections and never says a word.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = listener.local_addr().unwrap().port();
    let network = allowing(&[server.at.port(), redirects.at.port(), silent]);
    let host = loopback();
    let answer = network.fetch(fetch(&host, server.at.port())).await.unwrap();
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (200, &b"hello"[..])
    );
    assert!(
        answer
            .headers
            .contains(&("x-kind".to_owned(), "test".to_owned()))
    );
    let mut stream = network.connect(&host, server.at.port()).await.unwrap();
    stream.write(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    assert!(!stream.read(4096).await.unwrap().is_empty());
    let small = Fetch {
        max_bytes: 4,
        ..fetch(&host, server.at.port())
    };
    let refused = network.fetch(small).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LimitExceeded);
    // A redirect is an answer, and nobody follows it.
    let answer = network
        .fetch(fetch(&host, redirects.at.port()))
        .await
        .unwrap();
    assert_eq!(answer.status, 302);
    let hurried = Fetch {
        within: Duration::from_millis(50),
        ..fetch(&host, silent)
    };
    let late = network.fetch(hurried).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut);
    drop(listener);
}

#[tokio::test]
async fn what_is_not_allowed_is_not_connected_to() {
    let server = Server::start(HELLO);
    let (host, port) = (loopback(), server.at.port());
    let public = Network::new(
        AdmissionScope::Public(OwnHosts::default()),
        Arc::new(SystemResolver::default()),
    );
    for network in [allowing(&[443]), public] {
        let denied = network.fetch(fetch(&host, port)).await.unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
        let denied = network.connect(&host, port).await.err().unwrap();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    }
    let named = [("Host".to_owned(), "other".to_owned())];
    let other_host = Fetch {
        headers: &named,
        ..fetch(&host, port)
    };
    let refused = allowing(&[port]).fetch(other_host).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert_eq!(server.visits(), 0);
}

/// Plans one port and fetches from another.
#[derive(Debug, Clone, Copy)]
struct Wanderer;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    planned: u16,
    fetched: u16,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Output {
    status: u16,
}

impl Tool for Wanderer {
    type Input = Input;
    type Output = Output;
    type Progress = NoProgress;
    const NAME: &'static str = "wanderer";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new(
            "Wanderer",
            "Fetches. Use it to test; do not use it for work.",
        )
    }

    fn plan(&self, input: &Input, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::new(Effects::READ_ONLY).access(Access::Host {
            host: "127.0.0.1".to_owned(),
            port: input.planned,
        }))
    }

    async fn run(&self, input: Input, cx: CallContext<NoProgress>) -> Result<Output, ToolError> {
        let host = loopback();
        let answer = cx.net().fetch(fetch(&host, input.fetched)).await?;
        Ok(Output {
            status: answer.status,
        })
    }
}

#[tokio::test]
async fn a_tool_fetches_only_what_its_plan_names() {
    let (planned, other) = (Server::start(HELLO), Server::start(HELLO));
    let (mut operations, _) = memory::operations();
    let both = [planned.at.port(), other.at.port()];
    operations.world = World {
        net: Arc::new(allowing(&both)),
        ..World::none()
    };
    let harness = Harness::on(operations)
        .tools(vec![erase(Wanderer).unwrap()])
        .build();
    let (planned_port, other_port) = (planned.at.port(), other.at.port());
    let honest = json!({ "planned": planned_port, "fetched": planned_port });
    harness.call("wanderer", honest).await;
    assert_eq!((planned.visits(), other.visits()), (1, 0));
    let rogue = json!({ "planned": planned_port, "fetched": other_port });
    let outcome = harness.fail("wanderer", rogue).await;
    assert_eq!(outcome.error.as_ref().unwrap().kind, ErrorKind::NotInPlan);
    assert_eq!((planned.visits(), other.visits()), (1, 0));
}

/// An address that rules deny is not reached by another form of it, by a name, or over a connection that was
/// kept open for somebody whom no rule denies it.
#[tokio::test]
async fn a_denied_address_is_denied_by_whatever_name() {
    let server = Server::start(HELLO);
    let port = server.at.port();
    let leads_to = |name: &str, address: &str| {
        (
            name.to_owned(),
            vec![vec![address.parse::<IpAddr>().unwrap()]],
        )
    };
    let names = Names::from([
        leads_to("plain.example", "127.0.0.1"),
        leads_to("mapped.example", "::ffff:127.0.0.1"),
        leads_to("translated.example", "64:ff9b::127.0.0.1"),
        leads_to("tunnelled.example", "2002:7f00:1::1"),
    ]);
    let hosts = [
        "plain.example",
        "mapped.example",
        "translated.example",
        "tunnelled.example",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "127.0.0.1",
    ];
    let hosts = hosts.map(|host| Host::parse(host).unwrap());
    let own = OwnHosts {
        exact: hosts
            .iter()
            .map(|host| HostRule::exact(host.clone(), port))
            .collect(),
        ..OwnHosts::default()
    };
    let network = Network::new(AdmissionScope::Public(own), Script::new(&names));
    let denied = [IpAddr::from([127, 0, 0, 1])];
    network.fetch(fetch(&hosts[0], port)).await.unwrap();
    let visits = server.visits();
    for host in &hosts {
        let refused = network.fetch_unless(&denied, fetch(host, port)).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Denied, "{host}");
        assert!(
            refused.message().contains("which a rule denies"),
            "{refused}"
        );
        let refused = network.connect_unless(&denied, host, port).await;
        assert_eq!(refused.err().unwrap().kind(), ErrorKind::Denied, "{host}");
    }
    assert_eq!(server.visits(), visits);
    let others = [IpAddr::from([127, 0, 0, 2])];
    let answer = network.fetch_unless(&others, fetch(&hosts[0], port)).await;
    assert_eq!(answer.unwrap().body, b"hello");
}
