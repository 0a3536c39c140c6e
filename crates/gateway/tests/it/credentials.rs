//! Keys: what they let somebody do, how they are made, and that they end.

use reqwest::Method;
use serde_json::json;

use crate::served::{CAREFUL, Client, Served, answer, until};

#[tokio::test]
async fn nothing_is_open_without_a_key() {
    let served = Served::open(CAREFUL).await;
    let known = served.admin("acme").await;
    let with = |key: &str| Client {
        key: key.to_owned(),
        ..known.clone()
    };
    let mut other = known.key.clone();
    let last = other.pop().unwrap();
    other.push(if last == 'a' { 'b' } else { 'a' });
    for key in ["", "haft_live_x_y", &other, &known.key.to_uppercase()] {
        let refused = with(key).get("/v1/calls").await;
        assert_eq!(refused.is(401).problem(), "unauthorized", "{key}");
        assert_eq!(refused.headers["www-authenticate"], "Bearer realm=\"haft\"");
    }
    let none = answer(known.http.get(format!("{}/v1/calls", known.base))).await;
    none.is(401);
    let basic = known.http.get(format!("{}/v1/calls", known.base));
    answer(basic.basic_auth("haft", Some(&known.key)))
        .await
        .is(401);
    let in_query = known
        .http
        .get(format!("{}/v1/calls?key={}", known.base, known.key));
    answer(in_query).await.is(401);
    answer(known.http.get(format!("{}/healthz", known.base)))
        .await
        .is(200);
    served.close().await;
}

#[tokio::test]
async fn a_key_does_what_its_scopes_say_and_no_more() {
    let served = Served::open(CAREFUL).await;
    let caller = served.client("acme", "writer", &["call"]).await;
    let reader = served.client("acme", "reader", &["read"]).await;
    let made = caller.call("read", json!({"path": "notes.txt"})).await;
    let id = made.is(200).text("/call");

    for path in ["/v1/policy", "/v1/usage", "/v1/keys"] {
        assert_eq!(
            caller.get(path).await.is(403).problem(),
            "forbidden",
            "{path}"
        );
    }
    caller.post("/v1/audit/verify", json!({})).await.is(403);
    reader
        .call("read", json!({"path": "notes.txt"}))
        .await
        .is(403);
    reader
        .post(&format!("/v1/calls/{id}/undo"), json!({}))
        .await
        .is(403);
    reader.get(&format!("/v1/calls/{id}")).await.is(200);
    assert_eq!(reader.get("/v1/calls").await.is(200).items().len(), 1);
    let other = served.client("acme", "other", &["call"]).await;
    other.get(&format!("/v1/calls/{id}")).await.is(404);
    assert!(other.get("/v1/calls").await.is(200).items().is_empty());
    let verified = reader.post("/v1/audit/verify", json!({})).await;
    assert_eq!(verified.is(200).body["intact"], true);
    let usage = reader.get("/v1/usage?by=tool").await;
    assert_eq!(usage.is(200).items()[0]["calls"], 1);
    served.close().await;
}

#[tokio::test]
async fn a_key_is_shown_once_gives_no_more_than_its_maker_has_and_ends_when_revoked() {
    let served = Served::open(CAREFUL).await;
    let admin = served.client("acme", "boss", &["admin", "call"]).await;
    let new = json!({"name": "deploy bot", "agent": "deploy", "scopes": ["call"]});

    let made = admin.post("/v1/keys", new).await;

    let (key, id) = (
        made.is(201).text("/key").to_owned(),
        made.text("/id").to_owned(),
    );
    let listed = admin.get("/v1/keys").await;
    assert!(!listed.is(200).body.to_string().contains(&key));
    assert!(listed.items().iter().any(|one| one["id"] == *id));
    let bot = Client {
        key,
        ..admin.clone()
    };
    let read = bot.call("read", json!({"path": "notes.txt"})).await;
    assert_eq!(read.is(200).text("/state"), "succeeded");
    let more = json!({"name": "more", "scopes": ["approve"]});
    assert_eq!(
        admin
            .post("/v1/keys", more)
            .await
            .is(403)
            .text("/denied_by"),
        "scope"
    );
    bot.post("/v1/keys", json!({"name": "own", "scopes": ["call"]}))
        .await
        .is(403);
    for odd in [
        json!({"name": "", "scopes": []}),
        json!({"name": "a\nb", "scopes": []}),
        json!({"name": "x".repeat(81), "scopes": []}),
        json!({"name": "x", "scopes": ["a b"]}),
        json!({"name": "x", "scopes": [], "agent": "a b"}),
    ] {
        admin.post("/v1/keys", odd).await.is(400);
    }

    admin.delete(&format!("/v1/keys/{id}")).await.is(204);

    bot.get("/v1/calls").await.is(401);
    admin.delete(&format!("/v1/keys/{id}")).await.is(404);
    served.close().await;
}

