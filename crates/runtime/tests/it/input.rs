//! R9 and mistake 5: what a model may write, and that what was validated is what runs.

use haft_contract::{CallRequest, ErrorKind, spec::ParameterAlias};
use haft_testkit::Harness;
use serde_json::json;

use crate::scripted::Scripted;

fn harness() -> Harness {
    let tool = Scripted::echo("look")
        .schema(json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "limit": {"type": "integer", "minimum": 1}},
            "required": ["path"],
            "additionalProperties": false,
        }))
        .spec(|spec| spec.parameter_aliases(&[ParameterAlias::new("file_path", "path")]));
    Harness::memory().tools(vec![tool.tool()]).build()
}

#[tokio::test]
async fn r9_every_form_of_arguments_reaches_the_tool() {
    let harness = harness();
    let expect = Some(json!({"path": "a", "limit": 3}));
    for arguments in [
        json!({"path": "a", "limit": 3}),
        json!({"file_path": "a", "limit": "3"}),
        json!("{\"path\": \"a\", \"limit\": 3}"),
        json!({"arguments": {"path": "a", "limit": 3}}),
        json!({"arguments": "{\"path\": \"a\", \"limit\": 3}"}),
    ] {
        assert_eq!(harness.succeed("look", arguments).await.structured, expect);
    }
    let text = CallRequest::from_text("look", "{\"path\":\"a\"}", harness.principal.clone());
    assert_eq!(
        harness.runtime.call(text).await.structured,
        Some(json!({"path": "a"}))
    );
}

#[tokio::test]
async fn mistake_05_the_value_that_was_validated_is_the_value_that_runs() {
    let harness = harness();
    let outcome = harness
        .succeed("look", json!({"file_path": "a", "limit": "7"}))
        .await;
    assert_eq!(outcome.structured, Some(json!({"path": "a", "limit": 7})));
    assert_eq!(
        outcome.facts.coercions.len(),
        2,
        "{:?}",
        outcome.facts.coercions
    );
}

#[tokio::test]
async fn a_refused_input_says_what_where_and_what_instead() {
    let harness = harness();
    let check = async |arguments, expect: &str| {
        let outcome = harness.fail("look", arguments).await;
        assert_eq!(
            outcome.error.as_ref().unwrap().kind,
            ErrorKind::InvalidInput
        );
        assert_eq!(outcome.model_text(), expect);
    };
    check(
        json!({"path": "a", "limt": 3}),
        "invalid_input: there is no parameter `limt` (at /limt)\nhint: did you mean `limit`?",
    )
    .await;
    check(
        json!({"limit": 3}),
        "invalid_input: the parameter `path` is missing (at /path)\nhint: add `path`",
    )
    .await;
    check(
        json!({"path": "a", "limit": 0}),
        "invalid_input: 0 is less than the minimum of 1 (at /limit)\n\
         hint: see the tool's input schema",
    )
    .await;
}

/// Programs read every mistake from the outcome, and a model all of them in the text.
#[tokio::test]
async fn an_outcome_has_every_mistake_with_its_place() {
    let harness = harness();
    let outcome = harness
        .fail("look", json!({"limit": "x", "pth": "a"}))
        .await;
    let structured = outcome.structured.as_ref().expect("structured");
    let mistakes = structured["mistakes"].as_array().unwrap();
    let mut places: Vec<&str> = mistakes
        .iter()
        .map(|mistake| mistake["at"].as_str().unwrap())
        .collect();
    places.sort_unstable();
    assert_eq!(places, ["/limit", "/path", "/pth"], "{mistakes:?}");
    for mistake in mistakes {
        assert!(
            mistake["message"].is_string() && mistake["hint"].is_string(),
            "{mistake}"
        );
    }
    let text = outcome.model_text();
    for place in places {
        assert!(
            text.contains(&format!("(at {place})")) || text.contains(&format!("(at `{place}`)")),
            "{text}"
        );
    }
    // One mistake is the error itself.
    let one = harness.fail("look", json!({"path": "a", "limit": 0})).await;
    assert_eq!(one.structured, None);
}

#[tokio::test]
async fn rx_14_a_hostile_input_is_an_outcome_not_a_crash() {
    let harness = harness();
    for text in [
        "[".repeat(100_000),
        "{\"path\":1,\"path\":2}".into(),
        "{\"path\":1e400}".into(),
    ] {
        let request = CallRequest::from_text("look", text, harness.principal.clone());
        let outcome = harness.runtime.call(request).await;
        assert_eq!(
            outcome.error.as_ref().unwrap().kind,
            ErrorKind::InvalidInput
        );
    }
    harness.succeed("look", json!({"path": "still here"})).await;
}
