//! `haft mcp`: the built program spoken to as an agent does, over pipes and over HTTP.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use serde_json::{Value, json};

use crate::support::{PATIENCE, Stage};

/// The program, served over pipes.
pub(crate) struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: i64,
}

impl Agent {
    pub(crate) fn start(stage: &Stage, args: &[&str]) -> Self {
        let words: Vec<&str> = ["mcp"].iter().chain(args).copied().collect();
        Self::of(stage.command(&words))
    }

    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Self {
            child,
            stdin,
            stdout: BufReader::new(stdout),
            next_id: 1,
        }
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    pub(crate) fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        let id = self.start_request(method, parameters);
        self.answer(id)
    }

    pub(crate) fn start_request(&mut self, method: &str, parameters: &Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
        id
    }

    pub(crate) fn answer(&mut self, id: i64) -> Value {
        self.until(|message| message["id"] == json!(id))
    }

    /// Waits for a message; what comes before it is dropped.
    pub(crate) fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "a message");
            let message: Value = serde_json::from_str(&line).expect("only the protocol");
            if wanted(&message) {
                return message;
            }
        }
    }

    pub(crate) fn initialize(&mut self) {
        self.initialize_able(&json!({}));
    }

    pub(crate) fn initialize_able(&mut self, capabilities: &Value) {
        let parameters = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let began = self.ask("initialize", &parameters);
        assert_eq!(began["result"]["serverInfo"]["name"], "haft", "{began}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// Closes the input and returns what was still printed to each pipe, and the exit code.
    pub(crate) fn close(mut self) -> (String, String, i32) {
        drop(self.stdin.take());
        let (mut out, mut error) = (String::new(), String::new());
        self.stdout.read_to_string(&mut out).unwrap();
        let stderr = self.child.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut error).unwrap();
        (out, error, self.child.wait().unwrap().code().unwrap())
    }
}

/// What a command prints, a line each.
pub(crate) fn lines(stage: &Stage, args: &[&str]) -> Vec<Value> {
    let printed = stage.haft(args).ok();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    printed.lines().map(line).collect()
}

pub(crate) fn modern(parameters: Value) -> Value {
    let mut parameters = parameters;
    parameters["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    parameters
}

#[test]
fn an_agent_reads_a_file_through_pipes_in_both_eras() {
    let stage = Stage::new();
    stage.write("a.txt", "hello, agent\n");
    let call = json!({"name": "read", "arguments": {"path": "a.txt"}});
    let mut legacy = Agent::start(&stage, &["--agent", "legacy"]);
    legacy.initialize();
    let tools = legacy.ask("tools/list", &json!({}));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 12);
    let read = legacy.ask("tools/call", &call);
    assert!(read.to_string().contains("hello, agent"), "{read}");
    assert_eq!(legacy.close(), (String::new(), String::new(), 0));
    let mut newer = Agent::start(&stage, &[]);
    let read = newer.ask("tools/call", &modern(call));
    assert!(read.to_string().contains("hello, agent"), "{read}");
    assert_eq!(newer.close(), (String::new(), String::new(), 0));
    let log = lines(&stage, &["log", "--jsonl"]);
    let agents: Vec<&Value> = log.iter().map(|call| &call["agent"]).collect();
    assert_eq!(agents, ["legacy", "mcp"], "{log:?}");
}

#[test]
fn a_call_that_asks_waits_for_an_answer_from_elsewhere() {
    let stage = Stage::new();
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let write = json!({"name": "write", "arguments": {"path": "new.txt", "content": "x"}});
    let id = agent.start_request("tools/call", &write);
    let began = Instant::now();
    let question = loop {
        if let Some(question) = lines(&stage, &["approvals", "--jsonl"]).pop() {
            break question;
        }
        assert!(began.elapsed() < PATIENCE, "it asks");
    };
    let id_of_question = question["question"]
        .as_str()
        .unwrap_or_else(|| panic!("{question}"));
    let digest = question["digest"].as_str().unwrap();
    let answer = ["approve", id_of_question, "--yes", "--digest", digest];
    stage.haft(&answer).ok();
    let written = agent.answer(id);
    assert_eq!(written["result"]["isError"], json!(false), "{written}");
    assert_eq!(stage.read("new.txt"), "x");
}

#[test]
#[ignore = "ci: needs bubblewrap"]
fn a_command_ends_with_the_agent_that_ran_it() {
    let stage = Stage::with_config("[policy]\nallow = [\"bash(sleep *)\"]\n");
    let mut agent = Agent::start(&stage, &[]);
    agent.initialize();
    let sleep = json!({"name": "bash", "arguments": {"command": "sleep 100000"}});
    agent.start_request("tools/call", &sleep);
    let began = Instant::now();
    while lines(&stage, &["log", "--jsonl"]).is_empty() {
        assert!(began.elapsed() < PATIENCE, "it is on record");
    }
    let (_, error, code) = agent.close();
    assert_eq!(code, 0, "{error}");
    let log = lines(&stage, &["log", "--jsonl"]);
    assert_eq!(log[0]["outcome"], "cancelled", "{log:?}");
}

