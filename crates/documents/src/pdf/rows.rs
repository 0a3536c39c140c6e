//! From signs to rows: which signs stand on one line, where words end, and where a gap is so wide that
//! something else begins behind it.

use std::collections::BTreeMap;

use super::{
    direction,
    signs::{PageSigns, PlacedSign},
};

/// The most directions of writing that are told apart on a page.
const MAX_TURNS: usize = 24;

/// How far from level, in degrees, a line is that is taken for level: pages are scanned askew.
const ASKEW: f64 = 7.0;

/// How much of the smaller of two signs is beside the other, if they stand on one line.
const SAME_ROW: f64 = 0.5;

/// The gap after which a word begins, in sizes.
const WORD_GAP: f64 = 0.17;

/// The same between signs of Chinese and Japanese, which have gaps of their own.
const WIDE_WORD_GAP: f64 = 0.6;

/// The gap after which something else begins.
const PART_GAP: f64 = 1.0;

/// How near one sign is to another that is drawn twice to look bold.
const TWICE: f64 = 0.1;

/// Signs on one line without a wide gap.
#[derive(Debug, Clone)]
pub(super) struct RowPart {
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) size: f64,
    pub(super) text: String,
    /// How wide its first word is.
    pub(super) first_word: f64,
    /// Whether it is read from right to left.
    pub(super) is_leftward: bool,
}

/// What stands on one line, from left to right. There is at least one part.
#[derive(Debug, Clone)]
pub(super) struct TextRow {
    /// Its height on the page; the first line has the largest.
    pub(super) height: f64,
    pub(super) parts: Vec<RowPart>,
}

/// A sign, turned so that its line goes to the right.
#[derive(Debug, Clone, Copy)]
struct LevelSign<'a> {
    left: f64,
    right: f64,
    height: f64,
    size: f64,
    text: &'a str,
}

impl LevelSign<'_> {
    fn is_beside(&self, other: &Self) -> bool {
        let edges = |sign: &Self| (sign.height - 0.2 * sign.size, sign.height + 0.7 * sign.size);
        let ((low, high), (other_low, other_high)) = (edges(self), edges(other));
        let common = high.min(other_high) - low.max(other_low);
        common > SAME_ROW * 0.9 * self.size.min(other.size)
    }
}

/// The rows of a page, from top to bottom, for each direction of writing; the most used one first.
pub(super) fn of(page: &PageSigns) -> Vec<Vec<TextRow>> {
    let mut turns: BTreeMap<i32, Vec<LevelSign<'_>>> = BTreeMap::new();
    for sign in &page.signs {
        let mut turn = degrees(sign.turn);
        if turns.len() >= MAX_TURNS && !turns.contains_key(&turn) {
            turn = 0;
        }
        let level = level(page, sign, turn);
        turns.entry(turn).or_default().push(level);
    }
    let mut turned: Vec<_> = turns.into_values().collect();
    turned.sort_by_key(|signs| std::cmp::Reverse(signs.len()));
    turned.into_iter().map(rows).collect()
}

/// The direction of a line in whole degrees.
fn degrees(turn: f64) -> i32 {
    let degrees = turn.to_degrees();
    let right_angles = (degrees / 90.0).round();
    let near = if (degrees - right_angles * 90.0).abs() <= ASKEW {
        right_angles * 90.0
    } else {
        (degrees / 5.0).round() * 5.0
    };
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is between -180 and 180"
    )]
    let near = near as i32;
    near.rem_euclid(360)
}

fn level<'a>(page: &'a PageSigns, sign: &PlacedSign, turn: i32) -> LevelSign<'a> {
    let (sine, cosine) = f64::from(turn).to_radians().sin_cos();
    let left = sign.x * cosine + sign.y * sine;
    LevelSign {
        left,
        right: left + sign.width,
        height: sign.y * cosine - sign.x * sine,
        size: sign.size,
        text: page.text.get(sign.start..sign.end).unwrap_or_default(),
    }
}

