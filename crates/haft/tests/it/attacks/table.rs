//! What the corpus shows, as a line a case for the terminal and as a page for readers. The page is
//! made from the data, so it cannot claim a case that is not there.

use std::{env, fmt::Write as _, fs, path::PathBuf};

use super::{
    attempt::{Tally, Verdict},
    corpus::{Case, Place, groups},
    twins,
};

/// The page, and the variable that has it written anew.
const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/security/attacks.md"
);
const UPDATE: &str = "HAFT_UPDATE";

/// One case, as the run prints it.
pub(crate) fn line(case: &Case, verdict: &Verdict) -> String {
    let tally = verdict.tally;
    let result = match (tally.attempts, verdict.faults.len()) {
        (0, 0) => "due".to_owned(),
        (attempts, 0) => format!("held {attempts}/{attempts}"),
        (attempts, faults) => format!("{faults} faults in {attempts}"),
    };
    format!(
        "{:6} {:14} controls {}/{}  twins {}/{}  {}",
        case.id,
        result,
        tally.controls - tally.lost_controls,
        tally.controls,
        tally.twins - tally.false_denials,
        tally.twins,
        case.title
    )
}

/// A whole group, as the run prints it.
pub(crate) fn sum(group: &str, place: Place, tally: Tally) -> String {
    format!(
        "{group} in {}: {} bypasses of {} attempts, {} of {} controls did not succeed, {} false denials \
         of {} benign twins",
        place.as_str(),
        tally.bypasses,
        tally.attempts,
        tally.lost_controls,
        tally.controls,
        tally.false_denials,
        tally.twins
    )
}

#[test]
fn the_page_about_the_corpus_is_current() {
    let page = page();
    if env::var(UPDATE).is_ok() {
        fs::write(PAGE, &page).unwrap();
    }
    let written = fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        written == page,
        "docs/security/attacks.md is stale: run this test once with {UPDATE}=1"
    );
}

const OPENING: &str = "\
# Attacks

Generated from `attacks/*.toml`; a test fails when it is stale (`HAFT_UPDATE=1` writes it anew). The words of the data are explained in `attacks/README.md`.

Each case is run against the whole stack (facade, runtime, back end, Cedar policy, SQLite record) with every rule allowing everything, unless the case is about rules; and in up to three places: on this machine, with commands
in the sandbox (T2), and over SSH. In the sandbox the attack is also made by commands and by system calls, and its benign twins are what developers do all day (`attacks/twins.toml`). It has
a **control**: the same attack without Haft, which must succeed, or the case itself is an error. It has a **benign twin**: what an honest caller does in the same place, which must
pass. Side effects are looked for from outside: inodes, contents and modes around the workspace, the process table, the memory of the process. A secret lies beside every workspace,
and answers, events, questions to a person, log, database files and artifacts are searched for it, also as base64, in hexadecimal, percent-encoded and backwards. In CI the tests run as an unprivileged user.

A run prints a line a case and a sum for each group. The build fails unless all three are zero: attempts that got through (bypasses), controls that did not succeed, benign twins that were denied (false denials).
";

