//! A model that follows a script and records what it was offered and given.
//!
//! Its answer depends on the conversation the agent sends, not on how often it asks: an agent that
//! repeats a request gets the same answer. Requests outside the conversation (a title, a check of
//! the key) are answered without advancing the script.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::{Value, json};

use crate::http::{self, Reply, Request};

/// What the model says when the script is finished.
pub const DONE: &str = "the script is done";

/// The API an agent uses to reach its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    Responses,
    /// OpenAI's Chat Completions API, which many others use too.
    Chat,
    /// Google's Gemini API.
    Gemini,
}

/// One turn of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// It calls tools of Haft.
    Call(Vec<ToolCall>),
    /// It says something and ends its turn.
    Say(String),
}

/// A tool call, by Haft's name for the tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    pub input: Value,
}

/// A tool as it was offered to the model.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// The name the model uses for it.
    pub name: String,
    /// The group of tools it belongs to, if the provider has groups.
    pub namespace: Option<String>,
    /// The whole definition as sent.
    pub definition: Value,
}

/// What a model was given for one call.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenResult {
    /// Its text.
    pub text: String,
    /// How many images came with it.
    pub images: usize,
}

/// A scripted model that listens on loopback.
#[derive(Debug, Clone)]
pub struct Model {
    address: SocketAddr,
    wire: Wire,
    seen: Arc<Mutex<SeenRequests>>,
}

#[derive(Debug, Default)]
struct SeenRequests {
    offered: Vec<Vec<OfferedTool>>,
    given: Vec<GivenResult>,
    prompts: Vec<Value>,
    strange: Vec<String>,
}

/// What an agent's request contains.
struct Conversation {
    /// How many model turns it holds.
    turns: usize,
    offered: Vec<OfferedTool>,
    given: Vec<GivenResult>,
}

/// A turn ready for the wire: each call has the offered tool's name.
enum SpokenTurn<'t> {
    Calls(Vec<(OfferedTool, Value)>),
    Text(&'t str),
}

/// What the model says when it is offered no tool of Haft: to a request outside the conversation,
/// or to an agent that is still starting.
pub const BESIDE_THE_SCRIPT: &str = "beside the script";

impl Turn {
    /// A turn with one call.
    pub fn call(tool: &str, input: Value) -> Self {
        Self::Call(vec![ToolCall {
            tool: tool.to_owned(),
            input,
        }])
    }

    /// A turn with text only.
    pub fn say(text: &str) -> Self {
        Self::Say(text.to_owned())
    }
}

impl Model {
    /// Starts a model that follows `script`.
    pub fn start(wire: Wire, script: Vec<Turn>) -> Self {
        let seen = Arc::<Mutex<SeenRequests>>::default();
        let noting = Arc::clone(&seen);
        let address = http::serve(Arc::new(move |request| {
            answer(wire, &script, &noting, &request)
        }));
        Self {
            address,
            wire,
            seen,
        }
    }

    /// The API it serves.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Its base URL, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The tools in the last request that offered any.
    pub fn offered(&self) -> Vec<OfferedTool> {
        self.seen(|seen| seen.offered.last().cloned().unwrap_or_default())
    }

    /// The tools in each request that offered any.
    pub fn offered_each_time(&self) -> Vec<Vec<OfferedTool>> {
        self.seen(|seen| seen.offered.clone())
    }

    /// The tools of Haft that were last offered, by Haft's names.
    pub fn offered_by_haft(&self) -> Vec<String> {
        let offered = self.offered();
        offered.iter().filter_map(OfferedTool::of_haft).collect()
    }

    /// The results it was given for its calls, in order.
    pub fn given(&self) -> Vec<GivenResult> {
        self.seen(|seen| seen.given.clone())
    }

    /// Requests from agents that it did not recognise.
    pub fn strange(&self) -> Vec<String> {
        self.seen(|seen| seen.strange.clone())
    }

    /// Every request with tools, as received.
    pub fn requests(&self) -> Vec<Value> {
        self.seen(|seen| seen.prompts.clone())
    }

