//! The page of figures, `docs/extraction.md`.

use std::{collections::BTreeSet, fmt::Write as _};

use super::{
    EXTRACTORS, SPLITS,
    score::{Measure, Scores},
};

/// What was measured of one page.
pub(super) struct PageScores {
    pub(super) split: &'static str,
    pub(super) kind: String,
    pub(super) name: String,
    /// Of each extractor.
    pub(super) scores: [Scores; EXTRACTORS.len()],
}

const MEASURES: [(Measure, &str); 5] = [
    (Measure::Text, "text"),
    (Measure::Code, "code"),
    (Measure::Tables, "tables"),
    (Measure::Headings, "headings"),
    (Measure::Links, "links"),
];

impl PageScores {
    /// The figures of one page, for who changes rules.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{:<28}", self.name);
        for (measure, name) in MEASURES {
            let each = self.scores.iter().map(|scores| shown(scores.get(measure)));
            let _ = write!(line, " {name} {:<18}", each.collect::<Vec<_>>().join("/"));
        }
        line
    }
}

/// The average of each extractor over the pages for which there is a figure.
pub(super) fn averages<'p>(
    pages: impl Iterator<Item = &'p PageScores> + Clone,
    measure: Measure,
) -> [Option<f64>; EXTRACTORS.len()] {
    std::array::from_fn(|extractor| {
        let figures = pages
            .clone()
            .filter_map(|page| page.scores[extractor].get(measure));
        let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
        (count > 0.0).then(|| sum / count)
    })
}

fn shown(figure: Option<f64>) -> String {
    figure.map_or("–".to_owned(), |figure| format!("{:.1}", figure * 100.0))
}

/// The whole page.
pub(super) fn page(scored: &[PageScores]) -> String {
    let mut page = HEAD.replace("PAGES", &scored.len().to_string());
    let held_out = scored.iter().filter(|page| page.split == SPLITS[1]).count();
    page = page.replace("HELD", &held_out.to_string());
    let _ = writeln!(page, "\n## In the average\n");
    let _ = writeln!(page, "| pages | measure | {} |", EXTRACTORS.join(" | "));
    let _ = writeln!(page, "| --- | --- |{}", " ---: |".repeat(EXTRACTORS.len()));
    for (title, split) in [
        ("all", None),
        ("tuned", Some(SPLITS[0])),
        ("held out", Some(SPLITS[1])),
    ] {
        let pages = scored
            .iter()
            .filter(|page| split.is_none_or(|split| page.split == split));
        for (measure, name) in MEASURES {
            let figures = averages(pages.clone(), measure).map(shown);
            let _ = writeln!(page, "| {title} | {name} | {} |", figures.join(" | "));
        }
    }
    let _ = writeln!(page, "\n## By kind of page\n");
    let _ = writeln!(page, "Each cell is Haft / readability / trafilatura.\n");
    let names = MEASURES.map(|(_, name)| name);
    let _ = writeln!(page, "| kind | pages | {} |", names.join(" | "));
    let _ = writeln!(page, "| --- | ---: |{}", " --- |".repeat(MEASURES.len()));
    let kinds: BTreeSet<&str> = scored.iter().map(|page| page.kind.as_str()).collect();
    for kind in kinds {
        let pages = scored.iter().filter(|page| page.kind == kind);
        let cells = MEASURES.map(|(measure, _)| {
            let figures = averages(pages.clone(), measure);
            if figures[0].is_none() {
                return "–".to_owned();
            }
            figures.map(shown).join(" / ")
        });
        let count = pages.clone().count();
        let _ = writeln!(page, "| {kind} | {count} | {} |", cells.join(" | "));
    }
    page
}

const HEAD: &str = "\
# How well pages are read

Written by the test `extraction::pages_are_read_better_than_others_read_them` of `haft-sandbox`, which CI runs; do not edit.

PAGES pages in the manner of real sites, with the furniture that such pages have, each with the Markdown that a careful person would make of it. All were written for this (`crates/documents/tests/extraction`). Rules were tried on those in `tuned`; the HELD in `held-out` were written before and not looked at.

Beside `web_fetch`, through the process that reads pages for it, are [readability](https://github.com/mozilla/readability) 0.6.0 with [turndown](https://github.com/mixmark-io/turndown) 7.2.5 and tables by `@joplin/turndown-plugin-gfm` 1.0.68, and [trafilatura](https://github.com/adbar/trafilatura) 2.3.1 with tables, links, pictures, formatting and comments. turndown was taught that every `pre` is code. Both get their title put above a text that lacks it.

All figures are percentages. Text is F1 of the words, wherever they stand; names of authors and dates count neither way. Code is F1 of whole lines. Tables are F1 of the cells, in the order of rows. Headings are F1 of their words. Links are the share of the addresses that are there. A page counts where something was expected.
";
