//! Makes `docs/agents.md` from what the tests of real agents noted: which agent did what, in which
//! version. `.ci/run` calls it after the tests with the directory that `HAFT_AGENTS_REPORT` named; it
//! fails if something is missing, and if the page is not what the run shows.
//!
//! ```sh
//! HAFT_UPDATE=1 cargo run -p haft-agents --example agents_page -- DIRECTORY
//! ```
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a program for maintainers that reads reports and writes one page"
)]

use std::{collections::BTreeMap, env, fmt::Write as _, fs, path::Path, process::ExitCode};

use haft_agents::agent::{ALL, Agent};
use serde_json::Value;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/agents.md");

/// The variable that has the page written anew.
const UPDATE: &str = "HAFT_UPDATE";

/// The scenarios, what each shows, and the agents it is shown for.
const SCENARIOS: [Scenario; 12] = [
    Scenario::of(
        "one_run",
        "read, edit, grep, bash, a failing bash, 5 MB of output paged with `read_output`, an image, a denial: what the model is given, and the record",
        EVERY,
    ),
    Scenario::of(
        "only_haft",
        "`install --only-haft`, `--remove` byte for byte, and what the model is offered",
        EVERY,
    ),
    Scenario::of(
        "yes",
        "a question, answered yes in the agent's own form",
        &["claude-code", "codex"],
    ),
    Scenario::of("no", "the same, answered no", &["claude-code", "codex"]),
    Scenario::of(
        "always",
        "the same, answered *always*: the next call is not asked about",
        &["claude-code", "codex"],
    ),
    Scenario::of(
        "watched",
        "a question answered in `haft approvals --watch`",
        &["claude-code", "gemini", "pi"],
    ),
    Scenario::of(
        "nobody",
        "a question that nobody answers",
        &["claude-code", "codex", "gemini", "pi"],
    ),
    Scenario::of(
        "progress",
        "progress of a long command on the agent's screen",
        &["claude-code", "pi"],
    ),
    Scenario::of(
        "stopped",
        "the agent's own key for stop, in the middle of a command: the tree is gone",
        &["claude-code", "codex", "pi"],
    ),
    Scenario::of(
        "killed",
        "the agent killed with a question open",
        &["claude-code", "gemini", "pi"],
    ),
    Scenario::of(
        "list_changed",
        "a mounted server accepted while the agent runs, and called through Haft",
        &["claude-code", "pi"],
    ),
    Scenario::of(
        "two_agents",
        "two agents in one workspace",
        &["claude-code"],
    ),
];

const EVERY: &[&str] = &[
    "claude-code",
    "codex",
    "gemini",
    "qwen",
    "opencode",
    "pi",
    "nanobot",
    "openclaw",
];

struct Scenario {
    id: &'static str,
    shows: &'static str,
    agents: &'static [&'static str],
}

impl Scenario {
    const fn of(id: &'static str, shows: &'static str, agents: &'static [&'static str]) -> Self {
        Self { id, shows, agents }
    }
}

const OPENING: &str = "\
# Real agents in front of Haft

Generated from a run of the tests by `crates/agents/examples/agents_page.rs`; `.ci/run` fails when it is stale. Each agent is the program people install, pinned in `.ci/peers`, in a home of its own and in a network that has nothing but loopback, with Haft put in by
`haft mcp install` and a scripted model in place of its provider. A cell is what a passing test saw; a test that is missing or failed fails the build. How to set an agent up is in [the guide](guide/agents.md).

";

/// What is known of agents where a scenario cannot be shown, and what they do with what Haft sends.
const NOTES: &str = "
## What these agents do with what they are sent

Seen with the versions above.

