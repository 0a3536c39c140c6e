//! The attack corpus as it is written in `attacks/*.toml`: a closed vocabulary, so that a case
//! with a misspelt word is an error and not a case that never runs.
//!
//! Nothing here touches a file. Read next: `scene.rs` for what the steps do, `attempt.rs` for how
//! a call is judged.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// One file of the corpus.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// The prefix of its ids.
    #[serde(rename = "group")]
    pub(crate) name: String,
    pub(crate) title: String,
    #[serde(rename = "case")]
    pub(crate) cases: Vec<Case>,
}

/// One attack.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(default)]
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) title: String,
    /// What is required, in one line.
    #[serde(default)]
    pub(crate) requires: String,
    /// What is expected to stop it.
    #[serde(default)]
    pub(crate) stopped_by: String,
    /// Another directory as the workspace, for what cannot be put into one without root.
    pub(crate) workspace: Option<String>,
    /// Policy text; without it everything is allowed, so that only the rest can stop an attack.
    pub(crate) rules: Option<String>,
    /// Who is asked.
    #[serde(default)]
    pub(crate) person: Person,
    /// What happens while the person is asked.
    #[serde(default)]
    pub(crate) meanwhile: Vec<Step>,
    /// Whether paths may lead onto mounts.
    #[serde(default)]
    pub(crate) cross_mounts: bool,
    /// Variables of the process that runs Haft. The case is run in a process of its own.
    #[serde(default)]
    pub(crate) parent: BTreeMap<String, String>,
    /// Whether the case needs mounts, so that it runs in a namespace of its own.
    #[serde(default)]
    pub(crate) namespace: bool,
    #[serde(default)]
    pub(crate) setup: Vec<Step>,
    /// What the attacker does through Haft.
    #[serde(default)]
    pub(crate) attempt: Vec<Attempt>,
    /// What the attacker does without Haft; each must succeed.
    #[serde(default)]
    pub(crate) control: Vec<Control>,
    /// What an honest caller does; each must succeed.
    #[serde(default)]
    pub(crate) twin: Vec<Attempt>,
    /// The same case in another place or under other rules.
    #[serde(default)]
    pub(crate) also: Vec<Case>,
    /// A Rust function that runs the case, or the part that data cannot say.
    pub(crate) runner: Option<String>,
    /// Other tests that show more of the same case.
    #[serde(default)]
    pub(crate) see: Vec<String>,
    /// The part that is due with another issue.
    pub(crate) due: Option<Due>,
}

/// What waits for another issue, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Due {
    pub(crate) with: String,
    pub(crate) because: String,
}

/// Who is asked when a rule says ask.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Person {
    #[default]
    Nobody,
    Approves,
}

/// Something done to the scene by hand. Paths are relative to the workspace, or absolute.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Step {
    File {
        path: String,
        text: String,
    },
    /// A file whose name is these bytes, in hexadecimal.
    FileOfBytes {
        name: String,
        text: String,
    },
    Directory {
        path: String,
    },
    Symlink {
        path: String,
        to: String,
    },
    /// `path` leads to `path-1`, that to `path-2`, and the last to `to`.
    Chain {
        path: String,
        to: String,
        links: u32,
    },
    Hardlink {
        path: String,
        to: String,
    },
    Fifo {
        path: String,
    },
    Socket {
        path: String,
    },
    Mode {
        path: String,
        mode: u32,
    },
    Rename {
        path: String,
        to: String,
    },
    Remove {
        path: String,
    },
    /// Mounts a directory or file onto another; only in a namespace.
    Bind {
        path: String,
        to: String,
    },
    /// Opens a file and keeps it open; `<fd>` is its number.
    HoldOpen {
        path: String,
    },
    /// `directories` nested directories with a file at the bottom.
    Deep {
        path: String,
        directories: usize,
    },
    /// A file of one byte repeated.
    Fill {
        path: String,
        byte: String,
        times: usize,
    },
    /// A file that is one large hole.
    Sparse {
        path: String,
        bytes: u64,
    },
}