fn page() -> String {
    let mut page = OPENING.to_owned();
    let groups = groups();
    let count = |of: fn(&Case) -> usize| -> usize {
        let cases = groups.iter().flat_map(|group| &group.cases);
        cases
            .map(|case| of(case) + case.also.iter().map(of).sum::<usize>())
            .sum()
    };
    let (attempts, controls, twins) = (
        count(|case| case.attempt.len() + case.command.len() + case.probe.len()),
        count(|case| {
            let probes = case.probe.iter();
            let controlled = probes.filter(|probe| probe.control.as_deref() != Some(""));
            case.control.len() + controlled.count()
        }),
        count(|case| case.twin.len()) + twins::count(),
    );
    writeln!(
        page,
        "The data alone holds {attempts} attempts, {controls} controls and {twins} benign twins; \
         runners in Rust add more. So a build that passed had 0 bypasses and 0 false denials among \
         them."
    )
    .unwrap();
    for group in &groups {
        writeln!(page, "\n## {}: {}\n", group.name, group.title).unwrap();
        page.push_str(
            "| id | attack | required | stopped by | shown by | in |\n|---|---|---|---|---|---|\n",
        );
        for case in &group.cases {
            let cells = [
                &case.id,
                &case.title,
                &case.requires,
                &case.stopped_by,
                &shown_by(case),
                &places(case),
            ]
            .map(|cell| cell.replace('|', "\\|"));
            writeln!(page, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    for (text, shown_in) in ELSEWHERE {
        let others: Elsewhere = toml::from_str(text).unwrap();
        writeln!(
            page,
            "\n## {}: {}\n\n{shown_in}\n\n| id | attack | required | stopped by |\n|---|---|---|---|",
            others.group, others.title
        )
        .unwrap();
        for case in &others.case {
            let stopped_by = case.told_stop();
            let cells = [&case.id, &case.title, &case.requires, &stopped_by];
            let cells = cells.map(|cell| cell.replace('|', "\\|"));
            writeln!(page, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    page.push_str("\n## Elsewhere\n\n");
    for (id, test) in shown_elsewhere() {
        writeln!(page, "- {id}: {test}").unwrap();
    }
    page
}

/// Every case that names other tests, with each of them.
fn shown_elsewhere() -> Vec<(String, String)> {
    let groups = groups();
    let here = groups.iter().flat_map(|group| &group.cases);
    let here = here.map(|case| (case.id.clone(), case.see.clone()));
    let others = ELSEWHERE.iter().flat_map(|(text, _)| {
        let others: Elsewhere = toml::from_str(text).unwrap();
        others.case.into_iter().map(|case| (case.id, case.see))
    });
    here.chain(others)
        .flat_map(|(id, tests)| tests.into_iter().map(move |test| (id.clone(), test)))
        .collect()
}

/// A group whose runner is another crate's, as far as the page tells of it.
#[derive(serde::Deserialize)]
struct Elsewhere {
    group: String,
    title: String,
    case: Vec<Told>,
}

#[derive(serde::Deserialize)]
struct Told {
    id: String,
    title: String,
    requires: String,
    stopped_by: String,
    /// Other tests that show it.
    #[serde(default)]
    see: Vec<String>,
    /// What of it is not shown yet.
    due: Option<toml::Value>,
}

impl Told {
    /// What stops it; what is only promised is told as such.
    fn told_stop(&self) -> String {
        let text = |value: &toml::Value| value.as_str().unwrap_or_default().to_owned();
        let due = match &self.due {
            None => return self.stopped_by.clone(),
            Some(toml::Value::Table(due)) => {
                let part = |name: &str| due.get(name).map(text).unwrap_or_default();
                format!("with {}: {}", part("with"), part("because"))
            }
            Some(due) => text(due),
        };
        format!("{} (due {due})", self.stopped_by)
    }
}

/// Groups with words of their own, and how they are run.
const ELSEWHERE: [(&str, &str); 5] = [
    (include_str!("../../../../../attacks/sh.toml"), DECIDED),
    (include_str!("../../../../../attacks/ai.toml"), DECIDED),
    (
        include_str!("../../../../../attacks/ss.toml"),
        "Run by `haft-egress`, against the proxy in a network namespace of its own.",
    ),
    (
        include_str!("../../../../../attacks/mc.toml"),
        "Run by `haft-mcp` (tests `attacks`): a server does what a script says, over pipes and over HTTP, behind the whole path of a call. A client without guards must get every attack, honest servers must work as \
         they are, and one beside each case must not notice. What a script cannot say is shown by the tests named under *Elsewhere*.",
    ),
    (
        include_str!("../../../../../attacks/au.toml"),
        "Each is shown by the tests named under *Elsewhere*, on SQLite and, where it makes a difference, on PostgreSQL.",
    ),
];

const DECIDED: &str = "Each script is decided under the preset `workspace` in tier T1 and under wildcards people write (`haft-policy`, tests `shell`): asked about or denied, and its twins allowed. Those that make a file outside do so in \
     plain bash, are denied where nobody can be asked, and do not make it in the sandbox even where everything is allowed.";

fn shown_by(case: &Case) -> String {
    let mut parts = Vec::new();
    let attempts = case.attempt.len()
        + case
            .also
            .iter()
            .map(|also| also.attempt.len())
            .sum::<usize>();
    let kinds = [
        (attempts, "attempts"),
        (case.command.len(), "commands"),
        (case.probe.len(), "system calls"),
    ];
    for (count, kind) in kinds.iter().filter(|(count, _)| *count > 0) {
        parts.push(format!("{count} {kind}"));
    }
    if let Some(runner) = &case.runner {
        parts.push(format!("by runner `{runner}`"));
    }
    if let Some(due) = &case.due {
        parts.push(format!("due with {}: {}", due.with, due.because));
    }
    parts.join("; ")
}

fn places(case: &Case) -> String {
    let places: Vec<&str> = case.places.iter().map(|place| place.as_str()).collect();
    places.join(", ")
}

/// What a case says is shown elsewhere is there, with the rounds it says.
#[test]
fn what_is_shown_elsewhere_exists() {
    let named = shown_elsewhere().into_iter();
    for (id, see) in named.filter(|(_, see)| see.starts_with("haft-")) {
        let mut words = see.split_whitespace();
        let package = words.next().unwrap().trim_start_matches("haft-");
        let path = words.next().unwrap();
        let function = format!("fn {}(", path.rsplit("::").next().unwrap());
        let source = sources(package)
            .into_iter()
            .find(|source| source.contains(&function));
        let source = source.unwrap_or_else(|| panic!("{id}: no test {see}"));
        if see.contains("20,000") {
            let rounds = "const MANY: u64 = 20_000;";
            assert!(source.contains(rounds), "{id}: {see} has other rounds");
        }
    }
}

/// Every Rust file of a crate.
fn sources(package: &str) -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let mut waiting = vec![PathBuf::from(root).join(package)];
    let mut sources = Vec::new();
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            waiting.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push(fs::read_to_string(path).unwrap());
        }
    }
    sources
}
