//! OpenAI's Chat Completions, in and out, against real files and commands.

use std::sync::Arc;

use haft::prelude::*;
use tokio::sync::Barrier;

use crate::{
    place::Place,
    sample::{MeetTool, PictureTool},
};

fn call(id: &str, name: &str, arguments: Value) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[tokio::test]
async fn r6_aliases_resolve_and_the_answer_carries_the_id() {
    let place = Place::with(&[("a.txt", "hello\n")]);
    let haft = place
        .haft()
        .allow("bash(cat a.txt)")
        .sandbox("bash", SandboxMode::Off)
        .build()
        .await
        .unwrap();
    let tool_calls = json!([
        call("call_r", "Read", json!("{\"file_path\": \"a.txt\"}")),
        call("call_b", "bash_exec", json!("{\"command\": \"cat a.txt\"}")),
    ]);
    let messages = haft.answer_openai(&tool_calls).await;
    assert_eq!(messages.len(), 2);
    for (message, id) in messages.iter().zip(["call_r", "call_b"]) {
        assert_eq!(message["role"], "tool");
        assert_eq!(message["tool_call_id"], id);
        assert!(
            message["content"].as_str().unwrap().contains("hello"),
            "{message}"
        );
    }
}

#[tokio::test]
async fn r9_arguments_as_text_as_an_object_and_wrapped_mean_the_same() {
    let place = Place::with(&[("a.txt", "hello\n")]);
    let haft = place
        .haft()
        .configure(|runtime| runtime.loop_guard(haft::runtime::LoopGuard::OFF))
        .build()
        .await
        .unwrap();
    let shapes = [
        json!("{\"path\": \"a.txt\"}"),
        json!({"path": "a.txt"}),
        json!({"arguments": {"path": "a.txt"}}),
        json!({"arguments": "{\"path\": \"a.txt\"}"}),
        json!("{\"arguments\": {\"path\": \"a.txt\"}}"),
    ];
    for arguments in shapes {
        let messages = haft
            .answer_openai(&json!([call("c", "read", arguments.clone())]))
            .await;
        assert_eq!(messages[0]["content"], "hello\n", "{arguments}");
    }
}

#[tokio::test]
async fn r6_an_unknown_tool_is_answered_with_the_nearest_names() {
    let place = Place::new();
    let haft = place.haft().build().await.unwrap();
    let messages = haft
        .answer_openai(&json!([call("c", "reed", json!("{}"))]))
        .await;
    let content = messages[0]["content"].as_str().unwrap();
    assert!(
        content.starts_with("unknown_tool: there is no tool `reed`"),
        "{content}"
    );
    assert!(content.contains("did you mean `read`"), "{content}");
}

#[tokio::test]
async fn parallel_calls_run_side_by_side_and_are_answered_in_order() {
    const CALLS: usize = 8;
    let place = Place::new();
    let barrier = Arc::new(Barrier::new(CALLS));
    let haft = place.haft().tool(MeetTool(barrier)).build().await.unwrap();
    let tool_calls: Vec<Value> = (0..CALLS)
        .map(|n| call(&format!("c{n}"), "meet", json!({"name": format!("n{n}")})))
        .collect();
    // Ends only if all of them are inside the tool at once.
    let messages = haft.answer_openai(&Value::from(tool_calls)).await;
    for (n, message) in messages.iter().enumerate() {
        assert_eq!(message["tool_call_id"], format!("c{n}"));
        assert_eq!(message["content"], format!("\"n{n}\""));
    }
    assert_eq!(messages.len(), CALLS);
}

#[tokio::test]
async fn one_bad_call_of_a_batch_does_not_touch_the_others() {
    let place = Place::with(&[("a.txt", "hello\n")]);
    let haft = place.haft().build().await.unwrap();
    let tool_calls = json!([
        call("c0", "read", json!({"path": "../outside"})),
        {"id": "c1"},
        call("c2", "read", json!({"path": "a.txt"})),
        call("c3", "read", json!("{not json")),
    ]);
    let messages = haft.answer_openai(&tool_calls).await;
    let starts = [
        ("c0", "outside_workspace: "),
        (
            "c1",
            "invalid_input: the tool call has no function (at /function)",
        ),
        ("c2", "hello\n"),
        ("c3", "invalid_input: the arguments are not valid JSON"),
    ];
    assert_eq!(messages.len(), starts.len());
    for (message, (id, start)) in messages.iter().zip(starts) {
        assert_eq!(message["tool_call_id"], id);
        assert!(
            message["content"].as_str().unwrap().starts_with(start),
            "{message}"
        );
    }
}

#[tokio::test]
async fn an_image_is_described_where_only_text_can_be_sent() {
    let place = Place::new();
    let haft = place.haft().tool(PictureTool).build().await.unwrap();
    let messages = haft
        .answer_openai(&json!([call("c", "picture", json!(""))]))
        .await;
    assert_eq!(
        messages[0]["content"],
        "a picture\n[image (image/png, 16 bytes) left out: it cannot be shown here]"
    );
}
