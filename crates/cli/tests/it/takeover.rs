//! `haft mcp import`: the servers of every agent come behind Haft, their secrets do not come into
//! `haft.toml`, and what was is kept.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use serde_json::{Value, json};

use crate::support::Stage;

const TOKEN: &str = "not-a-known-shape-but-secret";

/// An agent, its file, and two servers in it: a program with a secret, and an address.
fn agents() -> [(&'static str, &'static str, String); 11] {
    let usual = |table: &str, more: &str| {
        format!(
            "{{\n  // mine\n  \"keep\": 1,\n  \"{table}\": {{\n    \"github\": {{ {more}\"command\": \"/srv/github\", \"args\": [\"stdio\"], \"env\": {{ \"TOKEN\": \"{TOKEN}\", \"LEVEL\": \"info\" }} }},\n    \"docs\": {{ \"url\": \"https://docs.test/mcp\" }}\n  }}\n}}\n"
        )
    };
    [
        ("claude-code", ".claude.json", usual("mcpServers", "")),
        (
            "codex",
            ".codex/config.toml",
            format!(
                "keep = 1 # mine\n\n[mcp_servers.github]\ncommand = \"/srv/github\"\nargs = [\"stdio\"]\n\n[mcp_servers.github.env]\nTOKEN = \"{TOKEN}\"\nLEVEL = \"info\"\n\n[mcp_servers.docs]\nurl = \"https://docs.test/mcp\"\n"
            ),
        ),
        ("cursor", ".cursor/mcp.json", usual("mcpServers", "")),
        (
            "vscode",
            ".config/Code/User/mcp.json",
            usual("servers", "\"type\": \"stdio\", "),
        ),
        ("gemini", ".gemini/settings.json", usual("mcpServers", "")),
        (
            "openclaw",
            ".openclaw/openclaw.json",
            format!(
                "{{\n  // mine\n  keep: 1,\n  mcp: {{ servers: {{\n    github: {{ command: '/srv/github', args: ['stdio'], env: {{ TOKEN: '{TOKEN}', LEVEL: 'info' }} }},\n    docs: {{ url: 'https://docs.test/mcp', transport: 'streamable-http' }},\n  }} }},\n}}\n"
            ),
        ),
        (
            "goose",
            ".config/goose/config.yaml",
            format!(
                "keep: 1 # mine\nextensions:\n  developer:\n    type: builtin\n    name: developer\n    enabled: true\n  github:\n    type: stdio\n    name: github\n    enabled: true\n    cmd: /srv/github\n    args:\n    - stdio\n    envs:\n      TOKEN: {TOKEN}\n      LEVEL: info\n  docs:\n    type: streamable_http\n    name: docs\n    enabled: true\n    uri: https://docs.test/mcp\n"
            ),
        ),
        (
            "opencode",
            ".config/opencode/opencode.json",
            format!(
                "{{\n  // mine\n  \"keep\": 1,\n  \"mcp\": {{\n    \"github\": {{ \"type\": \"local\", \"command\": [\"/srv/github\", \"stdio\"], \"environment\": {{ \"TOKEN\": \"{TOKEN}\", \"LEVEL\": \"info\" }} }},\n    \"docs\": {{ \"type\": \"remote\", \"url\": \"https://docs.test/mcp\" }},\n  }},\n}}\n"
            ),
        ),
        ("qwen", ".qwen/settings.json", usual("mcpServers", "")),
        ("pi", ".pi/agent/mcp.json", usual("mcpServers", "")),
        (
            "nanobot",
            ".nanobot/config.json",
            format!(
                "{{\n  // mine\n  \"keep\": 1,\n  \"tools\": {{ \"mcpServers\": {{\n    \"github\": {{ \"command\": \"/srv/github\", \"args\": [\"stdio\"], \"env\": {{ \"TOKEN\": \"{TOKEN}\", \"LEVEL\": \"info\" }}, \"url\": \"\" }},\n    \"docs\": {{ \"url\": \"https://docs.test/mcp\" }}\n  }} }}\n}}\n"
            ),
        ),
    ]
}

