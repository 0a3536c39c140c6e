//! An undo is a person's call: it takes the path of every call, no model can make it, and it claims
//! nothing that is not known.

use std::{
    fs,
    sync::{Arc, Mutex},
};

use haft::{
    PERSON,
    contract::{ProviderId, outcome::DeniedBy},
    prelude::*,
};
use haft_tools::catalog::undo_tool;

use crate::{helper_program::sandboxed, place::Place};

async fn write(haft: &Haft, path: &str, content: &str) -> CallId {
    let input = json!({"path": path, "content": content, "force": true});
    let outcome = haft.call("write", input).await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    outcome.call
}

#[tokio::test]
async fn a_call_and_a_session_are_taken_back_and_made_again() {
    let place = Place::with(&[("a", "old\n")]);
    let haft = place
        .haft()
        .allow("write")
        .allow("undo")
        .build()
        .await
        .unwrap();
    let first = write(&haft, "a", "new\n").await;
    let undone = haft.undo(first).await.unwrap();
    assert!(undone.is_complete(), "{undone:?}");
    assert_eq!(place.read("a"), "old\n");

    let redone = haft.undo(undone.outcomes()[0].call).await.unwrap();
    assert!(redone.is_complete(), "{redone:?}");
    assert_eq!(place.read("a"), "new\n");

    write(&haft, "a", "newer\n").await;
    write(&haft, "b", "created\n").await;
    let elsewhere = haft.session("another", SessionKind::Main).unwrap();
    write(&elsewhere, "c", "stays\n").await;
    let undone = haft.undo_session().await.unwrap();
    assert!(undone.is_complete(), "{undone:?}");
    assert_eq!(place.read("a"), "old\n");
    assert!(!place.exists("b"));
    assert!(place.exists("c"));

    // What somebody did since is theirs.
    let changed = write(&haft, "a", "agent\n").await;
    fs::write(place.path("a"), "mine\n").unwrap();
    let undone = haft.undo(changed).await.unwrap();
    assert!(!undone.is_complete());
    assert!(undone.outcomes()[0].text().contains("it has changed since"));
    assert_eq!(place.read("a"), "mine\n");
}

#[tokio::test]
async fn it_is_the_persons_call_decided_and_asked_about_like_any_other() {
    let place = Place::new();
    let asked: Arc<Mutex<Vec<ApprovalRequest>>> = Arc::default();
    let questions = Arc::clone(&asked);
    let haft = place
        .haft()
        .allow("write")
        .approve_with(move |request| {
            questions.lock().unwrap().push(request.clone());
            async move { request.approve("ada") }
        })
        .build()
        .await
        .unwrap();
    let reader = haft.agent("reader").unwrap();
    let written = write(&reader, "a", "text\n").await;
    let undone = reader.undo(written).await.unwrap();
    assert!(undone.is_complete(), "{undone:?}");
    {
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].principal.agent.as_str(), PERSON);
        assert_eq!(asked[0].principal.user, haft.principal().user);
        assert_eq!(asked[0].plan.tool().to_string(), "builtin/undo");
        assert!(
            asked[0].form.to_string().contains("-text"),
            "{}",
            asked[0].form
        );
    }
    let tenant = &haft.principal().tenant;
    let call = undone.outcomes()[0].call;
    let recorded = haft.ledger().call(tenant, call).await.unwrap().unwrap();
    assert_eq!(recorded.agent, PERSON);
    assert_eq!(recorded.session, haft.principal().session);

    // Nobody to ask, and nothing happens.
    let place = Place::new();
    let haft = place.haft().allow("write").build().await.unwrap();
    let written = write(&haft, "a", "text\n").await;
    let undone = haft.undo(written).await.unwrap();
    let outcome = &undone.outcomes()[0];
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::NobodyToAsk));
    assert_eq!(place.read("a"), "text\n");

    // Calls that are not this user's do not exist for them.
    let stranger = Principal {
        user: UserId::parse("eve").unwrap(),
        ..Principal::clone(haft.principal())
    };
    let stranger = haft.with_principal(stranger);
    let error = stranger.undo(written).await.unwrap_err();
    assert_eq!(error.to_string(), format!("there is no call `{written}`"));
    assert!(stranger.undo_session().await.unwrap().outcomes().is_empty());
}

#[tokio::test]
async fn no_model_is_offered_an_undo_or_can_make_one() {
    let place = Place::new();
    let haft = place.haft().allow("@all").build().await.unwrap();
    let written = write(&haft, "a", "text\n").await;
    let undo = json!({"calls": [written.to_string()], "paths": ["a"]});
    let undoing = haft.undo(written);
    let (undone, tried) = tokio::join!(undoing, haft.call("undo", undo));
    assert!(undone.unwrap().is_complete());
    let kind = tried.error.as_ref().map(|failure| failure.kind);
    assert_eq!(kind, Some(ErrorKind::UnknownTool));

    // Registered from code, it is still not offered.
    let place = Place::new();
    let tools = undo_tool().into_iter().collect();
    let haft = place.haft().provider(ProviderId::builtin(), tools);
    let haft = haft.build().await.unwrap();
    for format in [Format::Mcp, Format::OpenAi, Format::Anthropic] {
        let offered = json!(haft.tools_as(format)).to_string();
        assert!(!offered.contains("\"undo\""), "{offered}");
    }
}

#[tokio::test]
async fn what_a_command_changed_without_a_comparison_is_said_to_be_unknown() {
    let place = Place::new();
    let haft = place.haft().allow("bash").allow("undo");
    let haft = haft
        .sandbox("bash", SandboxMode::Off)
        .build()
        .await
        .unwrap();
    let outcome = haft.call("bash", json!({"command": "echo x > made"})).await;
    assert!(outcome.succeeded(), "{}", outcome.model_text());
    let undone = haft.undo(outcome.call).await.unwrap();
    assert!(!undone.is_complete());
    assert!(undone.outcomes().is_empty());
    let notes = undone.notes().join("\n");
    assert!(
        notes.contains("what the command changed is not known"),
        "{notes}"
    );
    assert!(place.exists("made"));

    // The tool itself, asked about the file by name, does not deny it either.
    let input = json!({"calls": [outcome.call.to_string()], "paths": ["made"]});
    let (request, tool) = (haft.request("undo", input), undo_tool().unwrap());
    let asked = haft.runtime().call_apart(request, tool).await.unwrap();
    let said = asked.text();
    assert!(
        said.contains("it is not known whether these calls changed it"),
        "{said}"
    );
    assert!(!said.contains("did not change it"), "{said}");
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap"]
async fn what_sandboxed_commands_change_is_taken_back_without_any_setting() {
    let open = async |place: &Place, compared: bool| {
        let haft = place.haft().local(sandboxed()).allow("bash").allow("undo");
        let haft = if compared {
            haft
        } else {
            haft.without_comparison()
        };
        haft.build().await.unwrap()
    };
    let command = json!({"command": "sed -i s/old/new/ a && rm b && echo x > c"});
    for compared in [true, false] {
        let place = Place::with(&[("a", "old\n"), ("b", "b\n")]);
        let haft = open(&place, compared).await;
        let outcome = haft.call("bash", command.clone()).await;
        assert!(outcome.succeeded(), "{}", outcome.model_text());
        assert_eq!(place.read("a"), "new\n");
        let undone = haft.undo(outcome.call).await.unwrap();
        assert_eq!(undone.is_complete(), compared, "{undone:?}");
        let back = place.read("a") == "old\n" && place.exists("b") && !place.exists("c");
        assert_eq!(back, compared);
    }
}
