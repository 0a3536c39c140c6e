//! Opening and closing: what is refused with which words, and what is still there afterwards.

use haft::{HostErrorKind, Preset, contract::host::Verification, prelude::*};

use crate::place::Place;

#[tokio::test]
async fn the_record_may_not_lie_where_tools_can_write() {
    let place = Place::new();
    let inside = place.path("data");
    let error = place.haft().data_dir(&inside).build().await.unwrap_err();
    assert!(error.message().contains("inside the workspace"), "{error}");

    // Nor by way of a symlink that leads there.
    let link = place.data.path().join("link");
    std::os::unix::fs::symlink(place.workspace.path(), &link).unwrap();
    let error = place
        .haft()
        .data_dir(link.join("data"))
        .build()
        .await
        .unwrap_err();
    assert_eq!(error.kind(), HostErrorKind::Config);
    assert!(error.message().contains("inside the workspace"), "{error}");
}

#[tokio::test]
#[ignore = "ci: needs PostgreSQL"]
async fn the_record_is_kept_in_a_database() {
    let server = haft_testkit::postgres_server::PostgresServer::start();
    let place = Place::with(&[("a.txt", "a")]);
    let read = json!({"path": "a.txt"});
    // The owner makes the schema; whoever belongs to the service writes.
    for role in ["haft_owner", "app"] {
        let builder = place.haft().database(server.url(role));
        let haft = builder.build().await.unwrap();
        assert!(haft.call("read", read.clone()).await.succeeded());
        haft.close().await.unwrap();
    }
    let settled = server.sql("SELECT count(*) FROM haft.record WHERE terminal IS NOT NULL");
    assert_eq!(settled.trim(), "2");
    assert!(!place.data.path().join("record/ledger.db").exists());

    let unknown = place.haft().database("mongodb://localhost/haft");
    let error = unknown.build().await.unwrap_err();
    assert_eq!(error.kind(), HostErrorKind::Record);
}

#[tokio::test]
async fn a_workspace_that_is_not_there_is_named() {
    let place = Place::new();
    let gone = place.path("gone");
    let error = Haft::open(&gone)
        .data_dir(place.data.path())
        .build()
        .await
        .unwrap_err();
    assert!(error.to_string().contains("gone"), "{error}");
}

#[tokio::test]
async fn a_misspelt_rule_stops_the_start_and_names_its_place() {
    let place = Place::new();
    let error = place.haft().deny("read(").build().await.unwrap_err();
    assert_eq!(error.kind(), HostErrorKind::Config);
    assert!(error.to_string().starts_with("code:"), "{error}");
}

#[tokio::test]
async fn a_rule_about_a_tool_that_is_not_there_stops_the_start() {
    let place = Place::new();
    let error = place.haft().deny("raed").build().await.unwrap_err();
    assert_eq!(
        error.message(),
        "code:3: `raed` can never match: there is no such tool"
    );
    assert_eq!(error.hint(), "did you mean `read`?");
}

#[tokio::test]
async fn mistake_02_without_any_rule_the_preset_is_careful_and_the_strictest_holds() {
    let place = Place::with(&[("a.txt", "a")]);
    let read = json!({"path": "a.txt"});
    let write = json!({"path": "b.txt", "content": "b"});

    let careful = place.haft().build().await.unwrap();
    assert!(careful.call("read", read.clone()).await.succeeded());
    assert!(!careful.call("write", write.clone()).await.succeeded());
    careful.close().await.unwrap();

    let workspace = place
        .haft()
        .preset(Preset::Workspace)
        .build()
        .await
        .unwrap();
    assert!(workspace.call("write", write.clone()).await.succeeded());
    workspace.close().await.unwrap();

    // Code says `workspace`, the text says `locked`: the stricter one counts.
    let locked = place
        .haft()
        .preset(Preset::Workspace)
        .policy_text("haft.toml", "[policy]\npreset = \"locked\"\n")
        .build()
        .await
        .unwrap();
    assert!(!locked.call("read", read).await.succeeded());
    assert!(!locked.call("write", write).await.succeeded());
}

