//! `undo`: everything goes back, nothing that somebody else did is lost, and nobody takes back what
//! is not theirs.

use std::sync::Arc;

use haft_backends::{LocalBackend, LocalOptions};
use haft_contract::{
    Access, CallContext, CallRequest, Effects, ErrorKind, NoProgress, Outcome, Plan, PlanContext,
    Principal, SessionKind, Tool, ToolError, ToolSpec, UserId,
    erased::{ErasedTool, erase},
    host::{Ledger, Verdict},
    ops::PartChange,
};
use haft_testkit::{
    FixedPolicy, Harness, MemoryLedger, ScriptedApprover, approver::ScriptedAnswer,
    principal::in_session,
};
use haft_tools::{builtins, catalog::undo_tool};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::workspace::{Workspace, structured};

fn tools() -> Vec<Arc<dyn ErasedTool>> {
    builtins().into_iter().chain(undo_tool()).collect()
}

fn memory() -> Workspace {
    Workspace {
        harness: Harness::memory().tools(tools()).build(),
        folder: None,
    }
}

fn local(ledger: &MemoryLedger) -> Workspace {
    let folder = tempfile::tempdir().unwrap();
    let backend = LocalBackend::open(folder.path(), LocalOptions::default()).unwrap();
    let ledger = Arc::new(ledger.clone()) as Arc<dyn Ledger>;
    let builder = Harness::on(backend.operations()).tools(tools());
    Workspace {
        harness: builder.ledger(ledger).build(),
        folder: Some(folder),
    }
}

fn each() -> [Workspace; 2] {
    [memory(), local(&MemoryLedger::new())]
}

fn undoing(calls: &[&Outcome], paths: &[&str]) -> Value {
    let calls: Vec<String> = calls.iter().map(|call| call.call.to_string()).collect();
    json!({"calls": calls, "paths": paths})
}

#[tokio::test]
async fn what_was_changed_removed_and_created_goes_back() {
    for workspace in each() {
        workspace.put("kept", "one\ntwo\n");
        workspace.set_mode("kept", 0o750);
        workspace.put("gone", "away\n");
        let edit = json!({"path": "kept", "edits": [{"old": "two", "new": "2"}]});
        let edited = workspace.succeed("edit", edit).await;
        let patch = "*** Begin Patch\n*** Delete File: gone\n*** Add File: new/file\n+x\n\
                     *** Update File: kept\n*** Move to: moved\n@@\n-one\n+1\n*** End Patch\n";
        let patched = workspace.succeed("patch", json!({"patch": patch})).await;
        assert_eq!(workspace.text("moved"), "1\n2\n");

        let paths = ["kept", "gone", "new/file", "moved"];
        let undone = workspace
            .succeed("undo", undoing(&[&edited, &patched], &paths))
            .await;
        assert_eq!(structured(&undone)["restored"].as_array().unwrap().len(), 4);
        assert_eq!(workspace.text("kept"), "one\ntwo\n");
        assert_eq!(workspace.mode("kept"), 0o750);
        assert_eq!(workspace.text("gone"), "away\n");
        assert_eq!(workspace.bytes("new/file"), None);
        assert_eq!(workspace.bytes("moved"), None);

        // An undo is a call, and taking it back does everything again.
        workspace.succeed("undo", undoing(&[&undone], &paths)).await;
        assert_eq!(workspace.bytes("kept"), None);
        assert_eq!(workspace.bytes("gone"), None);
        assert_eq!(workspace.text("new/file"), "x\n");
        assert_eq!(workspace.text("moved"), "1\n2\n");
    }
}

#[tokio::test]
async fn the_mode_of_a_file_that_stayed_is_kept() {
    for workspace in each() {
        workspace.put("a", "one\n");
        workspace.set_mode("a", 0o750);
        let write = json!({"path": "a", "content": "two\n"});
        let written = workspace.succeed("write", write).await;
        workspace
            .succeed("undo", undoing(&[&written], &["a"]))
            .await;
        assert_eq!(workspace.text("a"), "one\n");
        assert_eq!(workspace.mode("a"), 0o750);
    }
}

/// UN-03: what comes back lets nobody do what they could not do before.
#[tokio::test]
async fn un_03_a_file_comes_back_with_the_mode_it_had() {
    for workspace in each() {
        for (name, mode) in [("secret", 0o600), ("program", 0o750), ("set", 0o4755)] {
            workspace.put(name, "one\n");
            workspace.set_mode(name, mode);
        }
        let patch = "*** Begin Patch\n*** Delete File: secret\n*** Delete File: program\n\
                     *** Delete File: set\n*** End Patch\n";
        let removed = workspace.succeed("patch", json!({"patch": patch})).await;
        assert_eq!(workspace.bytes("secret"), None);
        let paths = ["secret", "program", "set"];
        workspace
            .succeed("undo", undoing(&[&removed], &paths))
            .await;
        for (name, mode) in [("secret", 0o600), ("program", 0o750), ("set", 0o755)] {
            assert_eq!(workspace.text(name), "one\n");
            assert_eq!(workspace.mode(name), mode, "{name}");
        }
    }
}

