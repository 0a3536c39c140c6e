//! A client over HTTP that sends one request made beforehand again and again on open connections.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

/// A request of the newest revision, as bytes.
pub(super) struct Request {
    address: String,
    bytes: Vec<u8>,
}

impl Request {
    /// A call of a tool at an address (`http://127.0.0.1:PORT/mcp`).
    pub(super) fn call(url: &str, token: Option<&str>, tool: &str, text: &str) -> Self {
        let (address, _) = url
            .strip_prefix("http://")
            .unwrap()
            .split_once('/')
            .unwrap();
        let body = json!({
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {
                "name": tool,
                "arguments": {"text": text},
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": "scoreboard", "version": "1"},
                },
            },
        })
        .to_string();
        let token = token.map_or_else(String::new, |token| {
            format!("authorization: Bearer {token}\r\n")
        });
        let text = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\n{token}content-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\n\
             mcp-method: tools/call\r\nmcp-name: {tool}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Self {
            address: address.to_owned(),
            bytes: text.into_bytes(),
        }
    }

    /// Sends it on one connection for a while; the time each took.
    pub(super) fn alone(&self, slice: Duration) -> Vec<f64> {
        let mut connection = Connection::open(&self.address);
        let began = Instant::now();
        let mut times = Vec::new();
        while began.elapsed() < slice || times.is_empty() {
            let sent = Instant::now();
            connection.send(&self.bytes);
            times.push(sent.elapsed().as_secs_f64());
        }
        times
    }

    /// Sends it on so many connections for a while; answers a second.
    pub(super) fn together(&self, connections: usize, slice: Duration) -> f64 {
        let began = Instant::now();
        let count: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..connections)
                .map(|_| scope.spawn(|| self.alone(slice).len()))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        count as f64 / began.elapsed().as_secs_f64()
    }
}

struct Connection {
    reader: BufReader<TcpStream>,
    body: Vec<u8>,
}

impl Connection {
    fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            reader: BufReader::new(stream),
            body: Vec::new(),
        }
    }

    /// One turn, whose answer must be a result.
    fn send(&mut self, request: &[u8]) {
        self.reader.get_mut().write_all(request).unwrap();
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        let answered = line.starts_with("HTTP/1.1 200");
        let mut length = 0;
        loop {
            let mut header = String::new();
            self.reader.read_line(&mut header).unwrap();
            if header.trim().is_empty() {
                break;
            }
            if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        self.body.resize(length, 0);
        self.reader.read_exact(&mut self.body).unwrap();
        let body = String::from_utf8_lossy(&self.body);
        assert!(
            answered && body.contains("\"content\"") && !body.contains("\"isError\":true"),
            "{line}{body}"
        );
    }
}
