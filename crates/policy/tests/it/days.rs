//! The commands of `days/*.toml`, judged by the presets alone in a sandbox without network: what is
//! unfairly asked here is a question of this crate and not of a rule. The whole days, with the rules
//! of `haft init` and really run, are in `crates/haft/tests/it/days`.

use haft_contract::{host::Verdict, ops::Tier};
use toml::{Table, Value};

use crate::world::{Call, policy};

const DAYS: [&str; 8] = [
    include_str!("../../../../days/c.toml"),
    include_str!("../../../../days/data.toml"),
    include_str!("../../../../days/docs.toml"),
    include_str!("../../../../days/git.toml"),
    include_str!("../../../../days/go.toml"),
    include_str!("../../../../days/node.toml"),
    include_str!("../../../../days/python.toml"),
    include_str!("../../../../days/rust.toml"),
];

/// A command of a day.
struct DayCommand {
    id: String,
    script: String,
    stays: bool,
    fair: String,
}

fn commands() -> Vec<DayCommand> {
    let mut commands = Vec::new();
    for text in DAYS {
        let day: Table = text.parse().unwrap();
        for call in day["call"].as_array().unwrap() {
            let word = |key: &str| call[key].as_str().unwrap().to_owned();
            let arguments = call["arguments"].as_table().unwrap();
            let script = ["command", "cmd"]
                .iter()
                .find_map(|key| arguments.get(*key)?.as_str());
            let Some(script) = script else {
                continue;
            };
            let flag = |key: &str| arguments.get(key).and_then(Value::as_bool) == Some(true);
            commands.push(DayCommand {
                id: word("id"),
                script: script.to_owned(),
                stays: flag("background") || flag("run_in_background"),
                fair: word("fair"),
            });
        }
    }
    commands
}

/// What a preset asks about unfairly, with its reason, and the ids of what it allows wrongly.
fn judged(preset: &str) -> (Vec<String>, Vec<String>) {
    let rules = policy(&format!("[policy]\npreset = \"{preset}\""));
    let (mut unfair, mut wrong) = (Vec::new(), Vec::new());
    for command in commands() {
        let call = if command.stays {
            Call::staying_bash(&command.script)
        } else {
            Call::bash(&command.script)
        };
        let decision = call.tier(Tier::T2).decide(&rules);
        match (command.fair.as_str(), decision.verdict) {
            ("allow", Verdict::Ask | Verdict::Deny) => {
                unfair.push(format!("{}: {}", command.id, decision.reason));
            }
            // What should be denied is denied by rules, which are not here.
            ("ask", Verdict::Allow) => wrong.push(command.id),
            _ => {}
        }
    }
    (unfair, wrong)
}

#[track_caller]
fn check(preset: &str, most_unfair: usize) {
    let (unfair, wrong) = judged(preset);
    assert!(wrong.is_empty(), "{preset} allows wrongly: {wrong:?}");
    let count = unfair.len();
    assert!(
        count <= most_unfair,
        "{preset} asks unfairly about {count}: {unfair:#?}"
    );
}

/// What this session made seconds ago cannot be told from what a person wrote: `rm report.md`.
#[test]
fn sandboxed_asks_fairly_about_the_commands_of_a_day() {
    check("sandboxed", 4);
}

#[test]
fn workspace_asks_fairly_about_the_commands_of_a_day() {
    check("workspace", 17);
}

/// What is there to change files asks; building, testing, looking and committing do not. A quarter of
/// the 425 calls of the days is the goal, 20 edits by other tools among them: 86 commands are 24.9 %.
#[test]
fn careful_asks_fairly_about_what_is_not_there_to_change_files() {
    check("careful", 86);
}