/// UN-03: `write`, `edit` and `patch` leave the rights of a file as they are.
#[tokio::test]
async fn un_03_no_tool_widens_the_rights_of_a_file_it_changes() {
    for workspace in each() {
        for mode in [0o600, 0o640, 0o400, 0o755] {
            workspace.put("a", "one\n");
            workspace.set_mode("a", mode);
            let write = json!({"path": "a", "content": "two\n", "force": true});
            workspace.succeed("write", write).await;
            assert_eq!(workspace.mode("a"), mode, "write {mode:o}");
            let edit = json!({"path": "a", "edits": [{"old": "two", "new": "2"}]});
            workspace.succeed("edit", edit).await;
            assert_eq!(workspace.mode("a"), mode, "edit {mode:o}");
            let patch = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-2\n+3\n\
                         *** End Patch\n";
            workspace.succeed("patch", json!({"patch": patch})).await;
            assert_eq!(workspace.mode("b"), mode, "patch {mode:o}");
            workspace.delete("b");
        }
    }
}

/// UN-03: a file that somebody closed to others since is not opened to them again.
#[tokio::test]
async fn un_03_a_mode_that_somebody_made_stricter_stays() {
    for workspace in each() {
        workspace.put("a", "one\n");
        workspace.set_mode("a", 0o644);
        let write = json!({"path": "a", "content": "two\n"});
        let written = workspace.succeed("write", write).await;
        workspace.set_mode("a", 0o600);
        workspace
            .succeed("undo", undoing(&[&written], &["a"]))
            .await;
        assert_eq!(workspace.text("a"), "one\n");
        assert_eq!(workspace.mode("a"), 0o600);
    }
}

#[tokio::test]
async fn a_file_that_changed_since_stays_and_is_shown_from_both_sides() {
    for workspace in each() {
        for path in ["a", "b"] {
            workspace.put(path, "one\n");
        }
        let write = |path: &str| json!({"path": path, "content": "two\n"});
        let first = workspace.succeed("write", write("a")).await;
        let second = workspace.succeed("write", write("b")).await;
        workspace.put("a", "two\nmine\n");
        let undone = workspace
            .succeed("undo", undoing(&[&first, &second], &["a", "b"]))
            .await;
        assert_eq!(workspace.text("a"), "two\nmine\n");
        assert_eq!(workspace.text("b"), "one\n");
        let output = structured(&undone);
        assert_eq!(output["restored"], json!(["b"]));
        let conflict = &output["conflicts"][0];
        assert_eq!(conflict["reason"], "it has changed since");
        let shown = |side: &str| conflict[side].as_str().unwrap().to_owned();
        assert!(shown("by_the_calls").contains("-one\n+two\n"));
        assert!(shown("since").contains(" two\n+mine\n"));
    }
}

#[tokio::test]
async fn what_somebody_else_did_between_two_calls_is_not_lost() {
    for workspace in each() {
        let write = |text: &str| json!({"path": "a", "content": text, "force": true});
        let first = workspace.succeed("write", write("1\n")).await;
        workspace.put("a", "mine\n");
        let second = workspace.succeed("write", write("2\n")).await;
        let both = undoing(&[&first, &second], &["a"]);
        let undone = workspace.succeed("undo", both).await;
        assert_eq!(workspace.text("a"), "2\n");
        let conflict = &structured(&undone)["conflicts"][0];
        assert_eq!(
            conflict["reason"],
            "somebody else changed it between these calls"
        );
        // The second alone goes back to what the other one wrote.
        workspace.succeed("undo", undoing(&[&second], &["a"])).await;
        assert_eq!(workspace.text("a"), "mine\n");
    }
}

#[tokio::test]
async fn a_file_written_again_with_the_same_bytes_is_no_conflict() {
    for workspace in each() {
        workspace.put("a", "one\n");
        let write = json!({"path": "a", "content": "two\n"});
        let written = workspace.succeed("write", write).await;
        workspace.put("a", "two\n");
        let undo = undoing(&[&written], &["a"]);
        workspace.succeed("undo", undo.clone()).await;
        assert_eq!(workspace.text("a"), "one\n");
        let again = workspace.succeed("undo", undo).await;
        assert_eq!(structured(&again)["unchanged"], json!(["a"]));
    }
}

