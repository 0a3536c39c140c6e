//! A whole agent that streams: each turn of the model is read while its calls run, a person answers
//! the questions, and a second reader follows the session's events.
//!
//! The model is scripted and speaks Anthropic's Messages API, so the example needs no key and says the
//! same every time. Put a request to a real model in `ScriptedModel::reply`, and the loop works
//! unchanged.
//!
//! Run it with `cargo run -p haft --example streaming_agent`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{collections::VecDeque, time::Duration};

use haft::{
    AlwaysScope, CancellationToken, HostEvent, HostEvents, Question, QuestionError, TurnItem,
    model::Shape, prelude::*,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The agent gives up after this many turns.
const MAX_TURNS: usize = 10;
/// How long one call may run. The time does not run while a person is asked.
const CALL_TIME: Duration = Duration::from_secs(20);

/// The whole agent: a loop.
async fn agent(haft: &Haft, model: &mut ScriptedModel, task: &str) -> Result<Vec<String>, Failure> {
    // A window that is closed, or a user who types Ctrl-C, cancels this.
    let cancel = CancellationToken::new();
    let mut said = Vec::new();
    let mut messages = vec![json!({"role": "user", "content": task})];
    for _ in 0..MAX_TURNS {
        let message = model.reply(&messages)?;
        let turn = haft.turn(Shape::Anthropic, &message);
        let mut turn = turn.timeout(CALL_TIME).cancel(cancel.clone());
        while let Some(item) = turn.next().await {
            match item {
                TurnItem::Progress { call, progress } => {
                    said.push(format!("{}: {}", call.id(), progress.status));
                }
                TurnItem::Output { call, text, .. } => said.push(format!("{}: {text}", call.id())),
                TurnItem::Item { call, item } => {
                    said.push(format!("{}: found {}", call.id(), item.line));
                }
                TurnItem::Question { call, question } => {
                    let answered = person(call.tool(), *question).await?;
                    said.push(format!("{}: {answered}", call.id()));
                }
                TurnItem::Ended { call, outcome } => {
                    said.push(format!("{}: {}", call.id(), outcome.terminal));
                }
                // The screen was slow; the outcomes have it all.
                _ => {}
            }
        }
        let answers = turn.finish().await.messages();
        messages.push(message);
        if answers.is_empty() {
            let text = messages
                .last()
                .and_then(|last| last.pointer("/content/0/text"));
            let text = text.and_then(Value::as_str).unwrap_or_default();
            said.push(format!("model: {text}"));
            return Ok(said);
        }
        messages.extend(answers);
    }
    Err("the model did not come to an end".into())
}

/// Plays the person. A real one reads `question.text()`, here or wherever its id was sent:
/// `haft.question(id)` opens it in any process with the same record.
async fn person(tool: Option<&str>, question: Question) -> Result<String, QuestionError> {
    let shown = question.text()?;
    let what = shown.lines().next().unwrap_or_default().trim();
    let question = question.answered_by("ada");
    if what.contains("notes/") {
        // Exactly this is kept, and shown before.
        let grant = question.grant(AlwaysScope::Session).await?;
        question.always(AlwaysScope::Session).await?;
        Ok(format!("asked: {what}, always: {}", grant.rules.join(", ")))
    } else if tool == Some("publish") {
        question.approve().await?;
        Ok(format!("asked: {what}, once"))
    } else {
        question.refuse("write to notes/ instead").await?;
        Ok(format!("asked: {what}, no"))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Publish {
    /// What to publish.
    title: String,
}

/// A tool of the program itself. Publishing cannot be taken back, so a person is asked.
struct PublishTool;

impl Tool for PublishTool {
    type Input = Publish;
    type Output = String;
    type Progress = NoProgress;
    const NAME: &'static str = "publish";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Publish", "Publishes an article.").effects(Effects::UNKNOWN)
    }

    fn plan(&self, _: &Publish, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::new(Effects::UNKNOWN))
    }

    async fn run(&self, input: Publish, cx: CallContext<NoProgress>) -> Result<String, ToolError> {
        cx.report(Progress::of(1, Some(1), "uploaded"));
        Ok(format!("published `{}`", input.title))
    }
}

/// Follows a session until its last call has ended; returns how many calls ended how.
async fn follow(mut events: HostEvents, calls: usize) -> Vec<String> {
    let mut ended = Vec::new();
    while ended.len() < calls {
        match events.next().await {
            Some(HostEvent::Happened(observed)) => {
                if let CallEvent::Settled { outcome } = &observed.happened.event {
                    let agent = &observed.origin.principal.agent;
                    let id = observed.origin.model_call.as_ref();
                    let id = id.map(ToString::to_string).unwrap_or_default();
                    ended.push(format!("event: {agent} {id} {}", outcome.terminal));
                }
            }
            // Events that there was no room for, from the record.
            Some(HostEvent::FromRecord(read)) => {
                let settled = read.events.iter().filter(|event| event.kind == "settled");
                ended.extend(settled.map(|_| "event: from the record".to_owned()));
            }
            Some(HostEvent::Missed(_)) => {}
            None => break,
        }
    }
    ended.sort();
    ended
}

/// A model whose replies are written down. It checks that each of its calls was answered once.
struct ScriptedModel {
    replies: VecDeque<Vec<Value>>,
    expected: Vec<Value>,
}

impl ScriptedModel {
    fn new() -> Self {
        let call = |id: &str, name: &str, input: Value| json!({"type": "tool_use", "id": id, "name": name, "input": input});
        let note = |id: &str, path: &str, text: &str| {
            call(id, "write", json!({"path": path, "content": text}))
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        let replies = [
            vec![
                text("I look for what is open."),
                call("toolu_1", "grep", json!({"pattern": "TODO"})),
            ],
            vec![note("toolu_2", "plan.md", "buy milk\n")],
            vec![note("toolu_3", "notes/plan.md", "buy milk\n")],
            vec![note("toolu_4", "notes/plan.md", "buy milk and bread\n")],
            vec![call("toolu_5", "publish", json!({"title": "Milk"}))],
            vec![text("It is published.")],
        ];
        Self {
            replies: replies.into(),
            expected: Vec::new(),
        }
    }

    /// The next message, as a model server would send it.
    fn reply(&mut self, messages: &[Value]) -> Result<Value, Failure> {
        let results = messages
            .iter()
            .filter_map(|message| message.get("content")?.as_array());
        let answered: Vec<Value> = results
            .flatten()
            .filter_map(|block| block.get("tool_use_id").cloned())
            .collect();
        if answered != self.expected {
            return Err("a call was not answered".into());
        }
        let content = self.replies.pop_front().ok_or("the script is over")?;
        let calls = content.iter().filter_map(|block| block.get("id").cloned());
        self.expected.extend(calls);
        Ok(json!({"role": "assistant", "content": content}))
    }
}

/// Runs the example and returns the lines to print.
pub(crate) async fn run() -> Result<Vec<String>, Failure> {
    let (workspace, data) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .policy_text(
            "haft.toml",
            include_str!("../../../examples/streaming-agent/haft.toml"),
        )
        .tool(PublishTool)
        .agent("writer")
        .build()
        .await?;
    #[expect(clippy::disallowed_methods, reason = "the person's own file")]
    std::fs::write(workspace.path().join("list.txt"), "TODO milk\n")?;

    let followed = tokio::spawn(follow(haft.events_of_session(), 5));
    let mut said = agent(&haft, &mut ScriptedModel::new(), "do what is open").await?;
    said.extend(followed.await?);
    haft.close().await?;
    Ok(said)
}

#[tokio::main]
#[allow(dead_code, reason = "tests run the example without `main`")]
async fn main() -> Result<(), Failure> {
    for line in run().await? {
        println!("{line}");
    }
    Ok(())
}
