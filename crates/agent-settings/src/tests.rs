//! What each agent documents about its configuration, as checks, and samples against them.

use std::path::Path;

use serde_json::{Value, json};

use super::*;
use crate::{
    document::{blank, borrowed, entries, with_entry, without_entry},
    server::{EntryValue, ServerTransport},
};

fn place(agent: Agent, scope: Scope, variables: &[(&str, &str)]) -> Option<ServersLocation> {
    in_home(variables, |homes| agent.dialect().place(scope, homes))
}

fn in_home<T>(variables: &[(&str, &str)], ask: impl FnOnce(&Homes<'_>) -> T) -> T {
    let variables = variables
        .iter()
        .map(|(name, path)| ((*name).to_owned(), PathBuf::from(path)))
        .collect();
    ask(&Homes {
        home: Path::new("/home/ada"),
        config: Path::new("/home/ada/.config"),
        project: Path::new("/srv/project"),
        variables: &variables,
    })
}

fn program() -> Server {
    Server {
        name: "haft".to_owned(),
        reach: ServerTransport::Command {
            argv: ["/bin/haft", "mcp"].map(str::to_owned).to_vec(),
            env: [("HAFT_AGENT".to_owned(), EntryValue::Text("x".to_owned()))].into(),
            cwd: None,
        },
        enabled: true,
        left_out: Vec::new(),
    }
}

fn address() -> Server {
    let token = EntryValue::Variable {
        before: "Bearer ".to_owned(),
        name: "HAFT_MCP_TOKEN".to_owned(),
    };
    Server {
        reach: ServerTransport::Address {
            url: "http://127.0.0.1:7000/mcp".to_owned(),
            headers: [("Authorization".to_owned(), token)].into(),
            events_only: false,
        },
        ..program()
    }
}

fn entry(agent: Agent, server: &Server) -> Value {
    let fields = agent.dialect().write(server).into_iter();
    Value::Object(fields.map(|(key, value)| (key.to_owned(), value)).collect())
}

#[test]
fn a_server_is_written_as_each_agent_documents_it() {
    let (program, address) = (program(), address());
    let url = "http://127.0.0.1:7000/mcp";
    let braces = json!({"Authorization": "Bearer ${HAFT_MCP_TOKEN}"});
    let env = json!({"HAFT_AGENT": "x"});
    for (agent, started, reached) in [
        (
            Agent::ClaudeCode,
            json!({"type": "stdio", "command": "/bin/haft", "args": ["mcp"], "env": env, "alwaysLoad": true}),
            json!({"type": "http", "url": url, "headers": braces, "alwaysLoad": true}),
        ),
        (
            Agent::Codex,
            json!({"command": "/bin/haft", "args": ["mcp"], "env": env, "default_tools_approval_mode": "approve"}),
            json!({"url": url, "bearer_token_env_var": "HAFT_MCP_TOKEN", "default_tools_approval_mode": "approve"}),
        ),
        (
            Agent::Cursor,
            json!({"type": "stdio", "command": "/bin/haft", "args": ["mcp"], "env": env}),
            json!({"url": url, "headers": {"Authorization": "Bearer ${env:HAFT_MCP_TOKEN}"}}),
        ),
        (
            Agent::Vscode,
            json!({"type": "stdio", "command": "/bin/haft", "args": ["mcp"], "env": env}),
            json!({"type": "http", "url": url, "headers": {"Authorization": "Bearer ${env:HAFT_MCP_TOKEN}"}}),
        ),
        (
            Agent::Gemini,
            json!({"command": "/bin/haft", "args": ["mcp"], "env": env, "trust": true}),
            json!({"httpUrl": url, "headers": braces, "trust": true}),
        ),
        (
            Agent::Openclaw,
            json!({"command": "/bin/haft", "args": ["mcp"], "env": env, "requestTimeoutMs": 600_000}),
            json!({"transport": "streamable-http", "url": url, "headers": braces, "requestTimeoutMs": 600_000}),
        ),
        (
            Agent::Opencode,
            json!({"type": "local", "command": ["/bin/haft", "mcp"], "environment": env, "enabled": true, "timeout": 600_000}),
            json!({"type": "remote", "url": url, "headers": {"Authorization": "Bearer {env:HAFT_MCP_TOKEN}"}, "enabled": true, "timeout": 600_000}),
        ),
        (
            Agent::Qwen,
            json!({"command": "/bin/haft", "args": ["mcp"], "env": env, "alwaysLoadTools": true, "trust": true}),
            json!({"httpUrl": url, "headers": braces, "alwaysLoadTools": true, "trust": true}),
        ),
        (
            Agent::Pi,
            json!({"command": "/bin/haft", "args": ["mcp"], "env": env, "exposure": "direct", "timeout": 600}),
            json!({"url": url, "headers": braces, "exposure": "direct", "timeout": 600}),
        ),
        (
            Agent::Nanobot,
            json!({"command": "/bin/haft", "args": ["mcp"], "env": env, "toolTimeout": 600}),
            json!({"type": "streamableHttp", "url": url, "headers": braces, "toolTimeout": 600}),
        ),
        (
            Agent::Goose,
            json!({"enabled": true, "name": "haft", "description": "Tools behind Haft", "type": "stdio",
                   "cmd": "/bin/haft", "args": ["mcp"], "envs": env, "timeout": 600}),
            json!({"enabled": true, "name": "haft", "description": "Tools behind Haft", "type": "streamable_http",
                   "uri": url, "headers": braces, "env_keys": ["HAFT_MCP_TOKEN"], "timeout": 600}),
        ),
    ] {
        assert_eq!(entry(agent, &program), started, "{agent:?}");
        assert_eq!(entry(agent, &address), reached, "{agent:?}");
        for server in [&program, &address] {
            let read = agent.dialect().read("haft", &entry(agent, server));
            let mut read = read.unwrap().unwrap();
            read.left_out.clear();
            assert_eq!(&read, server, "{agent:?} reads what it writes");
        }
    }
}

/// The documented fields of an entry: those of a program, then those of an address.
#[expect(clippy::too_many_lines, reason = "a table, two rows an agent")]
fn documented(agent: Agent) -> [(&'static [&'static str], &'static [&'static str]); 2] {
    match agent {
        Agent::ClaudeCode => [
            (&["command"], &["type", "args", "env", "alwaysLoad"]),
            (&["type", "url"], &["headers", "alwaysLoad"]),
        ],
        Agent::Codex => [
            (
                &["command"],
                &[
                    "args",
                    "env",
                    "env_vars",
                    "cwd",
                    "enabled",
                    "default_tools_approval_mode",
                ],
            ),
            (
                &["url"],
                &[
                    "bearer_token_env_var",
                    "http_headers",
                    "env_http_headers",
                    "enabled",
                    "default_tools_approval_mode",
                ],
            ),
        ],
        Agent::Cursor => [
            (&["type", "command"], &["args", "env", "envFile"]),
            (&["url"], &["headers", "auth"]),
        ],
        Agent::Vscode => [
            (&["type", "command"], &["args", "cwd", "env", "envFile"]),
            (&["type", "url"], &["headers"]),
        ],
        Agent::Gemini => [
            (&["command"], &["args", "env", "cwd", "timeout", "trust"]),
            (&["httpUrl"], &["headers", "timeout", "trust"]),
        ],
        // The published schema allows no other field.
        Agent::Openclaw => [
            (
                &["command"],
                &[
                    "enabled",
                    "args",
                    "env",
                    "cwd",
                    "transport",
                    "requestTimeoutMs",
                ],
            ),
            (
                &["url"],
                &["enabled", "transport", "headers", "requestTimeoutMs"],
            ),
        ],
        Agent::Opencode => [
            (&["type", "command"], &["environment", "enabled", "timeout"]),
            (&["type", "url"], &["headers", "enabled", "timeout"]),
        ],
        Agent::Qwen => [
            (
                &["command"],
                &["args", "env", "cwd", "alwaysLoadTools", "trust"],
            ),
            (&["httpUrl"], &["headers", "alwaysLoadTools", "trust"]),
        ],
        Agent::Pi => [
            (
                &["command"],
                &["args", "env", "cwd", "timeout", "enabled", "exposure"],
            ),
            (&["url"], &["headers", "timeout", "enabled", "exposure"]),
        ],
        Agent::Nanobot => [
            (
                &["command"],
                &["type", "args", "env", "cwd", "toolTimeout", "enabledTools"],
            ),
            (
                &["url"],
                &["type", "headers", "toolTimeout", "enabledTools"],
            ),
        ],
        Agent::Goose => [
            (
                &["type", "name", "cmd", "args"],
                &[
                    "enabled",
                    "description",
                    "envs",
                    "env_keys",
                    "timeout",
                    "bundled",
                ],
            ),
            (
                &["type", "name", "description", "uri"],
                &[
                    "enabled", "envs", "env_keys", "headers", "timeout", "bundled",
                ],
            ),
        ],
    }
}

