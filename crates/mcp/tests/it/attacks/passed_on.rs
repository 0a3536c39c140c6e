//! MC-20: what a client sends to prove who it is goes no further than Haft.

use std::sync::Arc;

use haft_contract::erased::ErasedTool;
use haft_mcp::{
    client::Clients,
    name::ServerId,
    upstream::{
        connection::Server,
        tool::{MountedTool, ToolMounting},
    },
};
use serde_json::json;

use crate::{
    server::{http::Served, web::TOKEN},
    upstream::{
        http::{Scripted, Seen},
        tool::Running,
    },
};

/// Everything a client may carry, none of which is the mounted server's business.
const CARRIED: [(&str, &str); 4] = [
    ("cookie", "session=of-the-client"),
    ("x-api-key", "of-the-client"),
    ("proxy-authorization", "Basic of-the-client"),
    ("mcp-param-key", "of-the-client"),
];

#[tokio::test]
async fn mc_20_a_clients_token_and_headers_are_not_passed_on() {
    let upstream = Scripted::new(Seen::modern).await;
    let served = Served::new().await;
    let id = ServerId::parse("peer").unwrap();
    let provider = id.provider().unwrap();
    let mounted: Arc<dyn Server> = Arc::new(Running::new(id, upstream.connect().await));
    let mounting = ToolMounting::new(Arc::new(Clients::default()));
    let tool = MountedTool::new(&mounted, &json!({ "name": "t" }), &mounting).unwrap();
    let tools = vec![Arc::new(tool) as Arc<dyn ErasedTool>];
    let registry = served.stage.harness.runtime.registry();
    registry.register(&provider, tools).unwrap();

    let call = json!({ "name": "mcp__peer__t", "arguments": {} });
    let mut request = served.web.modern("tools/call", call.clone());
    for (name, value) in CARRIED {
        request = request.header(name, value);
    }
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let session = served.web.begin().await;
    let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call});
    let mut request = served.web.in_session(&session, &body);
    for (name, value) in CARRIED {
        request = request.header(name, value);
    }
    assert_eq!(request.send().await.unwrap().status(), 200);
    served.stage.until_quiet().await;

    let seen = upstream.seen();
    let calls = seen.iter().filter(|one| one.method() == "tools/call");
    assert_eq!(calls.count(), 2, "both arrived: {seen:?}");
    for one in &seen {
        assert_eq!(one.header("authorization"), None, "{one:?}");
        let all = format!("{one:?}");
        assert!(
            !all.contains(TOKEN) && !all.contains("of-the-client"),
            "{all}"
        );
    }
}
