//! Shows the lines of a file closest to what an edit looked for, so that a model can see its
//! mistake without reading the file again.

use std::{collections::HashSet, time::Duration};

use similar::{ChangeTag, TextDiff};

use super::{
    display::start_of,
    heavy::{Stop, WorkStopped},
};

/// Files with more lines are searched only this far.
const MAX_LINES_SEARCHED: usize = 50_000;
/// Lines compared are cut to this many bytes.
const MAX_LINE_COMPARED: usize = 256;
/// The most lines of the wanted text that are shown.
const MAX_LINES_SHOWN: usize = 40;
/// Below this share of common letter pairs, nothing is similar enough to help.
const LEAST_LIKENESS: f32 = 0.35;

const DIFF_TIME: Duration = Duration::from_millis(100);

/// A diff from the nearest lines of the text to the wanted ones, and the line it starts at.
pub(crate) fn nearest_lines(
    text: &str,
    wanted: &str,
    stop: &Stop,
) -> Result<Option<String>, WorkStopped> {
    let wanted_lines: Vec<&str> = wanted.lines().take(MAX_LINES_SHOWN).collect();
    let key = wanted_lines
        .iter()
        .enumerate()
        .max_by_key(|(_, line)| line.trim().len());
    let Some((key_index, key)) = key else {
        return Ok(None);
    };
    let key_pairs = letter_pairs(key);
    if key_pairs.is_empty() {
        return Ok(None);
    }
    let lines: Vec<&str> = text.lines().take(MAX_LINES_SEARCHED).collect();
    let mut best = (0, LEAST_LIKENESS);
    for (index, line) in lines.iter().enumerate() {
        stop.check_at(index)?;
        let likeness = likeness(&key_pairs, &letter_pairs(line));
        if likeness > best.1 {
            best = (index, likeness);
        }
    }
    let (best_index, best_likeness) = best;
    if best_likeness <= LEAST_LIKENESS {
        return Ok(None);
    }
    let start = best_index.saturating_sub(key_index);
    let end = (start + wanted_lines.len()).min(lines.len());
    let found = lines.get(start..end).unwrap_or_default();
    let diff = TextDiff::configure()
        .timeout(DIFF_TIME)
        .diff_slices(found, &wanted_lines);
    let mut shown = format!(
        "nearest lines are {}-{} (`-` is the file, `+` is what was given):\n",
        start + 1,
        end
    );
    for change in diff.iter_all_changes() {
        shown.push(match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        });
        shown.push_str(start_of(change.value(), MAX_LINE_COMPARED));
        shown.push('\n');
    }
    Ok(Some(shown))
}

fn letter_pairs(line: &str) -> HashSet<(u8, u8)> {
    let line = start_of(line.trim(), MAX_LINE_COMPARED).as_bytes();
    line.windows(2)
        .filter_map(|pair| match pair {
            [first, second] => Some((*first, *second)),
            _ => None,
        })
        .collect()
}

/// The Dice coefficient of two sets of letter pairs, from 0 to 1.
#[expect(
    clippy::cast_precision_loss,
    reason = "sets of at most a few hundred pairs"
)]
fn likeness(one: &HashSet<(u8, u8)>, other: &HashSet<(u8, u8)>) -> f32 {
    let common = one.intersection(other).count();
    2.0 * common as f32 / (one.len() + other.len()).max(1) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest_lines(text: &str, wanted: &str) -> Option<String> {
        let stop = Stop::with(&tokio_util::sync::CancellationToken::new());
        super::nearest_lines(text, wanted, &stop).unwrap()
    }

    #[test]
    fn the_nearest_lines_are_shown_as_a_diff() {
        let text = "fn one() {}\nfn two() {\n    let total = 1;\n}\n";
        let shown = nearest_lines(text, "fn two() {\n    let totals = 2;\n").unwrap();
        assert_eq!(
            shown,
            "nearest lines are 2-3 (`-` is the file, `+` is what was given):\n fn two() {\n-    let total = 1;\n+    let totals = 2;\n"
        );
    }

    #[test]
    fn nothing_alike_shows_nothing() {
        assert_eq!(nearest_lines("aaa\nbbb\n", "xyz"), None);
        assert_eq!(nearest_lines("", "x"), None);
        assert_eq!(nearest_lines("a\n", ""), None);
    }
}
