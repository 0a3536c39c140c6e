//! What a person is shown: whole, part of what the answer binds, and drawn without touching
//! anything.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use haft_contract::{
    Access, Effects, ErrorKind, Outcome, Terminal, ToolError, WorkPath,
    ops::{Expected, WriteFile, WriteMode},
    outcome::DeniedBy,
    preview::{FileChangeKind, FileDiff, MAX_PREVIEW_BYTES, Preview, PreviewPart},
};
use haft_runtime::digest_of;
use haft_testkit::{FixedPolicy, Harness, ScriptedApprover, approver::ScriptedAnswer};
use serde_json::json;

use crate::scripted::Scripted;

fn path(text: &str) -> WorkPath {
    WorkPath::relative(text).unwrap()
}

/// A tool that writes `a`, and the person who says yes to it.
struct Drawn {
    harness: Harness,
    person: ScriptedApprover,
    runs: Arc<AtomicUsize>,
}

fn drawn(tool: impl FnOnce(Scripted) -> Scripted) -> Drawn {
    let runs: Arc<AtomicUsize> = Arc::default();
    let counted = Arc::clone(&runs);
    let put = Scripted::new("put", move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!("done")) }
    })
    .effects(Effects::REPLACES)
    .accesses(|_| vec![Access::write(path("a"))]);
    let person = ScriptedApprover::always(ScriptedAnswer::Approve);
    let harness = Harness::memory()
        .tools(vec![tool(put).tool()])
        .policy(FixedPolicy::ask_all())
        .person(&person)
        .build();
    harness.tree.put("a", "old\n");
    harness.tree.put("b", "other\n");
    Drawn {
        harness,
        person,
        runs,
    }
}

fn note(text: String) -> Preview {
    Preview {
        parts: vec![PreviewPart::Note(text)],
    }
}

#[tokio::test]
async fn the_diff_is_in_the_form_the_answer_binds() {
    let drawn = drawn(|tool| {
        tool.preview(|_, cx| async move {
            let reader = cx.files.open(&path("a")).await?;
            let old = reader.read_at(0, 100, Vec::new()).await?;
            let text = format!("-{}+new\n", String::from_utf8_lossy(&old));
            Ok(Preview {
                parts: vec![PreviewPart::Diff(FileDiff {
                    path: path("a"),
                    change: FileChangeKind::Change,
                    text,
                    note: None,
                })],
            })
        })
    });
    drawn.harness.succeed("put", json!({})).await;
    let asked = drawn.person.asked().remove(0);
    assert_eq!(
        asked.form["preview"],
        json!([{
            "kind": "diff",
            "path": "a",
            "change": "change",
            "to": null,
            "text": "-old\n+new\n",
            "note": null,
        }])
    );
    assert_eq!(digest_of(&asked.form), asked.digest);
    let mut other = (*asked.form).clone();
    other["preview"][0]["text"] = json!("-old\n+newer\n");
    assert_ne!(digest_of(&other), asked.digest);
}

#[tokio::test]
async fn a_preview_reads_what_the_plan_names_and_changes_nothing() {
    let tried: Arc<std::sync::Mutex<Vec<ErrorKind>>> = Arc::default();
    let kinds = Arc::clone(&tried);
    let drawn = drawn(|tool| {
        tool.preview(move |_, cx| {
            let kinds = Arc::clone(&kinds);
            async move {
                let write = WriteFile {
                    bytes: b"drawn",
                    expected: Expected::Anything,
                    mode: WriteMode::AsItIs,
                };
                let found = [
                    cx.files.write(&path("a"), write).await.map(|_| ()),
                    cx.files.append(&path("a"), b"x").await.map(|_| ()),
                    cx.files.make_dir(&path("a")).await,
                    cx.files.open(&path("b")).await.map(|_| ()),
                ];
                kinds.lock().unwrap().extend(
                    found
                        .into_iter()
                        .map(|tried| tried.expect_err("a refusal").kind()),
                );
                Ok(Preview::default())
            }
        })
    });
    drawn.harness.succeed("put", json!({})).await;
    assert_eq!(*tried.lock().unwrap(), [ErrorKind::NotInPlan; 4]);
    assert_eq!(drawn.harness.tree.text("a"), "old\n");
}

async fn not_approvable(tool: impl FnOnce(Scripted) -> Scripted, says: &str) -> Arc<Outcome> {
    let drawn = drawn(tool);
    let outcome = drawn.harness.fail("put", json!({})).await;
    let text = outcome.model_text();
    assert!(text.contains(says), "{text}");
    assert!(drawn.person.asked().is_empty(), "nobody is asked");
    assert_eq!(drawn.runs.load(Ordering::SeqCst), 0);
    outcome
}

