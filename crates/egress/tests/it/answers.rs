//! Answers that are lost on their way: what the client makes of them, against real servers on this
//! machine.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use haft_contract::{
    ErrorKind,
    egress::{Host, HostRule},
    ops::{Fetch, FetchResponse, NetOps as _, OpsError, WebScheme},
};
use haft_egress::{AdmissionScope, Network, OwnHosts, SystemResolver};
use haft_testkit::PATIENCE;
use haft_tools::web::web_fetch::WebFetchConfig;
use serde_json::json;

use crate::web::at_home;

const HELLO: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 5\r\n\r\nhello";

/// A server that keeps its connections open and notes what it is asked for.
struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each path with this; with nothing, it closes the connection.
    fn start(answer: impl Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            asked: Arc::default(),
            connections: Arc::default(),
        };
        let (asked, connections) = (Arc::clone(&server.asked), Arc::clone(&server.connections));
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (mut stream, answer) = (stream.unwrap(), Arc::clone(&answer));
                let asked = Arc::clone(&asked);
                thread::spawn(move || {
                    while let Some(path) = next_path(&mut stream) {
                        asked.lock().unwrap().push(path.clone());
                        if !answer(&path, &mut stream) {
                            return;
                        }
                    }
                });
            }
        });
        server
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn network(&self) -> Network {
        let exact = HostRule::exact(loopback(), self.port);
        let own = OwnHosts {
            exact: vec![exact],
            ..OwnHosts::default()
        };
        let resolver = Arc::new(SystemResolver::default());
        Network::new(AdmissionScope::Public(own), resolver)
    }

    async fn fetch(
        &self,
        network: &Network,
        path: &str,
        within: Duration,
    ) -> Result<FetchResponse, OpsError> {
        let fetch = Fetch {
            method: "GET",
            scheme: WebScheme::Plain,
            host: &loopback(),
            port: self.port,
            target: path,
            headers: &[],
            body: &[],
            max_bytes: 1024 * 1024,
            within,
            keep: false,
        };
        network.fetch(fetch).await
    }
}

fn loopback() -> Host {
    Host::parse("127.0.0.1").unwrap()
}

/// The path of the next request on a connection; `None` once there is none.
fn next_path(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    let head = String::from_utf8(head).unwrap();
    head.split(' ').nth(1).map(str::to_owned)
}

/// A server that answers `/lost` by closing the connection.
fn loses_some() -> Server {
    Server::start(|path, stream| path != "/lost" && stream.write_all(HELLO).is_ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_may_have_been_seen_is_not_sent_again() {
    let server = loses_some();
    let network = server.network();
    server.fetch(&network, "/first", PATIENCE).await.unwrap();
    let lost = server.fetch(&network, "/lost", PATIENCE).await;
    assert_eq!(lost.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(server.asked(), ["/first", "/lost"]);
    assert_eq!(server.connections.load(Ordering::SeqCst), 1, "it was kept");
    server.fetch(&network, "/after", PATIENCE).await.unwrap();
    assert_eq!(server.asked(), ["/first", "/lost", "/after"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_was_lost_is_fetched_again_by_another_call_only() {
    let server = loses_some();
    let harness = at_home(&[server.port], WebFetchConfig::default()).build();
    let url = |path: &str| json!({ "url": format!("http://127.0.0.1:{}{path}", server.port) });
    harness.succeed("web_fetch", url("/first")).await;
    let lost = harness.fail("web_fetch", url("/lost")).await;
    assert_eq!(lost.error.as_ref().unwrap().kind, ErrorKind::Lost);
    let said = lost.model_text();
    assert!(said.contains("may have seen the request"), "{said}");
    assert_eq!(server.asked(), ["/first", "/lost"]);
}
