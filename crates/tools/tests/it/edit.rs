//! `edit`: one place or none, and every byte that was not meant stays.

use haft_contract::ErrorKind;
use serde_json::json;

use crate::workspace::{Workspace, pointer, structured};

#[tokio::test]
async fn the_result_is_the_diff_and_other_bytes_stay() {
    for workspace in Workspace::each() {
        workspace.put("a.rs", b"\xef\xbb\xbffn a() {}\r\nfn b() {}\r\nlast");
        workspace.set_mode("a.rs", 0o750);
        let input = json!({"path": "a.rs", "edits": [
            {"old": "fn a() {}\nfn b() {}", "new": "fn a() {}\nfn c() {}\nfn d() {}"},
            {"old": "last", "new": "end"},
        ]});
        let outcome = workspace.succeed("edit", input).await;
        assert_eq!(
            workspace.bytes("a.rs").unwrap(),
            b"\xef\xbb\xbffn a() {}\r\nfn c() {}\r\nfn d() {}\r\nend"
        );
        assert_eq!(workspace.mode("a.rs"), 0o750);
        assert!(outcome.text().contains("-fn b() {}"));
        assert!(outcome.text().contains("+fn d() {}"));
        assert_eq!(
            structured(&outcome),
            &json!({"path": "a.rs", "replacements": 2, "added": 3, "removed": 2})
        );
    }
}

#[tokio::test]
async fn every_shape_models_send_is_understood() {
    for workspace in Workspace::each() {
        for (tool, input) in [
            (
                "edit_file",
                json!({"file_path": "a", "old_string": "x", "new_string": "y"}),
            ),
            (
                "Edit",
                json!({"path": "a", "old_string": "x", "new_string": "y", "replace_all": true}),
            ),
            (
                "edit",
                json!({"path": "a", "edits": "[{\"old\":\"x\",\"new\":\"y\"}]"}),
            ),
            (
                "edit",
                json!({"path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}),
            ),
        ] {
            workspace.put("a", "x\n");
            workspace.succeed("read", json!({"path": "a"})).await;
            workspace.succeed(tool, input).await;
            assert_eq!(workspace.text("a"), "y\n");
        }
    }
}

#[tokio::test]
async fn an_edit_without_one_place_changes_nothing_and_says_where() {
    for workspace in Workspace::each() {
        let text = "alpha = 1\nbeta = 2\nalpha = 1\n";
        workspace.put("a", text);
        let edits = |old: &str| json!({"path": "a", "edits": [{"old": "beta = 2", "new": "x"}, {"old": old, "new": "y"}]});

        let outcome = workspace
            .refuse("edit", edits("alpha = 1"), ErrorKind::NoMatch)
            .await;
        assert_eq!(pointer(&outcome), "/edits/1/old");
        assert!(outcome.model_text().contains("lines 1, 3"));

        let outcome = workspace
            .refuse("edit", edits("bets = 3"), ErrorKind::NoMatch)
            .await;
        assert_eq!(pointer(&outcome), "/edits/1/old");
        assert!(outcome.model_text().contains("-beta = 2\n+bets = 3"));

        let outcome = workspace
            .refuse("edit", edits("ta = 2\nalpha"), ErrorKind::InvalidInput)
            .await;
        assert!(outcome.model_text().contains("change the same text"));

        assert_eq!(workspace.text("a"), text);
        let input = json!({"path": "a", "edits": [{"old": "alpha = 1", "new": "z", "line": 3}]});
        workspace.succeed("edit", input).await;
        assert_eq!(workspace.text("a"), "alpha = 1\nbeta = 2\nz\n");
    }
}

#[tokio::test]
async fn tolerant_locating_keeps_the_bytes_of_what_did_not_change() {
    for workspace in Workspace::each() {
        workspace.put("a.rs", "\tlet s = \u{201c}x\u{201d};  \n\tcall(s);\n");
        let input = json!({"path": "a.rs",
            "old_string": "    let s = \"x\";\n    call(s);\n",
            "new_string": "    let s = \"x\";\n    call(s, 1);\n"});
        workspace.succeed("edit", input).await;
        assert_eq!(
            workspace.text("a.rs"),
            "\tlet s = \u{201c}x\u{201d};  \n\tcall(s, 1);\n"
        );
    }
}

#[tokio::test]
async fn rx_17_replacing_everywhere_cannot_explode() {
    for workspace in Workspace::each() {
        let text = "a".repeat(1024 * 1024);
        workspace.put("a", &text);
        let input =
            json!({"path": "a", "edits": [{"old": "a", "new": "b".repeat(1000), "all": true}]});
        workspace
            .refuse("edit", input, ErrorKind::LimitExceeded)
            .await;
        assert_eq!(workspace.text("a"), text);
    }
}

#[tokio::test]
async fn what_cannot_be_edited_is_refused() {
    for workspace in Workspace::each() {
        workspace.put("bin", b"a\0b");
        let input = |path: &str| json!({"path": path, "old_string": "a", "new_string": "b"});
        workspace
            .refuse("edit", input("bin"), ErrorKind::InvalidInput)
            .await;
        let outcome = workspace
            .refuse("edit", input("none"), ErrorKind::NotFound)
            .await;
        assert!(outcome.model_text().contains("use `write`"));
        workspace.put("a", "a");
        let same = json!({"path": "a", "old_string": "a", "new_string": "a"});
        let outcome = workspace
            .refuse("edit", same, ErrorKind::InvalidInput)
            .await;
        assert_eq!(pointer(&outcome), "/new_string");
    }
}

/// The encoding of a file, its byte order mark and its final line stay as they were.
#[tokio::test]
async fn an_edit_keeps_the_encoding_of_the_file() {
    let utf_16 = |text: &str| {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        units.flat_map(u16::to_le_bytes).collect::<Vec<u8>>()
    };
    let cases = [
        (utf_16("één\r\ntwee"), utf_16("één\r\nzwölf")),
        (
            b"Gr\xfc\xdfe aus der K\xfcche, sch\xf6n war es\ntwee\n".to_vec(),
            b"Gr\xfc\xdfe aus der K\xfcche, sch\xf6n war es\nzw\xf6lf\n".to_vec(),
        ),
    ];
    for (before, after) in cases {
        for workspace in Workspace::each() {
            workspace.put("a.txt", &before);
            let input = json!({"path": "a.txt", "old_string": "twee", "new_string": "zwölf"});
            workspace.succeed("edit", input).await;
            assert_eq!(workspace.bytes("a.txt").unwrap(), after);
        }
    }
}
