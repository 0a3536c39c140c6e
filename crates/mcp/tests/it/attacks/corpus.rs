//! Group MC of the attack corpus as it is written in `attacks/mc.toml`: a closed vocabulary, so
//! that a case with a misspelt word is an error and not a case that never runs.

use std::collections::BTreeMap;

use haft_mcp::upstream::supervise::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../attacks/mc.toml");

/// How many cases the group has.
const CASES: u32 = 29;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    #[serde(rename = "group")]
    name: String,
    title: String,
    case: Vec<Case>,
}

/// One attack.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) title: String,
    requires: String,
    stopped_by: String,
    /// What a hostile server does.
    #[serde(default)]
    pub(super) attack: Vec<Scripted>,
    /// What an honest one does, which must pass.
    #[serde(default)]
    pub(super) twin: Vec<Scripted>,
    /// Tests that show what data cannot say.
    #[serde(default)]
    see: Vec<String>,
    due: Option<Due>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Due {
    with: String,
    because: String,
}

/// How a server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transport {
    Pipes,
    Http,
}

impl Transport {
    pub(crate) const BOTH: [Self; 2] = [Self::Pipes, Self::Http];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pipes => "pipes",
            Self::Http => "http",
        }
    }
}

/// A server with a script, and what must come of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scripted {
    /// What it does, in words.
    pub(super) what: String,
    /// Over which transports; both if empty.
    #[serde(default)]
    pub(super) over: Vec<Transport>,
    /// The protocol it speaks, and what it says it is and has.
    #[serde(default = "legacy")]
    era: String,
    #[serde(default = "version")]
    version: String,
    #[serde(default = "named")]
    name: String,
    instructions: Option<String>,
    /// Beside `fine`, which is honest. One with `times` is there that often.
    #[serde(default = "tools")]
    tools: Vec<Value>,
    resources: Option<Vec<Value>>,
    templates: Option<Vec<Value>>,
    /// What is done on a request of a method; anything else is answered as usual.
    #[serde(default)]
    on: BTreeMap<String, Vec<Step>>,
    /// What a client without guards must get from it, to the letter. Empty where the attack is
    /// that nothing comes.
    pub(super) control: Option<String>,
    /// The method that client asks for.
    #[serde(default = "tools_call")]
    pub(super) control_asks: String,
    /// How the call of `t` must end, if it is called: a terminal state and the kinds of failure
    /// that are right.
    pub(super) expect: Option<String>,
    /// Whether a person accepted what it offers.
    #[serde(default = "yes")]
    pub(super) accepted: bool,
    /// What `t` is called with.
    #[serde(default = "nothing")]
    pub(super) arguments: Value,
    /// Whether `t` is taken for something that destroys, where that is the point.
    pub(super) destructive: Option<bool>,
    /// How long the call of `t` may take.
    #[serde(default = "three_minutes")]
    pub(super) gives_up_ms: u64,
    /// Whether that call is a client's that can be asked everything, and agrees.
    #[serde(default)]
    pub(super) reachable: bool,
    /// How often at most in a second of that call something comes of it, by name.
    #[serde(default)]
    pub(super) per_second: BTreeMap<String, u64>,
    /// What the outcome must hold, and what it must not.
    #[serde(default)]
    pub(super) shows: Vec<String>,
    #[serde(default)]
    pub(super) hides: Vec<String>,
    /// The tools models are shown of it once everything was accepted, if that is the point.
    pub(super) lists: Option<Vec<String>>,
    /// What must be among the reasons why definitions were not taken.
    #[serde(default)]
    pub(super) refuses: Vec<String>,
    /// What was counted and thrown away of what it sent, by name.
    #[serde(default)]
    pub(super) drops: BTreeMap<String, u64>,
    /// A second call of `t`, after something came to be.
    pub(super) then: Option<Then>,
    /// What comes of doing what the server says, at another server.
    pub(super) obeyed: Option<Obeyed>,
    /// How the server is afterwards: `ready`, `down`, or `any`.
    #[serde(default = "ready")]
    state: String,
    /// What must be said of a server that is down.
    #[serde(default)]
    pub(super) says: Vec<String>,
}

/// A step of an answer; exactly one of these, as often as it says.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Step {
    /// The ordinary answer, with a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The ordinary answer, with a result.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Value>,
    /// The ordinary answer, with an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
    /// Any message.
    #[serde(skip_serializing_if = "Option::is_none")]
    send: Option<Value>,
    /// A line, byte by letter.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<String>,
    /// A line that is not ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    begin: Option<String>,
    /// A question to the client; the answer to the request is what the client was refused with.
    #[serde(skip_serializing_if = "Option::is_none")]
    ask: Option<Value>,
    /// Printed where people look.
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
    /// Other tools from now on, and it says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    offer: Option<Vec<Value>>,
    /// The end of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    /// A pause, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pause: Option<u64>,
    /// Nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    wait: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    times: Option<u64>,
}