#[test]
fn what_is_no_message_is_not_answered_with_anything_else() {
    let stage = Stage::new();
    let ran = stage.haft_with(&["mcp"], "hello\n\u{1b}[2J\n[1, 2]\n");
    assert_eq!(ran.code, 0, "{}", ran.all());
    for line in ran.stdout.lines() {
        let message: Value = serde_json::from_str(line).expect("only the protocol");
        assert_eq!(message["jsonrpc"], "2.0");
    }
}

/// The program, served over HTTP.
pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
}

impl Server {
    pub(crate) fn start(stage: &Stage, args: &[&str]) -> Self {
        let words: Vec<&str> = ["mcp", "--http", "127.0.0.1:0"]
            .iter()
            .chain(args)
            .copied()
            .collect();
        let mut child = stage.command(&words).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = || {
            let mut line = String::new();
            stderr.read_line(&mut line).unwrap();
            line.trim().to_owned()
        };
        let served = line();
        let address = served.strip_prefix("serving MCP on http://");
        let address = address.unwrap_or_else(|| panic!("{served}"));
        let address = address.strip_suffix("/mcp").unwrap().to_owned();
        let token = line();
        let path = token.strip_prefix("the token is in ").unwrap();
        let mode = fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let token = fs::read_to_string(path).unwrap().trim().to_owned();
        Self {
            child,
            address,
            token,
        }
    }

    /// Sends a request as it is and returns the whole answer.
    fn raw(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    pub(crate) fn post(&self, headers: &str, body: &Value) -> String {
        let body = body.to_string();
        self.raw(&format!(
            "POST /mcp HTTP/1.1\r\nContent-Type: application/json\r\nConnection: close\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        ))
    }

    /// Ends the program as a service manager does.
    pub(crate) fn stop(mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it ends when told");
        };
        assert_eq!(status.code(), Some(0));
    }
}

impl Drop for Server {
    /// A test that fails leaves no server behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_agent_reads_a_file_over_http_with_the_token() {
    let stage = Stage::new();
    stage.write("a.txt", "hello, agent\n");
    let server = Server::start(&stage, &[]);
    assert_eq!(stage.haft(&["mcp", "token"]).ok().trim(), server.token);
    let call = json!({"name": "read", "arguments": {"path": "a.txt"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": modern(call)});
    let era = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: read\r\n";
    let host = format!("Host: {}\r\n", server.address);
    let bearer = format!("Authorization: Bearer {}\r\n", server.token);
    let answer = server.post(&format!("{host}{bearer}{era}"), &body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("hello, agent"), "{answer}");
    for (headers, status) in [
        (format!("{host}{era}"), 401),
        (format!("{host}Authorization: Bearer no\r\n{era}"), 401),
        (format!("Host: evil.test\r\n{bearer}{era}"), 403),
        (
            format!("{host}{bearer}Origin: https://evil.test\r\n{era}"),
            403,
        ),
        (format!("{host}{bearer}Origin: null\r\n{era}"), 403),
    ] {
        let answer = server.post(&headers, &body);
        let expected = format!("HTTP/1.1 {status}");
        assert!(answer.starts_with(&expected), "{headers}: {answer}");
    }
    server.stop();
    let new = stage.haft(&["mcp", "token", "--new"]).ok();
    assert_ne!(new, stage.home.display().to_string());
    assert_eq!(stage.haft(&["mcp", "token"]).ok(), new);
}

#[test]
fn a_client_that_a_call_started_is_not_asked_in_a_persons_place() {
    let stage = Stage::with_config("[mcp]\napproval_wait = 1\n");
    let told = |path: &str, command: Command| {
        let call = json!({"name": "write", "arguments": {"path": path, "content": "x"}});
        let mut parameters = modern(call);
        parameters["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({"elicitation": {"form": {}}});
        Agent::of(command).ask("tools/call", &parameters)["result"].clone()
    };
    let asked = told("a.txt", stage.command(&["mcp"]));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let mut within = stage.command(&["mcp"]);
    within.env("HAFT_PROCESS_TREE", "1");
    let refused = told("b.txt", within);
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(refused["inputRequests"].is_null(), "{refused}");
}

#[test]
fn a_call_gets_no_token_to_answer_questions_with() {
    let stage = Stage::new();
    stage.haft(&["mcp", "token"]).ok();
    let mut command = stage.command(&["mcp", "token"]);
    let ran = command.env("HAFT_PROCESS_TREE", "1").output().unwrap();
    assert!(!ran.status.success());
    assert!(ran.stdout.is_empty(), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("from within a call"), "{said}");
}

#[test]
fn an_origin_or_an_address_that_is_none_is_refused_with_a_hint() {
    let stage = Stage::new();
    let http = ["mcp", "--http", "127.0.0.1:0", "--allow-origin", "null"];
    let ran = stage.haft(&http);
    assert_eq!(ran.code, 2, "{}", ran.all());
    assert!(
        ran.stderr.contains("--allow-origin https://"),
        "{}",
        ran.all()
    );
    let server = Server::start(&stage, &[]);
    let taken = stage.haft(&["mcp", "--http", &server.address]);
    assert_eq!(taken.code, 1, "{}", taken.all());
    assert!(
        taken.stderr.contains("choose another port"),
        "{}",
        taken.all()
    );
    server.stop();
}
