//! What a model or an embedder reads never names a command of the `haft` program: they have none.

use std::{
    fs,
    path::{Path, PathBuf},
};

use haft::{McpServer, contract::spec::Requirement, prelude::*};

use crate::place::Place;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Code of these crates runs where Haft is embedded.
const EMBEDDED: [&str; 11] = [
    "backends", "contract", "egress", "haft", "host", "ledger", "mcp", "policy", "runtime",
    "sandbox", "tools",
];

/// What in them only the program uses, and why.
const OF_THE_PROGRAM: [(&str, &str); 18] = [
    ("contract/src/surface.rs", "the one place for both"),
    ("host/src/advice.rs", "hints of `haft call`"),
    (
        "host/src/builder/of_settings.rs",
        "notes about a configuration file",
    ),
    (
        "host/src/call_lookup.rs",
        "calls as a command line names them",
    ),
    ("host/src/cite.rs", "`haft cite`"),
    ("host/src/config/", "configuration files"),
    ("host/src/desktop.rs", "questions of a configured program"),
    ("host/src/doctor/", "`haft doctor`"),
    ("host/src/follow_trust.rs", "trusted files"),
    ("host/src/mounting/mount/report.rs", "the log of `haft mcp`"),
    ("host/src/own_tools.rs", "scripts of a configuration file"),
    ("host/src/state/http_token.rs", "`haft mcp --http`"),
    ("host/src/suggest.rs", "lines for a configuration file"),
    (
        "host/src/this_workspace.rs",
        "finds the workspace of a configuration file",
    ),
    ("host/src/why_shown.rs", "`haft tools --why`"),
    (
        "ledger/src/transfer/",
        "`haft log export` and `haft record migrate`",
    ),
    ("ledger/src/transfer_error.rs", "the same"),
    ("mcp/src/server/", "`haft mcp`"),
];

/// The commands of the program, from its reference.
fn commands() -> Vec<String> {
    let reference = fs::read_to_string(format!("{ROOT}/docs/guide/reference.md")).unwrap();
    let listed = reference.split("Commands:\n").nth(1).unwrap();
    let listed = listed.lines().take_while(|line| !line.is_empty());
    let names: Vec<String> = listed
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert!(
        names.len() > 20 && names.contains(&"trust".to_owned()),
        "{names:?}"
    );
    names
}

/// A command of the program that a text names.
fn named<'c>(text: &str, commands: &'c [String]) -> Option<&'c String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    commands.iter().find(|command| {
        let whole = format!("haft {command}");
        text.match_indices(&whole).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + whole.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    })
}

fn plain(text: &str, commands: &[String]) {
    assert_eq!(named(text, commands), None, "{text}");
}

/// A tool whose program is not there.
struct UnreadyTool;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Tool for UnreadyTool {
    type Input = Nothing;
    type Output = ();
    type Progress = NoProgress;
    const NAME: &'static str = "unready";

    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new("Unready", "Needs what is missing.");
        let missing = ["no-such-program", "./no-such-program"];
        let missing = missing.map(|name| Requirement::Program(name.into()));
        spec.requires.extend(missing);
        spec
    }

    fn plan(&self, _: &Nothing, _: &PlanContext) -> Result<Plan, ToolError> {
        Ok(Plan::read_only())
    }

    async fn run(&self, _: Nothing, _: CallContext<NoProgress>) -> Result<(), ToolError> {
        Ok(())
    }
}

