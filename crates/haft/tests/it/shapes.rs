//! Shapes that are not: whatever a model or a server sends, every call is answered and nothing
//! panics.

use std::sync::Arc;

use haft::{
    contract::outcome::Failure,
    model::{ModelAnswer, anthropic, openai, openai_responses},
    prelude::*,
};

#[track_caller]
fn check_openai(tool_calls: Value, expect: &[&str]) {
    let read: Vec<String> = openai::calls(&tool_calls)
        .into_iter()
        .map(|call| match call.asked {
            Ok(asked) => asked.tool,
            Err(error) => format!("{}: {error}", error.at()),
        })
        .collect();
    assert_eq!(read, expect, "{tool_calls}");
}

#[test]
fn every_element_of_tool_calls_is_a_call() {
    let good =
        json!({"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}});
    check_openai(Value::Null, &[]);
    check_openai(json!([]), &[]);
    check_openai(json!({"role": "assistant", "content": "done"}), &[]);
    check_openai(json!({"role": "assistant", "tool_calls": null}), &[]);
    check_openai(
        json!({"role": "assistant", "tool_calls": [good]}),
        &["read"],
    );
    check_openai(good.clone(), &["read"]);
    // Servers that only know functions leave the type out.
    check_openai(json!([{"function": {"name": "read"}}]), &["read"]);
    check_openai(json!([null]), &["/function: the tool call has no function"]);
    check_openai(json!("read"), &["/function: the tool call has no function"]);
    check_openai(
        json!([{"function": []}]),
        &["/function: the tool call has no function"],
    );
    check_openai(
        json!([{"type": "custom", "custom": {"name": "read"}}]),
        &["/type: the tool call is not a function call"],
    );
    check_openai(
        json!([{"function": {"name": 7}}, {"function": {"name": ""}}, {"function": {}}, good]),
        &[
            "/function/name: the name of the tool is not text",
            "/function/name: the tool call does not name a tool",
            "/function/name: the tool call has no name",
            "read",
        ],
    );
}

#[test]
fn only_blocks_that_ask_for_a_tool_are_calls() {
    let text = json!({"type": "text", "text": "tool_use"});
    let call = json!({"type": "tool_use", "id": "t", "name": "read", "input": {}});
    assert!(anthropic::calls(&json!("just text")).is_empty());
    assert!(anthropic::calls(&json!({"role": "assistant", "content": "text"})).is_empty());
    assert!(anthropic::calls(&json!([text, null, 1])).is_empty());
    assert_eq!(anthropic::calls(&json!([text, call])).len(), 1);
    assert_eq!(anthropic::calls(&call).len(), 1);
    assert!(openai_responses::calls(&json!({"output": "text"})).is_empty());
    assert!(openai_responses::calls(&json!([{"type": "message"}])).is_empty());
}

fn answered(id: Option<&str>, content: Vec<Content>, error: Option<Failure>) -> ModelAnswer {
    let outcome = Outcome {
        call: CallId::new(),
        tool: None,
        terminal: if error.is_some() {
            Terminal::Failed
        } else {
            Terminal::Succeeded
        },
        content,
        structured: None,
        error,
        facts: haft::contract::Facts::default(),
    };
    ModelAnswer::new(id.map(str::to_owned), Arc::new(outcome))
}

#[test]
fn a_call_without_an_id_is_answered_under_our_own() {
    let answered = answered(None, Vec::new(), None);
    let message = openai::tool_message(&answered);
    assert_eq!(message["tool_call_id"], answered.outcome.call.to_string());
}

#[test]
fn nothing_to_say_is_said_because_providers_refuse_empty_text() {
    let empty = answered(Some("c"), vec![Content::text("")], None);
    assert_eq!(openai::tool_message(&empty)["content"], "(no output)");
    assert_eq!(
        anthropic::tool_result(&empty)["content"],
        json!([{"type": "text", "text": "(no output)"}])
    );
    assert_eq!(
        openai_responses::function_call_output(&empty)["output"],
        "(no output)"
    );
}

#[test]
fn a_failed_result_holds_text_only_where_the_provider_wants_that() {
    let failure = Failure {
        kind: ErrorKind::Io,
        message: "the disk is full".to_owned(),
        at: None,
        hint: None,
    };
    let image = Content::Image {
        data: vec![1, 2, 3],
        media_type: "image/png".to_owned(),
    };
    let failed = answered(Some("t"), vec![image], Some(failure));
    let block = anthropic::tool_result(&failed);
    assert_eq!(block["is_error"], true);
    let kinds: Vec<&Value> = block["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|b| &b["type"])
        .collect();
    assert_eq!(kinds, [&json!("text"), &json!("text")]);
    assert_eq!(block["content"][1]["text"], "io: the disk is full");
}

#[test]
fn documents_and_links_are_sent_or_described() {
    let pieces = vec![
        Content::Document {
            data: vec![37, 80, 68, 70],
            media_type: "application/pdf".to_owned(),
            name: "paper.pdf".to_owned(),
        },
        Content::Link {
            uri: "artifact:1".to_owned(),
            name: "the whole output".to_owned(),
            media_type: None,
        },
        Content::Image {
            data: vec![0; 3],
            media_type: "image/bmp".to_owned(),
        },
    ];
    let all = answered(Some("t"), pieces, None);
    let block = anthropic::tool_result(&all);
    assert_eq!(block["content"][0]["title"], "paper.pdf");
    assert_eq!(block["content"][0]["source"]["data"], "JVBERg==");
    assert_eq!(
        block["content"][1]["text"],
        "[the whole output: artifact:1]"
    );
    assert_eq!(
        block["content"][2]["text"],
        "[image (image/bmp, 3 bytes) left out: it cannot be shown here]"
    );
    let item = openai_responses::function_call_output(&all);
    assert_eq!(
        item["output"][0]["file_data"],
        "data:application/pdf;base64,JVBERg=="
    );
    assert_eq!(
        openai::tool_message(&all)["content"],
        "[document `paper.pdf` (application/pdf, 4 bytes) left out: it cannot be shown here]\n\
         [the whole output: artifact:1]\n\
         [image (image/bmp, 3 bytes) left out: it cannot be shown here]"
    );
}