#[tokio::test]
async fn nothing_but_what_the_calls_changed_is_touched() {
    for workspace in each() {
        workspace.put("other", "x\n");
        let write = json!({"path": "a", "content": "two\n"});
        let written = workspace.succeed("write", write).await;
        let undone = workspace
            .succeed("undo", undoing(&[&written], &["other"]))
            .await;
        assert_eq!(
            structured(&undone)["impossible"][0]["reason"],
            "these calls did not change it"
        );
        let mut dry = undoing(&[&written], &["a"]);
        dry["dry_run"] = json!(true);
        let shown = workspace.succeed("undo", dry).await;
        assert!(shown.text().contains("-two\n"), "{}", shown.text());
        assert_eq!(workspace.text("other"), "x\n");
        assert_eq!(workspace.text("a"), "two\n");
    }
}

/// What stands in the way of one path is said of that path; all others go back.
#[tokio::test]
async fn un_02_one_path_that_cannot_be_put_back_keeps_no_other_from_it() {
    for workspace in each() {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "theirs\n").unwrap();
        let names = ["a", "dir/b", "inside", "turned", "z"];
        let mut written = Vec::new();
        for name in names {
            workspace.put(name, "one\n");
            let write = json!({"path": name, "content": "two\n"});
            written.push(workspace.succeed("write", write).await);
        }
        workspace.delete("a");
        workspace.put_symlink("a", secret.to_str().unwrap());
        workspace.delete("dir");
        workspace.put("dir", "a file by now\n");
        workspace.delete("inside");
        workspace.put("elsewhere", "two\n");
        workspace.put_symlink("inside", "elsewhere");
        workspace.delete("turned");
        workspace.put("turned/into", "a directory\n");

        let calls: Vec<&Outcome> = written.iter().map(|call| &**call).collect();
        let mut dry = undoing(&calls, &names);
        dry["dry_run"] = json!(true);
        let shown = workspace.succeed("undo", dry).await;
        assert_eq!(structured(&shown)["restored"], json!(["z"]));
        assert_eq!(workspace.text("z"), "two\n");

        let undone = workspace.succeed("undo", undoing(&calls, &names)).await;
        let output = structured(&undone);
        assert_eq!(output["restored"], json!(["z"]), "{output}");
        assert_eq!(workspace.text("z"), "one\n");
        let impossible = output["impossible"].as_array().unwrap();
        let left: Vec<&str> = impossible
            .iter()
            .map(|left| left["path"].as_str().unwrap())
            .collect();
        assert_eq!(left, ["a", "dir/b", "inside", "turned"], "{output}");
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "theirs\n");
        assert_eq!(workspace.text("dir"), "a file by now\n");
        assert_eq!(workspace.text("elsewhere"), "two\n");
        assert_eq!(workspace.text("turned/into"), "a directory\n");

        // Where nothing is left, the reason is that of the path.
        let alone = undoing(&calls, &["a"]);
        workspace
            .refuse("undo", alone, ErrorKind::OutsideWorkspace)
            .await;
    }
}

/// A path that policy denies is left out; the person who is asked about the others reads why.
#[tokio::test]
async fn un_02_a_denied_path_is_left_out_and_never_written() {
    let person = ScriptedApprover::new([ScriptedAnswer::Approve]);
    let policy = FixedPolicy::by(|question| {
        let undoes = question.tool.key.tool.as_str() == "undo";
        let protected = question
            .plan
            .path_accesses()
            .any(|access| access.path.as_str() == "denied");
        match (undoes, protected) {
            (true, true) => Verdict::Deny,
            (true, false) => Verdict::Ask,
            (false, _) => Verdict::Allow,
        }
    });
    let builder = Harness::memory().tools(tools());
    let workspace = Workspace {
        harness: builder.policy(policy).person(&person).build(),
        folder: None,
    };
    let mut written = Vec::new();
    for name in ["denied", "free"] {
        workspace.put(name, "one\n");
        let write = json!({"path": name, "content": "two\n"});
        written.push(workspace.succeed("write", write).await);
    }
    let calls: Vec<&Outcome> = written.iter().map(|call| &**call).collect();
    let undone = workspace
        .succeed("undo", undoing(&calls, &["denied", "free"]))
        .await;
    let output = structured(&undone);
    assert_eq!(output["restored"], json!(["free"]));
    assert_eq!(
        output["impossible"],
        json!([{"path": "denied", "reason": "the test says deny"}])
    );
    assert_eq!(workspace.text("denied"), "two\n");
    assert_eq!(workspace.text("free"), "one\n");
    let asked = person.asked();
    let form = asked.first().expect("a question").form.to_string();
    assert!(
        form.contains("`denied` cannot be put back: the test says deny"),
        "{form}"
    );
    // Denied alone, it is a denial.
    workspace
        .refuse("undo", undoing(&calls, &["denied"]), ErrorKind::Denied)
        .await;
}

