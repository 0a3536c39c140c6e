//! Anthropic's Messages API, in and out.

use base64::Engine as _;
use haft::prelude::*;

use crate::{
    place::Place,
    sample::{PICTURE, PictureTool},
};

#[tokio::test]
async fn r6_tool_use_blocks_of_a_message_are_answered_in_order() {
    let place = Place::with(&[("a.txt", "hello\n")]);
    let haft = place
        .haft()
        .allow("bash(cat a.txt)")
        .sandbox("bash", SandboxMode::Off)
        .build()
        .await
        .unwrap();
    let message = json!({"role": "assistant", "content": [
        {"type": "text", "text": "I will look."},
        {"type": "tool_use", "id": "t1", "name": "Read", "input": {"file_path": "a.txt"}},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "t2", "name": "bash_exec", "input": "{\"command\": \"cat a.txt\"}"},
    ]});
    let blocks = haft.answer_anthropic(&message).await;
    assert_eq!(blocks.len(), 2);
    assert_eq!(
        blocks[0],
        json!({"type": "tool_result", "tool_use_id": "t1", "is_error": false,
               "content": [{"type": "text", "text": "hello\n"}]})
    );
    assert_eq!(blocks[1]["tool_use_id"], "t2");
    assert_eq!(blocks[1]["is_error"], false, "{}", blocks[1]);
    assert!(
        blocks[1]["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("hello")
    );
}

#[tokio::test]
async fn mistake_15_an_error_is_told_by_a_flag_not_by_its_text() {
    let place = Place::with(&[("a.txt", "Error: this is only a file that starts so\n")]);
    let haft = place.haft().build().await.unwrap();
    let content = json!([
        {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a.txt"}},
        {"type": "tool_use", "id": "t2", "name": "read", "input": {"path": "gone.txt"}},
        {"type": "tool_use", "id": "t3", "input": {}},
    ]);
    let blocks = haft.answer_anthropic(&content).await;
    let flags: Vec<&Value> = blocks.iter().map(|block| &block["is_error"]).collect();
    assert_eq!(flags, [&json!(false), &json!(true), &json!(true)]);
    let last = blocks[2]["content"][0]["text"].as_str().unwrap();
    assert!(
        last.starts_with("invalid_input: the tool call has no name (at /name)"),
        "{last}"
    );
}

#[tokio::test]
async fn an_image_is_sent_as_one() {
    let place = Place::new();
    let haft = place.haft().tool(PictureTool).build().await.unwrap();
    let content = json!([{"type": "tool_use", "id": "t", "name": "picture", "input": {}}]);
    let blocks = haft.answer_anthropic(&content).await;
    let image = &blocks[0]["content"][1];
    assert_eq!(image["type"], "image");
    assert_eq!(image["source"]["media_type"], "image/png");
    let data = image["source"]["data"].as_str().unwrap();
    let data = base64::engine::general_purpose::STANDARD
        .decode(data)
        .unwrap();
    assert_eq!(data, PICTURE);
}
