//! `copy`: complete, never onto itself, never through a link, with progress of its own.

use haft_contract::{CallEvent, ErrorKind};
use serde_json::json;

use crate::workspace::{Workspace, pointer, structured};

#[tokio::test]
async fn a_copy_is_complete_keeps_the_mode_and_creates_parents() {
    for workspace in Workspace::each() {
        workspace.put("a.sh", "echo hi\n");
        workspace.set_mode("a.sh", 0o755);
        let input = json!({"source": "a.sh", "destination": "x/y/b.sh"});
        let outcome = workspace.succeed("file_copy", input.clone()).await;
        assert_eq!(
            structured(&outcome),
            &json!({"source": "a.sh", "destination": "x/y/b.sh", "bytes": 8, "created": true})
        );
        assert_eq!(workspace.text("x/y/b.sh"), "echo hi\n");
        assert_eq!(workspace.mode("x/y/b.sh"), 0o755);

        let outcome = workspace
            .refuse("copy", input, ErrorKind::AlreadyExists)
            .await;
        assert_eq!(pointer(&outcome), "/destination");
        workspace.put("a.sh", "changed");
        let input = json!({"source": "a.sh", "destination": "x/y/b.sh", "overwrite": true});
        workspace.succeed("copy", input).await;
        assert_eq!(workspace.text("x/y/b.sh"), "changed");
    }
}

/// Mistake 3: a copy onto itself empties the file; a symlink check made after the path was
/// already resolved.
#[tokio::test]
async fn mistake_03_a_copy_onto_itself_by_any_name_is_refused() {
    for workspace in Workspace::each() {
        workspace.put("a.txt", "precious");
        workspace.put_symlink("link.txt", "a.txt");
        let copy = |source: &str, destination: &str| json!({"source": source, "destination": destination, "overwrite": true});
        workspace
            .refuse(
                "copy",
                copy("a.txt", "./b/../a.txt"),
                ErrorKind::InvalidInput,
            )
            .await;
        workspace
            .refuse("copy", copy("a.txt", "link.txt"), ErrorKind::Symlink)
            .await;
        workspace
            .refuse("copy", copy("link.txt", "b.txt"), ErrorKind::Symlink)
            .await;
        assert_eq!(workspace.text("a.txt"), "precious");
        assert_eq!(workspace.bytes("b.txt"), None);
    }
}

#[tokio::test]
async fn mistake_03_a_copy_onto_its_own_hard_link_keeps_the_data() {
    let workspace = Workspace::local();
    workspace.put("a.txt", "precious");
    let folder = workspace.folder.as_ref().unwrap().path();
    std::fs::hard_link(folder.join("a.txt"), folder.join("b.txt")).unwrap();
    let input = json!({"source": "a.txt", "destination": "b.txt", "overwrite": true});
    workspace.harness.call("copy", input).await;
    assert_eq!(workspace.text("a.txt"), "precious");
    assert_eq!(workspace.text("b.txt"), "precious");
}

/// Mistake 1: progress kept on a shared tool object.
#[tokio::test]
async fn mistake_01_two_copies_at_once_report_their_own_progress() {
    for workspace in Workspace::each() {
        workspace.put("small", vec![b's'; 100_000]);
        workspace.put("large", vec![b'l'; 3_000_000]);
        let request = |name: &str| {
            let input = json!({"source": name, "destination": format!("{name}.copy")});
            workspace.harness.request("copy", input)
        };
        let requests = vec![request("small"), request("large")];
        let outcomes = workspace.harness.runtime.batch(requests).await;
        for (outcome, total) in outcomes.iter().zip([100_000, 3_000_000]) {
            assert!(outcome.succeeded());
            let reports: Vec<_> = workspace
                .harness
                .events
                .of(outcome.call)
                .into_iter()
                .filter_map(|event| match event {
                    CallEvent::Progress(progress) => Some(progress),
                    _ => None,
                })
                .collect();
            let last = reports.last().expect("progress was reported");
            assert_eq!(last.percentage(), Some(100));
            assert_eq!(last.detail, json!({"bytes": total, "total_bytes": total}));
            for report in &reports {
                assert_eq!(report.total, Some(total));
                assert!(report.step <= total);
            }
        }
    }
}

#[tokio::test]
async fn what_is_no_file_is_not_copied() {
    for workspace in Workspace::each() {
        workspace.put("dir/x", "");
        let copy = |source: &str| json!({"source": source, "destination": "y"});
        workspace
            .refuse("copy", copy("dir"), ErrorKind::NotRegularFile)
            .await;
        let outcome = workspace
            .refuse("copy", copy("none"), ErrorKind::NotFound)
            .await;
        assert_eq!(pointer(&outcome), "/source");
    }
}
