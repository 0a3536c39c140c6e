//! Two tenants on one gateway: whatever one has, the other cannot tell from what nobody has. The operations
//! are read from the description of the API, so a new one is tried as soon as it is there.

use std::collections::BTreeMap;

use reqwest::Method;
use serde_json::{Value, json};

use crate::served::{Answer, CAREFUL, Client, Served, answer, until};

/// Things that one tenant has, by the part of the path that names them.
async fn things(owner: &Client) -> BTreeMap<&'static str, String> {
    let read = owner.call("read", json!({"path": "notes.txt"})).await;
    let body =
        json!({"tool": "write", "arguments": {"path": "a.txt", "content": "x"}, "wait_ms": 0});
    owner.post("/v1/calls", body).await.is(202);
    let question = until(|| async {
        let open = owner.get("/v1/approvals").await;
        open.items()
            .first()
            .map(|one| one["question"].as_str().unwrap().to_owned())
    })
    .await;
    let made = owner
        .post("/v1/keys", json!({"name": "k", "scopes": ["call"]}))
        .await;
    let sessions = owner.get("/v1/sessions").await;
    BTreeMap::from([
        ("calls", read.is(200).text("/call").to_owned()),
        ("approvals", question),
        ("keys", made.is(201).text("/id").to_owned()),
        (
            "sessions",
            sessions.items()[0]["session"].as_str().unwrap().to_owned(),
        ),
        ("grants", haft_contract::host::GrantId::new().to_string()),
        ("tools", "read".to_owned()),
    ])
}

/// An id of the same form that nobody has.
fn nobodys(kind: &str) -> String {
    match kind {
        "keys" => "zzzzzzzzzzzzzzzz".to_owned(),
        "sessions" => "nobody".to_owned(),
        "tools" => "nothing".to_owned(),
        _ => haft_contract::CallId::new().to_string(),
    }
}

/// A body that each operation understands.
fn body(path: &str) -> Value {
    match path {
        path if path.ends_with("/answer") => json!({"verdict": "refuse", "digest": "0".repeat(64)}),
        _ => json!({}),
    }
}

/// What anybody can see of an answer.
fn seen(answer: &Answer, id: &str) -> (u16, String, Vec<String>) {
    let names = answer.headers.keys().map(ToString::to_string);
    let mut names: Vec<_> = names.collect();
    names.sort();
    (
        answer.status.as_u16(),
        answer.body.to_string().replace(id, "ID"),
        names,
    )
}

#[tokio::test]
async fn what_another_tenant_has_does_not_exist_on_any_route() {
    let served = Served::open(CAREFUL).await;
    let (owner, stranger) = (served.admin("acme").await, served.admin("beta").await);
    let things = things(&owner).await;
    let document = serde_json::to_value(haft_gateway::openapi_document()).unwrap();
    let mut tried = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if !path.contains('{') {
            continue;
        }
        let kind = path.split('/').nth(2).unwrap();
        let own = things
            .get(kind)
            .unwrap_or_else(|| panic!("make a thing for {path}"));
        if kind == "tools" {
            continue;
        }
        for method in item.as_object().unwrap().keys() {
            let method: Method = method.to_uppercase().parse().unwrap();
            let ask = |id: String| {
                let place = path.split('{').next().unwrap();
                let rest = path.split('}').nth(1).unwrap();
                let request = stranger.request(method.clone(), &format!("{place}{id}{rest}"));
                if method == Method::POST {
                    request.json(&body(path))
                } else {
                    request
                }
            };
            let theirs = answer(ask(own.clone())).await;
            let nobody = nobodys(kind);
            let nothing = answer(ask(nobody.clone())).await;
            assert_eq!(
                seen(&theirs, own),
                seen(&nothing, &nobody),
                "{method} {path}"
            );
            let is_list = theirs.status == 200 && theirs.items().is_empty();
            assert!(
                theirs.status == 404 || is_list,
                "{method} {path}: {theirs:?}"
            );
            tried += 1;
        }
    }
    assert!(tried >= 10, "{tried}");
    for list in ["calls", "approvals", "sessions", "grants"] {
        let listed = stranger.get(&format!("/v1/{list}")).await;
        assert!(listed.is(200).items().is_empty(), "{list}: {listed:?}");
    }
    assert_eq!(stranger.get("/v1/keys").await.items().len(), 1, "their own");
    assert_eq!(stranger.get("/v1/usage?by=all").await.items().len(), 0);
    assert_eq!(
        owner.get("/v1/approvals").await.items().len(),
        1,
        "still open"
    );
    served.close().await;
}

/// The same name is another workspace, with other files, for each.
#[tokio::test]
async fn each_tenant_works_in_its_own_workspaces() {
    let served = Served::open(CAREFUL).await;
    let ids = |answer: &Answer| {
        let ids = answer
            .items()
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let mut known = Vec::new();
    for tenant in ["acme", "beta"] {
        let client = served.admin(tenant).await;
        let workspaces = client.get("/v1/workspaces").await;
        known.push(ids(workspaces.is(200)));
        let read = client.call("read", json!({"path": "notes.txt"})).await;
        let text = read.is(200).text("/result/content/0/text");
        assert!(text.contains(&format!("this is {tenant}")), "{text}");
        let root = served
            .root()
            .join(if tenant == "acme" { "beta" } else { "acme" });
        let other = client
            .call("read", json!({"path": root.join("notes.txt")}))
            .await;
        assert_ne!(other.is(200).text("/state"), "succeeded", "{other:?}");
    }
    let acme = served.admin("acme").await;
    let body =
        json!({"tool": "read", "arguments": {"path": "notes.txt"}, "workspace": known[1][0]});
    let theirs = acme.post("/v1/calls", body).await;
    let body =
        json!({"tool": "read", "arguments": {"path": "notes.txt"}, "workspace": "ws-nothing"});
    let nothing = acme.post("/v1/calls", body).await;
    assert_eq!(theirs.is(404).body, nothing.is(404).body);
    served.close().await;
}
