//! What is offered: tools, and what mounted servers have beside them.

use haft_mcp::server::SessionScope;
use serde_json::{Value, json};

use super::{Era, Stage, Wire};

async fn every_page(wire: &mut Wire, method: &str, key: &str) -> (Vec<Value>, usize) {
    let (mut all, mut pages, mut cursor) = (Vec::new(), 0, Value::Null);
    loop {
        let parameters = if cursor.is_null() {
            json!({})
        } else {
            json!({ "cursor": cursor })
        };
        let listed = wire.ask(method, parameters).await;
        let result = &listed["result"];
        all.extend(result[key].as_array().expect("a list").iter().cloned());
        pages += 1;
        cursor = result["nextCursor"].clone();
        if cursor.is_null() {
            return (all, pages);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn tools_are_listed_in_order_with_their_effects() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let listed = wire.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap();
        let names: Vec<&str> = tools
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert!(names.is_sorted(), "{names:?}");
        let append = tools.iter().find(|it| it["name"] == "append").unwrap();
        assert_eq!(append["annotations"]["readOnlyHint"], json!(false));
        assert_eq!(append["inputSchema"]["type"], "object");
        // Who announces one owes structured content with every result.
        let announced = |tool: &&Value| tool.get("outputSchema").is_some();
        assert_eq!(tools.iter().find(announced), None);
        let cached = &listed["result"]["cacheScope"];
        match era {
            Era::Legacy => {}
            Era::Modern => assert_eq!(cached, "private"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_pages() {
    let stage = Stage::with(
        |endpoint| endpoint.page_entries(3),
        SessionScope::OfEndpoint,
    );
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let (tools, pages) = every_page(&mut wire, "tools/list", "tools").await;
        assert_eq!(pages, tools.len().div_ceil(3));
        let names: Vec<String> = tools.iter().map(|it| it["name"].to_string()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        let odd = wire.ask("tools/list", json!({"cursor": "%"})).await;
        assert_eq!(odd["error"]["code"], json!(-32602));
    }
}

#[tokio::test(start_paused = true)]
async fn what_mounted_servers_offer_is_listed_and_read() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let (resources, _) = every_page(&mut wire, "resources/list", "resources").await;
        assert_eq!(resources.len(), 3);
        let templates = "resources/templates/list";
        let (templates, _) = every_page(&mut wire, templates, "resourceTemplates").await;
        assert!(
            json!(templates)
                .to_string()
                .contains("haft://output/{call}")
        );
        let (prompts, _) = every_page(&mut wire, "prompts/list", "prompts").await;
        assert_eq!(prompts[0]["name"], "greet");
        let read = wire
            .ask("resources/read", json!({"uri": "s+file:///a"}))
            .await;
        assert_eq!(read["result"]["contents"][0]["text"], "text of a", "{read}");
        let whom = json!({"name": "greet", "arguments": {"whom": "Ada"}});
        let prompt = wire.ask("prompts/get", whom).await;
        let text = &prompt["result"]["messages"][0]["content"]["text"];
        assert_eq!(text, "hello \"Ada\"", "{prompt}");
        let completed = json!({
            "ref": {"type": "ref/prompt", "name": "greet"},
            "argument": {"name": "whom", "value": "A"},
        });
        let completed = wire.ask("completion/complete", completed).await;
        let values = &completed["result"]["completion"]["values"];
        assert_eq!(values, &json!(["A-completed"]), "{completed}");
    }
    // Each of them was a call, and is on record.
    assert_eq!(stage.terminals().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_is_said_so() {
    let stage = Stage::new();
    for era in Era::BOTH {
        let (mut wire, _) = stage.connect(era).await;
        let not_found = match era {
            Era::Legacy => json!(-32002),
            Era::Modern => json!(-32602),
        };
        for uri in ["s+file:///gone", "other:1", "file:///etc/passwd"] {
            let read = wire.ask("resources/read", json!({ "uri": uri })).await;
            assert_eq!(read["error"]["code"], not_found, "{uri}: {read}");
        }
        let odd = wire
            .ask("resources/read", json!({"uri": "s+file:///odd"}))
            .await;
        assert_eq!(odd["error"]["code"], json!(-32603), "{odd}");
        let prompt = wire.ask("prompts/get", json!({"name": "no"})).await;
        assert_eq!(prompt["error"]["code"], json!(-32602));
        let unknown = wire.ask("no/such/method", json!({})).await;
        assert_eq!(unknown["error"]["code"], json!(-32601), "{unknown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_version_nobody_speaks_is_refused_with_those_we_do() {
    let stage = Stage::new();
    let (mut wire, _) = stage.connect(Era::Modern).await;
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2099-01-01"});
    let refused = wire.ask("tools/list", json!({ "_meta": meta })).await;
    assert_eq!(refused["error"]["code"], json!(-32022), "{refused}");
    let supported = refused["error"]["data"]["supported"].to_string();
    assert!(supported.contains("2026-07-28") && supported.contains("2025-11-25"));
}
