//! `write`: atomic, with parents and mode, never over what somebody else changed.

use haft_contract::ErrorKind;
use serde_json::json;

use crate::workspace::{Workspace, pointer, structured};

#[tokio::test]
async fn a_file_is_created_with_its_parents_and_replaced_with_its_mode() {
    for workspace in Workspace::each() {
        let input = json!({"path": "a/b/c.sh", "content": "one"});
        let outcome = workspace.succeed("write", input).await;
        assert_eq!(
            structured(&outcome),
            &json!({"path": "a/b/c.sh", "bytes": 3, "created": true})
        );
        workspace.set_mode("a/b/c.sh", 0o755);
        let input = json!({"path": "a/b/c.sh", "content": "two", "force": true});
        let outcome = workspace.succeed("Write", input).await;
        assert_eq!(outcome.text(), "replaced a/b/c.sh (3 bytes)");
        assert_eq!(workspace.text("a/b/c.sh"), "two");
        assert_eq!(workspace.mode("a/b/c.sh"), 0o755);
    }
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_read_is_not_overwritten() {
    for workspace in Workspace::each() {
        workspace.put("a.txt", "mine");
        workspace.succeed("read", json!({"path": "a.txt"})).await;
        workspace.put("a.txt", "somebody else's, longer");
        let input = json!({"path": "a.txt", "content": "new"});
        let outcome = workspace
            .refuse("write", input.clone(), ErrorKind::Conflict)
            .await;
        assert_eq!(pointer(&outcome), "/path");
        assert_eq!(workspace.text("a.txt"), "somebody else's, longer");

        workspace.succeed("read", json!({"path": "a.txt"})).await;
        workspace.succeed("write", input.clone()).await;
        // What this session wrote, it has seen.
        workspace.succeed("write", input).await;

        workspace.put("a.txt", "changed again, and longer");
        let input = json!({"path": "a.txt", "content": "forced", "force": true});
        workspace.succeed("write", input).await;
        assert_eq!(workspace.text("a.txt"), "forced");
    }
}

#[tokio::test]
async fn a_directory_is_not_overwritten() {
    for workspace in Workspace::each() {
        workspace.put("dir/x", "");
        let input = json!({"path": "dir", "content": ""});
        workspace
            .refuse("write", input, ErrorKind::NotRegularFile)
            .await;
    }
}

/// Mistake 5: running the raw parameters after validating a copy; three shapes of failure.
#[tokio::test]
async fn mistake_05_a_wrong_input_fails_in_one_shape_and_runs_nothing() {
    for workspace in Workspace::each() {
        for (input, at) in [
            (json!({"path": "a.txt"}), ""),
            (json!({"path": "a.txt", "content": "x", "mode": 1}), ""),
            (json!({"path": "a.txt", "content": ["x"]}), "/content"),
        ] {
            let outcome = workspace
                .refuse("write", input, ErrorKind::InvalidInput)
                .await;
            assert_eq!(outcome.content, vec![]);
            assert!(pointer(&outcome).starts_with(at));
        }
        assert_eq!(workspace.bytes("a.txt"), None);
    }
}
