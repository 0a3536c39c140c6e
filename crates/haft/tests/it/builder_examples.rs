//! Every method of the builder shows how it is used, by an example that is compiled.

use std::fs;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src");

/// The public methods in a text whose documentation has no example.
fn without_example(text: &str) -> Vec<String> {
    let mut documentation = String::new();
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            documentation.push_str(words);
        } else if line.starts_with("pub fn ") || line.starts_with("pub async fn ") {
            let name = line
                .split("fn ")
                .nth(1)
                .and_then(|rest| rest.split(['(', '<']).next());
            if !documentation.contains("```") {
                found.extend(name.map(str::to_owned));
            }
            documentation.clear();
        } else if !line.starts_with("#[") {
            documentation.clear();
        }
    }
    found
}

#[test]
fn every_method_of_the_builder_has_an_example() {
    let mut read = 0;
    for file in ["builder.rs", "builder/files.rs", "builder/servers.rs"] {
        let text = fs::read_to_string(format!("{FOLDER}/{file}")).unwrap();
        read += text.matches("    pub fn ").count();
        assert_eq!(without_example(&text), [""; 0], "{file}");
    }
    assert!(read > 20, "{read}");
}

#[test]
fn a_method_without_an_example_is_found() {
    let text = "/// Does.\npub fn one(self) -> Self {\n}\n/// ```\n/// x\n/// ```\n#[must_use]\npub fn two() {}\n";
    assert_eq!(without_example(text), ["one"]);
}
