//! A client of the server edge in either era, over pipes or HTTP, that hears what belongs to each of
//! its requests and can give up on one in every way its transport has.

use std::collections::HashMap;

use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use crate::server::{
    web::{TOKEN, Web},
    wire::{Era, PATIENCE, Wire},
};

/// How a client reaches the endpoint, or Haft a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Pipes,
    Http,
}

impl Over {
    pub(crate) const BOTH: [Self; 2] = [Self::Pipes, Self::Http];
}

/// A client.
pub(crate) enum Caller {
    Pipes(Box<Wire>),
    Http(Http),
}

/// A client over HTTP.
pub(crate) struct Http {
    web: Web,
    /// The session of the older era.
    session: Option<String>,
    next_id: i64,
    streams: HashMap<i64, Stream>,
}

/// A request over HTTP and what comes back on it. Dropped, it is closed.
struct Stream {
    messages: mpsc::Receiver<Value>,
    reading: JoinHandle<()>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Caller {
    pub(crate) fn over_pipes(wire: Wire) -> Self {
        Self::Pipes(Box::new(wire))
    }

    pub(crate) async fn over_http(web: &Web, era: Era) -> Self {
        let web = web.afresh();
        let session = match era {
            Era::Legacy => Some(web.begin().await),
            Era::Modern => None,
        };
        Self::Http(Http {
            web,
            session,
            next_id: 10,
            streams: HashMap::new(),
        })
    }

    /// Begins to call a tool; the request's id. Progress is asked for with a token.
    pub(crate) async fn start(&mut self, tool: &str, arguments: Value, token: Option<&str>) -> i64 {
        let mut parameters = json!({"name": tool, "arguments": arguments});
        if let Some(token) = token {
            parameters["_meta"] = json!({"progressToken": token});
        }
        match self {
            Self::Pipes(wire) => wire.start("tools/call", parameters).await,
            Self::Http(http) => http.start(parameters),
        }
    }

    /// The next message that belongs to a request, or to nobody.
    pub(crate) async fn next(&mut self, id: i64) -> Value {
        match self {
            Self::Pipes(wire) => wire.next().await.expect("a message"),
            Self::Http(http) => {
                let stream = http.streams.get_mut(&id).expect("a request under way");
                let message = timeout(PATIENCE, stream.messages.recv()).await;
                message.expect("a message in time").expect("a message")
            }
        }
    }

    /// Everything up to the answer of a request, and the answer.
    pub(crate) async fn answer(&mut self, id: i64) -> (Vec<Value>, Value) {
        let mut heard = Vec::new();
        loop {
            let message = self.next(id).await;
            if message["id"] == json!(id) && message.get("method").is_none() {
                if let Self::Http(http) = self {
                    http.streams.remove(&id);
                }
                return (heard, message);
            }
            heard.push(message);
        }
    }

    /// Calls a tool and returns what it said, which must be text.
    pub(crate) async fn said(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.start(tool, arguments, None).await;
        let (_, answer) = self.answer(id).await;
        let text = &answer["result"]["content"][0]["text"];
        text.as_str()
            .unwrap_or_else(|| panic!("{answer}"))
            .to_owned()
    }

    /// Says that a request is not wanted any more, as its era and transport do: by a notification,
    /// or by closing its stream.
    pub(crate) async fn cancel(&mut self, id: i64) {
        let cancelled = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
            "params": {"requestId": id, "reason": "enough"}});
        match self {
            Self::Pipes(wire) => wire.send(cancelled).await,
            Self::Http(http) => {
                if let Some(session) = &http.session {
                    let told = http.web.in_session(session, &cancelled).send().await;
                    assert_eq!(told.unwrap().status(), 202);
                }
                http.streams.remove(&id);
            }
        }
    }

    /// Goes away with a word: over HTTP in the older era the session is ended. A client that is
    /// dropped goes without.
    pub(crate) async fn leave(self) {
        if let Self::Http(http) = &self
            && let Some(session) = &http.session
        {
            let url = http.web.url();
            let ended = http.web.client.delete(url).bearer_auth(TOKEN);
            let ended = ended.header("mcp-session-id", session).send().await;
            assert!(ended.unwrap().status().is_success());
        }
    }
}

impl Http {
    fn start(&mut self, parameters: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        let request = match &self.session {
            None => self.web.modern_as(id, "tools/call", parameters),
            Some(session) => {
                let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
                    "params": parameters});
                self.web.in_session(session, &body)
            }
        };
        let (tell, messages) = mpsc::channel(64);
        let reading = tokio::spawn(async move {
            let mut response = request.send().await.unwrap();
            let mut text = String::new();
            while let Some(chunk) = response.chunk().await.unwrap() {
                text.push_str(std::str::from_utf8(&chunk).unwrap());
                while let Some(end) = text.find('\n') {
                    let line: String = text.drain(..=end).collect();
                    pass_on(&line, &tell).await;
                }
            }
            pass_on(&text, &tell).await;
        });
        self.streams.insert(id, Stream { messages, reading });
        id
    }
}

/// Passes on the message of a line: of an event, or a body that is one.
async fn pass_on(line: &str, tell: &mpsc::Sender<Value>) {
    let line = line.strip_prefix("data:").unwrap_or(line).trim();
    if let Ok(message) = serde_json::from_str::<Value>(line)
        && message.is_object()
    {
        let _ = tell.send(message).await;
    }
}
