//! Answers that are lost on their way, or that have no end: what the client makes of them, against real
//! servers on this machine.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
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
use miniz_oxide::deflate::compress_to_vec;
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

/// Writes this again and again, and says when nobody takes it any more. Not as fast as a loopback can:
/// a machine that does nothing but read it would come to nothing else.
fn endlessly(stream: &mut TcpStream, piece: &[u8], ended: &mpsc::Sender<()>) -> bool {
    while stream.write_all(piece).is_ok() {
        thread::sleep(Duration::from_millis(1));
    }
    ended.send(()).unwrap();
    false
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_without_end_ends_at_a_limit() {
    let server = Server::start(|path, stream| {
        let head = match path {
            "/many" => "a: b\r\n".repeat(101),
            _ => format!("a: {}\r\n", "b".repeat(1024 * 1024)),
        };
        let answer = format!("HTTP/1.1 200 OK\r\n{head}content-length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).is_ok()
    });
    let network = server.network();
    for path in ["/many", "/long"] {
        let refused = server.fetch(&network, path, PATIENCE).await.unwrap_err();
        assert_eq!(
            refused.kind(),
            ErrorKind::LimitExceeded,
            "{path}: {refused}"
        );
        assert!(refused.message().contains("headers"), "{refused}");
    }
    assert_eq!(server.asked(), ["/many", "/long"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_before_the_answer_end_with_the_time() {
    let (ended, end) = mpsc::channel();
    let server = Server::start(move |_, stream| {
        endlessly(
            stream,
            b"HTTP/1.1 103 Early Hints\r\nlink: <a>\r\n\r\n",
            &ended,
        )
    });
    let within = Duration::from_millis(500);
    let late = server.fetch(&server.network(), "/", within).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::TimedOut);
    end.recv_timeout(PATIENCE).expect("nobody reads on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_a_compressed_body_is_not_read() {
    let (ended, end) = mpsc::channel();
    let server = Server::start(move |path, stream| {
        let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
        let body = match path {
            "/nothing" => Vec::new(),
            _ => gzip(b"a page"),
        };
        let again = match path {
            "/garbage" => vec![b'x'; 4096],
            _ => gzip(b"").repeat(100),
        };
        stream.write_all(&[&head[..], &body].concat()).unwrap();
        endlessly(stream, &again, &ended)
    });
    let network = server.network();
    let page = server.fetch(&network, "/garbage", PATIENCE).await.unwrap();
    assert_eq!(page.body, b"a page");
    end.recv_timeout(PATIENCE).expect("nobody reads on");
    let endless = server.fetch(&network, "/nothing", PATIENCE).await;
    assert_eq!(endless.unwrap_err().kind(), ErrorKind::Unavailable);
    end.recv_timeout(PATIENCE).expect("nobody reads on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_body_that_is_cut_off_is_no_body() {
    let server = Server::start(|path, stream| {
        let whole = gzip(&b"a page that is long enough to be cut".repeat(100));
        let end = whole.len() - path.trim_start_matches('/').parse::<usize>().unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n";
        stream
            .write_all(&[&head[..], &whole[..end]].concat())
            .unwrap();
        false
    });
    let network = server.network();
    for missing in ["/1", "/8", "/30"] {
        let cut = server.fetch(&network, missing, PATIENCE).await.unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::Unavailable, "{missing}");
        assert!(cut.message().contains("ends in the middle"), "{cut}");
    }
    assert!(server.fetch(&network, "/0", PATIENCE).await.is_ok());
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    [&head[..], &compress_to_vec(bytes, 6), &[0; 8]].concat()
}
