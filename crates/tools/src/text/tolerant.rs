//! Finds text that differs from the wanted text only in blanks, quotes or dashes.
//!
//! Models retype what they read: tabs become spaces, curly quotes become straight, trailing blanks
//! vanish. This module *locates* such a place. It never spreads the model's spelling: what the old
//! and new text have in common keeps the file's bytes.

use std::{collections::BTreeMap, ops::Range, time::Duration};

use memchr::memmem;
use similar::{Algorithm, DiffOp};

use super::encoding::with_line_end;

/// Larger texts are searched only exactly: folding takes eight bytes per byte.
pub(crate) const MAX_TOLERANT_BYTES: usize = 4 * 1024 * 1024;

/// Longer edits are replaced as a whole instead of token by token.
const MAX_ALIGNED_BYTES: usize = 256 * 1024;

const ALIGN_TIME: Duration = Duration::from_millis(200);

/// A text folded for comparison, and where each folded byte came from.
pub(crate) struct FoldedText {
    text: String,
    spans: Vec<(u32, u32)>,
}

/// A place in a text that reads like the wanted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TolerantMatch {
    /// The bytes of the text it covers.
    pub(crate) range: Range<usize>,
    /// Where it starts in the folded text.
    folded_start: usize,
}

/// Which tokens of an old and a new text correspond. Computed once, used at every place.
pub(crate) struct Alignment<'a> {
    new: &'a str,
    /// The line ending for new lines.
    ending: &'a str,
    /// `None` if the texts are too long.
    tokens: Option<Tokens<'a>>,
}

struct Tokens<'a> {
    old: Vec<&'a str>,
    new: Vec<&'a str>,
    folded_old: FoldedText,
    ops: Vec<DiffOp>,
}

impl<'a> Alignment<'a> {
    /// Aligns an old and a new text, within [`ALIGN_TIME`].
    pub(crate) fn new(old: &'a str, new: &'a str, ending: &'a str) -> Self {
        let tokens = (old.len() + new.len() <= MAX_ALIGNED_BYTES).then(|| {
            let (old_tokens, new_tokens) = (tokens(old), tokens(new));
            let deadline = std::time::Instant::now() + ALIGN_TIME;
            Tokens {
                ops: similar::capture_diff_slices_deadline(
                    Algorithm::Myers,
                    &old_tokens,
                    &new_tokens,
                    Some(deadline),
                ),
                folded_old: fold(old),
                old: old_tokens,
                new: new_tokens,
            }
        });
        Self {
            new,
            ending,
            tokens,
        }
    }
}

impl FoldedText {
    /// Folds a text of at most [`MAX_TOLERANT_BYTES`].
    pub(crate) fn new(text: &str) -> Option<Self> {
        (text.len() <= MAX_TOLERANT_BYTES).then(|| fold(text))
    }

    /// Every place that reads like `wanted`, at most `limit`, without overlaps.
    pub(crate) fn find(&self, text: &str, wanted: &str, limit: usize) -> Vec<TolerantMatch> {
        let folded_wanted = fold(wanted);
        if folded_wanted.text.trim().is_empty() {
            return Vec::new();
        }
        memmem::find_iter(self.text.as_bytes(), folded_wanted.text.as_bytes())
            .filter_map(|start| {
                let end = start + folded_wanted.text.len();
                let mut range = self.span(start)?.start..self.span(end.checked_sub(1)?)?.end;
                if wanted.starts_with(is_blank) {
                    range.start = text.get(..range.start)?.trim_end_matches(is_blank).len();
                }
                if wanted.ends_with(is_blank) {
                    let rest = text.get(range.end..)?;
                    range.end += rest.len() - rest.trim_start_matches(is_blank).len();
                }
                Some(TolerantMatch {
                    range,
                    folded_start: start,
                })
            })
            .take(limit)
            .collect()
    }

    /// The changed text of a match: common parts keep the text's spelling, the rest uses the new
    /// text's.
    pub(crate) fn rewrite(
        &self,
        text: &str,
        found: &TolerantMatch,
        alignment: &Alignment<'_>,
    ) -> String {
        self.rewrite_aligned(text, found, alignment)
            .unwrap_or_else(|| with_line_end(alignment.new, alignment.ending).into_owned())
    }

