//! `haft doctor`: every line says what is there and what to do.

use crate::support::Stage;

#[test]
fn a_good_installation_passes_and_says_that_there_is_no_sandbox() {
    let stage = Stage::new();
    let ran = stage.haft(&["doctor"]).ok();
    insta::assert_snapshot!("doctor", stage.normal(&ran));
    let json = stage.json(&["doctor", "--json"]);
    let states: Vec<&str> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|check| check["state"].as_str().unwrap())
        .collect();
    assert!(!states.contains(&"fail"), "{json}");
}

#[test]
fn what_is_wrong_fails_with_a_hint() {
    let stage = Stage::with_config("[policy]\n");
    stage.write("haft.toml", "[policy]\npreset = \"locked\"\n");
    let ran = stage.haft(&["doctor"]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.stdout.contains("has changed since it was trusted"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout.contains("hint: read it, then run `haft trust`"),
        "{}",
        ran.stdout
    );
}
