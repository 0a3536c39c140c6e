//! Finds the place an edit refers to: exactly first, then tolerantly.
//!
//! Must not guess: an edit that fits nowhere, or in several places, is an error that says where.

use std::{borrow::Cow, ops::Range, sync::Arc};

use memchr::{memchr_iter, memmem};

use super::{
    encoding::{Replacement, line_end, with_line_end},
    heavy::{Stop, WorkStopped},
    tolerant::{Alignment, FoldedText},
};

/// How many places an error names.
const MAX_LINES_NAMED: usize = 10;

/// The most places one change may have. Each takes memory before it is known to fit.
pub(crate) const MAX_PLACES: usize = 1_000_000;

/// The most places aligned word by word.
const MAX_TOLERANT_PLACES: usize = 10_000;

/// The most bytes of new text written word by word across all places of one change.
const MAX_TOLERANT_REWRITTEN: usize = 64 * 1024 * 1024;

/// One requested change.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedChange<'a> {
    /// The text to find.
    pub(crate) old: &'a str,
    /// The text that replaces it.
    pub(crate) new: &'a str,
    /// Which of several places to change.
    pub(crate) place: WhichOccurrence,
}

/// Which of several places to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhichOccurrence {
    /// There must be exactly one.
    Only,
    /// All of them.
    Every,
    /// The one that starts on, or covers, this line (from 1).
    Line(u64),
}

/// Why no place was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotLocated {
    /// The text is nowhere in the file.
    Absent,
    /// It is in more than one place; holds the lines of the first few.
    Ambiguous(Vec<u64>),
    /// It is in more places than can be changed at once.
    TooMany,
    /// It is in the file, but not on the named line; holds the lines where it is.
    Elsewhere(Vec<u64>),
    /// The call has ended.
    Stopped,
}

impl From<WorkStopped> for NotLocated {
    fn from(WorkStopped: WorkStopped) -> Self {
        Self::Stopped
    }
}

/// A text that edits are located in. The text is folded at most once, and only when needed.
pub(crate) struct Locator<'t> {
    text: &'t str,
    ending: &'static str,
    folded: FoldState,
}

/// Whether the text has been folded for tolerant locating.
enum FoldState {
    NotYet,
    TooLarge,
    Done(FoldedText),
}

