//! `haft mcp install` and the workspace's `haft.toml`: made as `haft init` makes it where there is
//! none, with a section for the agent; and nothing becomes trusted that a person did not trust.

use std::fs;

use crate::support::Stage;

/// Runs `install`, and returns what it says about rules as JSON.
fn install(stage: &Stage, agent: &str) -> serde_json::Value {
    let said = stage.json(&["mcp", "install", agent, "--json"]);
    said["rules"].clone()
}

#[test]
fn a_workspace_is_made_where_there_is_none_as_init_makes_it() {
    let stage = Stage::bare();
    let shown = stage.haft(&["mcp", "install", "codex", "--dry-run"]);
    assert!(shown.stderr.contains("would make `"), "{}", shown.all());
    assert!(!stage.exists("haft.toml"));
    let said = stage.haft(&["mcp", "install", "codex"]).ok();
    assert!(
        said.contains("new: as `haft init` makes it, preset careful"),
        "{said}"
    );
    let made = stage.read("haft.toml");
    let init = Stage::new();
    let template = init.read("haft.toml");
    assert!(made.starts_with(template.trim_end()), "{made}");
    assert!(made.contains("\n[agents.codex]\n"), "{made}");
    // Trusted like a file of `haft init`; the command line and the agent are known in it.
    for agent in ["cli", "codex"] {
        stage
            .haft(&["call", "--agent", agent, "list", "path=."])
            .ok();
    }
    // Any other agent is a stranger.
    let other = ["call", "--agent", "gemini", "list", "path=."];
    stage.haft(&other).fails(3);
    // The second run changes nothing.
    assert_eq!(install(&stage, "codex")["section"], "already");
    assert_eq!(stage.read("haft.toml"), made);
}

#[test]
fn an_agent_that_has_haft_already_is_listed_with_the_first_one() {
    let stage = Stage::new();
    let file = stage.home.join(".cursor/mcp.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let entry = "{\"mcpServers\": {\"haft\": {\"command\": \"haft\", \"args\": [\"mcp\", \"--agent\", \"cursor\"]}}}";
    fs::write(file, entry).unwrap();
    assert_eq!(install(&stage, "gemini")["section"], "added");
    for agent in ["cli", "cursor", "gemini"] {
        stage
            .haft(&["call", "--agent", agent, "list", "path=."])
            .ok();
    }
    stage
        .haft(&["call", "--agent", "codex", "list", "path=."])
        .fails(3);
}

#[test]
fn a_trusted_file_keeps_what_it_says_and_its_sections() {
    let text = "# mine\n[policy] # here\nallow = []\n\n[agents.cli]\n\n[agents.codex] # strict\ndeny = [\"bash\"]\n";
    let stage = Stage::with_config(text);
    assert_eq!(install(&stage, "codex")["section"], "already");
    assert_eq!(stage.read("haft.toml"), text);
    let shown = stage.haft(&["mcp", "install", "pi", "--dry-run"]).ok();
    assert!(shown.contains("+[agents.pi]"), "{shown}");
    assert_eq!(stage.read("haft.toml"), text);
    assert_eq!(install(&stage, "pi")["section"], "added");
    assert_eq!(stage.read("haft.toml"), format!("{text}\n[agents.pi]\n"));
    stage
        .haft(&["call", "--agent", "pi", "list", "path=."])
        .ok();
    // What haft wrote is what `haft trust` compares with.
    let said = stage.haft(&["trust"]).ok();
    assert!(said.starts_with("trusted as before"), "{said}");
    // `--remove` is about the agent's own files.
    stage.haft(&["mcp", "install", "pi", "--remove"]).ok();
    assert!(stage.read("haft.toml").ends_with("[agents.pi]\n"));
}

#[test]
fn a_file_that_nobody_trusted_or_that_changed_is_left_and_stays_untrusted() {
    let hostile = "[policy]\nallow = [\"bash\"]\n";
    let stage = Stage::bare();
    stage.write("haft.toml", hostile);
    let rules = install(&stage, "codex");
    assert_eq!(rules["section"], "not_added", "{rules}");
    assert!(
        rules["why"].as_str().unwrap().contains("not trusted"),
        "{rules}"
    );
    assert_eq!(stage.read("haft.toml"), hostile);
    let listed = stage.haft(&["trust", "--list"]).ok();
    assert_eq!(listed, "");
    let ran = stage.haft(&["call", "list", "path=."]);
    assert!(
        ran.stderr.contains("you have not trusted it"),
        "{}",
        ran.all()
    );
    // Trusted, then changed by somebody.
    stage.haft(&["trust"]).ok();
    let changed = format!("{hostile}deny = []\n");
    stage.write("haft.toml", &changed);
    let said = stage.haft(&["mcp", "install", "pi"]).ok();
    assert!(said.contains("[agents.pi] was not added"), "{said}");
    assert!(said.contains("run `haft trust`"), "{said}");
    assert_eq!(stage.read("haft.toml"), changed);
    stage.haft(&["call", "list", "path=."]).fails(7);
    // Trusted, then gone: nothing is made in its place.
    fs::remove_file(stage.work.join("haft.toml")).unwrap();
    assert_eq!(install(&stage, "pi")["section"], "not_added");
    assert!(!stage.exists("haft.toml"));
}

#[test]
fn where_no_workspace_can_be_the_agent_still_gets_haft() {
    // The home directory holds Haft's own files, so it cannot be a workspace.
    let stage = Stage::bare();
    let mut command = stage.command(&["mcp", "install", "codex"]);
    let ran = command.current_dir(&stage.home).output().unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}");
    assert!(said.starts_with("installed"), "{said}");
    assert!(said.contains("contains Haft's own files"), "{said}");
    assert!(!stage.home.join("haft.toml").exists());
    // An inline table cannot be added to, and is not replaced.
    let inline = "agents = { cli = {} }\n[policy]\nallow = []\n";
    let stage = Stage::with_config(inline);
    assert_eq!(install(&stage, "codex")["section"], "not_added");
    assert_eq!(stage.read("haft.toml"), inline);
}