#[test]
fn an_entry_has_every_field_its_agent_needs_and_none_it_does_not_know() {
    for agent in Agent::all().iter().copied() {
        for (server, (required, optional)) in [program(), address()].iter().zip(documented(agent)) {
            let entry = entry(agent, server);
            let fields: Vec<&str> = entry
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            for needed in required {
                assert!(fields.contains(needed), "{agent:?} needs {needed}: {entry}");
            }
            for field in fields {
                assert!(
                    required.contains(&field) || optional.contains(&field),
                    "{agent:?} does not document {field}"
                );
            }
        }
    }
}

#[test]
fn servers_are_where_each_agent_documents_them() {
    for (agent, user, project) in [
        (
            Agent::ClaudeCode,
            "/home/ada/.claude.json",
            Some("/srv/project/.mcp.json"),
        ),
        (
            Agent::Codex,
            "/home/ada/.codex/config.toml",
            Some("/srv/project/.codex/config.toml"),
        ),
        (
            Agent::Cursor,
            "/home/ada/.cursor/mcp.json",
            Some("/srv/project/.cursor/mcp.json"),
        ),
        (
            Agent::Vscode,
            "/home/ada/.config/Code/User/mcp.json",
            Some("/srv/project/.vscode/mcp.json"),
        ),
        (
            Agent::Gemini,
            "/home/ada/.gemini/settings.json",
            Some("/srv/project/.gemini/settings.json"),
        ),
        (Agent::Openclaw, "/home/ada/.openclaw/openclaw.json", None),
        (Agent::Goose, "/home/ada/.config/goose/config.yaml", None),
        (
            Agent::Opencode,
            "/home/ada/.config/opencode/opencode.json",
            Some("/srv/project/opencode.json"),
        ),
        (
            Agent::Qwen,
            "/home/ada/.qwen/settings.json",
            Some("/srv/project/.qwen/settings.json"),
        ),
        (
            Agent::Pi,
            "/home/ada/.pi/agent/mcp.json",
            Some("/srv/project/.pi/mcp.json"),
        ),
        (Agent::Nanobot, "/home/ada/.nanobot/config.json", None),
    ] {
        let found = |scope| place(agent, scope, &[]).map(|place| place.path);
        assert_eq!(found(Scope::User), Some(user.into()), "{agent:?}");
        assert_eq!(
            found(Scope::Project),
            project.map(PathBuf::from),
            "{agent:?}"
        );
        assert_eq!(found(Scope::Local).is_some(), agent == Agent::ClaudeCode);
    }
    for (agent, variable, path) in [
        (
            Agent::ClaudeCode,
            "CLAUDE_CONFIG_DIR",
            "/other/.claude.json",
        ),
        (Agent::Codex, "CODEX_HOME", "/other/config.toml"),
        (
            Agent::Gemini,
            "GEMINI_CLI_HOME",
            "/other/.gemini/settings.json",
        ),
        (
            Agent::Openclaw,
            "OPENCLAW_STATE_DIR",
            "/other/openclaw.json",
        ),
        (Agent::Openclaw, "OPENCLAW_CONFIG_PATH", "/other"),
        (Agent::Goose, "GOOSE_PATH_ROOT", "/other/config/config.yaml"),
        (Agent::Qwen, "QWEN_HOME", "/other/settings.json"),
        (Agent::Pi, "PI_CODING_AGENT_DIR", "/other/mcp.json"),
    ] {
        let found = place(agent, Scope::User, &[(variable, "/other")]).unwrap();
        assert_eq!(found.path, Path::new(path), "{agent:?}");
        assert!(VARIABLES.contains(&variable));
    }
}