#[tokio::test]
async fn no_answer_to_a_model_names_a_command() {
    let commands = commands();
    let place = Place::with(&[("a", "one\n"), ("b", "two\n")]);
    let server = McpServer::command("gone", ["/nonexistent/server"]).unwrap();
    let haft = place
        .haft()
        .tool(UnreadyTool)
        .mcp_server(server)
        .deny("read(b)")
        .allow("edit");
    let haft = haft.build().await.unwrap();
    let mut texts: Vec<String> = [Format::Mcp, Format::OpenAi, Format::Anthropic]
        .into_iter()
        .map(|format| json!(haft.tools_as(format)).to_string())
        .collect();
    for (tool, arguments) in [
        ("no_such_tool", json!({})),
        ("mcp__gone__x", json!({})),
        ("mcp__other__x", json!({})),
        ("undo", json!({"calls": ["x"], "paths": ["a"]})),
        ("memory_save", json!({"text": "x"})),
        ("clarify", json!({"question": "Which?"})),
        ("unready", json!({})),
        ("read", json!({"pth": "a"})),
        ("read", json!("{")),
        ("read", json!({"path": "b"})),
        ("read", json!({"path": "missing"})),
        ("read", json!({"path": "~/a"})),
        ("read", json!({"path": "/etc/passwd"})),
        ("write", json!({"path": "a", "content": "x"})),
        ("write", json!({"path": ".git/config", "content": "x"})),
        (
            "edit",
            json!({"path": "a", "edits": [{"old": "none", "new": "x"}]}),
        ),
        ("undo_edit", json!({"path": "a"})),
        ("text_editor", json!({"command": "undo_edit", "path": "a"})),
        (
            "str_replace_editor",
            json!({"command": "undo_edit", "path": "a"}),
        ),
        ("bash", json!({"command": "ls"})),
        ("bash", json!({"command": "sudo rm -rf /"})),
        ("read_output", json!({"call": "x"})),
        ("process", json!({"action": "poll", "id": "p9"})),
    ] {
        let outcome = haft.call(tool, arguments.clone()).await;
        texts.push(format!("{tool} {arguments}: {}", outcome.model_text()));
        texts.push(format!("{:?}", outcome.facts));
    }
    let failing = Haft::open(place.path("."))
        .data_dir(place.data.path().join("other"))
        .approve_with(|request| async move {
            assert!(request.expires.0 == 0, "the approver's fault");
            request.approve("nobody")
        });
    let failing = failing.build().await.unwrap();
    let asked = failing
        .call("write", json!({"path": "c", "content": "x"}))
        .await;
    texts.push(asked.model_text());
    haft.close().await.unwrap();
    let closed = haft.call("read", json!({"path": "a"})).await;
    texts.push(closed.model_text());
    for text in &texts {
        plain(text, &commands);
    }
}

#[tokio::test]
async fn no_error_to_an_embedder_names_a_command() {
    let commands = commands();
    let place = Place::new();
    let server = || McpServer::command("gone", ["/nonexistent/server"]).unwrap();
    let mut errors = vec![
        place
            .haft()
            .allow("no_such_tool")
            .build()
            .await
            .unwrap_err(),
        place.haft().allow("read(").build().await.unwrap_err(),
        Haft::open(place.path("missing"))
            .data_dir(place.data.path())
            .build()
            .await
            .unwrap_err(),
        place
            .haft()
            .data_dir(place.path("inside"))
            .build()
            .await
            .unwrap_err(),
        place
            .haft()
            .policy_text("x.toml", "[ssh]\nhost = \"x\"")
            .build()
            .await
            .unwrap_err(),
    ];
    let haft = place.haft().mcp_server(server()).build().await.unwrap();
    errors.push(haft.accept_server("gone").await.unwrap_err());
    errors.push(haft.accept_server("other").await.unwrap_err());
    errors.push(haft.undo(CallId::new()).await.unwrap_err());
    for error in &errors {
        plain(&format!("{error} {}", error.hint()), &commands);
    }
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Texts that no test above reaches are found where they are written.
#[test]
fn hints_that_name_a_command_are_in_one_place() {
    let commands = commands();
    let crates = Path::new(ROOT).join("crates");
    let mut files = Vec::new();
    for name in EMBEDDED {
        sources(&crates.join(name).join("src"), &mut files);
    }
    assert!(files.len() > 300, "{}", files.len());
    let mut used = Vec::new();
    for file in files {
        let path = file.strip_prefix(&crates).unwrap().to_str().unwrap();
        if path.contains("/tests") || path.ends_with("fuzz.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let code = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        let naming = code.filter(|line| named(line, &commands).is_some());
        for line in naming {
            let program = OF_THE_PROGRAM
                .iter()
                .find(|(known, _)| path.starts_with(known));
            let (known, _) = program.unwrap_or_else(|| {
                panic!(
                    "{path}: `{}`: say it in contract/src/surface.rs",
                    line.trim()
                )
            });
            used.push(*known);
        }
    }
    for (known, _) in OF_THE_PROGRAM {
        assert!(used.contains(&known), "{known} names no command any more");
    }
}
