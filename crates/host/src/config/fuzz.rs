//! Fuzzes configuration written by somebody else: it is refused with a place, or read as the same
//! however it is laid out, and nothing in it is ignored.

use std::path::Path;

use haft_policy::{LoadError, PolicyFile, PolicySource, load::Problem};
use haft_testkit::{Fuzz, ParseOutcome};
use serde_json::Value as Json;

use super::{
    file::{self, ConfigFile},
    resolve, template,
};

/// Something of every table.
const EVERYTHING: &str = r#"
[policy]
preset = "workspace"
allow = ["bash(cargo test)", { rule = "edit(docs/**)", matches = ["docs/a"] }]
ask = ["bash(git push *)"]
deny = ["read(**/.env)"]

[agents.child]
allow = ["read"]

[tenants.acme]
ask = ["bash(git push *)"]

[users.ada]
allow = ["bash(git push)"]

[sessions.dm]
preset = "locked"

[channels.team]
deny = ["bash"]

[scopes."calendar.write"]
allow = ["read"]

[limits]
calls_in_flight = 4
hard_deadline_ms = 3_600_000

[timeouts]
default = 60
"process.poll" = 20

[loop_guard]
warn = 3
ask = 6

[workspace]
cross_mounts = true

[record]
artifact_days = 30
queue_bytes = 0x10_0000

[scripts]
folders = ["tools"]

[sandbox]
read_only = ["/opt/data"]
home = "off"
[sandbox.network]
allow = ["crates.io", "*.crates.io:443"]
deny = ["evil.example"]
[sandbox.limits]
memory_mib = 4096

[undo]
commands = true
ignore = ["target/**"]
max_files = 10

[ssh]
destination = "me@a.example"
root = "/srv/app"
port = 2222

[docker.box]
container = "web"
workspace = "/app"

[agents.builder]
backend = "docker:box"

[tools.deploy]
type = "bash"
sandbox = "full"
config = { command = "make deploy", seconds = 60, ratio = 1.5, on = true, day = 2026-01-01, list = [1, [2]] }

[tools.slow]
type = "bash"
config = { timeout_ms = 5, share = 0.5 }

[[mcp.servers]]
id = "files"
command = ["/usr/bin/server", "--stdio"]
env = { A = "b" }
call_timeout = 30
[mcp.servers.tools]
allow = ["read_*"]

[[mcp.servers]]
id = "web"
url = "https://mcp.example/mcp"
headers = { Authorization = "Bearer ${TOKEN}" }
secrets = { TOKEN = "env:TOKEN" }
"#;

const WORDS: [&str; 58] = [
    "[policy]\n",
    "[limits]\n",
    "[mcp]\n",
    "[[mcp.servers]]\n",
    "[[tools]]\n",
    "[tools.x]\n",
    "[sandbox.limits]\n",
    "[ssh]\n",
    "[undo]\n",
    "preset = ",
    "\"careful\"",
    "allow = ",
    "deny = ",
    "type = \"bash\"\n",
    "config = ",
    "name = ",
    "id = ",
    "url = ",
    "command = ",
    "root = ",
    "warn = ",
    "port = ",
    "artifact_days = ",
    "cross_mounts = ",
    "= ",
    "\n",
    "true",
    "false",
    "1",
    "-1",
    "+1",
    "0x1F",
    "0o7",
    "0b1",
    "1_000",
    "1e5",
    "inf",
    "nan",
    "99999999999999999999",
    "2026-01-01",
    "12:00:00",
    "\"",
    "'",
    "\"\"\"",
    "'''",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    "#",
    "\\u0000",
    "\\uD800",
    "\"bash(git *)\"",
    "\"domain:a\"",
    "\"/\"",
    "\"..\"",
];

/// Whole files, and each of their tables alone.
fn seeds() -> Vec<String> {
    let mut seeds: Vec<String> = EVERYTHING.split("\n\n").map(str::to_owned).collect();
    seeds.push(EVERYTHING.to_owned());
    seeds.push(template::haft_toml("careful"));
    for example in [
        include_str!("../../../../examples/agent-loop/haft.toml"),
        include_str!("../../../../examples/approvals/haft.toml"),
        include_str!("../../../../examples/custom-tool/haft.toml"),
        include_str!("../../../../examples/per-agent-policy/haft.toml"),
    ] {
        seeds.push(example.to_owned());
    }
    for seed in &seeds {
        let read = (read(seed), PolicyFile::parse(&source(seed)));
        assert!(matches!(read, (Ok(_), Ok(_))), "{read:?}");
    }
    // And one that must be refused: the number is larger than a tool can be given.
    seeds.push(
        "[tools.x]\ntype = \"bash\"\nconfig = { timeout_ms = 99999999999999999999 }".to_owned(),
    );
    seeds
}

#[test]
fn a_haft_toml_is_refused_with_a_place_or_read_whole() {
    Fuzz::seeds(seeds())
        .words(WORDS)
        .inputs(1_500)
        .run(|bytes| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let (own, policy) = (read(&text), PolicyFile::parse(&source(&text)));
            for problem in own.as_ref().err().into_iter().flatten() {
                in_the_text(problem, &text);
            }
            for problem in policy
                .as_ref()
                .err()
                .into_iter()
                .flat_map(LoadError::problems)
            {
                in_the_text(problem, &text);
            }
            if policy.is_err() {
                let whole = resolve::check("haft.toml", Path::new("/w/haft.toml"), &text);
                assert!(whole.is_err(), "a policy that cannot be read is in force");
            }
            let Ok(own) = own else {
                return ParseOutcome::Refused;
            };
            // An unknown key is an error, because a misspelt limit would not limit anything.
            assert!(
                read(&format!("zzz = 1\n{text}")).is_err(),
                "an unknown key was passed over"
            );
            for tool in &own.tools {
                assert!(
                    !has_null(&tool.config),
                    "a value was passed over: {}",
                    tool.config
                );
            }
            // Numbers larger than TOML guarantees are read here but cannot be written there.
            if let Ok(table) = text.parse::<toml::Table>() {
                let again = read(&table.to_string()).expect("the same in another layout");
                assert_eq!(shown(&again), shown(&own));
            }
            ParseOutcome::Taken
        });
}

fn source(text: &str) -> PolicySource {
    PolicySource::new("haft.toml", text)
}

fn read(text: &str) -> Result<ConfigFile, Vec<Problem>> {
    file::parse(&source(text))
}

/// The contents of a file, without line numbers. Tools are a table, so they have no order.
fn shown(file: &ConfigFile) -> String {
    let mut file = file.clone();
    file.tools.sort_by_key(|tool| tool.name.clone());
    for tool in &mut file.tools {
        tool.place.clear();
    }
    for server in &mut file.mcp.servers {
        server.place.clear();
    }
    file.timeouts.forget_places();
    file.backends.forget_places();
    format!("{file:?}")
}

fn has_null(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::Array(items) => items.iter().any(has_null),
        Json::Object(members) => members.values().any(has_null),
        Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

/// Checks that a problem says what is wrong and names a place that exists.
fn in_the_text(problem: &Problem, text: &str) {
    let shown = problem.to_string();
    assert!(
        !problem.message.is_empty() && problem.source == "haft.toml",
        "{shown}"
    );
    let line = problem.line.expect("a line") as usize;
    let lines: Vec<&str> = text.split('\n').collect();
    assert!((1..=lines.len()).contains(&line), "{shown}");
    let column = problem.column.expect("a column") as usize;
    let width = lines[line - 1].chars().count();
    assert!((1..=width + 1).contains(&column), "{shown}");
}