#[tokio::test]
async fn ap_08_what_cannot_be_shown_whole_cannot_be_approved() {
    let long = |bytes: usize| {
        move |tool: Scripted| tool.preview(move |_, _| async move { Ok(note("x".repeat(bytes))) })
    };
    let outcome = not_approvable(long(MAX_PREVIEW_BYTES + 1), "split it into several calls").await;
    assert_eq!(outcome.terminal, Terminal::Denied);
    assert_eq!(outcome.facts.denied_by, Some(DeniedBy::Policy));
    // A byte less is shown, all of it.
    let drawn = drawn(long(MAX_PREVIEW_BYTES));
    drawn.harness.succeed("put", json!({})).await;
    let shown = drawn.person.asked().remove(0);
    let shown = shown.form["preview"][0]["text"].as_str().unwrap().len();
    assert_eq!(shown, MAX_PREVIEW_BYTES);
}

#[tokio::test]
async fn a_preview_that_panics_denies() {
    let panics = |tool: Scripted| tool.preview(|_, _| async { panic!("a fault in the tool") });
    let outcome = not_approvable(panics, "panicked while showing").await;
    assert_eq!(outcome.terminal, Terminal::Denied);
}

#[tokio::test(start_paused = true)]
async fn a_preview_that_never_ends_denies() {
    let stuck = |tool: Scripted| tool.preview(|_, _| std::future::pending());
    let outcome = not_approvable(stuck, "did not show what it would do within").await;
    assert_eq!(outcome.terminal, Terminal::Denied);
}

#[tokio::test]
async fn what_the_tool_finds_wrong_while_it_draws_ends_the_call_before_anybody_is_asked() {
    let wrong = |tool: Scripted| {
        tool.preview(|_, _| async {
            Err(ToolError::new(ErrorKind::NoMatch, "`old` is not in the file").at("/old"))
        })
    };
    let outcome = not_approvable(wrong, "`old` is not in the file").await;
    assert_eq!(outcome.error.as_ref().unwrap().kind, ErrorKind::NoMatch);
}

#[tokio::test]
async fn hosts_databases_and_commands_are_shown_from_the_plan() {
    let drawn = drawn(|tool| {
        tool.accesses(|_| {
            vec![
                Access::shell("make deploy", WorkPath::root()),
                Access::Host {
                    host: "example.org".to_owned(),
                    port: 443,
                },
                Access::Database {
                    source: "orders".to_owned(),
                    writes: true,
                },
            ]
        })
    });
    drawn.harness.succeed("put", json!({})).await;
    let asked = drawn.person.asked().remove(0);
    assert_eq!(
        asked.form["preview"],
        json!([
            {"kind": "host", "host": "example.org", "port": 443},
            {"kind": "rows", "source": "orders", "affected": null},
            {
                "kind": "command",
                "text": "make deploy",
                "touches": [],
                "opaque": "its words were not checked individually",
                "unbound": null,
                "verdict": "ask",
            },
        ])
    );
}

#[tokio::test]
async fn ap_16_a_program_of_the_workspace_that_is_swapped_after_the_yes_voids_it() {
    for swap in [true, false] {
        let runs: Arc<AtomicUsize> = Arc::default();
        let counted = Arc::clone(&runs);
        let tool = Scripted::new("run", move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(json!("done")) }
        })
        .effects(Effects::UNKNOWN)
        .accesses(|_| {
            let argv = vec!["./deploy.sh".to_owned(), "now".to_owned()];
            vec![Access::argv(argv, WorkPath::root())]
        });
        let (operations, tree) = haft_testkit::memory::operations();
        tree.put("deploy.sh", "echo good");
        let swapped = tree.clone();
        let harness = Harness::memory()
            .tools(vec![tool.tool()])
            .policy(FixedPolicy::ask_all())
            .configure(|builder| {
                builder
                    .operations(operations)
                    .approver(crate::approvals::Meanwhile(move || {
                        if swap {
                            swapped.put("deploy.sh", "echo evil");
                        }
                    }))
            })
            .build();
        let outcome = harness.call("run", json!({})).await;
        assert_eq!(outcome.succeeded(), !swap, "{}", outcome.model_text());
        assert_eq!(runs.load(Ordering::SeqCst), usize::from(!swap));
    }
}
