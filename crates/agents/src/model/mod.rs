//! A model that does what a script says, and remembers what it was offered and given.
//!
//! What it answers follows from the conversation the agent sends, not from how often it asks: an
//! agent that repeats a request gets the same answer, and requests beside the conversation (a title,
//! a check of the key) are answered without moving the script.

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

/// What a model that has no more to do says.
pub const DONE: &str = "the script is done";

/// How an agent speaks to its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages API.
    Anthropic,
    /// OpenAI's Responses API.
    Responses,
    /// OpenAI's Chat Completions API, as many others speak it.
    Chat,
    /// Google's Gemini API.
    Gemini,
}

/// One turn of the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// It calls tools of Haft.
    Call(Vec<ToolCall>),
    /// It says something, and it is the person's turn.
    Say(String),
}

/// A call of a tool, by the name Haft gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The tool.
    pub tool: String,
    /// What it is given.
    pub input: Value,
}

/// A tool as a model was offered it.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedTool {
    /// What the model calls it.
    pub name: String,
    /// The group of tools it is in, where the provider has such.
    pub namespace: Option<String>,
    /// All that was said about it.
    pub definition: Value,
}

/// What a model was given for one call.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenResult {
    /// The text of it.
    pub text: String,
    /// How many images came with it.
    pub images: usize,
}

/// A model on loopback.
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

/// What a request of an agent says.
struct Conversation {
    /// How many turns of the model it holds.
    turns: usize,
    offered: Vec<OfferedTool>,
    given: Vec<GivenResult>,
}

/// A turn as a wire writes it: each call with the tool it is offered as.
enum SpokenTurn<'t> {
    Calls(Vec<(OfferedTool, Value)>),
    Text(&'t str),
}

/// What the model says where it is offered no tool of Haft: to a request beside the conversation, or to
/// an agent that is still starting.
pub const BESIDE_THE_SCRIPT: &str = "beside the script";

impl Turn {
    /// One call.
    pub fn call(tool: &str, input: Value) -> Self {
        Self::Call(vec![ToolCall {
            tool: tool.to_owned(),
            input,
        }])
    }

    /// Says something.
    pub fn say(text: &str) -> Self {
        Self::Say(text.to_owned())
    }
}

impl Model {
    /// Starts a model that follows a script.
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

    /// How agents speak to it.
    pub fn wire(&self) -> Wire {
        self.wire
    }

    /// Where it listens, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The tools it was offered last.
    pub fn offered(&self) -> Vec<OfferedTool> {
        self.seen(|seen| seen.offered.last().cloned().unwrap_or_default())
    }

    /// The tools it was offered with each request that offered any.
    pub fn offered_each_time(&self) -> Vec<Vec<OfferedTool>> {
        self.seen(|seen| seen.offered.clone())
    }

    /// The tools of Haft it was offered last, by the names Haft gives them.
    pub fn offered_by_haft(&self) -> Vec<String> {
        let offered = self.offered();
        offered.iter().filter_map(OfferedTool::of_haft).collect()
    }

    /// What it was given for its calls, in their order.
    pub fn given(&self) -> Vec<GivenResult> {
        self.seen(|seen| seen.given.clone())
    }

    /// What agents asked of it that it does not know.
    pub fn strange(&self) -> Vec<String> {
        self.seen(|seen| seen.strange.clone())
    }

    /// Every request with tools, as it came.
    pub fn requests(&self) -> Vec<Value> {
        self.seen(|seen| seen.prompts.clone())
    }

    fn seen<T>(&self, look: impl FnOnce(&SeenRequests) -> T) -> T {
        look(&self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl OfferedTool {
    /// What Haft calls the tool, if it is one of Haft's. Agents put the server's name before it.
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
    // What was said to an agent that had no tool of Haft yet is no turn of the script.
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

/// An input in which `{left out}` is the call that the model was last told to page with
/// `read_output`: it can know that from what it was given and from nowhere else.
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

/// The offered tool that Haft calls so. One that is not offered is called by the name it would have:
/// some agents tell their model the names of tools before they offer them.
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

/// What agents are known to ask for beside the conversation.
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

/// The pieces of a result, each text or an image.
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
