//! A mounted tool on the one path of a call, with a real server behind it.

use std::sync::Arc;

use haft_contract::{
    Content, ErrorKind, PlanContext, Terminal, access::Access, content::ResourceBody,
    erased::ErasedTool, future::BoxFuture,
};
use haft_mcp::{
    client::Clients,
    name::ServerId,
    upstream::{
        connection::{Connection, Request, RequestError, Server},
        fetch::{Kind, fetchers},
        tool::{MountedTool, ToolMounting},
    },
};
use haft_testkit::Harness;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    definitions,
    peers::{Mounted, Peer},
};

/// A server that always runs.
pub(crate) struct Running {
    id: ServerId,
    connection: Arc<dyn Connection>,
}

impl Running {
    pub(crate) fn new(id: ServerId, connection: Arc<dyn Connection>) -> Self {
        Self { id, connection }
    }
}

impl Server for Running {
    fn id(&self) -> &ServerId {
        &self.id
    }

    fn request<'a>(
        &'a self,
        request: Request,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Value, RequestError>> {
        self.connection.request(request, cancel)
    }
}

async fn mounted_in(mounted: &Mounted) -> Harness {
    let id = ServerId::parse("peer").unwrap();
    let provider = id.provider().unwrap();
    let server: Arc<dyn Server> = Arc::new(Running::new(id, Arc::clone(&mounted.connection)));
    let offered = definitions(&*mounted.connection).await;
    let mounting = ToolMounting::new(Arc::new(Clients::default()));
    let mut tools = fetchers(&server, &offered.capabilities, &mounting);
    for definition in &offered.tools {
        let tool = MountedTool::new(&server, definition, &mounting).unwrap();
        tools.push(Arc::new(tool) as Arc<dyn ErasedTool>);
    }
    let harness = Harness::memory().build();
    harness
        .runtime
        .registry()
        .register(&provider, tools)
        .unwrap();
    harness
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_mounted_tool_is_a_tool_like_any_other() {
    let mounted = Peer::Python.over_pipes().await;
    let harness = mounted_in(&mounted).await;

    let listed = harness.runtime.tools_for(&harness.principal);
    let names: Vec<&str> = listed.iter().map(|tool| tool.key().tool.as_str()).collect();
    assert!(names.contains(&"mcp__peer__kinds"), "{names:?}");
    let hidden = Kind::Resource
        .tool(&ServerId::parse("peer").unwrap())
        .unwrap();
    assert!(!names.contains(&hidden.as_str()), "{names:?}");

    let kinds = harness.call("mcp__peer__kinds", json!({})).await;
    assert_eq!(kinds.terminal, Terminal::Succeeded, "{kinds:?}");
    assert_eq!(kinds.content.len(), 6);
    assert_eq!(kinds.content[0], Content::text("text"));
    assert_eq!(
        kinds.content[3],
        Content::Resource {
            uri: "mcp+peer:peer://text".to_owned(),
            media_type: Some("text/plain".to_owned()),
            body: ResourceBody::Text("inside".to_owned()),
        }
    );

    let sum = harness
        .call("mcp__peer__sums", json!({ "a": 1, "b": 2 }))
        .await;
    assert_eq!(sum.structured, Some(json!({ "sum": 3 })), "{sum:?}");
    let wrong = harness.call("mcp__peer__sums", json!({ "a": "x" })).await;
    assert_eq!(wrong.error.as_ref().unwrap().kind, ErrorKind::InvalidInput);

    let failed = harness.call("mcp__peer__fails", json!({})).await;
    assert_eq!(failed.terminal, Terminal::Failed);
    assert_eq!(failed.error.as_ref().unwrap().kind, ErrorKind::ToolFailed);
    assert_eq!(failed.content[0], Content::text("it is broken"));
    assert_eq!(failed.structured, Some(json!({ "why": "broken" })));

    let read = harness
        .call(hidden.as_str(), json!({ "uri": "peer://note" }))
        .await;
    let contents = &read.structured.as_ref().unwrap()["contents"][0];
    assert_eq!(contents["uri"], json!("mcp+peer:peer://note"), "{read:?}");
    assert_eq!(contents["text"], json!("a note"));

    // Its plan names the server and the tool, and nothing is assumed about what it does.
    let entry = harness.runtime.registry().snapshot();
    let entry = entry.get("mcp__peer__echo").unwrap();
    assert!(entry.spec().effects.destructive && !entry.spec().effects.read_only);
    let parsed = entry.tool().parse(&json!({ "text": "x" })).unwrap();
    let context = PlanContext {
        principal: Arc::clone(&harness.principal),
        root: Arc::from("/"),
    };
    let plan = entry.tool().plan(&parsed, &context).unwrap();
    assert_eq!(
        plan.accesses,
        [Access::RemoteTool {
            provider: "mcp__peer".to_owned(),
            tool: "echo".to_owned(),
        }]
    );
}

#[tokio::test]
#[ignore = "ci: needs the programs of .ci/peers"]
async fn a_mounted_tool_whose_server_dies_ends_as_unknown() {
    let mounted = Peer::Hostile.over_pipes().await;
    let harness = mounted_in(&mounted).await;
    let died = harness
        .call("mcp__peer__t", json!({ "how": "exits" }))
        .await;
    assert_eq!(died.terminal, Terminal::Unknown, "{died:?}");
    let after = harness.call("mcp__peer__t", json!({})).await;
    assert_eq!(after.error.as_ref().unwrap().kind, ErrorKind::Unavailable);
}
