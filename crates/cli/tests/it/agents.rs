//! `haft mcp install` in the configuration of every agent: fresh, beside what is there, twice, out
//! again, and refused where the file is not what it should be.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
};

use serde_json::Value;

use crate::support::Stage;

/// An agent, its file in the home directory, and an example of it with comments where it can have
/// some.
const AGENTS: [(&str, &str, &str); 11] = [
    (
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"other\": { \"type\": \"stdio\", \"command\": \"x\", \"args\": [] }\n  },\n  \"projects\": {}\n}",
    ),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"x\"   # kept\n\n[mcp_servers.other]\ncommand = 'y'\n\n[tui]\nnotifications = true\n",
    ),
    (
        "cursor",
        ".cursor/mcp.json",
        "{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"other\": { \"url\": \"https://x.test/mcp\" }, // kept\n\t},\n}\n",
    ),
    (
        "vscode",
        ".config/Code/User/mcp.json",
        "{\n    \"inputs\": [], /* none */\n    \"servers\": {\n    }\n}\n",
    ),
    (
        "gemini",
        ".gemini/settings.json",
        "{\n  // look\n  \"ui\": { \"theme\": \"x\" }\n}\n",
    ),
    (
        "openclaw",
        ".openclaw/openclaw.json",
        "{\n  // JSON5\n  gateway: { port: 18789, },\n  mcp: {\n    servers: {\n      other: { command: 'x' },\n    },\n  },\n}\n",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "# mine\nGOOSE_MODE: \"auto\"\nextensions:\n  # built in\n  developer:\n    type: builtin\n    name: developer\nz: 1\n",
    ),
    (
        "opencode",
        ".config/opencode/opencode.json",
        "{\n  // mine\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"other\": { \"type\": \"local\", \"command\": [\"x\"] },\n  },\n}\n",
    ),
    (
        "qwen",
        ".qwen/settings.json",
        "{\n  // look\n  \"$version\": 4,\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n",
    ),
    (
        "pi",
        ".pi/agent/mcp.json",
        "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n",
    ),
    (
        "nanobot",
        ".nanobot/config.json",
        "{\n  \"tools\": {\n    \"mcpServers\": {\n      \"other\": { \"command\": \"x\" }\n    }\n  }\n}\n",
    ),
];

