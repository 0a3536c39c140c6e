//! `docs/a-day.md`: the figures beside their goals, and everything that is not right yet. It is made
//! from a run; the test that runs fails where it is stale.

use std::{env, fmt::Write as _, fs};

use haft::{Preset, contract::host::Verdict};

use super::runner::{
    corpus::Call,
    report::{Answer, CallReport, Judgement, Report, Run, goal},
};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/a-day.md");

/// The variable that has the page written anew.
const UPDATE: &str = "HAFT_UPDATE";

/// The characters of a command that are shown.
const SHOWN: usize = 90;

/// Compares the page with a run, or writes it.
pub(crate) fn check(report: &Report) {
    let page = page(report);
    if env::var(UPDATE).is_ok() {
        fs::write(PAGE, &page).unwrap();
    }
    let written = fs::read_to_string(PAGE).unwrap_or_default();
    let changed: Vec<&str> = page
        .lines()
        .filter(|line| !written.contains(line))
        .collect();
    assert!(
        written == page,
        "docs/a-day.md is not what this run shows; {UPDATE}=1 writes it anew. What is new:\n{}",
        changed.join("\n")
    );
}

const OPENING: &str = "\
# A developer's day

Generated from `days/*.toml` and a run of them; the test `days::a_day_is_what_its_page_says` fails when it is stale (`HAFT_UPDATE=1` writes it anew). The words of the data are explained in `days/README.md`.

The data holds what agents call while people work in Python, Node, Rust, Go, C, Git, documentation and data, each call with the answer that is fair to somebody who works in a sandbox without network and with undo. What is fair
was written down without looking at what Haft answers. Every call is judged in its place under every preset, with the rules that `haft init` writes.
";

fn page(report: &Report) -> String {
    let mut page = OPENING.to_owned();
    let count = |fair| report.calls().filter(|call| call.call.fair == fair).count();
    let _ = writeln!(
        page,
        "\nOf {} calls, {} are fairly allowed, {} fairly asked about, {} fairly denied.\n",
        report.calls().count(),
        count(Verdict::Allow),
        count(Verdict::Ask),
        count(Verdict::Deny),
    );
    answers(report, &mut page);
    sandbox(report, &mut page);
    remaining(report, &mut page);
    page.push_str("\n## Every call\n");
    for day in &report.days {
        let _ = writeln!(page, "\n### {}\n", day.day.title);
        let presets: Vec<&str> = Preset::ALL.iter().map(|preset| preset.as_str()).collect();
        let _ = writeln!(
            page,
            "| id | call | fair | because | {} | in the sandbox |\n|---|---|---|---|{}---|",
            presets.join(" | "),
            "---|".repeat(presets.len())
        );
        for call in &day.calls {
            let _ = writeln!(page, "{}", row(call));
        }
    }
    page
}

/// The answers of every preset, counted.
fn answers(report: &Report, page: &mut String) {
    page.push_str(
        "| preset | allowed | asked | fairly | **unfairly** | of all calls | goal | **wrongly allowed** (goal 0) | denied | wrongly | where a question was fair | not understood |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
    );
    for preset in Preset::ALL {
        let tally = report.tally(preset);
        let share = tally.unfair_share();
        let goal = match goal(preset) {
            Some(most) => {
                let verdict = if share <= most {
                    "reached"
                } else {
                    "not reached"
                };
                format!("≤ {:.0} %, {verdict}", most * 100.0)
            }
            None => "–".to_owned(),
        };
        let _ = writeln!(
            page,
            "| `{preset}` | {} | {} | {} | {} | {:.1} % | {goal} | {} | {} | {} | {} | {} |",
            tally.allowed,
            tally.asked,
            tally.fairly_asked,
            tally.unfairly_asked,
            share * 100.0,
            tally.wrongly_allowed,
            tally.denied,
            tally.wrongly_denied,
            tally.denied_unasked,
            tally.malformed,
        );
    }
    page.push_str(
        "\n*Fairly asked* is also what should be denied: nothing happens without a yes. *Wrongly denied* is what is fairly allowed. *Not understood* are calls that models make and whose arguments are refused.\n",
    );
}

