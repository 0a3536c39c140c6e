//! What a client hears without asking: changes, and log messages.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use haft_contract::host::Verdict;
use haft_mcp::{mounts::Change, server::SessionScope};
use haft_testkit::FixedPolicy;
use serde_json::json;

use super::{Era, Stage};

#[tokio::test(start_paused = true)]
async fn changes_are_announced_once_a_burst() {
    let stage = Stage::new();
    let (mut wire, _) = stage.connect(Era::Legacy).await;
    // The server has read `initialized` once it answers what came after it.
    wire.ask("tools/list", json!({})).await;
    tokio::task::yield_now().await;
    for name in ["one", "two", "three"] {
        stage.add_tool(name);
    }
    wire.hear("notifications/tools/list_changed").await;
    let listed = wire.ask("tools/list", json!({})).await.to_string();
    assert!(listed.contains("\"three\""));
    stage.mounts.changes.send(Change::Prompts).unwrap();
    stage.mounts.changes.send(Change::Resources).unwrap();
    wire.hear("notifications/prompts/list_changed").await;
    wire.hear("notifications/resources/list_changed").await;
    let tools_again =
        |message: &&serde_json::Value| message["method"] == "notifications/tools/list_changed";
    assert_eq!(wire.heard.iter().filter(tools_again).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_listens_hears_what_it_asked_for() {
    let stage = Stage::new();
    let (mut wire, _) = stage.connect(Era::Modern).await;
    let wanted = json!({
        "toolsListChanged": true,
        "resourceSubscriptions": ["s+file:///a", "unknown:1"],
    });
    let id = wire
        .start("subscriptions/listen", json!({ "notifications": wanted }))
        .await;
    let told = wire.hear("notifications/subscriptions/acknowledged").await;
    let accepted = told["params"]["notifications"].to_string();
    assert!(!accepted.contains("unknown"), "{told}");
    while stage.mounts.wishes.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    stage.add_tool("new");
    let changed = wire.hear("notifications/tools/list_changed").await;
    let of = &changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(of, &json!(id), "{changed}");
    stage.mounts.changes.send(Change::Prompts).unwrap();
    for uri in ["s+file:///b", "s+file:///a"] {
        let change = Change::Resource(uri.to_owned());
        stage.mounts.changes.send(change).unwrap();
    }
    let updated = wire.hear("notifications/resources/updated").await;
    assert_eq!(updated["params"]["uri"], "s+file:///a");
    assert!(wire.heard.is_empty(), "{:?}", wire.heard);
    let cancel = json!({"requestId": id});
    wire.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}))
        .await;
    let unsubscribed = ("s+file:///a".to_owned(), false);
    while !stage.mounts.wishes.lock().unwrap().contains(&unsubscribed) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_resource_is_subscribed_to_until_the_last_client_is_gone() {
    let stage = Stage::new();
    let (mut one, one_served) = stage.connect(Era::Legacy).await;
    let (mut other, other_served) = stage.connect(Era::Legacy).await;
    let uri = json!({"uri": "s+file:///a"});
    for wire in [&mut one, &mut other] {
        let subscribed = wire.ask("resources/subscribe", uri.clone()).await;
        assert!(subscribed.get("result").is_some(), "{subscribed}");
    }
    let change = Change::Resource("s+file:///a".to_owned());
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    stage.mounts.changes.send(change).unwrap();
    for wire in [&mut one, &mut other] {
        let updated = wire.hear("notifications/resources/updated").await;
        assert_eq!(updated["params"]["uri"], "s+file:///a");
    }
    one.ask("resources/unsubscribe", uri).await;
    drop(one);
    one_served.await.unwrap();
    drop(other);
    other_served.await.unwrap();
    let wishes = || stage.mounts.wishes.lock().unwrap().clone();
    while wishes().len() < 3 {
        tokio::task::yield_now().await;
    }
    let uri = |wanted: bool| ("s+file:///a".to_owned(), wanted);
    assert_eq!(wishes(), [uri(true), uri(true), uri(false)]);
}

