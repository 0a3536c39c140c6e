//! MC-24: URIs that name what is not the server's.

use haft_contract::{ErrorKind, Terminal};
use haft_mcp::mounts::{Fetch, Mounts as _};
use serde_json::{Value, json};

use super::{
    corpus::Transport,
    mount::{Peer, Place},
};

/// A server that says it has a file of this machine, and answers with what it was asked for.
fn server() -> Value {
    json!({ "era": "legacy", "version": "2025-11-25", "name": "s", "on": {},
        "tools": [{ "name": "fine" }],
        "resources": [{ "uri": "file:///etc/passwd", "name": "passwd" }],
        "templates": [
            { "uriTemplate": "file:///{+path}", "name": "files" },
            { "uriTemplate": format!("note://{}", "{x}".repeat(1_000)), "name": "huge" },
        ] })
}

/// Whatever a URI says, it is asked of the server whose name it carries, to the letter, and Haft
/// opens no file for it; without a name it is nobody's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mc_24_a_uri_is_asked_of_the_server_it_names_and_read_by_nobody_else() {
    for transport in Transport::BOTH {
        let place = Place::with(vec![Peer::new("a", server(), transport)]).await;
        assert_eq!(place.beside().resources(), Vec::<Value>::new());
        place.accept_all().await;
        let beside = place.beside();
        let uris: Vec<Value> = beside
            .resources()
            .iter()
            .map(|one| one["uri"].clone())
            .collect();
        assert_eq!(uris, ["mcp+a:file:///etc/passwd"]);
        let templates = beside.templates();
        assert_eq!(
            templates.len(),
            1,
            "a huge template is refused: {templates:?}"
        );
        for nobodys in [
            "file:///etc/passwd",
            "/etc/passwd",
            "../../../etc/passwd",
            "mcp+b:file:///etc/passwd",
            "mcp+a/../b:file:///etc/passwd",
            "mcp+:file:///etc/passwd",
        ] {
            assert_eq!(beside.read(nobodys), None, "{nobodys}");
        }
        for own in [
            "file:///etc/passwd",
            "../../../etc/passwd",
            "file:///srv/../etc/passwd",
            "file:///%2e%2e/etc/passwd",
            "http://169.254.169.254/latest/meta-data/",
        ] {
            let read = fetched(&place, beside.read(&format!("mcp+a:{own}")).unwrap()).await;
            assert_eq!(read.terminal, Terminal::Succeeded, "{own}: {read:?}");
            let contents = &read.structured.as_ref().unwrap()["contents"][0];
            let asked = format!("the server was asked for {own}");
            assert_eq!(contents["text"], json!(asked));
            assert_eq!(contents["uri"], json!(format!("mcp+a:{own}")));
        }
        let huge = format!("mcp+a:file:///{}", "x".repeat(1_000_000));
        let refused = fetched(&place, beside.read(&huge).unwrap()).await;
        let kind = refused.error.as_ref().map(|failure| failure.kind);
        assert_eq!(kind, Some(ErrorKind::InvalidInput), "{kind:?}");
        place.end().await;
    }
}

async fn fetched(place: &Place, fetch: Fetch) -> std::sync::Arc<haft_contract::Outcome> {
    let request = fetch.request(std::sync::Arc::clone(&place.harness.principal));
    place.harness.runtime.call(request).await
}