fn rows(mut signs: Vec<LevelSign<'_>>) -> Vec<TextRow> {
    signs.sort_by(|one, other| other.height.total_cmp(&one.height));
    // The signs of each row, and the largest of them.
    let mut rows: Vec<(LevelSign<'_>, Vec<LevelSign<'_>>)> = Vec::new();
    for sign in signs {
        let is_blank = sign.text.trim().is_empty();
        let recent = rows.iter_mut().rev().take(2);
        let mut beside = recent.filter(|(largest, _)| largest.is_beside(&sign));
        match beside.next() {
            Some((largest, row)) => {
                if sign.size > largest.size && !is_blank {
                    *largest = sign;
                }
                row.push(sign);
            }
            // Blanks alone are no row.
            None if is_blank => {}
            None => rows.push((sign, vec![sign])),
        }
    }
    let rows = rows.into_iter().map(|(largest, mut signs)| {
        signs.sort_by(|one, other| one.left.total_cmp(&other.left));
        TextRow {
            height: largest.height,
            parts: parts(&signs),
        }
    });
    let mut rows: Vec<TextRow> = rows.filter(|row| !row.parts.is_empty()).collect();
    rows.sort_by(|one, other| other.height.total_cmp(&one.height));
    rows
}

/// A part that is not complete.
#[derive(Default)]
struct OpenPart<'a> {
    words: Vec<&'a str>,
    left: f64,
    right: f64,
    size: f64,
    first_word: Option<f64>,
    last: Option<LevelSign<'a>>,
}

impl<'a> OpenPart<'a> {
    fn add(&mut self, sign: LevelSign<'a>, has_gap: bool) {
        if self.last.is_none() {
            self.left = sign.left;
        } else if has_gap {
            self.words.push(" ");
            self.first_word.get_or_insert(self.right - self.left);
        }
        self.words.push(sign.text);
        self.right = self.right.max(sign.right);
        if self.last.is_none() {
            self.right = sign.right;
        }
        self.size = self.size.max(sign.size);
        self.last = Some(sign);
    }

    fn close(self) -> Option<RowPart> {
        self.last?;
        let (text, is_leftward) = direction::logical(&self.words);
        Some(RowPart {
            left: self.left,
            right: self.right,
            size: self.size,
            text,
            first_word: self.first_word.unwrap_or(self.right - self.left),
            is_leftward,
        })
    }
}

fn parts(signs: &[LevelSign<'_>]) -> Vec<RowPart> {
    let (mut parts, mut open, mut after_blank) = (Vec::new(), OpenPart::default(), false);
    for sign in signs {
        if sign.text.trim().is_empty() {
            after_blank = true;
            continue;
        }
        let mut has_gap = false;
        if let Some(last) = open.last {
            let size = sign.size.max(last.size);
            let is_near = |one: f64, other: f64| (one - other).abs() < TWICE * size;
            if last.text == sign.text
                && is_near(last.left, sign.left)
                && is_near(last.height, sign.height)
            {
                continue;
            }
            let gap = sign.left - open.right;
            let is_wide = is_ideographic(last.text) && is_ideographic(sign.text);
            let word_gap = if is_wide { WIDE_WORD_GAP } else { WORD_GAP };
            has_gap = after_blank || gap > word_gap * size;
            if gap > PART_GAP * size {
                parts.extend(std::mem::take(&mut open).close());
            }
        }
        open.add(*sign, has_gap);
        after_blank = false;
    }
    parts.extend(open.close());
    parts
}

/// Whether a text is of Chinese or Japanese signs, which have no blanks between words.
pub(super) fn is_ideographic(text: &str) -> bool {
    text.chars().all(|c| {
        matches!(c, '\u{2e80}'..='\u{30ff}' | '\u{31f0}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
            | '\u{ff00}'..='\u{ffef}' | '\u{20000}'..='\u{3ffff}')
    })
}
