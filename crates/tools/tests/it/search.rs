//! `list`, `find` and `grep`.

use haft_contract::ErrorKind;
use haft_testkit::CpuTime;
use serde_json::{Value, json};

use crate::workspace::{Workspace, first_text, pointer, structured};

fn tree(workspace: &Workspace) {
    workspace.put("main.rs", "fn main() {\n    greet(\"you\");\n}\n");
    workspace.put("src/greet.rs", "pub fn greet(name: &str) {}\n// greet\n");
    workspace.put("src/deep/er/x.rs", "// nothing\n");
    workspace.put("README.md", "# Greet\n");
    workspace.put(".gitignore", "target\n");
    workspace.put("target/out.rs", "fn greet() {}\n");
}

fn paths(outcome: &haft_contract::Outcome) -> Vec<&str> {
    let entries = structured(outcome)["entries"].as_array().unwrap();
    entries
        .iter()
        .map(|entry| entry["path"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_listing_is_sorted_typed_and_sized() {
    for workspace in Workspace::each() {
        tree(&workspace);
        let outcome = workspace.succeed("ls", json!({})).await;
        assert_eq!(
            paths(&outcome),
            [".gitignore", "README.md", "main.rs", "src", "target"]
        );
        assert!(outcome.text().contains("main.rs  32 bytes\nsrc/\n"));
        let input = json!({"path": "src", "depth": 3, "limit": 2});
        let outcome = workspace.succeed("list", input).await;
        assert_eq!(structured(&outcome)["entries"].as_array().unwrap().len(), 2);
        assert!(structured(&outcome)["omitted"].as_u64().unwrap() >= 1);
        let input = json!({"respect_ignores": true});
        let outcome = workspace.succeed("list", input).await;
        assert!(!paths(&outcome).contains(&"target"));
        workspace
            .refuse("list", json!({"path": "main.rs"}), ErrorKind::NotDirectory)
            .await;
    }
}

/// Models are shown optional parameters without `null`, and may send it all the same.
#[tokio::test]
async fn null_is_taken_for_an_optional_parameter() {
    for workspace in Workspace::each() {
        tree(&workspace);
        for (tool, input) in [
            ("find", json!({"pattern": "*.md", "type": null})),
            (
                "grep",
                json!({"pattern": "Greet", "glob": null, "type": null}),
            ),
        ] {
            let outcome = workspace.succeed(tool, input).await;
            assert!(outcome.text().contains("README.md"), "{}", outcome.text());
        }
    }
}

/// Mistake 22: a glob that misses root files, or matches only them.
#[tokio::test]
async fn mistake_22_a_glob_matches_at_the_root_and_below() {
    for workspace in Workspace::each() {
        tree(&workspace);
        let all = ["main.rs", "src/deep/er/x.rs", "src/greet.rs"];
        for pattern in ["**/*.rs", "*.rs"] {
            let outcome = workspace.succeed("glob", json!({"pattern": pattern})).await;
            assert_eq!(paths(&outcome), all, "{pattern}");
        }
        let input = json!({"pattern": "*.rs", "include_ignored": true, "type": "file"});
        let outcome = workspace.succeed("find", input).await;
        assert_eq!(structured(&outcome)["total"], 4);
    }
}

#[tokio::test]
async fn find_pages_and_stays_inside() {
    for workspace in Workspace::each() {
        tree(&workspace);
        let input = json!({"pattern": "**/*.rs", "limit": 2});
        let outcome = workspace.succeed("find", input).await;
        assert_eq!(structured(&outcome)["next_offset"], 2);
        assert!(outcome.text().ends_with("[2 of 3; continue with offset=2]"));
        let input = json!({"pattern": "**/*.rs", "limit": 2, "offset": 2});
        let outcome = workspace.succeed("find", input).await;
        assert_eq!(paths(&outcome), ["src/greet.rs"]);
        assert_eq!(structured(&outcome).get("next_offset"), None);
        for pattern in ["../*", "/etc/passwd", "{../../etc/*,x}"] {
            let outcome = workspace
                .harness
                .call("find", json!({"pattern": pattern}))
                .await;
            assert!(!outcome.text().contains("passwd"), "{pattern}");
        }
        let input = json!({"pattern": "*", "path": ".."});
        let outcome = workspace
            .refuse("find", input, ErrorKind::OutsideWorkspace)
            .await;
        assert_eq!(pointer(&outcome), "/path");
    }
}

#[tokio::test]
async fn grep_has_three_modes_and_context() {
    for workspace in Workspace::each() {
        tree(&workspace);
        let check = async |input: Value, expect: &str| {
            let outcome = workspace.succeed("Grep", input.clone()).await;
            assert_eq!(first_text(&outcome), expect, "{input}");
        };
        check(
            json!({"pattern": "greet\\("}),
            "main.rs\n2:     greet(\"you\");\n\nsrc/greet.rs\n1: pub fn greet(name: &str) {}\n",
        )
        .await;
        check(
            json!({"pattern": "GREET", "-i": true, "glob": "*.md"}),
            "README.md\n1: # Greet\n",
        )
        .await;
        check(
            json!({"pattern": "greet", "output_mode": "files_with_matches"}),
            "main.rs\nsrc/greet.rs\n",
        )
        .await;
        check(
            json!({"pattern": "greet", "mode": "count"}),
            "main.rs: 1\nsrc/greet.rs: 2\n",
        )
        .await;
        check(
            json!({"pattern": "greet(", "fixed": true, "path": "main.rs", "-C": 1}),
            "main.rs\n1- fn main() {\n2:     greet(\"you\");\n3- }\n",
        )
        .await;
        let outcome = workspace
            .succeed("grep", json!({"pattern": "greet", "limit": 1}))
            .await;
        assert_eq!(structured(&outcome)["next_offset"], 1);
        let outcome = workspace
            .succeed("grep", json!({"pattern": "no such text"}))
            .await;
        assert_eq!(structured(&outcome)["results"], 0);
    }
}

/// Every parameter of `grep` reaches the search.
#[tokio::test]
async fn grep_narrows_pages_and_cuts_as_asked() {
    for workspace in Workspace::each() {
        tree(&workspace);
        workspace.put("min.js", format!("greet();{}\n", "x".repeat(5_000)));
        let text = async |input: Value| {
            let outcome = workspace.succeed("grep", input).await;
            first_text(&outcome).to_owned()
        };
        assert_eq!(
            text(json!({"pattern": "greet", "type": "rust", "mode": "files"})).await,
            "main.rs\nsrc/greet.rs\n"
        );
        assert_eq!(
            text(json!({"pattern": "you", "before": 1})).await,
            "main.rs\n1- fn main() {\n2:     greet(\"you\");\n"
        );
        assert_eq!(
            text(json!({"pattern": "you", "after": 1})).await,
            "main.rs\n2:     greet(\"you\");\n3- }\n"
        );
        let over_lines = json!({"pattern": "main[^}]*you", "multiline": true, "mode": "count"});
        assert!(text(over_lines).await.starts_with("main.rs: "));
        let in_a_line = json!({"pattern": "main[^}]*you", "mode": "files"});
        assert!(!text(in_a_line).await.contains("main.rs"));
        let page = json!({"pattern": "greet", "glob": "*.rs", "limit": 1, "offset": 1});
        let page = text(page).await;
        assert!(
            page.contains("src/greet.rs") && !page.contains("main.rs"),
            "{page}"
        );
        let cut = text(json!({"pattern": "greet", "path": "min.js"})).await;
        assert!(
            cut.len() < 1_000,
            "a line of 5,000 bytes is cut: {}",
            cut.len()
        );
    }
}

/// Every parameter of `find` and `list` reaches the back end.
#[tokio::test]
async fn find_and_list_filter_sort_and_descend_as_asked() {
    for workspace in Workspace::each() {
        tree(&workspace);
        workspace.put("big.rs", "x".repeat(9_000));
        let input = json!({"pattern": "*", "type": "directory"});
        let outcome = workspace.succeed("find", input).await;
        assert_eq!(paths(&outcome), ["src", "src/deep", "src/deep/er"]);
        let input = json!({"pattern": "*.rs", "sort": "size"});
        let outcome = workspace.succeed("find", input).await;
        assert_eq!(
            paths(&outcome),
            ["big.rs", "src/greet.rs", "main.rs", "src/deep/er/x.rs"]
        );
        let input = json!({"path": "src", "depth": 2});
        let outcome = workspace.succeed("list", input).await;
        assert_eq!(paths(&outcome), ["src/deep", "src/deep/er", "src/greet.rs"]);
        assert_eq!(structured(&outcome)["entries"][0]["type"], "directory");
        assert_eq!(structured(&outcome)["entries"][2]["size"], 37);
    }
}

/// AI-01: nothing a model writes becomes a flag.
#[tokio::test]
async fn ai_01_a_pattern_that_looks_like_a_flag_is_a_pattern() {
    for workspace in Workspace::each() {
        workspace.put("a.txt", "use --pre=evil here\n");
        let outcome = workspace
            .succeed("grep", json!({"pattern": "--pre=evil"}))
            .await;
        assert_eq!(structured(&outcome)["results"], 1);
    }
}

#[tokio::test]
async fn rx_15_hostile_patterns_are_linear_or_refused() {
    for workspace in Workspace::each() {
        workspace.put("a.txt", format!("{}b\n", "a".repeat(1_000_000)));
        let cpu = CpuTime::start();
        workspace
            .succeed("grep", json!({"pattern": "(a+)+$", "mode": "count"}))
            .await;
        let outcome = workspace
            .harness
            .fail("grep", json!({"pattern": ".{1,1000}{1,1000}"}))
            .await;
        assert!(outcome.error.is_some());
        workspace
            .refuse(
                "grep",
                json!({"pattern": "a".repeat(1024 * 1024)}),
                ErrorKind::LimitExceeded,
            )
            .await;
        assert!(cpu.used().as_secs() < 5, "{:?}", cpu.used());
    }
}

#[tokio::test]
async fn rx_16_hostile_globs_are_bounded() {
    for workspace in Workspace::each() {
        workspace.put(&format!("{}x.rs", "d/".repeat(60)), "x");
        let cpu = CpuTime::start();
        workspace
            .succeed("find", json!({"pattern": "**/**/**/**/**/*"}))
            .await;
        let braces = "{a,b}".repeat(30);
        workspace
            .harness
            .call("find", json!({"pattern": braces}))
            .await;
        workspace
            .refuse(
                "find",
                json!({"pattern": "{a,b}".repeat(10_000)}),
                ErrorKind::LimitExceeded,
            )
            .await;
        assert!(cpu.used().as_secs() < 5, "{:?}", cpu.used());
    }
}

/// PE-10: names with control characters are shown escaped.
#[tokio::test]
async fn pe_10_hostile_names_do_not_forge_lines() {
    let workspace = Workspace::local();
    workspace.put("a\nb\u{1b}[31m.txt", "needle\n");
    for (tool, input) in [
        ("list", json!({})),
        ("find", json!({"pattern": "*.txt"})),
        ("grep", json!({"pattern": "needle"})),
    ] {
        let outcome = workspace.succeed(tool, input).await;
        let text = outcome.text();
        assert!(text.contains("a\\nb\\u{1b}[31m.txt"), "{tool}: {text:?}");
        assert!(!text.contains('\u{1b}'));
    }
}
