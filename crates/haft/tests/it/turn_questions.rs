//! The questions of a turn as values: answered where they are yielded, or by their ids from another
//! host or another process on the same record.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use haft::{
    AlwaysScope, HaftBuilder, Question, QuestionError, Turn, TurnItem,
    contract::{
        host::{AnswerError, ApprovalState, Clock as _, GrantScope, Ledger as _},
        outcome::DeniedBy,
    },
    model::Shape,
    prelude::*,
    runtime::SystemClock,
};
use tempfile::TempDir;

use crate::place::Place;

fn write(path: &str, content: &str) -> Value {
    let arguments = json!({"path": path, "content": content}).to_string();
    let function = json!({"name": "write", "arguments": arguments});
    json!([{"id": "call_w", "type": "function", "function": function}])
}

/// The next question of a turn.
async fn question(turn: &mut Turn) -> Question {
    loop {
        match turn.next().await {
            Some(TurnItem::Question { call, question }) => {
                assert_eq!(question.model_call(), Some("call_w"));
                assert_eq!(question.call(), call.call());
                return *question;
            }
            Some(_) => {}
            None => panic!("the turn ended without a question"),
        }
    }
}

async fn outcome(turn: Turn) -> std::sync::Arc<Outcome> {
    turn.finish().await.answers()[0].outcome.clone()
}

#[tokio::test]
async fn a_yes_lets_the_call_run_and_a_no_tells_the_model_why() {
    let place = Place::new();
    let haft = place.haft().user("ada").build().await.unwrap();

    let mut turn = haft.turn(Shape::OpenAi, &write("a.txt", "hello\n"));
    let asked = question(&mut turn).await;
    assert!(!place.exists("a.txt"));
    let text = asked.text().unwrap();
    assert!(
        text.contains("write  a.txt") && text.contains("+hello"),
        "{text}"
    );
    assert!(asked.reason().unwrap().contains("careful"));
    asked.approve().await.unwrap();
    assert!(outcome(turn).await.succeeded());
    assert_eq!(place.read("a.txt"), "hello\n");

    let mut turn = haft.turn(Shape::OpenAi, &write("a.txt", "bye\n"));
    let asked = question(&mut turn).await.answered_by("grace");
    asked.refuse("not on a Friday").await.unwrap();
    let refused = outcome(turn).await;
    assert_eq!(refused.facts.denied_by, Some(DeniedBy::Person));
    let text = refused.model_text();
    assert!(text.contains("grace refused: not on a Friday"), "{text}");
    assert_eq!(place.read("a.txt"), "hello\n");
}

#[tokio::test]
async fn always_keeps_the_grant_that_is_shown_and_the_next_call_is_not_asked() {
    let place = Place::new();
    let haft = place.haft().build().await.unwrap();

    let mut turn = haft.turn(Shape::OpenAi, &write("a.txt", "one\n"));
    let asked = question(&mut turn).await;
    let shown = asked.grant(AlwaysScope::Session).await.unwrap();
    assert_eq!(shown.rules, ["write(a.txt)"]);
    assert_eq!(asked.always(AlwaysScope::Session).await.unwrap(), shown);
    assert!(outcome(turn).await.succeeded());

    let grants = haft.ledger().grants();
    let tenant = &haft.principal().tenant;
    let kept = grants.list(tenant, SystemClock.now()).await.unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].rule, "write(a.txt)");
    let session = haft.principal().session.clone();
    assert_eq!(kept[0].scope, GrantScope::Session(session));

    // Nobody is asked: a turn that is only finished would be denied.
    let again = haft.turn(Shape::OpenAi, &write("a.txt", "two\n"));
    assert!(outcome(again).await.succeeded());
    assert_eq!(place.read("a.txt"), "two\n");
}

