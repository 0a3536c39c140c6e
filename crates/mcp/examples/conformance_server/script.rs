//! Takes the steps that the fixture writes down for a tool or prompt: reports, messages, questions,
//! pauses.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use haft_contract::{
    CallContext, ErrorKind, NoProgress, Progress, ProviderId, ToolError, ToolName, erased::erase_as,
};
use haft_mcp::{
    client::{AskError, Client, Clients, Question, QuestionKind},
    mounts::Change,
};
use haft_runtime::Runtime;
use haft_testkit::sample::Echo;
use serde_json::{Map, Value, json};
use tokio::sync::broadcast;

/// The tool that comes and goes, and its provider.
const VISITOR: &str = "visitor";

/// What the tools of the fixture share.
pub(crate) struct World {
    /// Who can be asked while a tool runs.
    pub(crate) clients: Arc<Clients>,
    /// Where a tool says that prompts changed.
    pub(crate) changes: broadcast::Sender<Change>,
    /// The runtime the tools belong to, once there is one.
    pub(crate) runtime: OnceLock<Runtime>,
}

/// Puts values in the places that a text leaves for them (`${name}`).
pub(crate) fn fill(value: &Value, values: &Map<String, Value>) -> Value {
    match value {
        Value::String(text) => Value::String(filled(text, values)),
        Value::Array(all) => all.iter().map(|each| fill(each, values)).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            Value::Object(
                fields
                    .map(|(key, each)| (key.clone(), fill(each, values)))
                    .collect(),
            )
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn filled(text: &str, values: &Map<String, Value>) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        let value = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        text.replace(&format!("${{{name}}}"), &value)
    })
}

/// Takes the steps, and puts the answers that were given beside the arguments.
pub(crate) async fn take(
    steps: &Value,
    values: &mut Map<String, Value>,
    world: &World,
    cx: &CallContext<NoProgress>,
) -> Result<(), ToolError> {
    let client = world.clients.of(cx.call());
    let mut answers = Map::new();
    for step in steps.as_array().into_iter().flatten() {
        if let Some(done) = step.get("progress").and_then(Value::as_u64) {
            let total = step.get("total").and_then(Value::as_u64);
            cx.report(Progress::of(done, total, ""));
        }
        if let (Some(message), Some(client)) = (step.get("log"), &client) {
            client.log(json!({"level": "info", "logger": "fixture", "data": message}));
        }
        if let Some(pause) = step.get("pause").and_then(Value::as_u64) {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause)) => {}
                () = cx.cancel().cancelled() => return Err(stopped()),
            }
        }
        match step.get("change").and_then(Value::as_str) {
            Some("tools") => change_tools(world),
            // Nobody listens where this fails.
            Some(_) => drop(world.changes.send(Change::Prompts)),
            None => {}
        }
        if let Some(asked) = step.get("ask").or_else(|| step.get("askAble")) {
            let client = client.as_deref().ok_or_else(nobody)?;
            let able = step.get("askAble").map(|_| client);
            let asked = questions(&fill(asked, values), able);
            let keys: Vec<String> = asked.iter().map(|asked| asked.key.clone()).collect();
            let given = client
                .ask(asked, cx.cancel())
                .await
                .map_err(|error| unanswered(&error))?;
            answers.extend(keys.into_iter().zip(given));
        }
    }
    values.insert("answers".to_owned(), Value::Object(answers));
    Ok(())
}

/// The questions of a step; those that a client can be asked, where one is given.
fn questions(asked: &Value, able: Option<&dyn Client>) -> Vec<Question> {
    let abilities = able.map(Client::abilities);
    let can = |kind: &QuestionKind| match (abilities, kind) {
        (None, _) => true,
        (Some(abilities), QuestionKind::Elicit) => abilities.elicit_form,
        (Some(abilities), QuestionKind::Sample) => abilities.sample,
        (Some(abilities), QuestionKind::Roots) => abilities.roots,
    };
    let one = |(key, asked): (&String, &Value)| {
        let kind = QuestionKind::of_method(asked.get("method")?.as_str()?).filter(can)?;
        Some(Question {
            key: key.clone(),
            kind,
            parameters: asked.get("params")?.clone(),
        })
    };
    asked
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(one)
        .collect()
}

fn unanswered(error: &AskError) -> ToolError {
    let kind = match error {
        AskError::Gone => ErrorKind::Cancelled,
        _ => ErrorKind::Unavailable,
    };
    ToolError::new(kind, error.to_string())
}

fn nobody() -> ToolError {
    ToolError::new(ErrorKind::Unavailable, "nobody can be asked")
}

fn stopped() -> ToolError {
    ToolError::new(ErrorKind::Cancelled, "the call was stopped")
}

/// Adds a tool, or takes it away again.
fn change_tools(world: &World) {
    let (Some(runtime), Ok(provider)) = (world.runtime.get(), ProviderId::parse(VISITOR)) else {
        return;
    };
    let there = runtime.registry().snapshot().exists(VISITOR);
    let visitor = ToolName::parse(VISITOR).ok().filter(|_| !there);
    let tools = visitor
        .map(|name| erase_as(Echo, name))
        .into_iter()
        .collect();
    if let Err(error) = runtime.registry().replace_provider(&provider, tools) {
        tracing::warn!(%error, "the tools could not be changed");
    }
}
