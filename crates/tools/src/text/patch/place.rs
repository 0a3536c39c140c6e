//! Finds where hunks belong in a text and turns them into replacements.
//!
//! Every hunk is matched against the original text, after the previous hunk. Context lines keep the
//! text's bytes, whatever the patch wrote.

use std::{borrow::Cow, collections::HashMap};

use memchr::memmem;

use super::{FinalNewline, Hunk, HunkLine};
use crate::text::{
    encoding::{Replacement, line_end},
    heavy::{Stop, WorkStopped},
    tolerant::plain_character,
};

/// The most lines a patched text may have: each needs memory.
const MAX_LINES: usize = 2_000_000;

/// The most lines examined to place all hunks of one text. Each likeness finds a hunk in one pass
/// over the text, so only very many hunks that fit nowhere near reach this.
const MAX_STEPS: usize = 300_000_000;

/// Searching inside a line counts as one step per this many bytes.
const BYTES_PER_STEP: usize = 32;

/// Why hunks could not be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlacementFailure {
    /// A hunk fits nowhere.
    NoFit {
        /// The line of the patch the hunk starts at.
        patch_line: usize,
        /// What it looked for.
        wanted: String,
    },
    /// The text has too many lines.
    TooManyLines,
    /// Finding the places takes too long.
    TooMuchWork,
    /// The call has ended.
    Stopped,
}

impl From<WorkStopped> for PlacementFailure {
    fn from(WorkStopped: WorkStopped) -> Self {
        Self::Stopped
    }
}

/// The replacements for a list of hunks, sorted and without overlaps.
pub(crate) fn place(
    text: &str,
    hunks: &[Hunk],
    stop: &Stop,
) -> Result<Vec<Replacement>, PlacementFailure> {
    let mut lines = Lines::new(text)?;
    let mut effort = PlacementEffort { steps: 0, stop };
    let mut cursor = 0;
    let mut replacements = Vec::new();
    for hunk in hunks {
        let old = hunk.old_lines();
        let no_fit = |wanted: String| PlacementFailure::NoFit {
            patch_line: hunk.patch_line,
            wanted,
        };
        let mut anchored = None;
        for anchor in &hunk.anchors {
            let from = anchored.map_or(cursor, |at: usize| at + 1);
            let at = lines
                .find_anchor(anchor, from, &mut effort)?
                .ok_or_else(|| no_fit(anchor.clone()))?;
            anchored = Some(at);
        }
        let start = if old.is_empty() {
            lines.insertion_point(hunk, anchored, cursor)
        } else {
            let from = anchored.unwrap_or(cursor);
            lines
                .find(&old, from, hunk, &mut effort)?
                .ok_or_else(|| no_fit(old.join("\n")))?
        };
        lines.replace(hunk, start, &mut replacements);
        cursor = start + old.len();
    }
    Ok(replacements)
}

/// The cost of placing so far. Every loop over lines is charged here.
struct PlacementEffort<'s> {
    steps: usize,
    stop: &'s Stop,
}

impl PlacementEffort<'_> {
    fn step(&mut self) -> Result<(), PlacementFailure> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(PlacementFailure::TooMuchWork);
        }
        Ok(self.stop.check_at(self.steps)?)
    }

    /// Charges for a search inside a line.
    fn search(&mut self, line: &str) -> Result<(), PlacementFailure> {
        self.steps += line.len() / BYTES_PER_STEP;
        self.step()
    }
}

struct Lines<'t> {
    text: &'t str,
    content: Vec<&'t str>,
    /// Where each line starts, and the end of the text.
    starts: Vec<usize>,
    ending: &'static str,
    /// The lines as numbers, for each likeness needed so far.
    numbered: [Option<Numbered<'t>>; 4],
}

/// How much two lines may differ and still count as the same: `alike` maps both to the same text.
struct LineLikeness {
    /// Its index in `Lines::numbered`.
    index: usize,
    alike: fn(&str) -> Cow<'_, str>,
}

