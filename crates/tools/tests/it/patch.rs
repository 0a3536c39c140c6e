//! `patch`: several files or none of them.

use std::time::Duration;

use haft_contract::{ErrorKind, Terminal};
use haft_testkit::CpuTime;
use serde_json::{Value, json};

use crate::workspace::{Workspace, structured};

const ALL_OPERATIONS: &str = "\
*** Begin Patch
*** Update File: src/a.rs
@@ fn two() {
-    old();
+    new();
*** Update File: run.sh
*** Move to: bin/run.sh
-echo one
+echo two
*** Add File: docs/new.md
+# New
*** Delete File: gone.txt
*** End Patch";

fn prepare(workspace: &Workspace) {
    workspace.put(
        "src/a.rs",
        "fn one() {\n    old();\n}\nfn two() {\n    old();\n}\n",
    );
    workspace.put("run.sh", "echo one\n");
    workspace.set_mode("run.sh", 0o755);
    workspace.put("gone.txt", "x\n");
}

#[tokio::test]
async fn add_update_move_and_delete_in_one_step() {
    for workspace in Workspace::each() {
        prepare(&workspace);
        let outcome = workspace
            .succeed("apply_patch", json!({"patch": ALL_OPERATIONS}))
            .await;
        assert_eq!(
            workspace.text("src/a.rs"),
            "fn one() {\n    old();\n}\nfn two() {\n    new();\n}\n"
        );
        assert_eq!(workspace.bytes("run.sh"), None);
        assert_eq!(workspace.text("bin/run.sh"), "echo two\n");
        assert_eq!(workspace.mode("bin/run.sh"), 0o755);
        assert_eq!(workspace.text("docs/new.md"), "# New\n");
        assert_eq!(workspace.bytes("gone.txt"), None);
        assert_eq!(
            structured(&outcome)["files"],
            json!([
                {"path": "src/a.rs", "change": "updated", "added": 1, "removed": 1},
                {"path": "bin/run.sh", "change": "moved", "added": 1, "removed": 1},
                {"path": "docs/new.md", "change": "added", "added": 1, "removed": 0},
                {"path": "gone.txt", "change": "deleted", "added": 0, "removed": 1},
            ])
        );
    }
}

#[tokio::test]
async fn a_patch_that_does_not_fit_completely_changes_nothing() {
    for (spoil, kind) in [
        ("exists", ErrorKind::AlreadyExists),
        ("missing", ErrorKind::NotFound),
        ("differs", ErrorKind::NoMatch),
    ] {
        for workspace in Workspace::each() {
            prepare(&workspace);
            let mut patch = ALL_OPERATIONS.to_owned();
            match spoil {
                "exists" => workspace.put("docs/new.md", "mine\n"),
                "missing" => patch = patch.replace("gone.txt", "none.txt"),
                _ => workspace.put("run.sh", "echo three\n"),
            }
            let before: Vec<_> = ["src/a.rs", "run.sh", "docs/new.md", "gone.txt"]
                .map(|path| workspace.bytes(path))
                .into();
            let outcome = workspace
                .refuse("patch", json!({"patch": patch}), kind)
                .await;
            assert!(outcome.error.as_ref().unwrap().at.as_deref() == Some("/patch"));
            let after: Vec<_> = ["src/a.rs", "run.sh", "docs/new.md", "gone.txt"]
                .map(|path| workspace.bytes(path))
                .into();
            assert_eq!(before, after, "{spoil}");
            assert_eq!(workspace.bytes("bin/run.sh"), None);
        }
    }
}

/// The second write fails for a reason nobody could foresee; the first is taken back.
#[tokio::test]
async fn a_patch_that_fails_half_way_is_taken_back() {
    for workspace in Workspace::each() {
        workspace.put("a.txt", "one\n");
        let patch = "*** Begin Patch\n*** Update File: a.txt\n-one\n+two\n*** Add File: new\n+x\n\
                     *** Add File: new/below.txt\n+y\n*** End Patch";
        let outcome = workspace
            .harness
            .fail("patch", json!({"patch": patch}))
            .await;
        assert_eq!(workspace.text("a.txt"), "one\n", "{}", outcome.model_text());
        assert_eq!(workspace.bytes("new"), None);
    }
}

#[tokio::test]
async fn unified_diffs_are_applied() {
    for workspace in Workspace::each() {
        workspace.put("a.txt", "one\r\ntwo\r\nthree");
        let patch = "diff --git a/a.txt b/a.txt\n--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n\
                     --- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+new\n";
        workspace.succeed("patch", json!({"patch": patch})).await;
        assert_eq!(workspace.text("a.txt"), "one\r\nzwei\r\nthree");
        assert_eq!(workspace.text("b.txt"), "new\n");
    }
}

#[tokio::test]
async fn a_patch_that_leaves_the_workspace_or_says_nothing_is_refused() {
    for workspace in Workspace::each() {
        let add = |path: &str| json!({"patch": format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch")});
        workspace
            .refuse("patch", add("../x"), ErrorKind::OutsideWorkspace)
            .await;
        workspace
            .refuse("patch", json!({"patch": "hello"}), ErrorKind::InvalidInput)
            .await;
        let twice = "*** Begin Patch\n*** Add File: x\n+x\n*** Add File: ./x\n+y\n*** End Patch";
        let outcome = workspace
            .refuse("patch", json!({"patch": twice}), ErrorKind::InvalidInput)
            .await;
        assert!(outcome.model_text().contains("named twice"));
        assert_eq!(workspace.bytes("x"), None);
    }
}

/// The CPU time that a patch may take in a build without optimisation.
const QUICK: Duration = Duration::from_secs(5);

/// A hunk of 2,000 lines that almost fits at each of 400,000 took hours.
#[tokio::test]
async fn rx_cpu_a_patch_that_almost_fits_everywhere_ends_soon() {
    let workspace = Workspace::local();
    workspace.put("a.txt", "a\n".repeat(400_000));
    let patch = format!(
        "*** Begin Patch\n*** Update File: a.txt\n@@\n{}-b\n+c\n*** End Patch\n",
        " a\n".repeat(2_000)
    );
    let cpu = CpuTime::start();
    workspace
        .refuse("patch", json!({"patch": patch}), ErrorKind::NoMatch)
        .await;
    assert!(cpu.used() < QUICK, "{:?}", cpu.used());
}

/// 2,000 hunks of 50 lines each took half a minute.
#[tokio::test]
async fn rx_cpu_a_patch_of_many_long_hunks_ends_soon() {
    let workspace = Workspace::local();
    workspace.put("a.txt", "a\n".repeat(400_000));
    let hunk = format!("@@\n{}-a\n+c\n", " a\n".repeat(50));
    let patch = format!(
        "*** Begin Patch\n*** Update File: a.txt\n{}*** End Patch\n",
        hunk.repeat(2_000)
    );
    let cpu = CpuTime::start();
    workspace.succeed("patch", json!({"patch": patch})).await;
    assert!(cpu.used() < QUICK, "{:?}", cpu.used());
    assert_eq!(workspace.text("a.txt").matches('c').count(), 2_000);
}

/// Work that a deadline finds in the middle of a long text is stopped by it, also on a runtime of
/// one thread.
#[tokio::test]
async fn rx_cpu_a_deadline_stops_text_work() {
    let workspace = Workspace::local();
    let keys: Vec<String> = (0..20_000).map(|key| format!("key {key:05}.")).collect();
    workspace.put("a.txt", "some line\n".repeat(1_500_000) + &keys.join("\n"));
    // Found only at the end, and not again after it: each is a look at the whole file.
    let edits: Vec<Value> = keys
        .iter()
        .map(|key| json!({"old": key, "new": "x"}))
        .collect();
    let mut request = workspace
        .harness
        .request("edit", json!({"path": "a.txt", "edits": edits}));
    request.timeout = Some(Duration::from_millis(500));
    let cpu = CpuTime::start();
    let outcome = workspace.harness.runtime.call(request).await;
    assert_eq!(outcome.terminal, Terminal::TimedOut);
    // The rest would take minutes.
    assert!(cpu.used() < Duration::from_secs(4), "{:?}", cpu.used());
    assert!(workspace.text("a.txt").ends_with("key 19999."));
}
