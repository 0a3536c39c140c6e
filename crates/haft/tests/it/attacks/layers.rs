//! The layers-off matrix: every sandbox case again with one of the layers that should stop it left
//! out, to show which single layer stops what, and that the next one holds. The page about it is
//! made from the run.

use std::{collections::BTreeSet, env, fmt::Write as _, fs};

use haft::contract::ops::Layer;

use super::{
    confined,
    corpus::{Place, cases_in},
    log,
};

/// The page, and the variable that has it written anew.
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security/layers.md");
const UPDATE: &str = "HAFT_UPDATE";

const OPENING: &str = "\
# Which layer stops what

Generated from a run of the sandbox cases (`attacks/sb.toml`) in tier T2; a test fails when it is stale (`HAFT_UPDATE=1` writes it anew).

Each row is one attempt. Each column is the same attempt with that single layer left out and all others in place: **held** means that another layer, or the kernel by itself, still stopped it;
**through** means that this layer alone stands between the attempt and the machine. An empty cell is a layer that the case does not count on. With every layer in place nothing gets through: that is the test of the group.
";

/// The layers a matrix has columns for.
const COLUMNS: [Layer; 5] = [
    Layer::Namespaces,
    Layer::Landlock,
    Layer::Seccomp,
    Layer::Protected,
    Layer::Limits,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "ci: needs bubblewrap"]
async fn sb_00_the_page_about_the_layers_is_current() {
    log::keep();
    let mut page = OPENING.to_owned();
    page.push_str("\n| id | attempt | without namespaces | without landlock | without seccomp | without protected | without limits |\n|---|---|---|---|---|---|---|\n");
    for case in &cases_in("SB", Place::T2) {
        let named: Vec<Layer> = case
            .layers
            .iter()
            .filter_map(|word| Layer::parse(word))
            .collect();
        let mut rows: Vec<(String, [&str; 5])> = Vec::new();
        for layer in &named {
            let column = COLUMNS.iter().position(|found| found == layer);
            let Some(column) = column else { continue };
            let results = confined::without(case, &BTreeSet::from([*layer])).await;
            for (at, (attempt, held)) in results.into_iter().enumerate() {
                if rows.len() <= at {
                    rows.push((attempt, [""; 5]));
                }
                if let Err(why) = &held {
                    println!(
                        "{} without {}: {} got through: {why:.200}",
                        case.id,
                        layer.as_str(),
                        rows[at].0
                    );
                }
                rows[at].1[column] = if held.is_ok() { "held" } else { "through" };
            }
        }
        for (attempt, cells) in rows {
            let attempt = attempt.replace('|', "\\|").replace('\n', " ");
            writeln!(
                page,
                "| {} | `{attempt}` | {} |",
                case.id,
                cells.join(" | ")
            )
            .unwrap();
        }
    }
    if env::var(UPDATE).is_ok() {
        fs::write(PAGE, &page).unwrap();
    }
    let written = fs::read_to_string(PAGE).unwrap_or_default();
    let stale: Vec<_> = page
        .lines()
        .filter(|line| !written.lines().any(|found| found == *line))
        .collect();
    assert!(
        written == page,
        "docs/security/layers.md is stale: run this test once with {UPDATE}=1\n{}",
        stale.join("\n")
    );
}
