//! Matches up the lines of two texts.
//!
//! The answer depends on the texts alone, never on how busy the machine is: a diff is part of what
//! an approval binds. So work is bounded by counting it, not by a clock. Where a good answer would
//! cost too much, a coarser one is given; every answer is correct.

use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
};

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Stretches with more lines than this, both sides together, are first cut at lines that occur
/// once.
const MAX_STRETCH_LINES: usize = 4_000;

/// The most comparison steps for one diff.
const MAX_STEPS: u64 = 400_000_000;

/// How often a stretch is cut before it counts as replaced entirely.
const MAX_CUTS: usize = 16;

/// How to get from the old lines to the new ones, in order.
pub(crate) fn compare(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut numbers = HashMap::with_capacity(old.len());
    let old = numbered(&mut numbers, old);
    let new = numbered(&mut numbers, new);
    let mut comparison = Comparison {
        old: &old,
        new: &new,
        same: Vec::new(),
        steps_left: MAX_STEPS,
    };
    comparison.stretch(0..old.len(), 0..new.len(), 0);
    comparison.into_ops()
}

/// Numbers lines so that equal lines get equal numbers.
fn numbered<'t>(numbers: &mut HashMap<&'t str, usize>, lines: &[&'t str]) -> Vec<usize> {
    lines
        .iter()
        .map(|line| {
            let next = numbers.len();
            *numbers.entry(line).or_insert(next)
        })
        .collect()
}

struct Comparison<'n> {
    old: &'n [usize],
    new: &'n [usize],
    /// The lines that stay, in order: old position, new position, number of lines.
    same: Vec<(usize, usize, usize)>,
    steps_left: u64,
}

impl Comparison<'_> {
    fn stretch(&mut self, mut old: Range<usize>, mut new: Range<usize>, cuts: usize) {
        let (before, after) = (self.old_lines(&old), self.new_lines(&new));
        let start = equal_lines(before.iter(), after.iter());
        let left = before.len().min(after.len()) - start;
        let end = equal_lines(before.iter().rev(), after.iter().rev()).min(left);
        self.stays(old.start, new.start, start);
        old = old.start + start..old.end - end;
        new = new.start + start..new.end - end;
        if !old.is_empty() && !new.is_empty() {
            self.middle(&old, &new, cuts);
        }
        self.stays(old.end, new.end, end);
    }

    fn middle(&mut self, old: &Range<usize>, new: &Range<usize>, cuts: usize) {
        let lines = old.len() + new.len();
        let steps = (lines as u64).saturating_mul(lines as u64);
        if lines <= MAX_STRETCH_LINES && steps <= self.steps_left {
            self.steps_left -= steps;
            let (before, after) = (self.old_lines(old), self.new_lines(new));
            for op in capture_diff_slices(Algorithm::Myers, before, after) {
                if let DiffOp::Equal {
                    old_index,
                    new_index,
                    len,
                } = op
                {
                    self.stays(old.start + old_index, new.start + new_index, len);
                }
            }
            return;
        }
        if cuts == MAX_CUTS {
            return;
        }
        let anchors = anchors(self.old_lines(old), self.new_lines(new));
        let (mut old_from, mut new_from) = (old.start, new.start);
        for (old_at, new_at) in &anchors {
            let (old_at, new_at) = (old.start + old_at, new.start + new_at);
            self.stretch(old_from..old_at, new_from..new_at, cuts + 1);
            self.stays(old_at, new_at, 1);
            (old_from, new_from) = (old_at + 1, new_at + 1);
        }
        if !anchors.is_empty() {
            self.stretch(old_from..old.end, new_from..new.end, cuts + 1);
        }
    }

    fn stays(&mut self, old: usize, new: usize, lines: usize) {
        if lines == 0 {
            return;
        }
        match self.same.last_mut() {
            Some((last_old, last_new, last_lines))
                if *last_old + *last_lines == old && *last_new + *last_lines == new =>
            {
                *last_lines += lines;
            }
            _ => self.same.push((old, new, lines)),
        }
    }

    fn into_ops(self) -> Vec<DiffOp> {
        let mut ops = Vec::with_capacity(2 * self.same.len() + 1);
        let (mut old_from, mut new_from) = (0, 0);
        let end = (self.old.len(), self.new.len(), 0);
        for (old_index, new_index, len) in self.same.into_iter().chain([end]) {
            let (old_len, new_len) = (old_index - old_from, new_index - new_from);
            match (old_len, new_len) {
                (0, 0) => {}
                (0, _) => ops.push(DiffOp::Insert {
                    old_index: old_from,
                    new_index: new_from,
                    new_len,
                }),
                (_, 0) => ops.push(DiffOp::Delete {
                    old_index: old_from,
                    old_len,
                    new_index: new_from,
                }),
                _ => ops.push(DiffOp::Replace {
                    old_index: old_from,
                    old_len,
                    new_index: new_from,
                    new_len,
                }),
            }
            if len > 0 {
                ops.push(DiffOp::Equal {
                    old_index,
                    new_index,
                    len,
                });
            }
            (old_from, new_from) = (old_index + len, new_index + len);
        }
        ops
    }

    fn old_lines(&self, range: &Range<usize>) -> &'_ [usize] {
        self.old.get(range.clone()).unwrap_or_default()
    }

    fn new_lines(&self, range: &Range<usize>) -> &'_ [usize] {
        self.new.get(range.clone()).unwrap_or_default()
    }
}

