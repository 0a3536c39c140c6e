//! How much of what was expected is there, and how much else.

use std::collections::HashMap;

use super::markdown::{Parts, words};

/// What stands around words of an expected text that may be there or not: dates, names of authors.
const EITHER: (&str, &str) = ("<!-- either: ", " -->");

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// Words, wherever they stand.
    Text,
    /// Lines of code, exactly.
    Code,
    /// Cells of tables, in the order of rows.
    Tables,
    Headings,
    /// The share of the expected addresses that are there.
    Links,
}

/// The measures of one result; none where nothing was expected. From 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scores {
    text: f64,
    code: Option<f64>,
    tables: Option<f64>,
    headings: Option<f64>,
    links: Option<f64>,
}

impl Scores {
    pub(super) fn of(expected: &str, result: &str) -> Self {
        let (expected, either) = without_either(expected);
        let (expected, result) = (Parts::of(&expected), Parts::of(result));
        let lines = |of: &[String], in_result: &[String]| {
            (!of.is_empty()).then(|| common_f1(of, in_result, &[]))
        };
        let cells = || {
            f1(
                in_order(&expected.cells, &result.cells),
                expected.cells.len(),
                result.cells.len(),
            )
        };
        Self {
            text: common_f1(&expected.words, &result.words, &either),
            code: lines(&expected.code, &result.code),
            tables: (!expected.cells.is_empty()).then(cells),
            headings: lines(&expected.headings, &result.headings),
            links: (!expected.links.is_empty())
                .then(|| ratio(common(&expected.links, &result.links), expected.links.len())),
        }
    }

    pub(super) fn get(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::Text => Some(self.text),
            Measure::Code => self.code,
            Measure::Tables => self.tables,
            Measure::Headings => self.headings,
            Measure::Links => self.links,
        }
    }
}

/// An expected text without what may be there or not, and the words of that.
fn without_either(expected: &str) -> (String, Vec<String>) {
    let (mut text, mut either, mut rest) = (String::new(), Vec::new(), expected);
    while let Some((before, after)) = rest.split_once(EITHER.0) {
        let (inner, after) = after.split_once(EITHER.1).unwrap();
        text.push_str(before);
        either.extend(words(inner));
        rest = after;
    }
    text.push_str(rest);
    (text, either)
}

fn counts(of: &[String]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    for one in of {
        *counts.entry(one.as_str()).or_default() += 1;
    }
    counts
}

/// How many are in both, each as often as in both.
fn common(expected: &[String], result: &[String]) -> usize {
    let found = counts(result);
    let shared = |(one, count): (&str, usize)| count.min(found.get(one).copied().unwrap_or(0));
    counts(expected).into_iter().map(shared).sum()
}

fn common_f1(expected: &[String], result: &[String], either: &[String]) -> f64 {
    let matched = common(expected, result);
    let (wanted, allowed) = (counts(expected), counts(either));
    let excused = |(one, count): (&str, usize)| {
        let wanted = wanted.get(one).copied().unwrap_or(0);
        let allowed = allowed.get(one).copied().unwrap_or(0);
        count.saturating_sub(wanted).min(allowed)
    };
    let excused: usize = counts(result).into_iter().map(excused).sum();
    f1(matched, expected.len(), result.len() - excused)
}

/// The longest series that both have in the same order.
fn in_order(expected: &[String], result: &[String]) -> usize {
    let mut above = vec![0; result.len() + 1];
    for one in expected {
        let mut row = vec![0; result.len() + 1];
        for (at, other) in result.iter().enumerate() {
            row[at + 1] = if one == other {
                above[at] + 1
            } else {
                above[at + 1].max(row[at])
            };
        }
        above = row;
    }
    above[result.len()]
}

fn f1(matched: usize, expected: usize, found: usize) -> f64 {
    ratio(2 * matched, expected + found)
}

#[expect(clippy::cast_precision_loss, reason = "small counts")]
fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        1.0
    } else {
        part as f64 / whole as f64
    }
}

#[test]
fn scores_are_those_of_a_small_sum() {
    let expected = "# a\n\nb c <!-- either: d d -->\n\n```\nx\n y\n```\n\n| p | q |\n| --- | --- |\n| r | s |\n";
    let whole = Scores::of(expected, &without_either(expected).0);
    for measure in [
        Measure::Text,
        Measure::Code,
        Measure::Tables,
        Measure::Headings,
    ] {
        assert_eq!(whole.get(measure), Some(1.0), "{measure:?}");
    }
    assert_eq!(whole.get(Measure::Links), None);
    // Two of nine words, and one too many beside the two that are excused.
    let other = Scores::of(expected, "b c d d d\n\n```\ny\n```\n");
    assert_eq!(other.get(Measure::Text), Some(2.0 * 3.0 / (9.0 + 4.0)));
    assert_eq!(other.get(Measure::Code), Some(0.0));
    assert_eq!(other.get(Measure::Tables), Some(0.0));
    // The rows in another order: a row and its cells, and the mark of the other.
    let turned = Scores::of(expected, "| r | s |\n| --- | --- |\n| p | q |\n");
    assert_eq!(turned.get(Measure::Tables), Some(2.0 * 3.0 / 12.0));
}
