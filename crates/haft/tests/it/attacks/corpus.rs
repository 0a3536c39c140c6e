//! The attack corpus as it is written in `attacks/*.toml`: a closed vocabulary, so that a case
//! with a misspelt word is an error and not a case that never runs.
//!
//! Nothing here touches a file. Read next: `scene.rs` for what the steps do, `attempt.rs` for how
//! a call is judged.

use std::collections::BTreeMap;

use haft::contract::ops::Layer;
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
    /// Where its cases are run unless a case says otherwise.
    pub(crate) places: Vec<Place>,
    #[serde(rename = "case")]
    pub(crate) cases: Vec<Case>,
}

/// Where commands and files of a case are.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// This machine, commands without a sandbox.
    #[default]
    Local,
    /// This machine, commands in tier T1.
    T1,
    /// This machine, commands in tier T2.
    T2,
    /// Another machine over SSH, which is this one by way of its own server.
    Ssh,
}

impl Place {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::T1 => "t1",
            Self::T2 => "t2",
            Self::Ssh => "ssh",
        }
    }
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
    /// Where it is run; what its group says if empty.
    #[serde(default)]
    pub(crate) places: Vec<Place>,
    /// Where it is run now.
    #[serde(skip)]
    pub(crate) place: Place,
    /// The layers of a sandbox that are expected to stop it.
    #[serde(default)]
    pub(crate) layers: Vec<String>,
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
    /// What the attacker does by commands, where those are in a sandbox.
    #[serde(default)]
    pub(crate) command: Vec<Commanded>,
    /// System calls the attacker makes in a sandbox, by the helper's attempts.
    #[serde(default)]
    pub(crate) probe: Vec<Probe>,
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
    /// A command outside, before anything else; `undo` runs when the scene ends.
    Run {
        command: String,
        #[serde(default)]
        undo: String,
    },
    /// Something of the machine that listens, and counts what it hears: `<tcp>` and `<udp>` are
    /// ports, `<abstract>` is a name, `path` is where a socket is.
    Listen {
        on: Listening,
        #[serde(default)]
        path: String,
    },
    /// A process of the same user; `<victim>` is its id.
    Victim,
    /// Opens a file so that every child of this process would inherit it.
    Inheritable {
        path: String,
    },
}

/// What is listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Listening {
    Tcp,
    Udp,
    Unix,
    UnixDatagram,
    Abstract,
    AbstractDatagram,
}

/// One call, and how it must end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attempt {
    /// Where alone it is made; wherever the case is run if empty.
    #[serde(default)]
    pub(crate) places: Vec<Place>,
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
    /// The CPU time it may cost our own process.
    #[serde(default = "ten_seconds")]
    pub(crate) cpu_ms: u64,
    /// Files as they must be afterwards, seen from outside.
    #[serde(default)]
    pub(crate) leaves: Vec<Leaves>,
}

/// A command in a sandbox. However it ends, it must not have got what it was after.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Commanded {
    pub(crate) run: String,
    /// Where alone it is run.
    #[serde(default)]
    pub(crate) places: Vec<Place>,
    #[serde(default)]
    pub(crate) first: Vec<Step>,
    #[serde(default)]
    pub(crate) shows: Vec<String>,
    #[serde(default)]
    pub(crate) hides: Vec<String>,
    #[serde(default)]
    pub(crate) leaves: Vec<Leaves>,
    /// What the outcome must say the sandbox refused, in part.
    pub(crate) told: Option<String>,
    /// Whether it would harm the machine if a layer were missing.
    #[serde(default)]
    pub(crate) only_with_all_layers: bool,
}

/// One of the helper's attempts (`haft-helper __haft-helper probe …`): refused inside, and
/// successful outside.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Probe {
    /// Its name and arguments.
    #[serde(rename = "try")]
    pub(crate) attempt: String,
    /// The attempt that must succeed outside, if not the same one. Empty where no unprivileged
    /// user can see it succeed.
    pub(crate) control: Option<String>,
    /// What the outcome must say the sandbox refused, in part.
    pub(crate) told: Option<String>,
    /// Whether it may succeed as far as it can tell: what counts is that nobody outside heard it.
    #[serde(default)]
    pub(crate) unheard: bool,
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
const GROUPS: [(&str, u32, &str); 7] = [
    ("PE", 28, include_str!("../../../../../attacks/pe.toml")),
    ("SL", 19, include_str!("../../../../../attacks/sl.toml")),
    ("EN", 12, include_str!("../../../../../attacks/en.toml")),
    ("SB", 46, include_str!("../../../../../attacks/sb.toml")),
    ("RX", 24, include_str!("../../../../../attacks/rx.toml")),
    ("AP", 18, include_str!("../../../../../attacks/ap.toml")),
    ("UN", 5, include_str!("../../../../../attacks/un.toml")),
];

/// Every group of the corpus, in order.
pub(crate) fn groups() -> Vec<Group> {
    GROUPS
        .into_iter()
        .map(|(name, _, text)| read(name, text))
        .collect()
}

/// One group.
pub(crate) fn group(name: &str) -> Group {
    let found = groups().into_iter().find(|group| group.name == name);
    found.expect("a group of the corpus")
}

/// The cases of a group that are run in a place, as they are run there.
pub(crate) fn cases_in(name: &str, place: Place) -> Vec<Case> {
    let mut cases = group(name).cases;
    cases.retain(|case| case.places.contains(&place));
    for case in &mut cases {
        case.place = place;
        for also in &mut case.also {
            also.place = place;
        }
    }
    cases
}

fn read(name: &str, text: &str) -> Group {
    let mut group: Group =
        toml::from_str(text).unwrap_or_else(|error| panic!("group {name} cannot be read: {error}"));
    assert_eq!(group.name, name);
    for case in &mut group.cases {
        if case.places.is_empty() {
            case.places.clone_from(&group.places);
        }
        for also in &mut case.also {
            also.id.clone_from(&case.id);
        }
    }
    group
}

/// Every id that is due is there exactly once, in order, and every case says how it is shown.
#[test]
fn every_case_that_is_due_is_there_exactly_once() {
    for (name, count, _) in GROUPS {
        let expect: Vec<String> = (1..=count)
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
        let by_data =
            !case.attempt.is_empty() || !case.command.is_empty() || !case.probe.is_empty();
        let run = by_data || case.runner.is_some();
        assert!(run || case.due.is_some(), "{id} is not run and not due");
        if by_data && case.runner.is_none() {
            let controlled = case
                .probe
                .iter()
                .any(|probe| probe.control.as_deref() != Some(""));
            assert!(
                controlled || !case.control.is_empty(),
                "{id} has no control"
            );
            // The twins of the sandbox are a file of their own.
            let twins = !case.twin.is_empty() || id.starts_with("SB-");
            assert!(twins, "{id} has no benign twin");
        }
        for layer in &case.layers {
            assert!(Layer::parse(layer).is_some(), "{id}: no layer `{layer}`");
        }
        for control in &case.control {
            assert!(
                control.sees.is_some() || control.makes.is_some(),
                "a control of {id} cannot fail"
            );
        }
    }
}