    fn span(&self, folded: usize) -> Option<Range<usize>> {
        let (start, end) = *self.spans.get(folded)?;
        Some(start as usize..end as usize)
    }

    fn rewrite_aligned(
        &self,
        text: &str,
        found: &TolerantMatch,
        alignment: &Alignment<'_>,
    ) -> Option<String> {
        let Alignment { new, ending, .. } = *alignment;
        let Tokens {
            old,
            new: new_tokens,
            folded_old,
            ops,
        } = alignment.tokens.as_ref()?;
        let places = self.places(found, folded_old, old)?;
        let indents = indents(text, old, &places);
        let mut out = String::with_capacity(new.len());
        for op in ops {
            match *op {
                DiffOp::Equal { old_index, len, .. } => {
                    let kept = places.get(old_index..old_index + len)?;
                    out.push_str(text.get(kept.first()?.start..kept.last()?.end)?);
                }
                DiffOp::Delete { .. } => {}
                DiffOp::Insert {
                    new_index, new_len, ..
                }
                | DiffOp::Replace {
                    new_index, new_len, ..
                } => {
                    for token in new_tokens.get(new_index..new_index + new_len)? {
                        push_new(&mut out, token, &indents, ending);
                    }
                }
            }
        }
        Some(out)
    }

    /// Where each token of `old` is in the text. Together the places cover the match.
    fn places(
        &self,
        found: &TolerantMatch,
        folded_old: &Self,
        tokens: &[&str],
    ) -> Option<Vec<Range<usize>>> {
        let mut folded = 0;
        let mut offset = 0;
        let mut solid: Vec<Option<Range<usize>>> = Vec::with_capacity(tokens.len());
        for token in tokens {
            let end = offset + token.len();
            let first = folded;
            while folded_old.span(folded).is_some_and(|span| span.end <= end) {
                folded += 1;
            }
            solid.push(if token.starts_with(char::is_whitespace) {
                None
            } else {
                let start = self.span(found.folded_start + first)?.start;
                let last = folded.checked_sub(1)?;
                Some(start..self.span(found.folded_start + last)?.end)
            });
            offset = end;
        }
        // Blanks take everything between their neighbours.
        let mut places = Vec::with_capacity(solid.len());
        let mut position = found.range.start;
        let mut rest = solid.iter();
        while let Some(place) = rest.next() {
            let place = if let Some(place) = place {
                place.clone()
            } else {
                let next = rest.clone().flatten().next();
                position..next.map_or(found.range.end, |next| next.start)
            };
            position = place.end;
            places.push(place);
        }
        Some(places)
    }
}

/// A blank other than a line ending.
fn is_blank(c: char) -> bool {
    c.is_whitespace() && c != '\n' && c != '\r'
}

fn fold(text: &str) -> FoldedText {
    let mut folded = FoldedText {
        text: String::with_capacity(text.len()),
        spans: Vec::with_capacity(text.len()),
    };
    let mut characters = text.char_indices().peekable();
    while let Some((start, c)) = characters.next() {
        if !c.is_whitespace() {
            folded.push(plain_character(c), start, start + c.len_utf8());
            continue;
        }
        // In a run of blanks, line endings count; other blanks fold to one blank inside a line and
        // to nothing at either end of one.
        let mut end = start + c.len_utf8();
        let mut newlines = Vec::new();
        if c == '\n' {
            newlines.push((start, end));
        }
        let mut previous = c;
        while let Some((at, next)) = characters.next_if(|(_, next)| next.is_whitespace()) {
            end = at + next.len_utf8();
            if next == '\n' {
                newlines.push((if previous == '\r' { at - 1 } else { at }, end));
            }
            previous = next;
        }
        if newlines.is_empty() {
            if start > 0 && end < text.len() {
                folded.push(' ', start, end);
            }
        } else {
            for (newline_start, newline_end) in newlines {
                folded.push('\n', newline_start, newline_end);
            }
        }
    }
    folded
}

