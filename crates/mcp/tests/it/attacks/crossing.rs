//! MC-19, MC-27: a server `a` whose answer orders a call of another, `b`, with a secret, and a model that
//! does as it is told. Under rules about what a session has read from, `b` is not reached; as the
//! control, under rules that do not care, it is. The order may also be read by another process of the
//! same session.

use haft_contract::{Outcome, Terminal, outcome::DeniedBy};
use haft_mcp::mounts::Mounts as _;
use haft_policy::{CedarPolicy, PolicySource};
use serde_json::{Value, json};

use super::{
    check,
    corpus::{Obeyed, Scripted, Transport},
    ended,
    mount::{Peer, Place},
    said,
};

/// Allows everything of every server, whatever was read.
const CARELESS: &str = "[policy]\nallow = [{ rule = \"mcp__*\", after = [\"mcp:*\"] }]";

const SECRET: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";

/// A server that says what it was sent.
fn told() -> Value {
    json!({ "era": "legacy", "version": "2025-11-25", "name": "b",
        "tools": [{ "name": "send", "inputSchema": { "type": "object" } }],
        "on": { "tools/call": [{ "text": "b was reached" }] } })
}

fn policy(text: &str) -> CedarPolicy {
    CedarPolicy::load(&[PolicySource::new("haft.toml", text)]).unwrap_or_else(|error| {
        panic!("{text}: {error}");
    })
}

fn peers(script: Value, transport: Transport) -> Vec<Peer> {
    vec![
        Peer::new("a", script, transport),
        Peer::new("b", told(), transport),
    ]
}

async fn place(script: Value, rules: &str, transport: Transport) -> Place {
    let place = Place::decided(peers(script, transport), policy(rules)).await;
    place.accept_all().await;
    place
}

async fn send(place: &Place) -> std::sync::Arc<Outcome> {
    place.call("b", "send", json!({ "text": SECRET })).await
}

/// Whether obeying comes to what it must, and without the rules to what it would.
pub(super) async fn judge(
    scripted: &Scripted,
    obeyed: &Obeyed,
    transport: Transport,
) -> Result<(), String> {
    for (rules, expect) in [(CARELESS, "succeeded"), (&obeyed.rules, &obeyed.expect)] {
        let place = place(scripted.script(), rules, transport).await;
        let other = if obeyed.elsewhere {
            // It is at work already when the other one reads.
            let before = send(&place).await;
            ended(&place, &before, "succeeded").await?;
            let peers = peers(scripted.script(), transport);
            let other = place.another(peers, policy(rules)).await;
            other.accept_all().await;
            Some(other)
        } else {
            None
        };
        if obeyed.read {
            let reader = other.as_ref().unwrap_or(&place);
            let read = reader.call("a", "t", scripted.arguments.clone()).await;
            let as_it_must = scripted.expect.as_deref().unwrap_or("succeeded");
            ended(reader, &read, as_it_must).await?;
            let control = scripted.seen_without_guards();
            check(said(&read).contains(&control), || {
                format!("the order did not arrive: {:.400}", said(&read))
            })?;
        }
        let sent = send(&place).await;
        ended(&place, &sent, expect).await?;
        let reached = said(&sent).contains("b was reached");
        check(reached == sent.succeeded(), || {
            format!("{:.400}", said(&sent))
        })?;
        if rules != CARELESS {
            for shows in &obeyed.shows {
                check(said(&sent).contains(shows), || {
                    format!("no {shows:?} in {:.600}", said(&sent))
                })?;
            }
        }
        if let Some(other) = other {
            other.end().await;
        }
        place.end().await;
    }
    Ok(())
}

/// What is read beside tools is read too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mc_19_a_resource_of_a_server_is_its_word_as_much_as_a_result() {
    let script = json!({ "era": "legacy", "version": "2025-11-25", "name": "a", "on": {},
        "tools": [{ "name": "t" }],
        "resources": [{ "uri": "note:1", "name": "note" }] });
    let rules = "[policy]\nallow = [\"mcp__b__send\", \"mcp__a__*\"]\n\
                 deny = [{ rule = \"mcp__b__*\", after = [\"mcp:a\"] }]";
    for transport in Transport::BOTH {
        let place = place(script.clone(), rules, transport).await;
        assert!(send(&place).await.succeeded());
        // `b` was read by now, so that a pattern no longer lets `a` be read.
        let fetch = place.beside().read("mcp+a:note:1").unwrap();
        let request = fetch.request(std::sync::Arc::clone(&place.harness.principal));
        let read = place.harness.runtime.call(request).await;
        assert_eq!(
            read.facts.denied_by,
            Some(DeniedBy::NobodyToAsk),
            "{read:?}"
        );
        assert!(send(&place).await.succeeded(), "nothing was read");
        let elsewhere = haft_testkit::principal::in_session("elsewhere");
        let fetch = place.beside().read("mcp+a:note:1").unwrap();
        let read = place
            .harness
            .runtime
            .call(fetch.request(elsewhere.clone()))
            .await;
        assert_eq!(read.terminal, Terminal::Succeeded, "{read:?}");
        let arguments = json!({ "text": SECRET });
        let request = haft_contract::CallRequest::new("mcp__b__send", arguments, elsewhere);
        let sent = place.harness.runtime.call(request).await;
        assert_eq!(sent.facts.denied_by, Some(DeniedBy::Policy), "{sent:?}");
        place.end().await;
    }
}
