//! `haft mcp install --only-haft`, shown by what the model is offered: the agent's own shell and file
//! tools are gone, Haft's are there; `--remove` gives back every byte and every tool.

use std::{collections::BTreeMap, fs, path::Path};

use haft_agents::{agent::Agent, model::Turn};
use serde_json::json;

use super::{Scene, for_every_agent};

const RULES: &str = "[policy]\nallow = [\"write\"]\n";

/// Tools of the agent that run commands or touch files, by what it calls them; without a screen Gemini
/// CLI and Qwen Code offer none that would ask.
fn own_tools(agent: &dyn Agent) -> &'static [&'static str] {
    match agent.id() {
        "claude-code" => &["Bash", "Read", "Edit", "Write"],
        "codex" => &["exec_command", "write_stdin", "view_image"],
        "gemini" => &["read_file", "glob", "grep_search", "list_directory"],
        "qwen" => &["read_file", "glob", "grep_search"],
        "opencode" => &["bash", "read", "edit", "write", "grep"],
        "pi" => &["bash", "read", "edit", "write"],
        "nanobot" => &["exec", "read_file", "write_file", "edit_file"],
        "openclaw" => &["exec", "read", "write", "edit"],
        other => panic!("{other} is not known"),
    }
}

fn check(agent: &'static dyn Agent) {
    let write = json!({"path": "made.txt", "content": "by Haft"});
    let script = vec![Turn::call("write", write), Turn::say("that is all")];
    let scene = Scene::without_haft(agent, RULES, script);
    let before = files(&scene.stage.home);
    scene.install(&["--only-haft"]);
    assert_ne!(files(&scene.stage.home), before);
    scene.install(&["--remove"]);
    assert_eq!(files(&scene.stage.home), before);

    scene.install(&["--only-haft"]);
    scene.run("what can you do");
    // What confines the agent does not confine Haft.
    assert_eq!(scene.stage.read("made.txt"), "by Haft");
    let left = own(&scene);
    for tool in own_tools(agent) {
        assert!(!left.iter().any(|name| name == tool), "{tool} in {left:?}");
    }
    let ours = scene.model.offered_by_haft();
    for tool in ["bash", "read", "edit", "write", "grep"] {
        assert!(
            ours.iter().any(|name| name == tool),
            "no {tool} in {ours:?}"
        );
    }

    // Some agents write their files anew when they run, so what they offer is compared.
    scene.install(&["--remove"]);
    scene.install(&[]);
    scene.run("what can you do now");
    let back = own(&scene);
    for tool in own_tools(agent) {
        assert!(
            back.iter().any(|name| name == tool),
            "no {tool} in {back:?}"
        );
    }
    scene.saw(
        "only_haft",
        &format!(
            "{} tools of its own, {} with `--only-haft`",
            back.len(),
            left.len()
        ),
    );
}

/// The tools offered last that are not Haft's, by the names the model knows.
fn own(scene: &Scene) -> Vec<String> {
    let offered = scene.model.offered().into_iter();
    let own = offered.filter(|tool| tool.of_haft().is_none());
    own.map(|tool| tool.name).collect()
}

/// Every file of a home that Haft or a person writes, as it is read; not the record, and not the
/// copy of a file that stays beside it.
fn files(home: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![home.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(home).unwrap().display().to_string();
            let kept = name.ends_with(".haft-backup");
            if kept || name.starts_with(".local") || name.starts_with(".cache") {
                continue;
            }
            if path.is_dir() && !path.is_symlink() {
                left.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                found.insert(name, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }
    found
}

for_every_agent! { check }
