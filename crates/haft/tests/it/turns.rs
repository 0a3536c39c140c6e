//! A model's turn as a stream: what is yielded and when, that every call is answered once, and what
//! stops it.

use std::{fs, time::Duration};

use haft::{
    CancellationToken, HostEvent, Turn, TurnItem,
    contract::{ops::Stream, outcome::DeniedBy},
    model::Shape,
    prelude::*,
};

use crate::{place::Place, sample::CountTool};

/// A chat message with these calls: the provider's id, the tool, its arguments.
fn chat(calls: &[(&str, &str, Value)]) -> Value {
    let calls = calls.iter().map(|(id, name, arguments)| {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        json!({"id": id, "type": "function", "function": function})
    });
    json!({"role": "assistant", "content": null, "tool_calls": calls.collect::<Vec<Value>>()})
}

/// Never ends by itself.
struct WaitTool;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Tool for WaitTool {
    type Input = Nothing;
    type Output = ();
    type Progress = NoProgress;
    const NAME: &'static str = "wait";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Wait", "Waits to be stopped.").effects(Effects::READ_ONLY)
    }

    fn plan(&self, _: &Nothing, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, _: Nothing, cx: CallContext<NoProgress>) -> Result<(), ToolError> {
        cx.report(Progress::of(0, None, "waiting"));
        cx.cancel().cancelled().await;
        Err(ToolError::new(ErrorKind::Cancelled, "stopped"))
    }
}

/// How the calls of a turn that is read to its end ended, by the provider's id.
async fn ends(turn: &mut Turn) -> Vec<(String, Terminal)> {
    let mut ends = Vec::new();
    while let Some(item) = turn.next().await {
        if let TurnItem::Ended { call, outcome } = item {
            ends.push((call.id(), outcome.terminal));
        }
    }
    ends.sort();
    ends
}

#[tokio::test]
async fn every_call_is_answered_once_in_the_order_of_the_calls_malformed_ones_too() {
    let place = Place::with(&[("a.txt", "alpha\n"), ("b.txt", "beta\n")]);
    let haft = place
        .haft()
        .configure(|runtime| runtime.loop_guard(haft::runtime::LoopGuard::OFF))
        .build()
        .await
        .unwrap();
    let read = |path: &str| json!({"path": path}).to_string();
    let openai = json!({"role": "assistant", "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "read", "arguments": read("a.txt")}},
        {"id": "c2", "type": "function", "function": {}},
        {"id": "c3", "type": "function", "function": {"name": "read", "arguments": read("b.txt")}},
    ]});
    let responses = json!([
        {"type": "reasoning"},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": read("a.txt")},
        {"type": "function_call", "call_id": "c2"},
        {"type": "function_call", "call_id": "c3", "name": "read", "arguments": read("b.txt")},
    ]);
    let anthropic = json!({"role": "assistant", "content": [
        {"type": "text", "text": "let me look"},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a.txt"}},
        {"type": "tool_use", "id": "c2", "input": {}},
        {"type": "tool_use", "id": "c3", "name": "read", "input": {"path": "b.txt"}},
    ]});
    let answer = |entry: &Value| {
        let id = ["tool_call_id", "call_id", "tool_use_id"];
        let id = id.iter().find_map(|key| entry.get(key)).unwrap().clone();
        (id, entry.to_string())
    };
    for (shape, message) in [
        (Shape::OpenAi, openai),
        (Shape::OpenAiResponses, responses),
        (Shape::Anthropic, anthropic),
    ] {
        // Read to the end, left in the middle, and not read at all.
        for reads in [usize::MAX, 1, 0] {
            let mut turn = haft.turn(shape, &message);
            let mut ended = Vec::new();
            for _ in 0..reads {
                match turn.next().await {
                    Some(TurnItem::Ended { call, .. }) => ended.push(call.id()),
                    Some(_) => {}
                    None => break,
                }
            }
            if reads == usize::MAX {
                ended.sort();
                assert_eq!(ended, ["c1", "c2", "c3"]);
            }
            let answers = turn.finish().await;
            assert_eq!(answers.answers().len(), 3);
            let mut messages = answers.messages();
            if shape == Shape::Anthropic {
                assert_eq!(messages.len(), 1);
                assert_eq!(messages[0]["role"], "user");
                messages = messages[0]["content"].as_array().unwrap().clone();
            }
            assert_eq!(messages, answers.each());
            let answers: Vec<_> = messages.iter().map(answer).collect();
            let expected = [("c1", "alpha"), ("c2", "no name"), ("c3", "beta")];
            assert_eq!(answers.len(), expected.len(), "{answers:?}");
            for ((id, text), (expected, says)) in answers.iter().zip(expected) {
                assert_eq!(id, expected);
                assert!(text.contains(says), "{text}");
            }
        }
    }
    let nothing = haft
        .turn(Shape::Anthropic, &json!("just text"))
        .finish()
        .await;
    assert!(nothing.is_empty());
    assert!(nothing.messages().is_empty());
}