fn equal_lines<'n>(
    old: impl Iterator<Item = &'n usize>,
    new: impl Iterator<Item = &'n usize>,
) -> usize {
    old.zip(new).take_while(|(old, new)| old == new).count()
}

/// Lines that occur once on each side, as many as keep their order.
fn anchors(old: &[usize], new: &[usize]) -> Vec<(usize, usize)> {
    let (old, new) = (once(old), once(new));
    let mut pairs: Vec<(usize, usize)> = old
        .into_iter()
        .filter_map(|(line, at)| Some((at?, (*new.get(&line)?)?)))
        .collect();
    pairs.sort_unstable();
    longest_rise(&pairs)
}

/// The position of each line; `None` if it occurs more than once.
fn once(lines: &[usize]) -> HashMap<usize, Option<usize>> {
    let mut places = HashMap::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        match places.entry(*line) {
            Entry::Vacant(vacant) => {
                vacant.insert(Some(at));
            }
            Entry::Occupied(mut occupied) => {
                occupied.insert(None);
            }
        }
    }
    places
}

/// The longest subsequence of pairs, sorted by their first, whose seconds increase.
fn longest_rise(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the index of the run that ends lowest; and the predecessor of each pair.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    let second = |index: usize| pairs.get(index).map(|pair| pair.1);
    for (index, (_, new_at)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| second(*end) < Some(*new_at));
        before.push(
            length
                .checked_sub(1)
                .and_then(|last| ends.get(last))
                .copied(),
        );
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut rise = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        rise.extend(pairs.get(index));
        next = before.get(index).copied().flatten();
    }
    rise.reverse();
    rise
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &[&str], new: &[&str]) -> usize {
        let mut made = Vec::new();
        let mut changed = 0;
        for op in compare(old, new) {
            let (tag, before, after) = op.as_tag_tuple();
            if tag == similar::DiffTag::Equal {
                assert_eq!(old[before.clone()], new[after.clone()]);
            } else {
                changed += before.len() + after.len();
            }
            made.extend_from_slice(&new[after]);
        }
        assert_eq!(made, new);
        changed
    }

    #[test]
    fn a_few_changes_in_a_long_text_are_a_few_lines() {
        let old: Vec<String> = (0..60_000).map(|line| format!("line {line}")).collect();
        let old: Vec<&str> = old.iter().map(String::as_str).collect();
        let mut new = old.clone();
        new[3] = "other";
        new.remove(30_000);
        new.insert(59_000, "more");
        assert_eq!(check(&old, &new), 4);
    }

    #[test]
    fn a_text_nothing_of_which_stays_costs_little() {
        let old: Vec<String> = (0..200_000).map(|line| format!("old {line}")).collect();
        let new: Vec<String> = (0..200_000).map(|line| format!("new {line}")).collect();
        let old: Vec<&str> = old.iter().map(String::as_str).collect();
        let new: Vec<&str> = new.iter().map(String::as_str).collect();
        assert_eq!(check(&old, &new), 400_000);
        // Nor does a reversed text, which keeps one line at most.
        let turned: Vec<&str> = old.iter().rev().copied().collect();
        check(&old, &turned);
    }

    proptest::proptest! {
        #[test]
        fn every_comparison_leads_to_the_new_text(
            old in proptest::collection::vec("[a-d]", 0..40),
            new in proptest::collection::vec("[a-d]", 0..40),
        ) {
            let old: Vec<&str> = old.iter().map(String::as_str).collect();
            let new: Vec<&str> = new.iter().map(String::as_str).collect();
            check(&old, &new);
        }
    }
}