#[tokio::test(start_paused = true)]
async fn who_comes_while_another_leaves_keeps_its_subscription() {
    let stage = Stage::new();
    let (mut one, _) = stage.connect(Era::Legacy).await;
    let (mut other, _) = stage.connect(Era::Legacy).await;
    let uri = |name: &str| format!("s+file:///{name}");
    for name in ["a", "b", "c"] {
        one.ask("resources/subscribe", json!({ "uri": uri(name) }))
            .await;
    }
    stage.mounts.takes_ms.store(3_000, Ordering::SeqCst);
    drop(one);
    let wished = |name: &str, wanted: bool| {
        let wishes = stage.mounts.wishes.lock().unwrap();
        wishes.contains(&(uri(name), wanted))
    };
    while !wished("a", false) {
        tokio::task::yield_now().await;
    }
    // The server is slow to hear about the first, and somebody wants the second now.
    other
        .ask("resources/subscribe", json!({ "uri": uri("b") }))
        .await;
    assert!(!wished("b", false), "it was too late to see anything");
    while !wished("c", false) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(
        !wished("b", false),
        "the news of the second would stay away"
    );
}

#[tokio::test(start_paused = true)]
async fn each_client_that_subscribes_is_judged_by_the_rules() {
    let denies = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&denies);
    let stage = Stage::configured(
        move |harness, _| {
            harness.policy(FixedPolicy::by(move |_| {
                if asked.load(Ordering::SeqCst) {
                    Verdict::Deny
                } else {
                    Verdict::Allow
                }
            }))
        },
        |endpoint| endpoint,
        SessionScope::OfConnection,
    );
    let uri = json!({"uri": "s+file:///a"});
    let (mut one, _) = stage.connect(Era::Legacy).await;
    let subscribed = one.ask("resources/subscribe", uri.clone()).await;
    assert!(subscribed.get("result").is_some(), "{subscribed}");
    // From here on nobody may, and somebody else has it already.
    denies.store(true, Ordering::SeqCst);
    let (mut other, _) = stage.connect(Era::Legacy).await;
    let refused = other.ask("resources/subscribe", uri).await;
    assert!(refused.get("error").is_some(), "{refused}");
    let (mut listens, _) = stage.connect(Era::Modern).await;
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["s+file:///a"]});
    let wanted = json!({ "notifications": wanted });
    listens.start("subscriptions/listen", wanted).await;
    let acknowledged = "notifications/subscriptions/acknowledged";
    listens.hear(acknowledged).await;
    while stage.mounts.wishes.lock().unwrap().len() < 3 {
        tokio::task::yield_now().await;
    }
    stage.until_quiet().await;
    let change = Change::Resource("s+file:///a".to_owned());
    // Sent until the first client, which may, has heard: by then the others would have.
    let mut heard = None;
    while heard.is_none() {
        stage.mounts.changes.send(change.clone()).unwrap();
        stage.add_tool(&format!(
            "new{}",
            stage.harness.runtime.registry().snapshot().len()
        ));
        let soon = std::time::Duration::from_millis(200);
        let told = tokio::time::timeout(soon, one.hear("notifications/resources/updated"));
        heard = told.await.ok();
    }
    listens.hear("notifications/tools/list_changed").await;
    other.hear("notifications/tools/list_changed").await;
    for wire in [&other, &listens] {
        let updates =
            |message: &serde_json::Value| message["method"] == "notifications/resources/updated";
        assert!(!wire.heard.iter().any(updates), "{:?}", wire.heard);
    }
}

#[tokio::test(start_paused = true)]
async fn log_messages_reach_who_wants_them() {
    let stage = Stage::new();
    let logs = json!([
        {"level": "debug", "data": "d"},
        {"level": "info", "logger": "s", "data": {"n": 1}},
        {"level": "error", "data": "e"},
    ]);
    let arguments = json!({ "logs": logs });
    let (mut legacy, _) = stage.connect(Era::Legacy).await;
    legacy.call("speak", arguments.clone()).await;
    assert_eq!(legacy.heard.len(), 2, "{:?}", legacy.heard);
    assert_eq!(legacy.heard[0]["params"]["data"], json!({"n": 1}));
    legacy.heard.clear();
    legacy
        .ask("logging/setLevel", json!({"level": "error"}))
        .await;
    legacy.call("speak", arguments.clone()).await;
    assert_eq!(legacy.heard.len(), 1, "{:?}", legacy.heard);
    let (mut modern, _) = stage.connect(Era::Modern).await;
    modern.call("speak", arguments.clone()).await;
    assert!(modern.heard.is_empty(), "{:?}", modern.heard);
    let meta = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let parameters = json!({"name": "speak", "arguments": arguments, "_meta": meta});
    modern.ask("tools/call", parameters).await;
    assert_eq!(modern.heard.len(), 3, "{:?}", modern.heard);
    let refused = modern
        .ask("logging/setLevel", json!({"level": "error"}))
        .await;
    assert_eq!(refused["error"]["code"], json!(-32601), "{refused}");
}