#[test]
fn an_entry_comes_into_an_empty_file_and_leaves_it_again() {
    for agent in Agent::all().iter().copied() {
        let place = place(agent, Scope::User, &[]).unwrap();
        let (format, table) = (place.format, &place.table);
        for server in [program(), address()] {
            let fields = agent.dialect().write(&server);
            let text = with_entry(format, blank(format), table, ENTRY, &borrowed(&fields)).unwrap();
            let read = entries(format, &text, table).unwrap();
            assert_eq!(read, [(ENTRY.to_owned(), entry(agent, &server))]);
            let text = without_entry(format, &text, table, ENTRY).unwrap();
            assert_eq!(entries(format, &text, table).unwrap(), []);
        }
    }
}

#[test]
fn what_is_peculiar_to_an_agent_is_read() {
    let read = |agent: Agent, entry: Value| agent.dialect().read("x", &entry);
    let codex = json!({"command": "a", "env_vars": ["B", {"name": "C", "source": "remote"}],
                       "enabled": false, "startup_timeout_sec": 9});
    let server = read(Agent::Codex, codex).unwrap().unwrap();
    assert!(!server.enabled);
    assert_eq!(server.left_out, ["startup_timeout_sec"]);
    let ServerTransport::Command { env, .. } = server.reach else {
        panic!("a command");
    };
    assert_eq!(env.len(), 2);
    assert!(matches!(&env["C"], EntryValue::Variable { name, .. } if name == "C"));
    assert_eq!(
        read(
            Agent::Goose,
            json!({"type": "builtin", "name": "developer"})
        ),
        Ok(None)
    );
    let goose = json!({"type": "stdio", "cmd": "a", "args": [], "env_keys": ["K"], "name": "x"});
    let server = read(Agent::Goose, goose).unwrap().unwrap();
    assert!(matches!(&server.reach, ServerTransport::Command { env, .. } if env.contains_key("K")));
    // nanobot writes every field, including empty ones.
    let nanobot = json!({"type": null, "command": "a", "args": [], "env": {}, "cwd": "", "url": "",
                         "headers": {}, "toolTimeout": 30, "enabledTools": ["*"]});
    let server = read(Agent::Nanobot, nanobot).unwrap().unwrap();
    assert!(matches!(
        &server.reach,
        ServerTransport::Command { cwd: None, .. }
    ));
    let opencode = json!({"type": "local", "command": [], "enabled": false});
    assert!(read(Agent::Opencode, opencode).is_err());
    let sse = json!({"type": "sse", "url": "https://x/sse"});
    let server = read(Agent::ClaudeCode, sse).unwrap().unwrap();
    assert!(matches!(
        server.reach,
        ServerTransport::Address {
            events_only: true,
            ..
        }
    ));
    for entry in [
        json!(1),
        json!({}),
        json!({"command": "a", "url": "b"}),
        json!({"command": 1}),
    ] {
        for agent in Agent::all().iter().copied() {
            let read = read(agent, entry.clone());
            assert!(read.is_err() || read == Ok(None), "{agent:?} {entry}");
        }
    }
}

