//! MC-26: an older version of the protocol buys nothing, on either edge.

use haft_contract::{Terminal, host::Verdict, outcome::DeniedBy};
use haft_mcp::server::SessionScope;
use haft_testkit::FixedPolicy;
use serde_json::{Value, json};

use super::{
    corpus::Transport,
    mount::{Peer, Place},
};
use crate::server::Stage;

/// Every version with a handshake, oldest first.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The version without one.
const STATELESS: &str = "2026-07-28";

/// A server that tells when it is reached.
fn server(era: &str, version: &str) -> Value {
    json!({ "era": era, "version": version, "name": "s",
        "on": { "tools/call": [{ "text": "reached" }] },
        "tools": [{ "name": "denied" }, { "name": "asked" }, { "name": "fine" }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mc_26_what_is_denied_or_asked_about_is_so_whatever_version_a_server_speaks() {
    let decides = |question: &haft_contract::host::Question<'_>| {
        let tool = question.tool.key.tool.as_str();
        match tool.rsplit("__").next() {
            Some("denied") => Verdict::Deny,
            Some("asked") => Verdict::Ask,
            _ => Verdict::Allow,
        }
    };
    for transport in Transport::BOTH {
        let legacy = LEGACY.map(|version| ("legacy", version));
        let versions = legacy.into_iter().chain([("modern", STATELESS)]);
        let mut ids = Vec::new();
        let mut peers = Vec::new();
        for (at, (era, version)) in versions.enumerate() {
            let accepted = format!("v{at}");
            peers.push(Peer::new(&accepted, server(era, version), transport));
            peers.push(Peer {
                accepted: false,
                ..Peer::new(&format!("new{at}"), server(era, version), transport)
            });
            ids.push((accepted, format!("new{at}"), version));
        }
        let place = Place::decided(peers, FixedPolicy::by(decides)).await;
        place.accept_all().await;
        for (accepted, new, version) in &ids {
            for (server, tool, by) in [
                (accepted, "denied", Some(DeniedBy::Policy)),
                (accepted, "asked", Some(DeniedBy::NobodyToAsk)),
                (new, "fine", None),
            ] {
                let outcome = place.call(server, tool, json!({})).await;
                assert_eq!(outcome.terminal, Terminal::Denied, "{version}: {outcome:?}");
                let said = outcome.model_text();
                assert!(!said.contains("reached"), "{version}: {said}");
                if by.is_some() {
                    assert_eq!(outcome.facts.denied_by, by, "{version}, {tool}");
                }
            }
            let fine = place.call(accepted, "fine", json!({})).await;
            assert_eq!(fine.terminal, Terminal::Succeeded, "{version}: {fine:?}");
        }
        place.end().await;
    }
}

#[tokio::test]
async fn mc_26_what_is_denied_or_asked_about_is_so_whatever_version_a_client_speaks() {
    let stage = Stage::configured(
        |harness, _| {
            harness.policy(FixedPolicy::per_tool([
                ("append", Verdict::Deny),
                ("echo", Verdict::Ask),
                ("count", Verdict::Allow),
            ]))
        },
        |endpoint| endpoint,
        SessionScope::OfConnection,
    );
    for version in LEGACY.into_iter().chain([STATELESS]) {
        let (mut wire, _) = stage.connect_at(version).await;
        let listed = wire.ask("tools/list", json!({})).await;
        let listed = listed["result"]["tools"].to_string();
        assert!(!listed.contains("append"), "{version}: {listed}");
        for (tool, arguments) in [
            ("append", json!({ "path": "x", "line": "x" })),
            ("echo", json!({ "text": "x" })),
        ] {
            let parameters = json!({ "name": tool, "arguments": arguments });
            let answer = wire.ask("tools/call", parameters).await;
            let refused =
                answer.get("error").is_some() || answer["result"]["isError"] == json!(true);
            assert!(refused, "{version}, {tool}: {answer}");
        }
        let counted = wire.call("count", json!({ "to": 1 })).await;
        assert_eq!(counted["isError"], json!(false), "{version}: {counted}");
    }
    let ended = stage.terminals();
    let each = ["denied", "denied", "succeeded"];
    assert_eq!(ended, each.repeat(LEGACY.len() + 1));
}