#[tokio::test]
async fn calls_are_on_record_after_the_program_has_closed_and_opened_again() {
    let place = Place::with(&[("a.txt", "a")]);
    let haft = place
        .haft()
        .session("s1", SessionKind::Main)
        .build()
        .await
        .unwrap();
    let outcome = haft.call("Read", json!({"file_path": "a.txt"})).await;
    haft.close().await.unwrap();
    // Where the command line looks too.
    assert!(place.data.path().join("record/ledger.db").is_file());

    let haft = place.haft().build().await.unwrap();
    assert!(haft.recovery().is_empty());
    let tenant = &haft.principal().tenant;
    let call = haft
        .ledger()
        .call(tenant, outcome.call)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(call.terminal, Some(Terminal::Succeeded));
    assert_eq!(call.asked_tool, "Read");
    assert_eq!(call.tool.as_deref(), Some("builtin/read"));
    assert_eq!(call.session.as_str(), "s1");
    let events = haft.ledger().events(tenant, outcome.call).await.unwrap();
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    assert!(
        kinds.contains(&"planned") && kinds.ends_with(&["settled"]),
        "{kinds:?}"
    );
    let verified = haft.ledger().verify(tenant).await.unwrap();
    assert!(
        matches!(verified, Verification::Intact { .. }),
        "{verified:?}"
    );
}

#[tokio::test]
async fn a_secret_never_reaches_the_record() {
    let place = Place::with(&[("a.txt", "the word is xyzzy-4711\n")]);
    let haft = place.haft().secret("xyzzy-4711").build().await.unwrap();
    let outcome = haft.call("read", json!({"path": "a.txt"})).await;
    // What the model works from is untouched.
    assert_eq!(outcome.text().trim_end(), "the word is xyzzy-4711");
    let outcome = haft.call("grep", json!({"pattern": "xyzzy-4711"})).await;
    haft.close().await.unwrap();

    let haft = place.haft().build().await.unwrap();
    let tenant = &haft.principal().tenant;
    let events = haft.ledger().events(tenant, outcome.call).await.unwrap();
    assert!(!events.is_empty());
    for event in events {
        assert!(!event.body.to_string().contains("xyzzy-4711"), "{event:?}");
    }
}

#[tokio::test]
async fn after_closing_calls_are_refused_not_run() {
    let place = Place::with(&[("a.txt", "a")]);
    let haft = place.haft().build().await.unwrap();
    let clone = haft.clone();
    haft.close().await.unwrap();
    let outcome = clone.call("read", json!({"path": "a.txt"})).await;
    assert_eq!(
        outcome.terminal,
        Terminal::Denied,
        "{}",
        outcome.model_text()
    );
}

/// A command in flight does nothing after `close`, and its caller hears what the record says.
#[tokio::test]
async fn closing_stops_and_settles_what_is_in_flight() {
    let place = Place::new();
    let haft = place
        .haft()
        .preset(Preset::Workspace)
        .allow("bash")
        .sandbox("bash", SandboxMode::Off)
        .build()
        .await
        .unwrap();
    let running = {
        let haft = haft.clone();
        let command =
            "echo begun > begun; while [ ! -e go ]; do sleep 0.05; done; echo late > late";
        tokio::spawn(async move { haft.call("bash", json!({ "command": command })).await })
    };
    while !place.exists("begun") {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    haft.close().await.unwrap();
    // It would go on from here.
    std::fs::write(place.path("go"), "").unwrap();
    let outcome = running.await.unwrap();
    assert_eq!(outcome.terminal, Terminal::Cancelled);
    assert_eq!(haft.runtime().in_flight(), 0);

    let again = place.haft().build().await.unwrap();
    assert!(again.recovery().is_empty(), "{:?}", again.recovery());
    let tenant = &again.principal().tenant;
    let call = again.ledger().call(tenant, outcome.call).await.unwrap();
    assert_eq!(call.unwrap().terminal, Some(Terminal::Cancelled));
    assert!(!place.exists("late"));
}