#[tokio::test]
async fn a_key_may_be_bound_to_a_workspace() {
    let served = Served::open(CAREFUL).await;
    let admin = served.admin("local").await;
    let workspaces = admin.get("/v1/workspaces").await;
    assert_eq!(workspaces.is(200).items()[0]["name"], "own");
    let body = json!({"name": "x", "scopes": ["call"], "workspaces": ["beta"]});
    admin.post("/v1/keys", body).await.is(404);
    let body = json!({"name": "x", "scopes": ["call"], "workspaces": ["own"]});
    let made = admin.post("/v1/keys", body).await;
    assert_eq!(
        made.is(201).body["workspaces"][0],
        workspaces.items()[0]["id"]
    );
    served.close().await;
}

#[tokio::test]
async fn a_key_that_asks_too_often_is_told_when_to_come_back() {
    let served = Served::open("[serve]\nrequests_per_second = 1\nburst = 3\n").await;
    let eager = served.client("acme", "eager", &["call"]).await;
    let patient = served.client("acme", "patient", &["call"]).await;
    let mut refused = 0;
    for _ in 0..10 {
        let answered = eager.get("/v1/calls").await;
        if answered.status == 429 {
            refused += 1;
            assert_eq!(answered.problem(), "too-many-requests");
            assert!(answered.headers.contains_key("retry-after"));
        }
        assert!(answered.headers.contains_key("ratelimit"), "{answered:?}");
    }
    assert!(refused >= 5, "{refused}");
    patient.get("/v1/calls").await.is(200);
    served.close().await;
}

/// A page of the web that found out our address reaches nothing.
#[tokio::test]
async fn a_name_that_is_not_ours_is_refused() {
    let served = Served::open("[serve]\nnames = [\"haft.example\"]\n").await;
    let admin = served.admin("acme").await;
    for (host, status) in [
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("haft.example", 200),
        ("HAFT.example:443", 200),
        ("localhost", 200),
    ] {
        let request = admin.request(Method::GET, "/v1/calls").header("host", host);
        assert_eq!(answer(request).await.status.as_u16(), status, "{host}");
    }
    served.close().await;
}

/// A key that is bound to one of two workspaces of its tenant neither works in the other nor reads of it.
#[tokio::test]
async fn a_bound_key_reads_nothing_of_another_workspace() {
    let served = Served::open(CAREFUL).await;
    let admin = served.admin("local").await;
    let scopes = json!(["call", "read", "approve"]);
    let body = json!({"name": "bound", "agent": "bound", "scopes": scopes, "workspaces": ["own"]});
    let made = admin.post("/v1/keys", body).await;
    let bound = Client {
        key: made.is(201).text("/key").to_owned(),
        ..admin.clone()
    };
    let other = json!({"tool": "read", "arguments": {"path": "notes.txt"}, "workspace": "second"});
    let read = admin.post("/v1/calls", other.clone()).await;
    let id = read.is(200).text("/call");
    let write = json!({"path": "a.txt", "content": "x"});
    let asks = json!({"tool": "write", "arguments": write, "workspace": "second", "wait_ms": 0});
    admin.post("/v1/calls", asks).await.is(202);
    let question = until(|| async {
        let open = admin.get("/v1/approvals").await;
        open.items().first().cloned()
    })
    .await;

    bound.post("/v1/calls", other).await.is(404);
    bound.get(&format!("/v1/calls/{id}")).await.is(404);
    assert!(bound.get("/v1/calls").await.is(200).items().is_empty());
    assert!(bound.get("/v1/approvals").await.is(200).items().is_empty());
    let path = format!("/v1/approvals/{}", question["question"].as_str().unwrap());
    bound.get(&path).await.is(404);
    assert!(bound.get("/v1/sessions").await.is(200).items().is_empty());
    served.close().await;
}
