//! A server with a script, as a process of its own: reached over pipes or HTTP, by Haft or by a
//! client that has no guard at all.

use std::{
    io::{BufRead as _, BufReader, Read, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::corpus::Transport;

/// How long what a script sends may take to come.
const COMES: Duration = Duration::from_secs(30);

/// How long nothing must come for it to count as silence.
const SILENCE: Duration = Duration::from_millis(500);

/// The most a client without guards reads.
const READ: usize = 64 * 1024 * 1024;

/// The program that starts one over pipes.
pub(super) fn over_pipes(script: &Path) -> Vec<String> {
    argv(script, "stdio")
}

fn argv(script: &Path, how: &str) -> Vec<String> {
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scripted.py");
    let (program, script) = (program.to_str().unwrap(), script.to_str().unwrap());
    ["/usr/bin/python3", program, script, how]
        .map(str::to_owned)
        .into()
}

/// One that runs, and ends with this.
pub(super) struct Running(Child);

impl Running {
    fn start(script: &Path, how: &str) -> Self {
        let argv = argv(script, how);
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    /// One that listens, and its port.
    pub(super) fn over_http(script: &Path) -> (Self, u16) {
        let mut running = Self::start(script, "http");
        let mut line = String::new();
        let said = running.0.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        (running, line.trim().parse().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a client without guards gets `sees` of a server when it asks for `method`; an empty
/// `sees` is that nothing comes.
pub(super) fn control(
    script: &Path,
    transport: Transport,
    method: &str,
    sees: &str,
) -> Result<(), String> {
    let parameters = json!({ "name": "t", "arguments": {}, "_meta": { "progressToken": 1 } });
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": parameters });
    let (_running, from) = match transport {
        Transport::Pipes => asked_over_pipes(script, &request),
        Transport::Http => asked_over_http(script, &request),
    };
    let got = received(from, sees.as_bytes());
    let text = String::from_utf8_lossy(&got);
    let came = text.contains(sees);
    match (sees.is_empty(), got.is_empty(), came) {
        (true, true, _) | (false, _, true) => Ok(()),
        _ => Err(format!("a client without guards got {text:.400}")),
    }
}

fn asked_over_pipes(script: &Path, request: &Value) -> (Running, Box<dyn Read + Send>) {
    let mut running = Running::start(script, "stdio");
    let mut input = running.0.stdin.take().unwrap();
    input.write_all(format!("{request}\n").as_bytes()).unwrap();
    let output = running.0.stdout.take().unwrap();
    // Its input stays open, as a client's would.
    running.0.stdin = Some(input);
    (running, Box::new(output))
}

fn asked_over_http(script: &Path, request: &Value) -> (Running, Box<dyn Read + Send>) {
    let (running, port) = Running::over_http(script);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let body = request.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).unwrap();
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if answer.read_line(&mut line).unwrap() == 0 {
            break;
        }
    }
    (running, Box::new(answer))
}

/// Everything that comes until `wanted` is among it, or nothing more comes.
fn received(mut from: Box<dyn Read + Send>, wanted: &[u8]) -> Vec<u8> {
    let (send, chunks) = mpsc::sync_channel::<Vec<u8>>(64);
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if send.send(buffer[..count].to_vec()).is_err() {
                return;
            }
        }
    });
    let patience = if wanted.is_empty() { SILENCE } else { COMES };
    let until = Instant::now() + patience;
    let mut got = Vec::new();
    while got.len() < READ {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(chunk) = chunks.recv_timeout(left) else {
            break;
        };
        let overlap = got.len().saturating_sub(wanted.len());
        got.extend(chunk);
        let found = !wanted.is_empty()
            && got[overlap..]
                .windows(wanted.len())
                .any(|part| part == wanted);
        if found {
            break;
        }
    }
    got
}
