//! A client that speaks the protocol in plain JSON, so that tests see what is sent and not what a
//! library makes of it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf,
        WriteHalf,
    },
    time::timeout,
};

/// How long anything in these tests may take.
pub(crate) const PATIENCE: Duration = haft_testkit::PATIENCE;

/// Which protocol the client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) const BOTH: [Self; 2] = [Self::Legacy, Self::Modern];
}

/// A client over a pipe.
pub(crate) struct Wire {
    era: Era,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: Option<WriteHalf<DuplexStream>>,
    next_id: i64,
    capabilities: Value,
    /// Notifications that came while something else was waited for.
    pub(crate) heard: Vec<Value>,
}

/// The metadata of a request that stands for itself.
pub(crate) fn meta(capabilities: &Value) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    })
}

impl Wire {
    /// Begins as its era begins.
    pub(crate) async fn begin(stream: DuplexStream, era: Era, capabilities: Value) -> Self {
        let version = match era {
            Era::Legacy => "2025-11-25",
            Era::Modern => "2026-07-28",
        };
        Self::begin_at(stream, version, capabilities).await
    }

    /// Begins as this version of the protocol begins.
    pub(crate) async fn begin_at(stream: DuplexStream, version: &str, capabilities: Value) -> Self {
        let era = match version {
            "2026-07-28" => Era::Modern,
            _ => Era::Legacy,
        };
        let (read, write) = tokio::io::split(stream);
        let mut wire = Self {
            era,
            lines: BufReader::new(read).lines(),
            write: Some(write),
            next_id: 1,
            capabilities,
            heard: Vec::new(),
        };
        match era {
            Era::Legacy => {
                let parameters = json!({
                    "protocolVersion": version,
                    "capabilities": wire.capabilities,
                    "clientInfo": {"name": "test", "version": "1"},
                });
                let began = wire.ask("initialize", parameters).await;
                assert_eq!(began["result"]["protocolVersion"], version, "{began}");
                wire.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
                    .await;
            }
            Era::Modern => {
                let found = wire.ask("server/discover", json!({})).await;
                let versions = &found["result"]["supportedVersions"];
                assert!(versions.to_string().contains("2026-07-28"), "{found}");
            }
        }
        wire
    }

    /// Sends a message.
    pub(crate) async fn send(&mut self, message: Value) {
        let line = format!("{message}\n");
        let write = self.write.as_mut().expect("the client is still there");
        write.write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a request and returns its id.
    pub(crate) async fn start(&mut self, method: &str, mut parameters: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        if self.era == Era::Modern {
            let given = parameters["_meta"].take();
            let mut meta = meta(&self.capabilities);
            for (key, value) in given.as_object().into_iter().flatten() {
                meta[key] = value.clone();
            }
            parameters["_meta"] = meta;
        }
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}))
            .await;
        id
    }

    /// The next message, whatever it is; none once the server closed.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a message in time").unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The answer to a request; what else comes is kept.
    pub(crate) async fn answer(&mut self, id: i64) -> Value {
        loop {
            let message = self.next().await.expect("an answer");
            if message["id"] == json!(id) && message.get("method").is_none() {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(&mut self, method: &str, parameters: Value) -> Value {
        let id = self.start(method, parameters).await;
        self.answer(id).await
    }

    /// Calls a tool and returns its result.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let parameters = json!({"name": tool, "arguments": arguments});
        let answer = self.ask("tools/call", parameters).await;
        assert!(answer.get("result").is_some(), "{answer}");
        answer["result"].clone()
    }

    /// The next message with this method.
    pub(crate) async fn hear(&mut self, method: &str) -> Value {
        if let Some(at) = self.heard.iter().position(|it| it["method"] == method) {
            return self.heard.remove(at);
        }
        loop {
            let message = self.next().await.expect("a message");
            if message["method"] == method {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Closes the client's side, and keeps reading.
    pub(crate) async fn close(&mut self) {
        if let Some(mut write) = self.write.take() {
            write.shutdown().await.unwrap();
        }
    }
}