/// Each call goes on only once the test has read what it showed.
#[tokio::test]
async fn what_calls_show_is_read_before_they_end_with_the_providers_ids() {
    let place = Place::with(&[("a.txt", "needle one\n"), ("later/b.txt", "hay\n")]);
    let haft = place
        .haft()
        .tool(CountTool)
        .allow("bash")
        .sandbox("bash", SandboxMode::Off)
        .build()
        .await
        .unwrap();
    let command = "echo first; while [ ! -e go ]; do sleep 0.02; done; echo last";
    let message = chat(&[
        ("call_bash", "bash", json!({"command": command})),
        ("call_count", "count", json!({"to": 2})),
        ("call_grep", "grep", json!({"pattern": "needle"})),
    ]);
    let mut turn = haft.turn(Shape::OpenAi, &message);
    let (mut output, mut progress, mut items, mut ended) =
        (String::new(), Vec::new(), Vec::new(), Vec::new());
    while let Some(item) = turn.next().await {
        match item {
            TurnItem::Output { call, stream, text } => {
                assert_eq!((call.id().as_str(), stream), ("call_bash", Stream::Stdout));
                assert_eq!(call.tool(), Some("bash"));
                output.push_str(&text);
                if output == "first\n" {
                    assert!(!ended.contains(&"call_bash".to_owned()));
                    fs::write(place.path("go"), "").unwrap();
                }
            }
            TurnItem::Progress { call, progress: at } => {
                assert_eq!(call.model_call(), Some("call_count"));
                progress.push(at.percentage());
            }
            TurnItem::Item { call, item } => {
                assert_eq!(call.index(), 2);
                items.push(item.line.clone());
            }
            TurnItem::Ended { call, outcome } => {
                assert!(outcome.succeeded(), "{}", outcome.model_text());
                assert_eq!(outcome.call, call.call());
                ended.push(call.id());
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(output, "first\nlast\n");
    assert_eq!(progress.last(), Some(&Some(100)));
    assert_eq!(items, ["a.txt:1: needle one"]);
    ended.sort();
    assert_eq!(ended, ["call_bash", "call_count", "call_grep"]);
    assert!(turn.next().await.is_none());
    assert_eq!(turn.finish().await.messages().len(), 3);
}

#[tokio::test]
async fn dropping_a_turn_stops_its_calls() {
    let place = Place::new();
    let haft = place.haft().tool(WaitTool).build().await.unwrap();
    let mut events = haft.events();
    let mut turn = haft.turn(Shape::OpenAi, &chat(&[("c", "wait", json!({}))]));
    let shown = turn.next().await.unwrap();
    assert!(matches!(shown, TurnItem::Progress { .. }), "{shown:?}");
    drop(turn);
    let outcome = loop {
        let HostEvent::Happened(observed) = events.next().await.unwrap() else {
            continue;
        };
        let provider = observed.origin.model_call.map(|id| id.to_string());
        assert_eq!(provider.as_deref(), Some("c"));
        if let CallEvent::Settled { outcome } = observed.happened.event {
            break outcome;
        }
    };
    assert_eq!(outcome.terminal, Terminal::Cancelled);
}

#[tokio::test]
async fn a_timeout_and_a_cancellation_reach_every_call() {
    let place = Place::new();
    let haft = place.haft().tool(WaitTool).build().await.unwrap();
    let message = chat(&[("c1", "wait", json!({})), ("c2", "wait", json!({}))]);
    let both = |terminal| [("c1".to_owned(), terminal), ("c2".to_owned(), terminal)];

    let turn = haft.turn(Shape::OpenAi, &message);
    let mut turn = turn.timeout(Duration::from_millis(20));
    assert_eq!(ends(&mut turn).await, both(Terminal::TimedOut));

    let cancel = CancellationToken::new();
    let turn = haft.turn(Shape::OpenAi, &message);
    let mut turn = turn.cancel(cancel.clone());
    // Both run before they are stopped.
    for _ in 0..2 {
        let shown = turn.next().await;
        assert!(
            matches!(shown, Some(TurnItem::Progress { .. })),
            "{shown:?}"
        );
    }
    cancel.cancel();
    assert_eq!(ends(&mut turn).await, both(Terminal::Cancelled));
    let answers = turn.finish().await;
    assert_eq!(answers.messages().len(), 2);
}

#[tokio::test]
async fn a_slow_reader_slows_no_call_and_is_told_what_it_missed() {
    let place = Place::new();
    let haft = place
        .haft()
        .allow("bash")
        .sandbox("bash", SandboxMode::Off)
        .build()
        .await
        .unwrap();
    let command = "echo first; while [ ! -e go ]; do sleep 0.02; done; for i in $(seq 50); do \
                   echo $i; sleep 0; done";
    let message = chat(&[("c", "bash", json!({"command": command}))]);
    let mut turn = haft.turn(Shape::OpenAi, &message).holds(4);
    let first = turn.next().await.unwrap();
    assert!(matches!(first, TurnItem::Output { .. }), "{first:?}");
    let mut events = haft.events();
    fs::write(place.path("go"), "").unwrap();
    // The call ends although nobody reads the turn.
    loop {
        if let Some(HostEvent::Happened(observed)) = events.next().await
            && let CallEvent::Settled { .. } = observed.happened.event
        {
            break;
        }
    }
    let (mut shown, mut missed, mut ended) = (0, 0, 0);
    while let Some(item) = turn.next().await {
        match item {
            TurnItem::Output { .. } => shown += 1,
            TurnItem::Missed { events } => missed += events,
            TurnItem::Ended { outcome, .. } => {
                ended += 1;
                assert!(outcome.text().contains("\n50\n"), "the result is whole");
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(shown <= 4, "{shown}");
    assert!(missed > 0);
    assert_eq!(ended, 1);
}

#[tokio::test]
async fn a_turn_that_nobody_reads_asks_nobody() {
    let place = Place::new();
    let haft = place.haft().build().await.unwrap();
    let write =
        |id: &'static str, path: &str| (id, "write", json!({"path": path, "content": "hello\n"}));
    let message = chat(&[write("c", "a.txt")]);
    let answers = haft.turn(Shape::OpenAi, &message).finish().await;
    let outcome = &answers.answers()[0].outcome;
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::NobodyToAsk));

    // One question is read and answered; nobody reads the other.
    let message = chat(&[write("c1", "a.txt"), write("c2", "b.txt")]);
    let mut turn = haft.turn(Shape::OpenAi, &message);
    let Some(TurnItem::Question { question, call }) = turn.next().await else {
        panic!("a question was expected");
    };
    let read = call.index();
    question.approve().await.unwrap();
    let answers = turn.finish().await;
    let by = answers
        .answers()
        .iter()
        .map(|one| one.outcome.facts.denied_by);
    let mut expected = [Some(DeniedBy::NobodyToAsk); 2];
    expected[read] = None;
    assert_eq!(by.collect::<Vec<_>>(), expected);
}
