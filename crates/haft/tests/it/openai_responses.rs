//! OpenAI's Responses API, in and out.

use haft::{model::openai_responses, prelude::*};

use crate::{
    place::Place,
    sample::{PICTURE, PictureTool},
};

#[tokio::test]
async fn function_calls_of_a_response_are_answered_and_other_items_left_alone() {
    let place = Place::with(&[("a.txt", "hello\n")]);
    let haft = place.haft().build().await.unwrap();
    let response = json!({"id": "resp_1", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read_file",
         "arguments": "{\"path\": \"a.txt\"}"},
        {"type": "message", "role": "assistant", "content": []},
        {"type": "function_call", "id": "fc_2", "call_id": "call_2", "arguments": "{}"},
    ]});
    let items = haft.answer_openai_responses(&response).await;
    assert_eq!(
        items,
        [
            json!({"type": "function_call_output", "call_id": "call_1", "output": "hello\n"}),
            json!({"type": "function_call_output", "call_id": "call_2", "output":
                "invalid_input: the tool call has no name (at /name)\n\
                 hint: name one of the tools you were given"}),
        ]
    );
}

#[tokio::test]
async fn an_image_is_sent_as_one() {
    let place = Place::new();
    let haft = place.haft().tool(PictureTool).build().await.unwrap();
    let output =
        json!([{"type": "function_call", "call_id": "c", "name": "picture", "arguments": ""}]);
    let items = haft.answer_openai_responses(&output).await;
    let parts = items[0]["output"].as_array().unwrap();
    assert_eq!(parts[0], json!({"type": "input_text", "text": "a picture"}));
    let url = parts[1]["image_url"].as_str().unwrap();
    assert_eq!(
        decoded(url.strip_prefix("data:image/png;base64,").unwrap()),
        PICTURE
    );
}

#[tokio::test]
async fn functions_are_described_flat() {
    let place = Place::new();
    let haft = place.haft().build().await.unwrap();
    for chat in haft.tools_as(Format::OpenAi) {
        let flat = openai_responses::function(&chat);
        assert_eq!(flat["type"], "function");
        assert_eq!(flat["name"], chat["function"]["name"]);
        assert_eq!(flat["parameters"], chat["function"]["parameters"]);
    }
}

fn decoded(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .unwrap()
}