const AS_IT_IS: LineLikeness = LineLikeness {
    index: 0,
    alike: |line| Cow::Borrowed(line),
};

const WITHOUT_TRAILING_BLANKS: LineLikeness = LineLikeness {
    index: 1,
    alike: |line| Cow::Borrowed(line.trim_end()),
};

const WITHOUT_OUTER_BLANKS: LineLikeness = LineLikeness {
    index: 2,
    alike: |line| Cow::Borrowed(line.trim()),
};

const PLAIN: LineLikeness = LineLikeness {
    index: 3,
    alike: plain,
};

/// Lines as numbers: two lines have the same number if they are alike. Text is compared once, and
/// hunks are then found by comparing numbers.
struct Numbered<'t> {
    numbers: HashMap<Cow<'t, str>, u32>,
    lines: Vec<u32>,
}

impl<'t> Numbered<'t> {
    fn new(
        content: &[&'t str],
        alike: fn(&str) -> Cow<'_, str>,
        effort: &mut PlacementEffort<'_>,
    ) -> Result<Self, PlacementFailure> {
        let mut numbers = HashMap::new();
        let mut lines = Vec::with_capacity(content.len());
        for line in content {
            effort.search(line)?;
            // There are at most MAX_LINES, so numbers do not run out.
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            lines.push(*numbers.entry(alike(line)).or_insert(next));
        }
        Ok(Self { numbers, lines })
    }
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Result<Self, PlacementFailure> {
        if memchr::memchr_iter(b'\n', text.as_bytes()).count() > MAX_LINES {
            return Err(PlacementFailure::TooManyLines);
        }
        let mut starts = vec![0];
        let mut content = Vec::new();
        let mut at = 0;
        for line in text.split_inclusive('\n') {
            at += line.len();
            starts.push(at);
            content.push(line.trim_end_matches('\n').trim_end_matches('\r'));
        }
        Ok(Self {
            text,
            content,
            starts,
            ending: line_end(text),
            numbered: [const { None }; 4],
        })
    }

    /// The first line at or after `from` that equals the anchor, else equals it except for
    /// surrounding blanks, else contains it.
    fn find_anchor(
        &mut self,
        anchor: &str,
        from: usize,
        effort: &mut PlacementEffort<'_>,
    ) -> Result<Option<usize>, PlacementFailure> {
        for likeness in [&AS_IT_IS, &WITHOUT_OUTER_BLANKS] {
            if let Some(at) = self.find_like(likeness, &[anchor], from, None, effort)? {
                return Ok(Some(at));
            }
        }
        let finder = memmem::Finder::new(anchor.trim());
        for (at, line) in self.content.iter().enumerate().skip(from) {
            effort.search(line)?;
            if finder.find(line.as_bytes()).is_some() {
                return Ok(Some(at));
            }
        }
        Ok(None)
    }

    /// Where the old lines are, at or after `from`: nearest to the line the patch names, or at the
    /// end if it says so, else the first place.
    fn find(
        &mut self,
        old: &[&str],
        from: usize,
        hunk: &Hunk,
        effort: &mut PlacementEffort<'_>,
    ) -> Result<Option<usize>, PlacementFailure> {
        let Some(last) = self.content.len().checked_sub(old.len()) else {
            return Ok(None);
        };
        let expected = if hunk.at_end {
            Some(last)
        } else {
            hunk.at_line.map(|line| line.saturating_sub(1))
        };
        for likeness in [
            &AS_IT_IS,
            &WITHOUT_TRAILING_BLANKS,
            &WITHOUT_OUTER_BLANKS,
            &PLAIN,
        ] {
            if let Some(start) = self.find_like(likeness, old, from, expected, effort)? {
                return Ok(Some(start));
            }
        }
        Ok(None)
    }

    /// Where the lines are under one likeness.
    fn find_like(
        &mut self,
        likeness: &LineLikeness,
        old: &[&str],
        from: usize,
        expected: Option<usize>,
        effort: &mut PlacementEffort<'_>,
    ) -> Result<Option<usize>, PlacementFailure> {
        let LineLikeness { index, alike } = *likeness;
        let Some(known) = self.numbered.get_mut(index) else {
            return Ok(None);
        };
        let numbered = match known {
            Some(numbered) => numbered,
            None => known.insert(Numbered::new(&self.content, alike, effort)?),
        };
        let number = |line: &&str| numbered.numbers.get(&alike(line)).copied();
        let Some(wanted) = old.iter().map(number).collect::<Option<Vec<u32>>>() else {
            return Ok(None);
        };
        let rest = numbered.lines.get(from..).unwrap_or_default();
        let expected = expected.map(|line| line.saturating_sub(from));
        let start = find_run(rest, &wanted, expected, effort)?;
        Ok(start.map(|start| from + start))
    }

    /// Where to insert lines that have no context: after the anchor, after the named line, or at
    /// the end.
    fn insertion_point(&self, hunk: &Hunk, anchored: Option<usize>, cursor: usize) -> usize {
        let end = self.content.len();
        match (anchored, hunk.at_line) {
            (Some(anchor), _) => anchor + 1,
            (None, Some(after_line)) => after_line.clamp(cursor, end.max(cursor)),
            (None, None) => end,
        }
    }

    /// Adds one replacement for each run of removed and added lines.
    fn replace(&self, hunk: &Hunk, start: usize, replacements: &mut Vec<Replacement>) {
        let mut at = start;
        let mut run: Option<(usize, Vec<&str>)> = None;
        for line in &hunk.lines {
            match line {
                HunkLine::Keep(_) => {
                    if let Some((from, added)) = run.take() {
                        replacements.push(self.replacement(from, at, &added, hunk));
                    }
                    at += 1;
                }
                HunkLine::Remove(_) => {
                    run.get_or_insert_with(|| (at, Vec::new()));
                    at += 1;
                }
                HunkLine::Add(text) => {
                    run.get_or_insert_with(|| (at, Vec::new())).1.push(text);
                }
            }
        }
        if let Some((from, added)) = run {
            replacements.push(self.replacement(from, at, &added, hunk));
        }
    }

    fn replacement(&self, from: usize, to: usize, added: &[&str], hunk: &Hunk) -> Replacement {
        let start_of = |line: usize| self.starts.get(line).copied().unwrap_or(self.text.len());
        let range = start_of(from)..start_of(to);
        let mut text = String::new();
        for line in added {
            text.push_str(line.trim_end_matches('\r'));
            text.push_str(self.ending);
        }
        if range.end == self.text.len() && !text.is_empty() {
            let had_newline = self.text.is_empty() || self.text.ends_with('\n');
            let keeps_newline = match hunk.final_newline {
                FinalNewline::AsBefore => had_newline,
                FinalNewline::Present => true,
                FinalNewline::Absent => false,
            };
            if !keeps_newline {
                text.truncate(text.len() - self.ending.len());
            }
            if range.is_empty() && !had_newline {
                text.insert_str(0, self.ending);
            }
        }
        Replacement {
            range,
            text: text.into(),
        }
    }
}

/// Where a run of numbers is: nearest to the expected start, else the first place. Takes one pass,
/// however repetitive the run is (Knuth-Morris-Pratt).
fn find_run(
    lines: &[u32],
    wanted: &[u32],
    expected: Option<usize>,
    effort: &mut PlacementEffort<'_>,
) -> Result<Option<usize>, PlacementFailure> {
    // A patch that fits the text names the right place.
    if let Some(expected) = expected
        && let Some(there) = lines.get(expected..)
        && there.starts_with(wanted)
    {
        return Ok(Some(expected));
    }
    let fall_back = fall_back(wanted, effort)?;
    let mut nearest = None;
    let mut matched = 0;
    for (at, line) in lines.iter().enumerate() {
        effort.step()?;
        while matched > 0 && wanted.get(matched) != Some(line) {
            matched = shorter(&fall_back, matched);
        }
        if wanted.get(matched) == Some(line) {
            matched += 1;
        }
        if matched < wanted.len() {
            continue;
        }
        let start = at + 1 - wanted.len();
        let Some(expected) = expected else {
            return Ok(Some(start));
        };
        let nearer = |than: usize| start.abs_diff(expected) < than.abs_diff(expected);
        if nearest.is_none_or(nearer) {
            nearest = Some(start);
        }
        if start >= expected {
            break;
        }
        matched = shorter(&fall_back, matched);
    }
    Ok(nearest)
}

/// For each length of a matched prefix of the run, the longest shorter prefix that it ends with.
fn fall_back(
    wanted: &[u32],
    effort: &mut PlacementEffort<'_>,
) -> Result<Vec<usize>, PlacementFailure> {
    let mut lengths = Vec::with_capacity(wanted.len());
    lengths.push(0);
    let mut matched = 0;
    for number in wanted.iter().skip(1) {
        effort.step()?;
        while matched > 0 && wanted.get(matched) != Some(number) {
            matched = shorter(&lengths, matched);
        }
        if wanted.get(matched) == Some(number) {
            matched += 1;
        }
        lengths.push(matched);
    }
    Ok(lengths)
}

fn shorter(fall_back: &[usize], matched: usize) -> usize {
    let index = matched.saturating_sub(1);
    fall_back.get(index).copied().unwrap_or(0)
}

/// A line without outer blanks, with single blanks inside and plain quotes and dashes.
fn plain(line: &str) -> Cow<'_, str> {
    let mut plain = String::with_capacity(line.len());
    for word in line.split_whitespace() {
        if !plain.is_empty() {
            plain.push(' ');
        }
        plain.extend(word.chars().map(plain_character));
    }
    if plain == line {
        Cow::Borrowed(line)
    } else {
        Cow::Owned(plain)
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::super::{FilePatch, parse};
    use super::*;

    fn place(text: &str, hunks: &[Hunk]) -> Result<Vec<Replacement>, PlacementFailure> {
        super::place(text, hunks, &Stop::with(&CancellationToken::new()))
    }

    fn apply(text: &str, patch: &str) -> Result<String, PlacementFailure> {
        let files = parse(patch).unwrap();
        let Some(FilePatch::Update { hunks, .. }) = files.first() else {
            panic!("not an update");
        };
        let mut result = text.to_owned();
        for replacement in place(text, hunks)?.into_iter().rev() {
            result.replace_range(replacement.range, &replacement.text);
        }
        Ok(result)
    }

    fn check(text: &str, hunk: &str, expect: &str) {
        let patch = format!("*** Begin Patch\n*** Update File: x\n{hunk}\n*** End Patch");
        assert_eq!(apply(text, &patch).as_deref(), Ok(expect));
    }

    #[test]
    fn anchors_choose_the_place() {
        check(
            "fn a() {\n  x\n}\nfn b() {\n  x\n}\n",
            "@@ fn b() {\n-  x\n+  y",
            "fn a() {\n  x\n}\nfn b() {\n  y\n}\n",
        );
    }

    #[test]
    fn context_keeps_the_bytes_of_the_file() {
        check(
            "\tone \u{201c}q\u{201d}  \n\ttwo\n",
            "@@\n one \"q\"\n-two\n+\tzwei",
            "\tone \u{201c}q\u{201d}  \n\tzwei\n",
        );
    }

    #[test]
    fn line_ends_and_the_final_newline_are_kept() {
        check("a\r\nb\r\n", "-b\n+c\n+d", "a\r\nc\r\nd\r\n");
        check("a\nb", "-b\n+c", "a\nc");
        check("a", " a\n+b", "a\nb");
        check("", "+a", "a\n");
        check("a\n", "@@\n+b", "a\nb\n");
    }

    #[test]
    fn what_does_not_fit_says_which_hunk() {
        let patch = "*** Begin Patch\n*** Update File: x\n@@\n-zzz\n+b\n*** End Patch";
        assert_eq!(
            apply("a\n", patch),
            Err(PlacementFailure::NoFit {
                patch_line: 4,
                wanted: "zzz".into()
            })
        );
    }

    fn hunk(lines: impl IntoIterator<Item = HunkLine>) -> Hunk {
        Hunk {
            patch_line: 1,
            lines: lines.into_iter().collect(),
            ..Hunk::default()
        }
    }

    fn keep(line: &str) -> HunkLine {
        HunkLine::Keep(line.to_owned())
    }

    /// A hunk of many lines that almost fits everywhere in a file of many lines.
    #[test]
    fn rx_cpu_a_hunk_that_repeats_itself_takes_one_pass() {
        let text = "a\n".repeat(200_000) + "b\n";
        let lines = std::iter::repeat_n(keep("a"), 20_000);
        let fits = hunk(lines.clone().chain([HunkLine::Remove("b".into())]));
        let found = place(&text, &[fits]).unwrap();
        assert_eq!(found[0].range, 400_000..400_002);
        let absent = hunk(lines.chain([keep("b"), keep("a")]));
        assert!(matches!(
            place(&text, &[absent]),
            Err(PlacementFailure::NoFit { .. })
        ));
    }

    /// Hunks that each need a pass over the whole file are cut off.
    #[test]
    fn rx_cpu_too_much_work_is_refused() {
        let effort = &mut PlacementEffort {
            steps: MAX_STEPS - 3,
            stop: &Stop::with(&CancellationToken::new()),
        };
        assert_eq!(
            find_run(&[1; 8], &[2], None, effort),
            Err(PlacementFailure::TooMuchWork)
        );
        let many = "\n".repeat(MAX_LINES + 1);
        assert_eq!(place(&many, &[]), Err(PlacementFailure::TooManyLines));
    }

    #[test]
    fn rx_cpu_a_cancelled_call_stops_placing() {
        let cancel = CancellationToken::new();
        cancel.cancel();
        let text = "a\n".repeat(5_000);
        assert_eq!(
            super::place(&text, &[hunk([keep("a"), keep("b")])], &Stop::with(&cancel)),
            Err(PlacementFailure::Stopped)
        );
    }

    proptest::proptest! {
        /// Agrees with trying every place.
        #[test]
        fn a_run_is_found_where_it_is_nearest(
            lines in proptest::collection::vec(0_u32..2, 0..24),
            wanted in proptest::collection::vec(0_u32..2, 1..6),
            expected in proptest::option::of(0_usize..30),
        ) {
            let stop = Stop::with(&CancellationToken::new());
            let effort = &mut PlacementEffort { steps: 0, stop: &stop };
            let mut places = (0..lines.len()).filter(|at| lines[*at..].starts_with(&wanted));
            let slow = match expected {
                None => places.next(),
                Some(expected) => places.min_by_key(|at| at.abs_diff(expected)),
            };
            proptest::prop_assert_eq!(find_run(&lines, &wanted, expected, effort), Ok(slow));
        }

        /// Applying the diff of two texts to the first gives the second.
        #[test]
        fn applying_a_diff_gives_the_other_text(
            before in "([a-c]{0,2}\n){0,12}[a-c]{0,2}",
            after in "([a-c]{0,2}\n){0,12}[a-c]{0,2}",
        ) {
            let diff = similar::TextDiff::from_lines(&before, &after)
                .unified_diff()
                .header("a/x", "b/x")
                .to_string();
            if before != after {
                proptest::prop_assert_eq!(apply(&before, &diff), Ok(after), "{}", diff);
            }
        }
    }
}