fn place(stage: &Stage, file: &str, text: &str) -> PathBuf {
    let path = stage.home.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn haft_comes_into_every_agents_configuration_where_there_was_none() {
    for (agent, file, _) in AGENTS {
        let stage = Stage::bare();
        let said = stage.haft(&["mcp", "install", agent]).ok();
        let path = stage.home.join(file);
        let first = format!("installed: haft in {}\n", path.display());
        assert!(said.starts_with(&first), "{said}");
        assert!(said.contains("\nnext "), "{said}");
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(env!("CARGO_BIN_EXE_haft")), "{text}");
        assert!(text.contains(agent), "the agent is named: {text}");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{agent}");
        let said = stage.haft(&["mcp", "install", agent]).ok();
        assert!(said.starts_with("already: haft in "), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn what_else_an_agents_file_says_stays_as_it_is_byte_for_byte() {
    for (agent, file, before) in AGENTS {
        let stage = Stage::bare();
        let path = place(&stage, file, before);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let shown = stage.haft(&["mcp", "install", agent, "--dry-run"]).ok();
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        let line = |start: char| {
            let lines = shown.lines().skip(2);
            lines.filter(move |line| line.starts_with(start)).count()
        };
        assert!(line('+') > 2, "{shown}");
        // A line to which a comma is added, or whose empty braces open, is all that may change.
        assert!(line('-') <= 2, "{agent}: {shown}");
        stage.haft(&["mcp", "install", agent]).ok();
        let with = fs::read_to_string(&path).unwrap();
        assert_ne!(with, before);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640, "{agent}");
        let backup = PathBuf::from(format!("{}.haft-backup", path.display()));
        assert_eq!(fs::read_to_string(&backup).unwrap(), before);
        let said = stage.haft(&["mcp", "install", agent]).ok();
        assert!(said.starts_with("already"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), with);
        let said = stage.haft(&["mcp", "install", agent, "--remove"]).ok();
        assert!(said.starts_with("removed"), "{said}");
        let without = fs::read_to_string(&path).unwrap();
        assert_eq!(without, before, "{agent}");
        assert!(!without.contains(env!("CARGO_BIN_EXE_haft")));
        let said = stage.haft(&["mcp", "install", agent, "--remove"]).ok();
        assert!(said.starts_with("not there"), "{said}");
        assert_eq!(fs::read_to_string(&backup).unwrap(), before, "kept once");
    }
}

#[test]
fn an_older_entry_is_brought_up_to_date_in_its_place() {
    for (agent, file, before) in AGENTS {
        let stage = Stage::bare();
        let path = place(&stage, file, before);
        stage.haft(&["mcp", "install", agent]).ok();
        let text = fs::read_to_string(&path).unwrap();
        let program = env!("CARGO_BIN_EXE_haft");
        fs::write(&path, text.replace(program, "/gone/haft")).unwrap();
        let said = stage.haft(&["mcp", "install", agent]).ok();
        assert!(said.starts_with("installed"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{agent}");
    }
}

#[test]
fn an_entry_that_the_agent_spelt_anew_is_the_same_and_keeps_what_the_agent_added() {
    let stage = Stage::bare();
    stage.haft(&["mcp", "install", "gemini"]).ok();
    let path = stage.home.join(".gemini/settings.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut value: Value = serde_json::from_str(&text).unwrap();
    value["mcpServers"]["haft"]["trust"] = Value::Bool(false);
    fs::write(&path, value.to_string()).unwrap();
    let said = stage.haft(&["mcp", "install", "gemini"]).ok();
    assert!(said.starts_with("already"), "{said}");
    assert_eq!(fs::read_to_string(&path).unwrap(), value.to_string());
    let elsewhere = ["mcp", "install", "gemini", "--workspace", "/elsewhere"];
    let said = stage.haft(&elsewhere).ok();
    assert!(said.starts_with("installed"), "{said}");
    let after: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let entry = &after["mcpServers"]["haft"];
    assert_eq!(entry["trust"], false, "{entry}");
    assert!(entry["args"].to_string().contains("/elsewhere"), "{entry}");
}

#[test]
fn a_file_that_is_not_what_it_should_be_is_left_alone() {
    for (agent, file, _) in AGENTS {
        let broken = match file.rsplit_once('.').unwrap().1 {
            "toml" => "a = \n",
            "yaml" => "extensions: [\n",
            _ => "{ \"a\": \n",
        };
        let stage = Stage::bare();
        let path = place(&stage, file, broken);
        let error = stage.haft(&["mcp", "install", agent]).fails(7);
        assert!(error.contains("cannot be parsed"), "{error}");
        assert!(error.contains("hint: "), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), broken);
        let elsewhere = stage.home.join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        fs::write(&elsewhere, "").unwrap();
        symlink(&elsewhere, &path).unwrap();
        let error = stage.haft(&["mcp", "install", agent]).fails(7);
        assert!(error.contains("symbolic link"), "{error}");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "");
        let real = elsewhere.to_str().unwrap();
        stage.haft(&["mcp", "install", agent, "--file", real]).ok();
        assert_ne!(fs::read_to_string(&elsewhere).unwrap(), "");
    }
}

#[test]
fn what_cannot_be_changed_in_one_place_is_shown_to_be_pasted() {
    let stage = Stage::bare();
    let text = "extensions: {developer: {type: builtin}}\n";
    let path = place(&stage, ".config/goose/config.yaml", text);
    let error = stage.haft(&["mcp", "install", "goose"]).fails(7);
    assert!(
        error.contains("put this into it by hand:\nextensions:\n  haft:\n"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_projects_file_is_in_the_project_and_not_where_a_link_in_it_leads() {
    for (agent, file) in [
        ("claude-code", ".mcp.json"),
        ("codex", ".codex/config.toml"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".vscode/mcp.json"),
        ("gemini", ".gemini/settings.json"),
        ("opencode", "opencode.json"),
        ("qwen", ".qwen/settings.json"),
        ("pi", ".pi/mcp.json"),
    ] {
        let stage = Stage::bare();
        stage
            .haft(&["mcp", "install", agent, "--scope", "project"])
            .ok();
        assert!(stage.read(file).contains(env!("CARGO_BIN_EXE_haft")));
        let stage = Stage::bare();
        let Some((directory, _)) = file.split_once('/') else {
            continue;
        };
        symlink(&stage.home, stage.work.join(directory)).unwrap();
        let error = stage
            .haft(&["mcp", "install", agent, "--scope", "project"])
            .fails(7);
        assert!(error.contains("leads out of the project"), "{error}");
        assert_eq!(fs::read_dir(&stage.home).unwrap().count(), 0);
    }
    for agent in ["openclaw", "goose", "nanobot"] {
        let stage = Stage::bare();
        let error = stage
            .haft(&["mcp", "install", agent, "--scope", "project"])
            .fails(2);
        assert!(error.contains("has no servers of that scope"), "{error}");
    }
}

#[test]
fn one_persons_servers_of_one_project_are_beside_everybodys_in_claude_code() {
    let stage = Stage::bare();
    let path = place(&stage, ".claude.json", "{\n  \"projects\": {}\n}\n");
    stage
        .haft(&["mcp", "install", "claude-code", "--scope", "local"])
        .ok();
    let text: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let project = stage.work.to_str().unwrap();
    let entry = &text["projects"][project]["mcpServers"]["haft"];
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_haft"), "{text}");
}

#[test]
fn over_http_an_agent_is_told_the_address_and_never_the_token() {
    for (agent, file, _) in AGENTS {
        let stage = Stage::bare();
        let said = stage
            .haft(&["mcp", "install", agent, "--http", "127.0.0.1:8931"])
            .ok();
        assert!(said.contains("HAFT_MCP_TOKEN"), "{said}");
        let text = fs::read_to_string(stage.home.join(file)).unwrap();
        assert!(text.contains("http://127.0.0.1:8931/mcp"), "{text}");
        assert!(text.contains("HAFT_MCP_TOKEN"), "{text}");
        assert!(!text.contains(env!("CARGO_BIN_EXE_haft")), "{text}");
    }
}

#[test]
fn what_is_said_about_where_things_are_holds_when_the_agent_starts_haft() {
    let stage = Stage::bare();
    let work = stage.work.to_str().unwrap();
    let said = stage
        .haft(&[
            "mcp",
            "install",
            "openclaw",
            "--workspace",
            ".",
            "--data-dir",
            "../data",
            "--json",
        ])
        .ok();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["state"], "installed");
    assert_eq!(said["backup"], Value::Null);
    let text = fs::read_to_string(stage.home.join(".openclaw/openclaw.json")).unwrap();
    assert!(
        text.contains("\"--workspace\"") && text.contains(work),
        "{text}"
    );
    assert!(text.contains("\"--data-dir\""), "{text}");
}

#[test]
fn variables_that_move_an_agents_configuration_are_heeded() {
    let stage = Stage::bare();
    let elsewhere = stage.home.join("codex");
    let ran = stage
        .command(&["mcp", "install", "codex"])
        .env("CODEX_HOME", &elsewhere)
        .output()
        .unwrap();
    assert!(ran.status.success());
    assert!(elsewhere.join("config.toml").exists());
    assert!(!stage.home.join(".codex").exists());
}

#[test]
fn secrets_of_other_servers_are_not_shown() {
    let stage = Stage::bare();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let text = format!(
        "{{\n  \"mcpServers\": {{\n    \"github\": {{\n      \"command\": \"x\",\n      \"env\": {{ \"GITHUB_TOKEN\": \"{token}\" }}\n    }}\n  }}\n}}\n"
    );
    place(&stage, ".cursor/mcp.json", &text);
    let shown = stage.haft(&["mcp", "install", "cursor", "--dry-run"]).ok();
    assert!(!shown.contains(&token), "{shown}");
}

#[test]
fn a_file_under_its_other_name_is_the_one_that_is_changed() {
    let stage = Stage::bare();
    let text = "{\n  // mine\n  \"mcp\": {}\n}\n";
    let path = place(&stage, ".config/opencode/opencode.jsonc", text);
    stage
        .haft(&["mcp", "install", "opencode", "--only-haft"])
        .ok();
    let with = fs::read_to_string(&path).unwrap();
    assert!(
        with.contains("\"local\"") && with.contains("\"bash\": false"),
        "{with}"
    );
    assert!(!path.with_extension("json").exists());
    stage.haft(&["mcp", "install", "opencode", "--remove"]).ok();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}
