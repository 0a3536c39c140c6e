//! One prompt, and a model that does in a row what agents do all day. What it was given for each call
//! holds what the call was made for, and the record says the same.

use haft_agents::{
    agent::Agent,
    model::{GivenResult, Turn},
};
use serde_json::json;

use super::{Scene, for_every_agent};

const RULES: &str = r#"
[policy]
allow = ["read", "grep", "edit", "bash", "read_output"]
deny = ["read(secret.txt)"]
"#;

/// A red dot.
const IMAGE: &[u8] = include_bytes!("../../fixtures/dot.png");

/// What the model does, in which order, and what it must be given.
const CALLS: [&str; 9] = [
    "read",
    "edit",
    "grep",
    "bash",
    "failing bash",
    "5 MB",
    "read_output",
    "image",
    "denial",
];

fn script() -> Vec<Turn> {
    vec![
        Turn::call("read", json!({"path": "notes.txt"})),
        Turn::call(
            "edit",
            json!({"path": "notes.txt", "edits": [{"old": "and another", "new": "and the last"}]}),
        ),
        Turn::call("grep", json!({"pattern": "nobody could"})),
        Turn::call(
            "bash",
            json!({"command": "echo to the model; echo and this >&2"}),
        ),
        Turn::call("bash", json!({"command": "echo until here; exit 3"})),
        Turn::call("bash", json!({"command": "seq 1 700000"})),
        Turn::call(
            "read_output",
            json!({"call": "{left out}", "pattern": "^350000$"}),
        ),
        Turn::call("read", json!({"path": "dot.png"})),
        Turn::call("read", json!({"path": "secret.txt"})),
        Turn::say("that is all"),
    ]
}

fn check(agent: &'static dyn Agent) {
    let scene = Scene::new(agent, RULES, script());
    scene
        .stage
        .write("notes.txt", "a line nobody could guess\nand another\n");
    scene.stage.write("secret.txt", "not for models\n");
    scene.stage.write("dot.png", IMAGE);
    let ended = scene.run("do what has to be done");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(said.contains("that is all"), "{said}");

    let given = scene.model.given();
    assert_eq!(given.len(), CALLS.len(), "{given:#?}");
    let holds = |call: &str, texts: &[&str]| {
        let at = CALLS.iter().position(|it| *it == call).unwrap();
        let GivenResult { text, .. } = &given[at];
        for expected in texts {
            assert!(text.contains(expected), "{call}: no {expected:?} in {text}");
        }
    };
    holds("read", &["a line nobody could guess", "and another"]);
    holds("edit", &["-and another", "+and the last"]);
    holds("grep", &["notes.txt", "a line nobody could guess"]);
    holds("bash", &["to the model", "and this"]);
    holds("failing bash", &["until here", "code 3"]);
    holds("5 MB", &["left out", "read_output with call"]);
    holds("read_output", &["350000"]);
    holds("denial", &["secret.txt", "denies reading"]);
    assert!(!given[8].text.contains("not for models"), "{:?}", given[8]);
    let seen = given[7].images > 0;
    assert_eq!(seen, agent.knows().images, "image: {:?}", given[7]);

    let expected = [
        "succeeded",
        "succeeded",
        "succeeded",
        "succeeded",
        "failed",
        "succeeded",
        "succeeded",
        "succeeded",
        "denied",
    ];
    assert_eq!(scene.ends(), expected);
    let log = scene.log();
    let agents: Vec<&str> = log
        .iter()
        .filter_map(|call| call["agent"].as_str())
        .collect();
    assert_eq!(agents, [agent.id(); 9], "{log:#?}");
    assert_eq!(
        scene.stage.read("notes.txt"),
        "a line nobody could guess\nand the last\n"
    );

    let offered = scene.model.offered();
    let ours: Vec<_> = offered
        .iter()
        .filter(|tool| tool.of_haft().is_some())
        .collect();
    let bytes: usize = ours
        .iter()
        .map(|tool| tool.definition.to_string().len())
        .sum();
    // As `haft mcp cost` estimates them, in hundreds: a word changed in a description is not news about an agent, and the page is compared whole.
    let hundreds = (bytes * 2).div_ceil(9).div_ceil(100);
    let image = if seen { "seen" } else { "not passed on" };
    scene.saw(
        "one_run",
        &format!(
            "{} tools, at most {hundreds}00 tokens; image {image}",
            ours.len()
        ),
    );
}

for_every_agent! { check }