/// A second call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Then {
    /// What must come to be first: `changed`, or `listed again`.
    pub(super) once: String,
    pub(super) expect: String,
    #[serde(default)]
    pub(super) shows: Vec<String>,
}

/// A call of another server, `b`, by a model that does what this one, `a`, says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Obeyed {
    /// The policy text.
    pub(super) rules: String,
    /// Whether `t` of `a` was called before, in the same session.
    #[serde(default = "yes")]
    pub(super) read: bool,
    /// Whether that was done by another process, on the same record.
    #[serde(default)]
    pub(super) elsewhere: bool,
    /// How the call must end. Without a rule about what was read it succeeds.
    pub(super) expect: String,
    /// What the outcome must hold.
    #[serde(default)]
    pub(super) shows: Vec<String>,
}

fn tools_call() -> String {
    "tools/call".to_owned()
}

fn yes() -> bool {
    true
}

fn nothing() -> Value {
    json!({})
}

fn three_minutes() -> u64 {
    180_000
}

fn ready() -> String {
    "ready".to_owned()
}

fn legacy() -> String {
    "legacy".to_owned()
}

fn version() -> String {
    "2025-11-25".to_owned()
}

fn named() -> String {
    "scripted".to_owned()
}

fn tools() -> Vec<Value> {
    vec![json!({ "name": "t", "inputSchema": { "type": "object" } })]
}

impl Case {
    pub(super) fn number(&self) -> u32 {
        let number = self.id.strip_prefix("MC-").unwrap();
        number.parse().unwrap()
    }
}

impl Scripted {
    /// What a client without guards must get, `<x*3>` spelt out.
    pub(super) fn seen_without_guards(&self) -> String {
        let sees = self.control.clone().unwrap_or_default();
        let repeated = sees
            .strip_prefix('<')
            .and_then(|sees| sees.strip_suffix('>'));
        match repeated.and_then(|repeated| repeated.split_once('*')) {
            Some((part, times)) => part.repeat(times.parse().unwrap()),
            None => sees,
        }
    }

    /// How the server is afterwards; none if that does not matter.
    pub(super) fn state(&self) -> Option<State> {
        match self.state.as_str() {
            "ready" => Some(State::Ready),
            "down" => Some(State::Down),
            "any" => None,
            other => panic!("`{other}` is no state of a server"),
        }
    }

    pub(super) fn is_over(&self, transport: Transport) -> bool {
        self.over.is_empty() || self.over.contains(&transport)
    }

    /// The script as its server reads it.
    pub(super) fn script(&self) -> Value {
        let fine = json!({ "name": "fine", "inputSchema": { "type": "object" } });
        let tools: Vec<&Value> = self.tools.iter().chain([&fine]).collect();
        let mut script = json!({ "era": self.era, "version": self.version, "name": self.name,
            "tools": tools, "on": self.on });
        let more = [
            ("instructions", json!(self.instructions)),
            ("resources", json!(self.resources)),
            ("templates", json!(self.templates)),
        ];
        for (key, value) in more.into_iter().filter(|(_, value)| !value.is_null()) {
            script[key] = value;
        }
        script
    }
}

/// Every case, in order.
pub(super) fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(CORPUS).unwrap();
    let group: Group = toml::from_str(&text).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((group.name.as_str(), group.title.is_empty()), ("MC", false));
    group.case
}

#[test]
fn every_case_is_there_and_is_run_or_says_why_not() {
    let cases = cases();
    let ids: Vec<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    let expect: Vec<String> = (1..=CASES).map(|n| format!("MC-{n:02}")).collect();
    assert_eq!(ids, expect);
    for case in &cases {
        let id = &case.id;
        for text in [&case.title, &case.requires, &case.stopped_by] {
            assert!(!text.is_empty(), "{id} does not say what it is about");
        }
        let shown = !case.attack.is_empty() || !case.see.is_empty();
        assert!(shown, "{id} is not run");
        assert_eq!(
            case.attack.is_empty(),
            case.twin.is_empty(),
            "{id} has an attack without a benign twin, or a twin of nothing"
        );
        for attack in &case.attack {
            let what = &attack.what;
            assert!(attack.control.is_some(), "{id}, {what}: no control");
            let judged = attack.expect.is_some()
                || attack.lists.is_some()
                || attack.state != "ready"
                || !attack.refuses.is_empty();
            assert!(judged, "{id}, {what}: nothing must come of it");
        }
        if let Some(due) = &case.due {
            assert!(!due.with.is_empty() && !due.because.is_empty(), "{id}");
        }
    }
}
