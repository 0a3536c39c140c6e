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

/// How long what a script sends is waited for.
const COMES: Duration = haft_testkit::PATIENCE;

/// How long nothing must come for it to count as silence.
const SILENCE: Duration = Duration::from_millis(500);

/// The id of the request behind one that is not answered.
const NEXT: &str = "the next request";

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
    // Silence counts from when the server has the request: it answers the next one, or is gone.
    let next = json!({ "jsonrpc": "2.0", "id": NEXT, "method": "ping" });
    let mut requests = vec![request];
    requests.extend(sees.is_empty().then_some(next));
    let (_running, mut coming) = match transport {
        Transport::Pipes => asked_over_pipes(script, &requests),
        Transport::Http => asked_over_http(script, &requests),
    };
    let right = if sees.is_empty() {
        coming.until(NEXT.as_bytes(), COMES);
        coming.for_a_while(SILENCE);
        let text = String::from_utf8_lossy(&coming.got);
        let mut lines = text.lines().filter(|line| !line.is_empty());
        lines.all(|line| line.contains(NEXT))
    } else {
        coming.until(sees.as_bytes(), COMES)
    };
    if right {
        return Ok(());
    }
    let (bytes, text) = (coming.got.len(), String::from_utf8_lossy(&coming.got));
    Err(format!(
        "a client without guards got {bytes} bytes: {text:.400}"
    ))
}

fn asked_over_pipes(script: &Path, requests: &[Value]) -> (Running, Coming) {
    let mut running = Running::start(script, "stdio");
    let mut input = running.0.stdin.take().unwrap();
    for request in requests {
        // One that ended at the first hears no second.
        let _ = writeln!(input, "{request}");
    }
    let output = running.0.stdout.take().unwrap();
    // Its input stays open, as a client's would.
    running.0.stdin = Some(input);
    (running, Coming::of(vec![Box::new(output)]))
}

/// Asks each on a connection of its own.
fn asked_over_http(script: &Path, requests: &[Value]) -> (Running, Coming) {
    let (running, port) = Running::over_http(script);
    let answers = requests
        .iter()
        .map(|request| match answered(port, request) {
            Ok(answer) => answer,
            // It is gone, which says as much as the end of an answer.
            Err(_) => Box::new(std::io::empty()),
        });
    let coming = Coming::of(answers.collect());
    (running, coming)
}

/// The answer to a request, without its head.
fn answered(port: u16, request: &Value) -> std::io::Result<Box<dyn Read + Send>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let body = request.to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        if answer.read_line(&mut line)? == 0 {
            break;
        }
    }
    Ok(Box::new(answer))
}

/// What comes of a server, as it comes.
struct Coming {
    chunks: mpsc::Receiver<Vec<u8>>,
    got: Vec<u8>,
}

impl Coming {
    fn of(sources: Vec<Box<dyn Read + Send>>) -> Self {
        let (send, chunks) = mpsc::sync_channel::<Vec<u8>>(64);
        for mut from in sources {
            let send = send.clone();
            thread::spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(count @ 1..) = from.read(&mut buffer) {
                    if send.send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
            });
        }
        let got = Vec::new();
        Self { chunks, got }
    }

    /// Reads until this is among it; false if it is not by then, or nothing more can come.
    ///
    /// Every byte is compared once, however small the pieces are: what is wanted can be seventeen
    /// megabytes, and a machine that is slow sends them in thousands of pieces.
    fn until(&mut self, wanted: &[u8], patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let (mut start, mut same) = (0, 0);
        while self.got.len() < READ {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(chunk) = self.chunks.recv_timeout(left) else {
                return false;
            };
            self.got.extend(chunk);
            while let Some(byte) = self.got.get(start + same) {
                if *byte != wanted[same] {
                    (start, same) = (start + 1, 0);
                    continue;
                }
                same += 1;
                if same == wanted.len() {
                    return true;
                }
            }
        }
        false
    }

    /// Reads whatever comes for so long.
    fn for_a_while(&mut self, patience: Duration) {
        let until = Instant::now() + patience;
        while self.got.len() < READ {
            let left = until.saturating_duration_since(Instant::now());
            match self.chunks.recv_timeout(left) {
                Ok(chunk) => self.got.extend(chunk),
                Err(_) => return,
            }
        }
    }
}