#[tokio::test]
async fn a_question_whose_call_is_gone_takes_no_answer() {
    let place = Place::new();
    let haft = place.haft().build().await.unwrap();
    let mut turn = haft.turn(Shape::OpenAi, &write("a.txt", "hello\n"));
    let asked = question(&mut turn).await;
    let id = asked.id().to_string();
    drop(turn);
    // Its call is stopped, and whoever stops it withdraws the question.
    while !haft.questions().await.unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let error = asked.approve().await.unwrap_err();
    let withdrawn = |error: &QuestionError| {
        let state = match error {
            QuestionError::Answer(AnswerError::NotOpen { state }) => state,
            other => panic!("{other}"),
        };
        *state == ApprovalState::Withdrawn
    };
    assert!(withdrawn(&error), "{error}");
    assert!(withdrawn(&haft.question(&id).await.unwrap_err()));
    assert!(!place.exists("a.txt"));
    for unknown in ["", "no id", "01a2b3c4-d5e6-7000-8000-000000000000"] {
        let error = haft.question(unknown).await.unwrap_err();
        assert!(
            matches!(error, QuestionError::Answer(AnswerError::Unknown)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn the_hosts_approver_and_the_reader_are_both_asked_and_the_first_answer_counts() {
    let place = Place::new();
    let haft = place
        .haft()
        .approve_with(|request| async move { request.refuse("approver", None) })
        .build()
        .await
        .unwrap();
    let mut turn = haft.turn(Shape::OpenAi, &write("a.txt", "hello\n"));
    let mut ended = None;
    while let Some(item) = turn.next().await {
        match item {
            // Kept unanswered.
            TurnItem::Question { .. } => {}
            TurnItem::Ended { outcome, .. } => ended = Some(outcome.facts.denied_by),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ended, Some(Some(DeniedBy::Person)));

    let place = Place::new();
    let never = |_| std::future::pending();
    let haft = place.haft().approve_with(never).build().await.unwrap();
    let mut turn = haft.turn(Shape::OpenAi, &write("a.txt", "hello\n"));
    question(&mut turn).await.approve().await.unwrap();
    assert!(outcome(turn).await.succeeded());
}

/// A workspace and a record, for two hosts.
fn shared(directory: &Path) -> HaftBuilder {
    Haft::open(directory.join("workspace"))
        .data_dir(directory.join("data"))
        .preset(Preset::Careful)
        .session("shared", SessionKind::Main)
}

fn shared_directory() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("workspace")).unwrap();
    directory
}

#[tokio::test]
async fn a_second_host_on_the_record_answers_and_keeps_the_grant_it_is_shown() {
    let directory = shared_directory();
    let asks = shared(directory.path()).build().await.unwrap();
    let answers = shared(directory.path()).user("ada").build().await.unwrap();

    let mut turn = asks.turn(Shape::OpenAi, &write("a.txt", "one\n"));
    // Stored as text, and put away.
    let id = question(&mut turn).await.id().to_string();
    let listed = answers.questions().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id().to_string(), id);

    // What happened in a call that waits is on record a moment later than its question.
    let asked = loop {
        let asked = answers.question(&id).await.unwrap();
        let text = asked.text().unwrap();
        assert!(text.contains("write  a.txt"), "{text}");
        if text.contains("careful") {
            break asked;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let wide = haft::contract::host::GrantRequest {
        rules: vec!["write".to_owned()],
        ..asked.grant(AlwaysScope::Agent).await.unwrap()
    };
    let refused = asked.always_with(wide).await.unwrap_err();
    assert!(matches!(refused, QuestionError::NotProposed), "{refused}");

    let asked = answers.question(&id).await.unwrap();
    let kept = asked.always(AlwaysScope::Agent).await.unwrap();
    assert_eq!(kept.rules, ["write(a.txt)"]);
    assert!(outcome(turn).await.succeeded());
    // A grant that another process keeps is noticed within a quarter of a second.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let again = outcome(asks.turn(Shape::OpenAi, &write("a.txt", "two\n"))).await;
    assert!(again.succeeded(), "{}", again.model_text());
    // The first answer counts.
    let error = answers.question(&id).await.unwrap_err();
    let state = match error {
        QuestionError::Answer(AnswerError::NotOpen { state }) => state,
        other => panic!("{other}"),
    };
    assert!(matches!(state, ApprovalState::Used { .. }), "{state:?}");
}

const DIRECTORY: &str = "HAFT_ANSWER_DIRECTORY";
const QUESTION: &str = "HAFT_ANSWER_QUESTION";

#[tokio::test]
#[ignore = "child: of the test that starts it, told what to do by its environment"]
async fn child_that_answers() {
    let directory = PathBuf::from(std::env::var(DIRECTORY).unwrap());
    let haft = shared(&directory).user("grace").build().await.unwrap();
    let question = haft.question(&std::env::var(QUESTION).unwrap()).await;
    question.unwrap().refuse("ask me on Monday").await.unwrap();
    haft.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_opens_a_stored_question_by_its_id_and_answers_it() {
    let directory = shared_directory();
    let haft = shared(directory.path()).build().await.unwrap();
    let mut turn = haft.turn(Shape::OpenAi, &write("a.txt", "hello\n"));
    let stored = directory.path().join("question");
    std::fs::write(&stored, question(&mut turn).await.id().to_string()).unwrap();

    let id = std::fs::read_to_string(&stored).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "turn_questions::child_that_answers"])
        .env(DIRECTORY, directory.path())
        .env(QUESTION, id)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let refused = outcome(turn).await;
    let status = tokio::task::spawn_blocking(move || child.wait()).await;
    assert!(status.unwrap().unwrap().success());

    assert_eq!(refused.facts.denied_by, Some(DeniedBy::Person));
    let text = refused.model_text();
    assert!(text.contains("grace refused: ask me on Monday"), "{text}");
}
