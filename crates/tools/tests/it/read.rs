//! `read`: pages, encodings, images and what is no file.

use haft_contract::{Content, ErrorKind};
use haft_testkit::CpuTime;
use serde_json::json;

use crate::workspace::{Workspace, first_text, pointer, structured};

#[tokio::test]
async fn a_small_file_is_returned_as_it_is() {
    for workspace in Workspace::each() {
        workspace.put("src/a.txt", "one\ntwo\r\nthree");
        let outcome = workspace
            .succeed("read", json!({"path": "src/a.txt"}))
            .await;
        assert_eq!(outcome.content, vec![Content::text("one\ntwo\r\nthree")]);
        assert_eq!(
            structured(&outcome),
            &json!({
                "path": "src/a.txt",
                "media_type": "text/plain",
                "size": 14,
                "lines": {"first": 1, "count": 3},
            })
        );
    }
}

#[tokio::test]
async fn names_aliases_and_absolute_paths_are_accepted() {
    for workspace in Workspace::each() {
        workspace.put("a.txt", "x");
        let absolute = format!("{}/a.txt", workspace.root());
        for (tool, input) in [
            ("read_file", json!({"file_path": "a.txt"})),
            ("Read", json!({"path": absolute})),
            ("read", json!({"path": "./b/../a.txt", "offset": "1"})),
        ] {
            let outcome = workspace.succeed(tool, input).await;
            assert_eq!(first_text(&outcome), "x");
        }
    }
}

#[tokio::test]
async fn pages_name_the_next_offset() {
    for workspace in Workspace::each() {
        let lines: Vec<String> = (1..=5_000).map(|n| format!("line {n}\n")).collect();
        let lines = lines.concat();
        workspace.put("long.txt", &lines);
        let mut read = String::new();
        let mut offset = 1;
        loop {
            let input = json!({"path": "long.txt", "offset": offset});
            let outcome = workspace.succeed("read", input).await;
            read.push_str(first_text(&outcome));
            let facts = structured(&outcome);
            assert!(facts["lines"]["count"].as_u64().unwrap() <= 2_000);
            match facts.get("next_offset") {
                Some(next) => {
                    assert!(
                        outcome
                            .text()
                            .contains(&format!("continue with offset={next}"))
                    );
                    offset = next.as_u64().unwrap();
                }
                None => break,
            }
        }
        assert_eq!(read, lines);

        let input = json!({"path": "long.txt", "offset": 4_999, "limit": 1, "numbered": true});
        let outcome = workspace.succeed("read", input).await;
        assert_eq!(first_text(&outcome), "  4999\tline 4999\n");

        let input = json!({"path": "long.txt", "offset": 5_001});
        let outcome = workspace
            .refuse("read", input, ErrorKind::InvalidInput)
            .await;
        assert_eq!(pointer(&outcome), "/offset");
        assert!(outcome.model_text().contains("has 5000 lines"));

        let input = json!({"path": "long.txt", "offset": 5_000, "column": 999});
        let outcome = workspace
            .refuse("read", input, ErrorKind::InvalidInput)
            .await;
        assert_eq!(pointer(&outcome), "/column");
    }
}

/// Mistake 11: a whole file read to return its first part; no way to read on. RX-04: one line
/// without end.
#[tokio::test]
async fn mistake_11_rx_04_a_huge_line_is_bounded_and_can_be_read_on() {
    for workspace in Workspace::each() {
        workspace.put("line.txt", "a".repeat(130_000));
        let mut read = 0;
        let mut column = 0;
        loop {
            let input = json!({"path": "line.txt", "column": column});
            let outcome = workspace.succeed("read", input).await;
            read += first_text(&outcome).len();
            assert_eq!(outcome.facts.bytes_omitted, 0);
            match structured(&outcome).get("next_column") {
                Some(next) => column = next.as_u64().unwrap(),
                None => break,
            }
        }
        assert_eq!(read, 130_000);
    }
}