    fn seen<T>(&self, look: impl FnOnce(&SeenRequests) -> T) -> T {
        look(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OfferedTool {
    /// Haft's name for the tool, if it is one of Haft's. Agents prefix it with the server's name.
    pub fn of_haft(&self) -> Option<String> {
        let whole = match &self.namespace {
            Some(namespace) => format!("{namespace}_{}", self.name),
            None => self.name.clone(),
        };
        let (_, name) = whole.split_once("haft")?;
        Some(
            name.trim_start_matches(['_', '.', '-', '/', ':'])
                .to_owned(),
        )
    }
}

fn answer(wire: Wire, script: &[Turn], seen: &Mutex<SeenRequests>, request: &Request) -> Reply {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    let is_turn = request.method == "POST" && wire.is_turn(&request.path);
    if !is_turn {
        if let Some(reply) = beside(&request.path) {
            return reply;
        }
        seen.strange
            .push(format!("{} {}", request.method, request.path));
        return Reply::json(&json!({}));
    }
    let conversation = wire.read(&body);
    if !conversation.offered.is_empty() {
        seen.offered.push(conversation.offered.clone());
        seen.prompts.push(body.clone());
    }
    let offered = &conversation.offered;
    if offered.iter().all(|tool| tool.of_haft().is_none()) {
        return wire.write(&body, &SpokenTurn::Text(BESIDE_THE_SCRIPT), 0);
    }
    seen.given = conversation.given;
    // What was said to an agent that had no tool of Haft yet is not a turn of the script.
    let beside = body.to_string().matches(BESIDE_THE_SCRIPT).count();
    let turns = conversation.turns.saturating_sub(beside);
    let turn = script.get(turns);
    let said = match turn {
        None => SpokenTurn::Text(DONE),
        Some(Turn::Say(text)) => SpokenTurn::Text(text),
        Some(Turn::Call(calls)) => SpokenTurn::Calls(
            calls
                .iter()
                .map(|call| {
                    let input = with_call_left_out(&call.input, &seen.given);
                    (named(offered, &call.tool), input)
                })
                .collect(),
        ),
    };
    wire.write(&body, &said, turns)
}

/// Replaces `{left out}` in an input with the call id the model was last told to page with
/// `read_output`. It can know that id only from what it was given.
fn with_call_left_out(input: &Value, given: &[GivenResult]) -> Value {
    let told = |given: &GivenResult| {
        let (_, after) = given.text.split_once("read_output with call `")?;
        Some(after.split('`').next().unwrap_or_default().to_owned())
    };
    let Some(call) = given.iter().rev().find_map(told) else {
        return input.clone();
    };
    let text = input.to_string().replace("{left out}", &call);
    serde_json::from_str(&text).expect("an input")
}

/// The offered tool for Haft's name. A tool that is not offered gets the name it would have: some
/// agents tell their model the names of tools before they offer them.
fn named(offered: &[OfferedTool], tool: &str) -> OfferedTool {
    let is_it = |it: &&OfferedTool| it.of_haft().as_deref() == Some(tool);
    if let Some(found) = offered.iter().find(is_it) {
        return found.clone();
    }
    let beside = offered.iter().find_map(|it| Some((it, it.of_haft()?)));
    let (name, namespace) = match beside {
        Some((it, own)) => {
            let prefix = it.name.strip_suffix(&own).unwrap_or_default();
            (format!("{prefix}{tool}"), it.namespace.clone())
        }
        None => (tool.to_owned(), None),
    };
    OfferedTool {
        name,
        namespace,
        definition: Value::Null,
    }
}

impl Wire {
    /// Whether a request to this path asks for a turn.
    fn is_turn(self, path: &str) -> bool {
        let path = path.split('?').next().unwrap_or_default();
        match self {
            Self::Anthropic => path.ends_with("/messages"),
            Self::Responses => path.ends_with("/responses"),
            Self::Chat => path.ends_with("/chat/completions"),
            Self::Gemini => path.contains("enerateContent"),
        }
    }

    fn read(self, body: &Value) -> Conversation {
        match self {
            Self::Anthropic => anthropic::read(body),
            Self::Responses => responses::read(body),
            Self::Chat => chat::read(body),
            Self::Gemini => gemini::read(body),
        }
    }

    fn write(self, body: &Value, said: &SpokenTurn<'_>, turn: usize) -> Reply {
        match self {
            Self::Anthropic => anthropic::write(body, said, turn),
            Self::Responses => responses::write(said, turn),
            Self::Chat => chat::write(body, said, turn),
            Self::Gemini => gemini::write(said),
        }
    }
}

/// Requests agents are known to make outside the conversation.
fn beside(path: &str) -> Option<Reply> {
    let path = path.split('?').next().unwrap_or_default();
    let ends = |known: &str| path.ends_with(known);
    if ends("/count_tokens") || ends(":countTokens") {
        let counted = json!({"input_tokens": 10, "totalTokens": 10});
        return Some(Reply::json(&counted));
    }
    (ends("/models") || ends("/")).then(|| Reply::json(&json!({"data": [], "models": []})))
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Reads a result's pieces, each text or an image.
fn given(pieces: Option<&Value>, is_image: impl Fn(&Value) -> bool) -> GivenResult {
    match pieces {
        Some(Value::String(text)) => GivenResult {
            text: text.clone(),
            images: 0,
        },
        pieces => {
            let pieces: Vec<&Value> = list(pieces).collect();
            let texts: Vec<&str> = pieces
                .iter()
                .filter_map(|piece| piece.get("text").and_then(Value::as_str))
                .collect();
            GivenResult {
                text: texts.join("\n"),
                images: pieces.iter().filter(|piece| is_image(piece)).count(),
            }
        }
    }
}

fn is_kind(piece: &Value, kind: &str) -> bool {
    piece.get("type").is_some_and(|it| it == kind)
}