/// What runs in the sandbox.
fn sandbox(report: &Report, page: &mut String) {
    let (run, failed) = (report.run(), report.failed_inside());
    let everywhere = |call: &&CallReport| call.call.runs_everywhere();
    let apart = report.calls().filter(|call| call.call.is_run());
    let elsewhere = apart.filter(|call| !everywhere(call)).count();
    let judged = report.calls().filter(|call| !call.call.is_run()).count();
    let verdict = if failed.is_empty() {
        "reached"
    } else {
        "not reached"
    };
    let _ = writeln!(
        page,
        "\n## In the sandbox\n\n\
         {run} calls were run in tier T2, with a person who says yes, and outside as a plain process in a copy of the project. **{} failed in the sandbox though they work outside** (goal 0, {verdict}). \
         {judged} are judged and not run, because they reach for the network, leave the workspace or read credentials; {elsewhere} take programs that not every machine has (Go, uv, vite, jest and others) and are \
         run where they are, and not counted here.\n",
        failed.len(),
    );
    if failed.is_empty() {
        return;
    }
    page.push_str("| id | call | what went wrong |\n|---|---|---|\n");
    for (call, error) in failed {
        let _ = writeln!(page, "| {} | {} | {} |", call.id, shown(call), cell(error));
    }
}

/// What is not right yet, by preset.
fn remaining(report: &Report, page: &mut String) {
    page.push_str("\n## What remains\n");
    // A preset without a goal denies by design.
    for preset in Preset::ALL
        .into_iter()
        .filter(|preset| goal(*preset).is_some())
    {
        let kinds = [
            (Judgement::WronglyAllowed, "Wrongly allowed"),
            (Judgement::UnfairlyAsked, "Unfairly asked"),
            (Judgement::WronglyDenied, "Wrongly denied"),
            (Judgement::DeniedUnasked, "Denied where a question was fair"),
            (Judgement::NotUnderstood, "Not understood"),
        ];
        let _ = writeln!(page, "\n`{preset}`:\n");
        for (kind, words) in kinds {
            let ids: Vec<&str> = report
                .calls()
                .filter(|call| call.judgement(preset) == Some(kind))
                .map(|call| call.call.id.as_str())
                .collect();
            let list = if ids.is_empty() {
                "none".to_owned()
            } else {
                ids.join(", ")
            };
            let _ = writeln!(page, "- {words}: {list}.");
        }
    }
}

fn row(report: &CallReport) -> String {
    let call = &report.call;
    let mut row = format!(
        "| {} | {} | {} | {} |",
        call.id,
        shown(call),
        call.fair,
        cell(&call.why)
    );
    for preset in Preset::ALL {
        let answer = report.answer(preset).map_or("none", Answer::as_str);
        let wrong = report.judgement(preset) != Some(Judgement::Right);
        let _ = if wrong {
            write!(row, " **{answer}** |")
        } else {
            write!(row, " {answer} |")
        };
    }
    let ran = match &report.run {
        Run::Same => "works",
        Run::FailedInside(_) => "**fails**",
        Run::Not | Run::FailedOutside(_) | Run::Uncounted(_) => "–",
    };
    let _ = write!(row, " {ran} |");
    row
}

/// A call in a cell of a table.
fn shown(call: &Call) -> String {
    let command = call.arguments.get("command");
    let words = if let Some(command) = command.and_then(|text| text.as_str()) {
        command.to_owned()
    } else {
        let mut words = vec![call.tool.clone()];
        for name in ["action", "file_path", "path", "pattern", "source"] {
            let value = call.arguments.get(name).and_then(|value| value.as_str());
            words.extend(value.map(str::to_owned));
        }
        words.join(" ")
    };
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = words.chars().take(SHOWN).collect();
    if short.len() < words.len() {
        short.push('…');
    }
    // A backtick in code needs more of them around it.
    let fence = if short.contains('`') { "``" } else { "`" };
    format!("{fence}{}{fence}", cell(&short))
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
