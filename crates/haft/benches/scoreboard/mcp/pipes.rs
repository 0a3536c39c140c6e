//! A client over pipes that sends lines made beforehand and looks at answers no closer than it must.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdin, ChildStdout, Command},
};

use serde_json::{Value, json};

use super::program::RunningProgram;

/// A server and the pipes to it.
pub(super) struct Pipes {
    pub(super) server: RunningProgram,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Pipes {
    /// Starts a server and begins the conversation.
    pub(super) fn open(command: &mut Command) -> Self {
        let mut server = RunningProgram::start(command);
        let input = server.0.stdin.take().unwrap();
        let output = BufReader::new(server.0.stdout.take().unwrap());
        let mut pipes = Self {
            server,
            input,
            output,
            line: String::new(),
        };
        let began = pipes.ask(&request(
            0,
            "initialize",
            &json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "scoreboard", "version": "1"},
            }),
        ));
        assert!(began.contains("protocolVersion"), "{began}");
        pipes.send("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
        pipes
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&mut self, line: &str) -> &str {
        self.send(line);
        self.answer()
    }

    /// Sends requests with ids of their own, so many on their way at a time.
    pub(super) fn ask_many(&mut self, lines: &[String], at_once: usize) {
        let mut waiting = lines.iter();
        waiting
            .by_ref()
            .take(at_once)
            .for_each(|line| self.send(line));
        for _ in lines {
            let answer = self.answer();
            assert!(
                answer.contains("\"result\"") && !answer.contains("\"isError\":true"),
                "{answer}"
            );
            if let Some(line) = waiting.next() {
                self.send(line);
            }
        }
    }

    fn send(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).unwrap();
    }

    /// The next line that answers something; notifications are passed over.
    fn answer(&mut self) -> &str {
        loop {
            self.line.clear();
            assert!(
                self.output.read_line(&mut self.line).unwrap() > 0,
                "the server ended"
            );
            if self.line.contains("\"id\":") && !self.line.contains("\"method\":") {
                return &self.line;
            }
        }
    }
}

/// A request as a line.
pub(super) fn request(id: usize, method: &str, parameters: &Value) -> String {
    let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters});
    format!("{request}\n")
}