- **Results.** Claude Code and Codex give the model structured content alone where there is any, Gemini CLI, opencode, pi and nanobot the text alone, Qwen Code and OpenClaw both. So the text is all of a result, and structured content is sent only where it says the same (ADR 0023).
- **Long results** are cut once more: Claude Code passes on 50,000 characters, Gemini CLI 40,000, opencode 51,200 bytes or 2,000 lines, Qwen Code 25,000, pi 20,000, nanobot 16,000, Codex 12,000 with a model it does not know. What is left of all of them is the beginning, so that is where Haft says how to page.
- **Failures** are not marked in Codex, opencode, pi and OpenClaw: the text says that a call failed, first.
- **Forms.** Only Claude Code and Codex put a form before their person. The others are answered in `haft approvals`. Claude Code 2.1.325 shows four lines of a form; what does not fit cannot be allowed there. In Codex a form with a choice has no button for no: Esc leaves the question open, and a second one gives the call up.
- **Stopping.** Gemini CLI and nanobot give a call up on the screen and tell the server nothing: the command runs on until its deadline or the end of the session. opencode wants Esc twice.
- **New tools** while an agent runs are offered by Claude Code, Gemini CLI, opencode, pi and OpenClaw; Codex, Qwen Code and nanobot look at the list once.
- **Images** reach the model except in nanobot, which saves them and says where.
- **Not driven on a screen:** Gemini CLI and Qwen Code start slowly and have no forms; opencode, nanobot and OpenClaw need too much time and memory for every run. They were tried by hand. Cursor, VS Code and Goose are not packages that can be run here; their entries are checked against their documentation alone.
";

fn main() -> ExitCode {
    let Some(directory) = env::args().nth(1) else {
        eprintln!("usage: agents_page DIRECTORY (what the tests of agents noted)");
        return ExitCode::from(2);
    };
    let mut reports: BTreeMap<(String, String), Value> = BTreeMap::new();
    let mut missing = Vec::new();
    for scenario in SCENARIOS {
        for agent in scenario.agents {
            let path = Path::new(&directory).join(format!("{}.{agent}.json", scenario.id));
            let report = fs::read_to_string(path).ok();
            match report.and_then(|text| serde_json::from_str(&text).ok()) {
                Some(report) => {
                    reports.insert((scenario.id.to_owned(), (*agent).to_owned()), report);
                }
                None => missing.push(format!("{}: {agent}", scenario.id)),
            }
        }
    }
    for test in &missing {
        eprintln!("did not pass: {test}");
    }
    if !missing.is_empty() {
        return ExitCode::FAILURE;
    }
    let page = page(&reports);
    if env::var(UPDATE).is_ok() && fs::write(PAGE, &page).is_err() {
        eprintln!("docs/agents.md cannot be written");
        return ExitCode::FAILURE;
    }
    if fs::read_to_string(PAGE).is_ok_and(|written| written == page) {
        return ExitCode::SUCCESS;
    }
    eprintln!("docs/agents.md is not what this run shows; {UPDATE}=1 writes it anew:\n{page}");
    ExitCode::FAILURE
}

fn page(reports: &BTreeMap<(String, String), Value>) -> String {
    let mut page = OPENING.to_owned();
    let of = |scenario: &str, agent: &dyn Agent, field: &str| {
        let report = reports.get(&(scenario.to_owned(), agent.id().to_owned()));
        let text = report.and_then(|report| report.get(field)?.as_str());
        text.unwrap_or("–").to_owned()
    };
    let _ = writeln!(page, "| agent | version | {} |", titles());
    let _ = writeln!(page, "|---|---|{}", "---|".repeat(SCENARIOS.len()));
    for agent in ALL {
        let cells: Vec<String> = SCENARIOS
            .iter()
            .map(|scenario| of(scenario.id, agent, "saw"))
            .collect();
        let version = of("one_run", agent, "version");
        let _ = writeln!(
            page,
            "| {} | {version} | {} |",
            agent.title(),
            cells.join(" | ")
        );
    }
    page.push_str("\nThe columns:\n\n");
    for scenario in SCENARIOS {
        let _ = writeln!(page, "- `{}`: {}.", scenario.id, scenario.shows);
    }
    page.push_str(NOTES);
    page
}

fn titles() -> String {
    let title = |scenario: &Scenario| format!("`{}`", scenario.id);
    let titles: Vec<String> = SCENARIOS.iter().map(title).collect();
    titles.join(" | ")
}