/// One call, and how it must end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attempt {
    /// What is done just before.
    #[serde(default)]
    pub(crate) first: Vec<Step>,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// `succeeded`, or a terminal state and the kinds of failure that are right
    /// (`failed not_found outside_workspace`).
    pub(crate) expect: String,
    /// What the answer must hold.
    #[serde(default)]
    pub(crate) shows: Vec<String>,
    /// What the answer must not hold. The canary is always looked for.
    #[serde(default)]
    pub(crate) hides: Vec<String>,
    #[serde(default = "ten_seconds")]
    pub(crate) within_ms: u64,
    /// Files as they must be afterwards, seen from outside.
    #[serde(default)]
    pub(crate) leaves: Vec<Leaves>,
}

/// A file as it must be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Leaves {
    pub(crate) path: String,
    pub(crate) text: Option<String>,
    pub(crate) mode: Option<u32>,
    #[serde(default)]
    pub(crate) absent: bool,
}

/// The same attack without Haft, as a script for bash in the workspace.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    pub(crate) run: String,
    /// What it prints when it succeeds.
    pub(crate) sees: Option<String>,
    /// The file that is there when it succeeded.
    pub(crate) makes: Option<String>,
}

fn ten_seconds() -> u64 {
    10_000
}

/// The groups that are due, with the number of cases each has.
const GROUPS: [(&str, u32, &str); 3] = [
    ("PE", 28, include_str!("../../../../../attacks/pe.toml")),
    ("SL", 19, include_str!("../../../../../attacks/sl.toml")),
    ("EN", 12, include_str!("../../../../../attacks/en.toml")),
];

/// The cases of resource exhaustion that are due; the others need a sandbox, a network or a
/// cluster.
const EXHAUSTION: [u32; 11] = [2, 3, 4, 5, 6, 7, 12, 14, 15, 16, 17];
const EXHAUSTION_TEXT: &str = include_str!("../../../../../attacks/rx.toml");

/// Every group of the corpus, in order.
pub(crate) fn groups() -> Vec<Group> {
    GROUPS
        .into_iter()
        .map(|(name, _, text)| (name, text))
        .chain([("RX", EXHAUSTION_TEXT)])
        .map(|(name, text)| read(name, text))
        .collect()
}

/// One group.
pub(crate) fn group(name: &str) -> Group {
    let found = groups().into_iter().find(|group| group.name == name);
    found.expect("a group of the corpus")
}

fn read(name: &str, text: &str) -> Group {
    let mut group: Group =
        toml::from_str(text).unwrap_or_else(|error| panic!("group {name} cannot be read: {error}"));
    assert_eq!(group.name, name);
    for case in &mut group.cases {
        for also in &mut case.also {
            also.id.clone_from(&case.id);
        }
    }
    group
}

/// Every id that is due is there exactly once, in order, and every case says how it is shown.
#[test]
fn every_case_that_is_due_is_there_exactly_once() {
    let counted = GROUPS.map(|(name, count, _)| (name, (1..=count).collect::<Vec<_>>()));
    for (name, numbers) in counted.into_iter().chain([("RX", EXHAUSTION.to_vec())]) {
        let expect: Vec<String> = numbers
            .into_iter()
            .map(|number| format!("{name}-{number:02}"))
            .collect();
        let group = group(name);
        let found: Vec<&str> = group.cases.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(found, expect);
    }
}

#[test]
fn every_case_is_run_or_says_why_not() {
    for case in groups().iter().flat_map(|group| &group.cases) {
        let id = &case.id;
        for text in [&case.title, &case.requires, &case.stopped_by] {
            assert!(!text.is_empty(), "{id} does not say what it is about");
        }
        let run = !case.attempt.is_empty() || case.runner.is_some();
        assert!(run || case.due.is_some(), "{id} is not run and not due");
        if !case.attempt.is_empty() && case.runner.is_none() {
            assert!(!case.control.is_empty(), "{id} has no control");
            assert!(!case.twin.is_empty(), "{id} has no benign twin");
        }
        for control in &case.control {
            assert!(
                control.sees.is_some() || control.makes.is_some(),
                "a control of {id} cannot fail"
            );
        }
    }
}
