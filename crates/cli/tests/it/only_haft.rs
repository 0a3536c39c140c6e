//! `haft mcp install --only-haft` turns an agent's own shell and file tools off, and `--remove` leaves
//! every file as it was, byte for byte, whatever was in it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::support::Stage;

/// An agent, the file with its servers, the one with its settings if it can turn its tools off, and
/// texts that either may hold.
struct Case {
    agent: &'static str,
    servers: &'static str,
    settings: Option<&'static str>,
    texts: &'static [&'static str],
}

const JSON: &[&str] = &["", "{}", "{\n\n}\n"];

const CASES: [Case; 11] = [
    Case {
        agent: "claude-code",
        servers: ".claude.json",
        settings: Some(".claude/settings.json"),
        texts: &[
            "{\n  \"numStartups\": 3,\n  \"mcpServers\": {\n    \"other\": { \"type\": \"stdio\", \"command\": \"x\" }\n  }\n}",
            "{\"mcpServers\":{},\"permissions\":{\"deny\":[\"WebFetch\",\"Bash\"],\"allow\":[\"mcp__haft\"]}}",
            "{\n\t\"permissions\": {\n\t\t\"deny\": [\n\t\t\t\"Read(.env)\"\n\t\t]\n\t}\n}\n",
            "{\n  \"permissions\": {}\n}\n",
            "{\"permissions\": {\"deny\": []}}",
        ],
    },
    Case {
        agent: "codex",
        servers: ".codex/config.toml",
        settings: Some(".codex/config.toml"),
        texts: &[
            "# mine\nmodel = \"x\"   # kept\n\n[mcp_servers.other]\ncommand = 'y'\n\n[tui]\nnotifications = true\n",
            "[features]\nshell_tool = true # please\nweb_search = false\n",
            "features.shell_tool = true\n",
            "features = { view_image = true }\nmcp_servers = { other = { command = \"x\" } }\n",
            "model = \"x\"",
        ],
    },
    Case {
        agent: "cursor",
        servers: ".cursor/mcp.json",
        settings: None,
        texts: &[
            "{\n\t// mine\n\t\"mcpServers\": {\n\t\t\"other\": { \"url\": \"https://x.test/mcp\" }, // kept\n\t},\n}\n",
        ],
    },
    Case {
        agent: "vscode",
        servers: ".config/Code/User/mcp.json",
        settings: None,
        texts: &["{\n    \"inputs\": [], /* none */\n    \"servers\": {\n    }\n}\n"],
    },
    Case {
        agent: "gemini",
        servers: ".gemini/settings.json",
        settings: Some(".gemini/policies/haft-only.toml"),
        texts: &["{\n  // look\n  \"ui\": { \"theme\": \"x\" }\n}\n"],
    },
    Case {
        agent: "openclaw",
        servers: ".openclaw/openclaw.json",
        settings: Some(".openclaw/openclaw.json"),
        texts: &[
            "{\n  // JSON5\n  gateway: { port: 18789, },\n  mcp: {\n    servers: {\n      other: { command: 'x' },\n    },\n  },\n}\n",
            "{ tools: { deny: ['ls'], toolSearch: { mode: 'tools' }, codeMode: false } }\n",
        ],
    },
    Case {
        agent: "goose",
        servers: ".config/goose/config.yaml",
        settings: None,
        texts: &[
            "# mine\nGOOSE_MODE: \"auto\"\nextensions:\n  # built in\n  developer:\n    type: builtin\n    name: developer\nz: 1\n",
            "extensions: {} # none\n",
            "a: 1",
        ],
    },
    Case {
        agent: "opencode",
        servers: ".config/opencode/opencode.json",
        settings: Some(".config/opencode/opencode.json"),
        texts: &[
            "{\n  // mine\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": { \"other\": { \"type\": \"local\", \"command\": [\"x\"], }, },\n}\n",
            "{\"tools\": {\"bash\": true, \"webfetch\": false}, \"permission\": {\"edit\": \"ask\"}}\n",
        ],
    },
    Case {
        agent: "qwen",
        servers: ".qwen/settings.json",
        settings: Some(".qwen/settings.json"),
        texts: &[
            "{\n  // look\n  \"$version\": 4,\n  \"tools\": { \"approvalMode\": \"default\", \"disabled\": [\"edit\"] }\n}\n",
        ],
    },
    Case {
        agent: "pi",
        servers: ".pi/agent/mcp.json",
        settings: Some(".pi/agent/settings.json"),
        texts: &[
            "{\"mcpServers\":{\"x\":{\"command\":\"y\"}}}",
            "{\n  \"defaultTools\": [\"read\", \"-bash\"],\n  \"theme\": \"dark\"\n}\n",
        ],
    },
    Case {
        agent: "nanobot",
        servers: ".nanobot/config.json",
        settings: Some(".nanobot/config.json"),
        texts: &[
            "{\n  \"tools\": {\n    \"exec\": {\n      \"enable\": true,\n      \"timeout\": 60\n    },\n    \"mcpServers\": {}\n  }\n}\n",
        ],
    },
];

fn put(path: &Path, text: Option<&str>) {
    if let Some(text) = text {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn text_of(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The files that an install may change.
fn files(case: &Case, stage: &Stage) -> Vec<PathBuf> {
    let mut files = vec![stage.home.join(case.servers)];
    let settings = case.settings.map(|file| stage.home.join(file));
    files.extend(settings.filter(|file| !files.contains(file)));
    files
}

/// What a file may hold before: nothing, next to nothing, and each of the texts.
fn texts<'t>(case: &Case, file: &'t Path) -> Vec<Option<&'t str>> {
    let json = file.extension().is_some_and(|end| end == "json");
    let plain: &[&str] = if json { JSON } else { &["\n", "# mine\n"] };
    let own = case
        .texts
        .iter()
        .filter(|_| file.ends_with(case.servers) || json);
    let some = plain.iter().chain(own).map(|text| Some(*text));
    std::iter::once(None).chain(some).collect()
}

fn flags(case: &Case) -> &'static [&'static [&'static str]] {
    match case.settings {
        Some(_) => &[&[], &["--only-haft"]],
        None => &[&[]],
    }
}

fn haft(stage: &Stage, case: &Case, flags: &[&str]) -> String {
    let words = ["mcp", "install", case.agent];
    let words: Vec<&str> = words.iter().chain(flags).copied().collect();
    stage.haft(&words).ok()
}

#[test]
fn what_was_installed_is_taken_out_byte_for_byte() {
    for case in CASES {
        let stage = Stage::bare();
        let files = files(&case, &stage);
        for (number, file) in files.iter().enumerate() {
            for text in texts(&case, file) {
                for flags in flags(&case) {
                    put(file, text);
                    let before: Vec<_> = files.iter().map(|file| text_of(file)).collect();
                    // Once without them, so that what was noted the first time is kept.
                    if !flags.is_empty() {
                        haft(&stage, &case, &[]);
                    }
                    haft(&stage, &case, flags);
                    if number == 0 || !flags.is_empty() {
                        assert_ne!(text_of(file).as_deref(), text, "{} {text:?}", case.agent);
                    }
                    let said = haft(&stage, &case, &["--remove"]);
                    assert!(said.starts_with("removed"), "{said}");
                    let after: Vec<_> = files.iter().map(|file| text_of(file)).collect();
                    assert_eq!(after, before, "{} {flags:?}", case.agent);
                    for file in &files {
                        let note = format!("{}.haft-install", file.display());
                        assert!(!Path::new(&note).exists(), "{note}");
                        let _ = fs::remove_file(file);
                    }
                }
            }
        }
    }
}

/// A file with something of its owner's at its beginning.
fn with_mine(text: &str) -> String {
    match text.split_once('{') {
        Some((before, after)) if text.trim_start().starts_with(['{', '/']) => {
            format!("{before}{{ \"mine\": [1], {after}")
        }
        _ => format!("mine = [1]\n{text}"),
    }
}

#[test]
fn what_its_owner_changed_in_the_meantime_stays_and_only_what_haft_added_goes() {
    for case in CASES {
        // Goose's file is YAML.
        if case.agent == "goose" {
            continue;
        }
        let stage = Stage::bare();
        for file in files(&case, &stage) {
            for text in texts(&case, &file).into_iter().flatten() {
                if text.trim().is_empty() || text.starts_with('#') {
                    continue;
                }
                for flags in flags(&case) {
                    put(&file, Some(text));
                    haft(&stage, &case, flags);
                    fs::write(&file, with_mine(&text_of(&file).unwrap())).unwrap();
                    haft(&stage, &case, &["--remove"]);
                    let left = text_of(&file).unwrap();
                    assert_eq!(
                        said(&left),
                        said(&with_mine(text)),
                        "{}: {left}",
                        case.agent
                    );
                    for comment in ["// mine", "// look", "// JSON5", "# kept", "# please"] {
                        assert_eq!(left.contains(comment), text.contains(comment), "{left}");
                    }
                    fs::remove_file(&file).unwrap();
                }
            }
        }
    }
}

/// What a file says, whatever it looks like.
fn said(text: &str) -> Value {
    if text.starts_with("mine =") {
        return serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
    }
    let options = jsonc_parser::ParseOptions::default();
    let root = jsonc_parser::cst::CstRootNode::parse(text, &options).unwrap();
    root.to_serde_value().unwrap()
}

#[test]
fn own_tools_are_said_to_be_off_until_haft_is_taken_out() {
    for case in CASES {
        let stage = Stage::bare();
        let Some(settings) = case.settings else {
            let words = ["mcp", "install", case.agent, "--only-haft"];
            let error = stage.haft(&words).fails(2);
            assert!(
                error.contains("has no setting that turns its own shell"),
                "{error}"
            );
            assert_eq!(
                fs::read_dir(&stage.home).unwrap().count(),
                0,
                "{}",
                case.agent
            );
            continue;
        };
        let shown = haft(&stage, &case, &["--only-haft", "--dry-run"]);
        assert!(!stage.home.join(settings).exists());
        assert!(
            shown.contains(settings.rsplit('/').next().unwrap()),
            "{shown}"
        );
        let said = haft(&stage, &case, &["--only-haft"]);
        assert!(said.starts_with("installed"), "{said}");
        assert!(said.contains("\noff       the agent's own "), "{said}");
        assert!(said.contains(settings), "{said}");
        let said = haft(&stage, &case, &["--only-haft"]);
        assert!(said.starts_with("already"), "{said}");
        let before = text_of(&stage.home.join(settings));
        let said = haft(&stage, &case, &[]);
        assert!(said.contains(", still; "), "{said}");
        assert_eq!(text_of(&stage.home.join(settings)), before);
        let said = haft(&stage, &case, &["--remove"]);
        assert!(said.contains("\non        the agent's own "), "{said}");
        assert!(!stage.home.join(settings).exists());
        let said = haft(&stage, &case, &["--remove"]);
        assert!(said.starts_with("not there"), "{said}");
    }
}

#[test]
fn settings_of_other_scopes_are_in_the_project() {
    for (scope, file) in [
        ("project", "settings.json"),
        ("local", "settings.local.json"),
    ] {
        let stage = Stage::bare();
        let words = [
            "mcp",
            "install",
            "claude-code",
            "--only-haft",
            "--scope",
            scope,
        ];
        stage.haft(&words).ok();
        let text = stage.read(&format!(".claude/{file}"));
        assert!(text.contains("\"Bash\""), "{text}");
        assert!(!stage.home.join(".claude").exists());
    }
    let stage = Stage::bare();
    let words = [
        "mcp",
        "install",
        "gemini",
        "--only-haft",
        "--scope",
        "project",
    ];
    stage.haft(&words).fails(2);
    assert!(!stage.exists(".gemini"));
}

#[test]
fn a_settings_file_that_cannot_be_changed_stops_everything() {
    let stage = Stage::bare();
    let settings = stage.home.join(".claude/settings.json");
    for text in [
        "{ \"permissions\": ",
        "{\"permissions\": {\"deny\": \"Bash\"}}",
    ] {
        put(&settings, Some(text));
        let words = ["mcp", "install", "claude-code", "--only-haft"];
        stage.haft(&words).fails(7);
        assert_eq!(text_of(&settings).as_deref(), Some(text));
        assert!(!stage.home.join(".claude.json").exists());
    }
    // It is no concern of an install that leaves the agent's tools alone.
    stage.haft(&["mcp", "install", "claude-code"]).ok();
}