/// Naming a call gives nothing to whoever did not make it.
#[tokio::test]
async fn nobody_takes_back_what_is_not_theirs() {
    let ledger = MemoryLedger::new();
    let workspace = local(&ledger);
    let write = json!({"path": "a", "content": "secret\n"});
    let written = workspace.succeed("write", write).await;
    let undo = undoing(&[&written], &["a"]);
    let other_user = Principal {
        user: UserId::parse("mallory").unwrap(),
        ..(*workspace.harness.principal).clone()
    };
    let group = Principal {
        session_kind: SessionKind::Group,
        ..(*in_session("other")).clone()
    };
    for stranger in [other_user, group] {
        let request = CallRequest::new("undo", undo.clone(), Arc::new(stranger));
        let outcome = workspace.harness.runtime.call(request).await;
        let failure = outcome.error.as_ref().expect("a refusal");
        assert_eq!(failure.kind, ErrorKind::NotFound);
        assert_eq!(workspace.text("a"), "secret\n");
    }
    // The same path means another file in another workspace.
    let elsewhere = local(&ledger);
    elsewhere.put("a", "theirs\n");
    let outcome = elsewhere.refuse("undo", undo, ErrorKind::NotFound).await;
    assert!(outcome.model_text().contains("another workspace"));
    assert_eq!(elsewhere.text("a"), "theirs\n");
}

/// Renames a ref, as git does in a command that is watched.
struct RenameRef;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RenameRefInput {
    /// The ref that goes.
    from: String,
    /// The ref that comes.
    to: String,
}

#[derive(Serialize, JsonSchema)]
struct RenameRefOutput {
    /// How many parts of git's state changed.
    changed: usize,
}

impl Tool for RenameRef {
    type Input = RenameRefInput;
    type Output = RenameRefOutput;
    type Progress = NoProgress;
    const NAME: &'static str = "rename_ref";

    fn spec(&self) -> ToolSpec {
        ToolSpec::new("Rename a ref", "Renames a ref and changes nothing else.")
            .effects(Effects::REPLACES)
            .groups(&["sample"])
    }

    fn plan(&self, input: &RenameRefInput, cx: &PlanContext) -> Result<Plan, ToolError> {
        let (from, to) = (cx.path(&input.from, "/from")?, cx.path(&input.to, "/to")?);
        Ok(Plan::new(Effects::REPLACES)
            .access(Access::write(from))
            .access(Access::write(to)))
    }

    async fn run(
        &self,
        input: RenameRefInput,
        cx: CallContext<NoProgress>,
    ) -> Result<RenameRefOutput, ToolError> {
        let (from, to) = (cx.path(&input.from, "/from")?, cx.path(&input.to, "/to")?);
        let part = cx.repository().read(&from).await?.expect("a ref");
        let changes = [
            PartChange {
                path: from,
                expected: Some(part.version),
                bytes: None,
                mode: None,
            },
            PartChange {
                path: to,
                expected: None,
                bytes: Some(part.bytes),
                mode: Some(part.mode),
            },
        ];
        let versions = cx.repository().replace(&changes).await?;
        Ok(RenameRefOutput {
            changed: versions.len(),
        })
    }
}

/// After `git branch -m topic/x topic` a file is where the directory of the branch was.
#[tokio::test]
async fn a_branch_goes_back_below_the_name_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let backend = LocalBackend::open(folder.path(), LocalOptions::default()).unwrap();
    let tools = tools().into_iter().chain(erase(RenameRef).ok()).collect();
    let workspace = Workspace {
        harness: Harness::on(backend.operations()).tools(tools).build(),
        folder: Some(folder),
    };
    let (below, above) = (".git/refs/heads/topic/x", ".git/refs/heads/topic");
    let id = "1".repeat(40);
    workspace.put(".git/HEAD", "ref: refs/heads/main\n");
    workspace.put(&format!(".git/objects/11/{}", &id[2..]), "");
    workspace.put(below, format!("{id}\n"));
    let rename = json!({"from": below, "to": above});
    let renamed = workspace.succeed("rename_ref", rename).await;
    assert_eq!(workspace.text(above), format!("{id}\n"));

    let undo = undoing(&[&renamed], &[above, below]);
    let undone = workspace.succeed("undo", undo).await;
    assert_eq!(
        structured(&undone)["git_state"],
        "put_back",
        "{}",
        undone.model_text()
    );
    assert_eq!(workspace.text(below), format!("{id}\n"));
    // And an undo of the undo.
    let redo = undoing(&[&undone], &[above, below]);
    workspace.succeed("undo", redo).await;
    assert_eq!(workspace.text(above), format!("{id}\n"));
    assert_eq!(workspace.bytes(".git/refs/heads/topic.lock"), None);
}