fn place(stage: &Stage, file: &str, text: &str) -> PathBuf {
    let path = stage.home.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_servers_of_every_agent_come_behind_haft() {
    for (agent, file, before) in agents() {
        let stage = Stage::new();
        let config = stage.read("haft.toml");
        let path = place(&stage, file, &before);
        let shown = stage.haft(&["mcp", "import", agent, "--dry-run"]);
        assert!(!shown.all().contains(TOKEN), "{}", shown.all());
        let shown = shown.ok();
        assert!(shown.contains("+[[mcp.servers]]"), "{shown}");
        assert_eq!(stage.read("haft.toml"), config);
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        let error = stage.haft(&["mcp", "import", agent]).fails(2);
        assert!(error.contains("add `--yes`"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        let said = stage.haft(&["mcp", "import", agent, "--yes"]);
        assert!(!said.all().contains(TOKEN), "{}", said.all());
        let said = said.ok();
        assert!(said.contains("taken over: 2 servers"), "{said}");
        let after = stage.read("haft.toml");
        assert!(after.starts_with(&config), "{after}");
        assert!(!after.contains(TOKEN) && after.contains("LEVEL"), "{after}");
        // The file is trusted as it is now, and the servers are known by their ids.
        stage.haft(&["policy", "lint"]).ok();
        let status = stage.haft(&["mcp", "status"]).ok();
        assert!(
            status.contains("github") && status.contains("docs"),
            "{status}"
        );
        let secret = stage
            .home
            .join(".local/share/haft/mcp-secrets/github.TOKEN");
        assert_eq!(fs::read_to_string(&secret).unwrap(), TOKEN);
        let mode = fs::metadata(&secret).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(after.contains(secret.to_str().unwrap()), "{after}");
        let left = fs::read_to_string(&path).unwrap();
        assert!(left.contains(env!("CARGO_BIN_EXE_haft")), "{left}");
        assert!(
            !left.contains(TOKEN) && !left.contains("docs.test"),
            "{left}"
        );
        assert!(left.contains("mine") && left.contains("keep"), "{left}");
        assert_eq!(left.contains("developer"), agent == "goose");
        let backup = PathBuf::from(format!("{}.haft-backup", path.display()));
        assert_eq!(fs::read_to_string(backup).unwrap(), before);
        let said = stage.haft(&["mcp", "import", agent, "--yes"]).ok();
        assert!(said.starts_with("nothing to take over"), "{said}");
        assert_eq!(stage.read("haft.toml"), after);
    }
}

#[test]
fn two_agents_with_one_server_share_it_and_with_one_name_do_not() {
    let stage = Stage::new();
    let server = |command: &str| {
        let entry = json!({"command": command});
        json!({"mcpServers": {"files": entry}}).to_string()
    };
    for (agent, file, command, id) in [
        ("cursor", ".cursor/mcp.json", "/srv/files", "files"),
        ("gemini", ".gemini/settings.json", "/srv/others", "files-2"),
    ] {
        place(&stage, file, &server(command));
        let said = stage.json(&["mcp", "import", agent, "--yes", "--json"]);
        assert_eq!(said["state"], "taken_over", "{said}");
        assert_eq!(said["servers"][0]["id"], id, "{said}");
    }
    let path = place(&stage, ".claude.json", &server("/srv/files"));
    let before = stage.read("haft.toml");
    let said = stage.json(&["mcp", "import", "claude-code", "--yes", "--json"]);
    assert_eq!(said["known"], json!(["files"]), "{said}");
    assert_eq!(stage.read("haft.toml"), before);
    let left: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let names: Vec<&String> = left["mcpServers"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["haft"]);
}

/// What `npx` keeps of a package that it ran.
fn ran_by_npx(stage: &Stage, package: &str, version: &str) {
    let folder = stage.home.join(".npm/_npx/0123abcd/node_modules");
    let folder = folder.join(package);
    fs::create_dir_all(&folder).unwrap();
    let text = json!({"name": package, "version": version}).to_string();
    fs::write(folder.join("package.json"), text).unwrap();
}

#[test]
fn mc_25_a_package_of_which_no_version_is_known_is_taken_over_switched_off() {
    let stage = Stage::new();
    let text = json!({"mcpServers": {
        "my server": {"command": "npx", "args": ["-y", "@scope/thing"]},
        "pinned": {"command": "npx", "args": ["-y", "@scope/thing@1.2.3"]},
        "odd": {"command": "npx", "args": ["-y", "github:someone/thing"]},
    }});
    place(&stage, ".cursor/mcp.json", &text.to_string());
    let import = ["mcp", "import", "cursor", "--offline", "--yes", "--json"];
    let said = stage.json(&import);
    let servers = said["servers"].as_array().unwrap();
    let by_id = |id: &str| servers.iter().find(|server| server["id"] == id).unwrap();
    let off = by_id("my-server")["off"].as_str().unwrap();
    assert!(off.contains("no version of it was found"), "{off}");
    assert!(off.contains("\"@scope/thing@1.2.3\""), "{off}");
    assert!(off.contains("remove `enabled = false`"), "{off}");
    assert!(by_id("odd")["off"].is_string());
    assert_eq!(by_id("pinned")["off"], Value::Null);
    let config = stage.read("haft.toml");
    assert!(
        config.contains("# Off: ") && config.contains("enabled = false"),
        "{config}"
    );
    stage.haft(&["call", "list", "path=."]).ok();
}

#[test]
fn mc_25_a_package_gets_the_version_that_ran_here_and_the_hosts_it_is_fetched_from() {
    let stage = Stage::new();
    ran_by_npx(&stage, "@scope/thing", "2.3.4");
    let site = ".local/share/uv/tools/thing/lib/python3.12/site-packages/thing-0.9.dist-info";
    fs::create_dir_all(stage.home.join(site)).unwrap();
    let text = json!({"mcpServers": {
        "a": {"command": "npx", "args": ["-y", "@scope/thing", "/srv"]},
        "b": {"command": "uvx", "args": ["thing@latest"]},
        "c": {"command": "npx", "args": ["--registry", "https://npm.test/", "@scope/thing@1.0.0"]},
        "d": {"command": "/srv/d"},
    }});
    place(&stage, ".cursor/mcp.json", &text.to_string());
    let import = ["mcp", "import", "cursor", "--offline", "--yes", "--json"];
    let said = stage.json(&import);
    let servers = said["servers"].as_array().unwrap();
    assert_eq!(servers.len(), 4);
    assert!(
        servers.iter().all(|server| server["off"].is_null()),
        "{said}"
    );
    let notes = servers[0]["notes"].to_string();
    assert!(
        notes.contains("`@scope/thing` is pinned to 2.3.4, the version on this machine"),
        "{notes}"
    );
    assert!(notes.contains("it may reach registry.npmjs.org"), "{notes}");
    let config = stage.read("haft.toml");
    for line in [
        "command = [\"npx\", \"-y\", \"@scope/thing@2.3.4\", \"/srv\"]\nsandbox = { network = [\"registry.npmjs.org\"] }\n",
        "command = [\"uvx\", \"thing==0.9\"]\nsandbox = { network = [\"pypi.org\", \"files.pythonhosted.org\"] }\n",
        "sandbox = { network = [\"npm.test\"] }\n",
    ] {
        assert!(config.contains(line), "{line}\n{config}");
    }
    assert!(!config.contains("enabled = false"), "{config}");
    // A server that fetches nothing gets no network.
    assert!(
        config.ends_with("id = \"d\"\ncommand = [\"/srv/d\"]\n"),
        "{config}"
    );
    stage.haft(&["policy", "lint"]).ok();
    // Another agent has the same server without a version: it is behind Haft already.
    let same =
        json!({"mcpServers": {"a": {"command": "npx", "args": ["-y", "@scope/thing", "/srv"]}}});
    place(&stage, ".gemini/settings.json", &same.to_string());
    let said = stage.json(&["mcp", "import", "gemini", "--offline", "--yes", "--json"]);
    assert_eq!(said["known"], json!(["a"]), "{said}");
    assert_eq!(stage.read("haft.toml"), config);
}

#[test]
fn where_no_workspace_is_trusted_servers_go_into_your_own_configuration() {
    let stage = Stage::bare();
    let text = json!({"mcpServers": {"x": {"command": "/srv/x", "env": {"K": "${K}"}}, "odd": 1}});
    let path = place(&stage, ".claude.json", &text.to_string());
    let said = stage.json(&["mcp", "import", "claude-code", "--yes", "--json"]);
    assert!(said["left"]["odd"].is_string(), "{said}");
    let own = fs::read_to_string(stage.home.join(".config/haft/haft.toml")).unwrap();
    assert!(own.contains("secrets = { K = \"env:K\" }"), "{own}");
    let left: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(
        left["mcpServers"]["haft"]["env"],
        json!({"K": "${K}"}),
        "{left}"
    );
    assert_eq!(left["mcpServers"]["odd"], 1);
    // What the import gave Haft stays when it is installed again.
    let said = stage.haft(&["mcp", "install", "claude-code"]).ok();
    assert!(said.starts_with("already"), "{said}");
}

#[test]
fn a_configuration_with_a_mistake_takes_nothing_over() {
    let stage = Stage::with_config("[mcp]\nservers = []\n");
    let (agent, file, before) = &agents()[0];
    let path = place(&stage, file, before);
    let error = stage.haft(&["mcp", "import", agent, "--yes"]).fails(7);
    assert!(error.contains("[[mcp.servers]]"), "{error}");
    assert_eq!(&fs::read_to_string(path).unwrap(), before);
    assert!(!stage.home.join(".local/share/haft/mcp-secrets").exists());
}