/// Mistake 11: strict UTF-8.
#[tokio::test]
async fn mistake_11_text_that_is_not_utf_8_is_decoded_and_said_so() {
    for workspace in Workspace::each() {
        workspace.put(
            "latin.txt",
            b"Gr\xfc\xdfe aus der K\xfcche, sch\xf6n war es\n",
        );
        let outcome = workspace
            .succeed("read", json!({"path": "latin.txt"}))
            .await;
        assert_eq!(first_text(&outcome), "Grüße aus der Küche, schön war es\n");
        assert!(structured(&outcome)["encoding"].is_string());
        assert!(outcome.text().contains("[decoded from "));

        workspace.put("wide.txt", b"\xff\xfeh\0\xe9\0\n\0x\0");
        let outcome = workspace
            .succeed("read", json!({"path": "wide.txt", "offset": 2}))
            .await;
        assert_eq!(first_text(&outcome), "x");
        assert_eq!(structured(&outcome)["encoding"], "UTF-16LE");
    }
}

/// Mistake 15: an error told by a string, so that a file that starts so is misread.
#[tokio::test]
async fn mistake_15_a_file_that_starts_with_error_is_a_file() {
    for workspace in Workspace::each() {
        workspace.put("log.txt", "Error: no such file\n");
        let outcome = workspace.succeed("read", json!({"path": "log.txt"})).await;
        assert!(outcome.error.is_none());
        assert_eq!(first_text(&outcome), "Error: no such file\n");
    }
}

#[tokio::test]
async fn images_and_documents_are_returned_as_such_and_binaries_are_refused() {
    for workspace in Workspace::each() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0rest".to_vec();
        workspace.put("image.txt", &png);
        let outcome = workspace
            .succeed("read", json!({"path": "image.txt"}))
            .await;
        assert_eq!(
            outcome.content,
            vec![Content::Image {
                data: png,
                media_type: "image/png".to_owned()
            }]
        );
        workspace.put("a.pdf", b"%PDF-1.7\n\0");
        let outcome = workspace.succeed("read", json!({"path": "a.pdf"})).await;
        assert!(matches!(&outcome.content[..],
            [Content::Document { media_type, name, .. }]
            if media_type == "application/pdf" && name == "a.pdf"));
        let mut huge = b"GIF89a".to_vec();
        huge.resize(5 * 1024 * 1024 + 1, 1);
        workspace.put("huge.gif", huge);
        workspace
            .refuse(
                "read",
                json!({"path": "huge.gif"}),
                ErrorKind::LimitExceeded,
            )
            .await;
        workspace.put("program", b"\x7fELF\0\0\0\0");
        let outcome = workspace
            .refuse("read", json!({"path": "program"}), ErrorKind::InvalidInput)
            .await;
        assert!(outcome.model_text().contains("binary file of 8 bytes"));
    }
}

#[tokio::test]
async fn what_is_no_file_is_refused_with_a_way_on() {
    for workspace in Workspace::each() {
        workspace.put("dir/a.txt", "x");
        let outcome = workspace
            .refuse("read", json!({"path": "dir"}), ErrorKind::NotRegularFile)
            .await;
        assert!(outcome.model_text().contains("`list`"));
        let outcome = workspace
            .refuse("read", json!({"path": "none"}), ErrorKind::NotFound)
            .await;
        assert_eq!(pointer(&outcome), "/path");
        workspace.put("empty.txt", "");
        let outcome = workspace
            .succeed("read", json!({"path": "empty.txt"}))
            .await;
        assert_eq!(first_text(&outcome), "[the file is empty]");
    }
}

/// Mistake 9: workspace check by string prefix.
#[tokio::test]
async fn mistake_09_a_path_beside_the_workspace_is_outside() {
    for workspace in Workspace::each() {
        let beside = format!("{}-evil/x", workspace.root());
        for path in [beside.as_str(), "../x", "/etc/passwd", "a/../../x"] {
            let outcome = workspace
                .refuse("read", json!({"path": path}), ErrorKind::OutsideWorkspace)
                .await;
            assert_eq!(pointer(&outcome), "/path");
        }
    }
}

/// RX-12: the cap counts bytes that were read, not the size a file states.
#[tokio::test]
async fn rx_12_a_sparse_file_without_end_is_refused_at_once() {
    let workspace = Workspace::local();
    let path = workspace.folder.as_ref().unwrap().path().join("sparse");
    let file = std::fs::File::create(path).unwrap();
    file.set_len(1 << 42).unwrap();
    let cpu = CpuTime::start();
    workspace
        .refuse("read", json!({"path": "sparse"}), ErrorKind::InvalidInput)
        .await;
    workspace
        .refuse(
            "edit",
            json!({"path": "sparse", "old_string": "a", "new_string": "b"}),
            ErrorKind::LimitExceeded,
        )
        .await;
    assert!(cpu.used().as_secs() < 5, "{:?}", cpu.used());
}
