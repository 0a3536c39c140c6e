//! The sandbox is like home: what is built inside serves outside, and the other way round.

use haft::sandbox::helper::Helper;
use haft_testkit::helper_program;
use serde_json::json;

use crate::days::runner::{corpus::Day, ground::Ground};

const BUILD: &str = "cargo build 2>&1 && ./target/debug/app";

/// A package with a dependency, as a workspace of a developer with a home beside it.
fn project() -> Ground {
    let manifest = "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
                    [dependencies]\nwords = { path = \"words\" }\n";
    let dependency = "[package]\nname = \"words\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    let files = [
        ("Cargo.toml", manifest),
        ("words/Cargo.toml", dependency),
        (
            "words/src/lib.rs",
            "pub fn word() -> &'static str { \"built\" }\n",
        ),
        (
            "src/main.rs",
            "fn main() { println!(\"{}\", words::word()); }\n",
        ),
    ];
    Ground::new(&Day {
        name: "switch".to_owned(),
        title: "A switch between the sandbox and the terminal".to_owned(),
        files: files
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into(),
        beside: [].into(),
        prepare: String::new(),
        calls: Vec::new(),
    })
}

#[tokio::test]
#[ignore = "ci: needs bubblewrap and a Rust toolchain"]
async fn cargo_builds_nothing_anew_at_a_switch() {
    let ground = project();
    let haft = ground.confined(&Helper::Path(helper_program())).await;
    let inside = async || {
        let outcome = haft.call("bash", json!({ "command": BUILD })).await;
        outcome.model_text()
    };
    let first = inside().await;
    assert!(first.contains("Compiling words"), "{first}");
    let (code, outside) = ground.run(BUILD);
    assert_eq!(code, Some(0), "{outside}");
    let again = inside().await;
    for text in [outside, again] {
        assert!(text.contains("built"), "{text}");
        assert!(!text.contains("Compiling"), "{text}");
    }
    haft.close().await.unwrap();
}
