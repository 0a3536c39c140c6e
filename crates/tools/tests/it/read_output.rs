//! `read_output`: what was left out of a result can be paged and searched.

use haft_contract::ErrorKind;
use serde_json::json;

use crate::workspace::{Workspace, first_text, pointer, structured};

#[tokio::test]
async fn what_was_left_out_can_be_paged_and_searched() {
    let workspace = Workspace::local();
    let outcome = workspace
        .succeed("bash", json!({"command": "seq 1 100000"}))
        .await;
    assert!(outcome.facts.bytes_omitted > 0);
    let call = outcome.call.to_string();

    let input = json!({"call": call, "offset": 50_000, "limit": 2});
    let page = workspace.succeed("read_output", input).await;
    assert_eq!(
        first_text(&page),
        "50000\n50001\n[continue with offset=50002]"
    );
    assert_eq!(structured(&page)["size"], 588_895);

    let input = json!({"call": call, "pattern": "^77.77$"});
    let found = workspace.succeed("read_output", input).await;
    assert_eq!(
        first_text(&found).lines().collect::<Vec<_>>(),
        (0..10)
            .map(|digit| format!("77{digit}77: 77{digit}77"))
            .collect::<Vec<_>>()
    );

    let input = json!({"call": call, "pattern": "^77.77$", "offset": 77_500, "limit": 2});
    let found = workspace.succeed("read_output", input).await;
    assert_eq!(
        first_text(&found),
        "77577: 77577\n77677: 77677\n[there is more; continue with offset=77777]"
    );

    let input = json!({"call": call, "offset": 100_001});
    let past = workspace
        .refuse("read_output", input, ErrorKind::InvalidInput)
        .await;
    assert_eq!(pointer(&past), "/offset");
}

#[tokio::test]
async fn unknown_calls_and_patterns_are_refused() {
    for workspace in Workspace::each() {
        let outcome = workspace
            .succeed("bash", json!({"command": "echo short"}))
            .await;
        let input = json!({"call": outcome.call.to_string()});
        workspace
            .refuse("read_output", input, ErrorKind::NotFound)
            .await;
        workspace
            .refuse("read_output", json!({"call": "7"}), ErrorKind::InvalidInput)
            .await;
        let input = json!({"call": outcome.call.to_string(), "pattern": "("});
        let outcome = workspace
            .refuse("read_output", input, ErrorKind::InvalidInput)
            .await;
        assert_eq!(pointer(&outcome), "/pattern");
    }
}
