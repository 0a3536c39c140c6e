//! `patch`: several files or none of them.

use haft_contract::ErrorKind;
use serde_json::json;

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
