//! The scenario folders: each has a configuration that loads and a page that says how to run it.

use std::{fs, path::Path};

use haft::{CedarPolicy, Haft, PolicySource};

#[test]
fn every_scenario_has_a_configuration_that_loads_and_a_page_that_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools = haft::runtime::registry::Registry::new();
    tools
        .register(&haft::contract::ProviderId::builtin(), haft::builtins())
        .unwrap();
    let tools = tools.snapshot();
    let facts: Vec<_> = tools
        .page(0, tools.len())
        .iter()
        .map(|entry| entry.facts())
        .collect();
    let mut scenarios = 0;
    for entry in fs::read_dir(root.join("examples")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(folder.join("haft.toml")).unwrap();
        let policy = CedarPolicy::load(&[PolicySource::new(name.clone(), text)])
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut findings = policy.lint(&facts);
        // Tools of mounted servers are known once they run, which is for the example's own test.
        findings.retain(|finding| !finding.rule.text.starts_with("mcp__"));
        // So are tools that an example has in its code.
        let example = name.replace('-', "_");
        let code = root.join(format!("crates/haft/examples/{example}.rs"));
        let code = fs::read_to_string(code).unwrap_or_default();
        findings.retain(|finding| {
            let tool = finding.rule.text.split('(').next().unwrap_or_default();
            !code.contains(&format!("\"{tool}\""))
        });
        // And scripts, once they are trusted.
        let scripts = folder.join("tools");
        findings.retain(|finding| !scripts.join(&finding.rule.text).exists());
        // And tools of the example itself.
        let example = name.replace('-', "_");
        let code = root.join(format!("crates/haft/examples/{example}.rs"));
        let code = fs::read_to_string(code).unwrap_or_default();
        findings.retain(|finding| {
            let tool = finding.rule.text.split('(').next().unwrap();
            !code.contains(&format!("\"{tool}\""))
        });
        assert_eq!(findings, [], "{name}");

        scenarios += 1;
        let page = fs::read_to_string(folder.join("README.md")).unwrap();
        if scripts.exists() {
            // For the program; its tests run it.
            assert!(page.contains("haft call"), "{name}");
            continue;
        }
        assert!(
            page.contains(&format!("cargo run -p haft --example {example}")),
            "{name}"
        );
        assert!(
            code.contains(&format!("examples/{name}/haft.toml")),
            "{name}"
        );
    }
    assert_eq!(scenarios, 10);
}

#[tokio::test]
async fn a_scenarios_configuration_opens_a_haft() {
    let (workspace, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let text = include_str!("../../../../examples/agent-loop/haft.toml");
    let haft = Haft::open(workspace.path())
        .data_dir(data.path())
        .policy_text("haft.toml", text)
        .build()
        .await
        .unwrap();
    assert!(
        haft.tools().is_empty(),
        "an agent without a section is shown nothing"
    );
}
