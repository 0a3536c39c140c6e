//! The description of the API is the committed one, and says all that an operation answers.

use std::{fs, path::Path};

use serde_json::Value;

use crate::served::{CAREFUL, Served, answer};

#[test]
fn the_description_is_the_committed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    let document = serde_json::to_string_pretty(&haft_gateway::openapi_document()).unwrap() + "\n";
    if std::env::var_os("HAFT_UPDATE").is_some() {
        fs::write(&path, &document).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == document,
        "docs/openapi.json is not what the code says; `HAFT_UPDATE=1 cargo nextest run -p haft-gateway openapi` writes it"
    );
}

#[test]
fn every_operation_is_described_whole() {
    let document = serde_json::to_value(haft_gateway::openapi_document()).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut names = std::collections::BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let name = format!("{method} {path}");
            assert!(operation["summary"].is_string(), "{name} has no summary");
            assert!(operation["tags"][0].is_string(), "{name} has no tag");
            let answers = operation["responses"].as_object().unwrap();
            assert!(
                answers.keys().any(|status| status.starts_with('2')),
                "{name}"
            );
            for status in ["401", "403", "429", "503"] {
                let problem = &answers[status]["content"]["application/problem+json"]["schema"];
                assert_eq!(
                    problem["$ref"], "#/components/schemas/Problem",
                    "{name} {status}"
                );
            }
            let id = operation["operationId"].as_str().unwrap();
            assert!(
                names.insert(id.to_owned()),
                "two operations are called {id}"
            );
        }
    }
    assert!(names.len() >= 20, "{names:?}");
    assert!(
        unresolved(&document, &document).is_empty(),
        "{:?}",
        unresolved(&document, &document)
    );
}

/// References that lead nowhere.
fn unresolved(document: &Value, part: &Value) -> Vec<String> {
    match part {
        Value::Object(members) => {
            let mut lost: Vec<String> = members
                .values()
                .flat_map(|one| unresolved(document, one))
                .collect();
            if let Some(Value::String(to)) = members.get("$ref")
                && document.pointer(to.trim_start_matches('#')).is_none()
            {
                lost.push(to.clone());
            }
            lost
        }
        Value::Array(items) => items
            .iter()
            .flat_map(|one| unresolved(document, one))
            .collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn the_description_is_served() {
    let served = Served::open(CAREFUL).await;
    let http = reqwest::Client::new();
    let document = answer(http.get(format!("{}/openapi.json", served.base()))).await;
    let expect = serde_json::to_value(haft_gateway::openapi_document()).unwrap();
    assert_eq!(document.is(200).body, expect);
    served.close().await;
}