impl<'t> Locator<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self {
            text,
            ending: line_end(text),
            folded: FoldState::NotYet,
        }
    }

    /// The replacements for one change, sorted and without overlaps.
    pub(crate) fn locate(
        &mut self,
        wanted: WantedChange<'_>,
        stop: &Stop,
    ) -> Result<Vec<Replacement>, NotLocated> {
        stop.check()?;
        for (old, new) in spellings(self.text, wanted.old, wanted.new) {
            let found = self.exact(&old, wanted.place);
            if !found.is_empty() {
                let chosen = self.choose(found, wanted.place, MAX_PLACES, |range| range)?;
                let text: Arc<str> = self.spelled(&old, &new).into();
                let replacement = |range| Replacement {
                    range,
                    text: Arc::clone(&text),
                };
                return Ok(chosen.into_iter().map(replacement).collect());
            }
        }
        stop.check()?;
        self.locate_tolerantly(wanted, stop)
    }

    fn exact(&self, old: &str, place: WhichOccurrence) -> Vec<Range<usize>> {
        let bytes = self.text.as_bytes();
        let finder = memmem::Finder::new(old);
        match place {
            WhichOccurrence::Every | WhichOccurrence::Line(_) => finder
                .find_iter(bytes)
                .map(|start| start..start + old.len())
                .take(MAX_PLACES + 1)
                .collect(),
            // Overlapping places count too: `aa` is in `aaa` twice.
            WhichOccurrence::Only => {
                let mut found = Vec::new();
                let mut from = 0;
                while found.len() <= MAX_LINES_NAMED
                    && let Some(at) = bytes.get(from..).and_then(|rest| finder.find(rest))
                {
                    found.push(from + at..from + at + old.len());
                    from += at + 1;
                }
                found
            }
        }
    }

    fn locate_tolerantly(
        &mut self,
        wanted: WantedChange<'_>,
        stop: &Stop,
    ) -> Result<Vec<Replacement>, NotLocated> {
        let text = self.text;
        if matches!(self.folded, FoldState::NotYet) {
            self.folded = FoldedText::new(text).map_or(FoldState::TooLarge, FoldState::Done);
        }
        let FoldState::Done(folded) = &self.folded else {
            return Err(NotLocated::Absent);
        };
        let limit = match wanted.place {
            WhichOccurrence::Only => MAX_LINES_NAMED + 1,
            WhichOccurrence::Every | WhichOccurrence::Line(_) => MAX_TOLERANT_PLACES + 1,
        };
        let found = folded.find(text, wanted.old, limit);
        if found.is_empty() {
            return Err(NotLocated::Absent);
        }
        let chosen = self.choose(found, wanted.place, MAX_TOLERANT_PLACES, |found| {
            &found.range
        })?;
        if chosen.len().saturating_mul(wanted.new.len()) > MAX_TOLERANT_REWRITTEN {
            return Err(NotLocated::TooMany);
        }
        let alignment = Alignment::new(wanted.old, wanted.new, self.ending);
        let mut replacements = Vec::with_capacity(chosen.len());
        for found in chosen {
            stop.check()?;
            replacements.push(Replacement {
                text: folded.rewrite(text, &found, &alignment).into(),
                range: found.range,
            });
        }
        Ok(replacements)
    }

    fn choose<M>(
        &self,
        found: Vec<M>,
        place: WhichOccurrence,
        most: usize,
        range: impl Fn(&M) -> &Range<usize>,
    ) -> Result<Vec<M>, NotLocated> {
        if found.len() > most {
            return Err(NotLocated::TooMany);
        }
        let lines = |found: &[M]| {
            let named = found.iter().take(MAX_LINES_NAMED);
            named.map(|m| line_at(self.text, range(m).start)).collect()
        };
        match place {
            WhichOccurrence::Every => Ok(found),
            WhichOccurrence::Only if found.len() == 1 => Ok(found),
            WhichOccurrence::Only => Err(NotLocated::Ambiguous(lines(&found))),
            WhichOccurrence::Line(line) => {
                let elsewhere = lines(&found);
                let Some(on) = self.bytes_of_line(line) else {
                    return Err(NotLocated::Elsewhere(elsewhere));
                };
                let covers = |m: &M| {
                    let Range { start, end } = *range(m);
                    start < on.end && end.max(start + 1) > on.start
                };
                let mut on_line: Vec<M> = found.into_iter().filter(covers).collect();
                if on_line.len() > 1 {
                    // Several cover the line; take the one that starts there.
                    on_line.retain(|m| on.contains(&range(m).start));
                }
                match on_line.len() {
                    1 => Ok(on_line),
                    0 => Err(NotLocated::Elsewhere(elsewhere)),
                    _ => Err(NotLocated::Ambiguous(lines(&on_line))),
                }
            }
        }
    }

    /// The new text with its final line endings. An explicit `\r\n` is kept; otherwise new lines
    /// follow the file.
    fn spelled<'n>(&self, old: &str, new: &'n str) -> Cow<'n, str> {
        if old.contains("\r\n") {
            Cow::Borrowed(new)
        } else {
            with_line_end(new, self.ending)
        }
    }

    /// The bytes of a line (from 1), including its line ending.
    fn bytes_of_line(&self, line: u64) -> Option<Range<usize>> {
        let mut ends = memchr_iter(b'\n', self.text.as_bytes()).map(|at| at + 1);
        let start = match line.checked_sub(2) {
            None => 0,
            Some(before) => ends.nth(usize::try_from(before).ok()?)?,
        };
        Some(start..ends.next().unwrap_or(self.text.len()))
    }
}

/// The line (from 1) that contains a byte of the text.
pub(crate) fn line_at(text: &str, offset: usize) -> u64 {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    memchr_iter(b'\n', before).count() as u64 + 1
}