impl FoldedText {
    fn push(&mut self, c: char, start: usize, end: usize) {
        // Texts are at most MAX_TOLERANT_BYTES, edits at most a request; both fit.
        let span = (
            u32::try_from(start).unwrap_or(u32::MAX),
            u32::try_from(end).unwrap_or(u32::MAX),
        );
        self.text.push(c);
        self.spans.extend(std::iter::repeat_n(span, c.len_utf8()));
    }
}

/// The plain form of typographic quotes and dashes.
pub(crate) fn plain_character(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' | '\u{201a}' | '\u{201b}' | '\u{2032}' => '\'',
        '\u{201c}' | '\u{201d}' | '\u{201e}' | '\u{201f}' | '\u{2033}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        other => other,
    }
}

/// Words, runs of blanks, and single other characters.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_whitespace() {
            rest.find(|c: char| !c.is_whitespace())
        } else if is_word(first) {
            rest.find(|c: char| !is_word(c))
        } else {
            Some(first.len_utf8())
        };
        let (token, after) = rest.split_at(length.unwrap_or(rest.len()));
        tokens.push(token);
        rest = after;
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Maps the model's indents to the text's indents.
fn indents<'t, 'o>(
    text: &'t str,
    old_tokens: &[&'o str],
    places: &[Range<usize>],
) -> BTreeMap<&'o str, &'t str> {
    let mut indents = BTreeMap::new();
    for (token, place) in old_tokens.iter().zip(places) {
        if let Some((_, asked)) = token.rsplit_once('\n')
            && let Some((_, has)) = text.get(place.clone()).and_then(|t| t.rsplit_once('\n'))
        {
            indents.insert(asked, has);
        }
    }
    indents
}

/// Adds a token of the new text, with the text's own indent and line ending where known.
fn push_new(out: &mut String, token: &str, indents: &BTreeMap<&str, &str>, ending: &str) {
    if token.starts_with(char::is_whitespace)
        && let Some((lines, asked)) = token.rsplit_once('\n')
        && let Some(has) = indents.get(asked)
    {
        out.push_str(&with_line_end(lines, ending));
        out.push_str(ending);
        out.push_str(has);
    } else {
        out.push_str(&with_line_end(token, ending));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::encoding::line_end, *};

    fn check(text: &str, old: &str, new: &str, expect: &str) {
        let folded = FoldedText::new(text).unwrap();
        let found = folded.find(text, old, 2);
        let [only] = found.as_slice() else {
            panic!("{} matches for {old:?}", found.len());
        };
        let alignment = Alignment::new(old, new, line_end(text));
        let replaced = folded.rewrite(text, only, &alignment);
        let mut result = text.to_owned();
        result.replace_range(only.range.clone(), &replaced);
        assert_eq!(result, expect);
    }

    #[test]
    fn quotes_and_dashes_keep_their_spelling() {
        check(
            "say \u{201c}hi\u{201d} \u{2014} loudly // note",
            "\"hi\" - loudly // note",
            "\"hi\" - loudly // NOTE",
            "say \u{201c}hi\u{201d} \u{2014} loudly // NOTE",
        );
    }

    #[test]
    fn indentation_keeps_its_spelling_and_new_lines_follow_it() {
        check(
            "fn f() {\n\tone();\n\ttwo();\n}\n",
            "    one();\n    two();\n",
            "    one();\n    and();\n    two();\n",
            "fn f() {\n\tone();\n\tand();\n\ttwo();\n}\n",
        );
    }

    #[test]
    fn trailing_blanks_of_untouched_lines_stay() {
        check(
            "a = 1;   \nb = 2;\t\nc = 3;\n",
            "a = 1;\nb = 2;\nc = 3;\n",
            "a = 1;\nb = 2;\nc = 4;\n",
            "a = 1;   \nb = 2;\t\nc = 4;\n",
        );
    }

    #[test]
    fn line_ends_do_not_matter_and_stay() {
        check("a \r\nb\r\n", "a\nb", "a\nc\nd", "a \r\nc\r\nd\r\n");
    }

    #[test]
    fn a_blank_is_not_a_line_end() {
        let folded = FoldedText::new("foo\nbar").unwrap();
        assert_eq!(folded.find("foo\nbar", "foo bar", 2), Vec::new());
    }
}