#[test]
fn own_tools_are_turned_off_where_each_agent_documents_it() {
    let file = |agent: Agent, scope| {
        let own = in_home(&[], |homes| agent.dialect().own_tools(scope, homes));
        own.map(|own| own.path.display().to_string())
    };
    for (agent, user, project) in [
        (
            Agent::ClaudeCode,
            Some("/home/ada/.claude/settings.json"),
            Some("/srv/project/.claude/settings.json"),
        ),
        (
            Agent::Codex,
            Some("/home/ada/.codex/config.toml"),
            Some("/srv/project/.codex/config.toml"),
        ),
        (Agent::Cursor, None, None),
        (Agent::Vscode, None, None),
        (
            Agent::Gemini,
            Some("/home/ada/.gemini/policies/haft-only.toml"),
            None,
        ),
        (
            Agent::Openclaw,
            Some("/home/ada/.openclaw/openclaw.json"),
            None,
        ),
        (Agent::Goose, None, None),
        (
            Agent::Opencode,
            Some("/home/ada/.config/opencode/opencode.json"),
            Some("/srv/project/opencode.json"),
        ),
        (
            Agent::Qwen,
            Some("/home/ada/.qwen/settings.json"),
            Some("/srv/project/.qwen/settings.json"),
        ),
        (
            Agent::Pi,
            Some("/home/ada/.pi/agent/settings.json"),
            Some("/srv/project/.pi/settings.json"),
        ),
        (Agent::Nanobot, Some("/home/ada/.nanobot/config.json"), None),
    ] {
        assert_eq!(file(agent, Scope::User).as_deref(), user, "{agent:?}");
        assert_eq!(file(agent, Scope::Project).as_deref(), project, "{agent:?}");
    }
}