/// The wanted text as given, then with the file's line endings.
fn spellings<'w>(text: &str, old: &'w str, new: &'w str) -> Vec<(Cow<'w, str>, Cow<'w, str>)> {
    let mut spellings = vec![(Cow::Borrowed(old), Cow::Borrowed(new))];
    if old.contains("\r\n") {
        let plain = |s: &str| Cow::Owned(s.replace("\r\n", "\n"));
        spellings.push((plain(old), plain(new)));
    } else if old.contains('\n') && text.contains("\r\n") {
        let old = with_line_end(old, "\r\n");
        spellings.push((old, with_line_end(new, "\r\n")));
    }
    spellings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locate(
        text: &str,
        old: &str,
        new: &str,
        place: WhichOccurrence,
    ) -> Result<String, NotLocated> {
        let found = Locator::new(text).locate(
            WantedChange { old, new, place },
            &Stop::with(&tokio_util::sync::CancellationToken::new()),
        )?;
        let mut result = text.to_owned();
        for replacement in found.into_iter().rev() {
            result.replace_range(replacement.range, &replacement.text);
        }
        Ok(result)
    }

    #[test]
    fn an_exact_match_wins_over_a_tolerant_one() {
        assert_eq!(
            locate("a  b\na b\n", "a b", "x", WhichOccurrence::Only).unwrap(),
            "a  b\nx\n"
        );
    }

    #[test]
    fn several_places_are_named_by_line() {
        assert_eq!(
            locate("x\ny\nx\n", "x", "z", WhichOccurrence::Only),
            Err(NotLocated::Ambiguous(vec![1, 3]))
        );
        assert_eq!(
            locate("aaa", "aa", "z", WhichOccurrence::Only),
            Err(NotLocated::Ambiguous(vec![1, 1]))
        );
        assert_eq!(
            locate("x\ny\nx\n", "x", "z", WhichOccurrence::Every).unwrap(),
            "z\ny\nz\n"
        );
    }

    #[test]
    fn a_line_says_which_place_is_meant() {
        assert_eq!(
            locate("x\ny\nx\n", "x", "z", WhichOccurrence::Line(3)).unwrap(),
            "x\ny\nz\n"
        );
        assert_eq!(
            locate("x\ny\nx\n", "x", "z", WhichOccurrence::Line(2)),
            Err(NotLocated::Elsewhere(vec![1, 3]))
        );
        assert_eq!(
            locate("x\ny\nx\n", "x", "z", WhichOccurrence::Line(9)),
            Err(NotLocated::Elsewhere(vec![1, 3]))
        );
        assert_eq!(
            locate("a\nx\ny\nx\ny", "x\ny", "z", WhichOccurrence::Line(3)).unwrap(),
            "a\nz\nx\ny"
        );
        assert_eq!(
            locate("x x\n", "x", "z", WhichOccurrence::Line(1)),
            Err(NotLocated::Ambiguous(vec![1, 1]))
        );
    }

    #[test]
    fn line_ends_of_the_file_are_kept() {
        assert_eq!(
            locate("a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", WhichOccurrence::Only).unwrap(),
            "1\r\n2\r\n3\r\nc\r\n"
        );
        assert_eq!(
            locate("a\r\nb\r\n", "b", "b\nc", WhichOccurrence::Only).unwrap(),
            "a\r\nb\r\nc\r\n"
        );
        assert_eq!(
            locate("a\nb\n", "a\r\nb", "x\r\ny", WhichOccurrence::Only).unwrap(),
            "x\ny\n"
        );
        assert_eq!(
            locate("a\r\nb\r\n", "\r\n", "\n", WhichOccurrence::Every).unwrap(),
            "a\nb\n"
        );
    }

    #[test]
    fn what_is_not_there_is_absent() {
        assert_eq!(
            locate("abc", "abd", "x", WhichOccurrence::Only),
            Err(NotLocated::Absent)
        );
        assert_eq!(
            locate("", "x", "y", WhichOccurrence::Only),
            Err(NotLocated::Absent)
        );
    }
}
