//! A server that notes who came and what they said, and answers with a secret. In a namespace it
//! listens for every address there is.

use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, Ipv6Addr, Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use haft_testkit::PATIENCE;

/// What only somebody who reached the server can have.
pub(crate) const CANARY: &str = "canary-of-the-server-5f1c";

/// What the test itself says, to be sure that everything before it was noted.
const PROBE: &[u8] = b"probe";

/// Somebody who connected.
#[derive(Debug, Clone)]
pub(crate) struct Visit {
    /// The address they connected to.
    pub(crate) to: IpAddr,
    /// What they said.
    pub(crate) said: Vec<u8>,
    over: bool,
}

#[derive(Clone)]
pub(crate) struct Server {
    visits: Arc<(Mutex<Vec<Visit>>, Condvar)>,
    pub(crate) ports: Vec<u16>,
}

impl Server {
    /// Listens on a free port of the loopback.
    pub(crate) fn on_loopback() -> Self {
        Self::on([TcpListener::bind(("127.0.0.1", 0)).unwrap()])
    }

    /// Listens on these ports of every address.
    pub(crate) fn everywhere(ports: &[u16]) -> Self {
        let listen = |port: &u16| TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).unwrap();
        Self::on(ports.iter().map(listen))
    }

    fn on(listeners: impl IntoIterator<Item = TcpListener>) -> Self {
        let mut server = Self {
            visits: Arc::default(),
            ports: Vec::new(),
        };
        for listener in listeners {
            server.ports.push(listener.local_addr().unwrap().port());
            let visits = Self {
                visits: Arc::clone(&server.visits),
                ports: Vec::new(),
            };
            thread::spawn(move || visits.accept(&listener));
        }
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.ports[0]
    }

    /// Everybody who came until now, and forgets them.
    pub(crate) fn visits(&self, port: u16) -> Vec<Visit> {
        // Connections are accepted in order, so once this one is noted all earlier ones are.
        if self.ports.contains(&port) {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.write_all(PROBE).unwrap();
        }
        let probes = usize::from(self.ports.contains(&port));
        let (visits, changed) = &*self.visits;
        let noted = |visits: &mut Vec<Visit>| {
            let seen = visits.iter().filter(|visit| visit.said == PROBE).count();
            seen < probes || visits.iter().any(|visit| !visit.over)
        };
        let visits = visits.lock().unwrap();
        let (mut visits, late) = changed
            .wait_timeout_while(visits, 2 * PATIENCE, noted)
            .unwrap();
        assert!(!late.timed_out(), "the server is stuck: {visits:?}");
        let mut visits = std::mem::take(&mut *visits);
        visits.retain(|visit| visit.said != PROBE);
        visits
    }

    fn accept(&self, listener: &TcpListener) {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut visits = self.visits.0.lock().unwrap();
            let index = visits.len();
            visits.push(Visit {
                to: stream.local_addr().unwrap().ip(),
                said: Vec::new(),
                over: false,
            });
            drop(visits);
            let server = self.clone();
            thread::spawn(move || server.answer(stream, index));
        }
    }

    fn answer(&self, mut stream: TcpStream, index: usize) {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut said = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let count = match stream.read(&mut buffer) {
                // A machine that is frozen for a while interrupts a read that has a time limit.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(count @ 1..) => count,
                Ok(_) | Err(_) => break,
            };
            said.extend_from_slice(&buffer[..count]);
            if is_whole(&said) {
                let _ = stream.write_all(answer_to(&said).as_bytes());
                let _ = stream.shutdown(Shutdown::Write);
                break;
            }
        }
        let (visits, changed) = &*self.visits;
        let mut visits = visits.lock().unwrap();
        if let Some(visit) = visits.get_mut(index) {
            visit.said = said;
            visit.over = true;
        }
        changed.notify_all();
    }
}

/// Whether enough was said to answer.
fn is_whole(said: &[u8]) -> bool {
    let text = String::from_utf8_lossy(said);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return said.starts_with(&[0x16]) || said.ends_with(b"\n");
    };
    let head = head.to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return body.ends_with("0\r\n\r\n");
    }
    let length = head.split("content-length: ").nth(1).unwrap_or("0");
    let length: usize = length.lines().next().unwrap().trim().parse().unwrap();
    body.len() >= length
}

/// `GET /to/302/http://x` redirects, anything else gets the secret.
fn answer_to(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let path = text.split_whitespace().nth(1).unwrap_or_default();
    if let Some((code, to)) = path.strip_prefix("/to/").and_then(|to| to.split_once('/')) {
        return format!(
            "HTTP/1.1 {code} Go\r\nLocation: {to}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
    }
    let length = CANARY.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{CANARY}")
}
