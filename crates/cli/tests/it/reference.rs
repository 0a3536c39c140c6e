//! Generated texts: the reference is up to date, completions exist, help is what it was.

use std::path::Path;

use crate::support::Stage;

#[test]
fn the_reference_is_what_the_program_says() {
    let stage = Stage::bare();
    let printed = stage.haft(&["docs"]).ok();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/reference.md");
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == printed,
        "docs/guide/reference.md is stale: write `haft docs` to it"
    );
}

#[test]
fn completions_know_the_commands() {
    let stage = Stage::bare();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stage.haft(&["completions", shell]).ok();
        assert!(
            script.contains("explain") && script.contains("haft"),
            "{shell}"
        );
    }
}

#[test]
fn help_is_help_and_a_mistake_is_a_mistake() {
    let stage = Stage::bare();
    assert!(stage.haft(&["--help"]).ok().contains("Usage: haft"));
    assert!(stage.haft(&["--version"]).ok().starts_with("haft 0."));
    let error = stage.haft(&["cal"]).fails(2);
    assert!(error.contains("call"), "{error}");
    assert!(
        error.ends_with("hint: `--help` after a command says what it understands\n"),
        "{error}"
    );
    let error = stage.haft(&["\u{1b}[31mred"]).fails(2);
    assert!(!error.contains('\u{1b}'), "{error:?}");
}

#[test]
fn a_value_of_the_configuration_says_where_it_comes_from() {
    let stage = Stage::with_config("[policy]\npreset = \"workspace\"\n\n[limits]\nprocesses = 7\n");
    let shown = stage.haft(&["config", "show"]).ok();
    assert!(shown.contains("processes = 7  # haft.toml:5"), "{shown}");
    assert!(!shown.contains("calls_in_flight"), "{shown}");
    let shown = stage.haft(&["config", "show", "--effective"]).ok();
    assert!(
        shown.contains("calls_in_flight = 16384  # default"),
        "{shown}"
    );
    let values = stage.json(&["--json", "config", "show"]);
    assert_eq!(values[0]["key"], "preset");
    assert_eq!(values[0]["origin"], "haft.toml:2");
    let schema = stage.json(&["--json", "config", "schema"]);
    assert_eq!(
        schema["properties"]["limits"]["additionalProperties"],
        false
    );
}
