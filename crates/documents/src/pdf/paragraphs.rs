//! From rows to paragraphs: a line that is full goes on in the next one, any other ends where it ends.

use super::{
    columns,
    rows::{self, TextRow},
};

/// The gap that shows that something else stands behind it, in sizes.
const CELL_GAP: f64 = 1.8;

/// How much farther than usual the next line is, if something else begins there.
const FARTHER: f64 = 1.3;

/// The farthest that lines of one paragraph are apart, in sizes.
const FARTHEST: f64 = 3.0;

/// How much larger the writing is, if something else begins there.
const LARGER: f64 = 1.15;

/// How far from the edge, in sizes, a line begins that begins a paragraph.
const INDENT: f64 = 0.9;

/// Lines that belong together.
#[derive(Debug, PartialEq)]
pub(super) struct TextBlock {
    pub(super) text: String,
    pub(super) size: f64,
    pub(super) rows: usize,
}

/// How much of the width is a paragraph's, so that its own longest line is a full one.
const WIDE: f64 = 0.6;

/// The paragraphs of rows that stand below each other.
pub(super) fn of(rows: &[TextRow]) -> Vec<TextBlock> {
    let lines: Vec<LaidLine> = rows.iter().map(LaidLine::of).collect();
    let (usual, edges) = (usual_step(&lines), edges(&lines));
    let mut blocks = Vec::new();
    let mut group: Vec<LaidLine> = Vec::new();
    for line in lines {
        if let Some(last) = group.last()
            && is_apart(last, &line, usual)
        {
            join(&std::mem::take(&mut group), edges, &mut blocks);
        }
        group.push(line);
    }
    join(&group, edges, &mut blocks);
    blocks
}

/// A row as one text.
struct LaidLine {
    text: String,
    height: f64,
    left: f64,
    right: f64,
    size: f64,
    first_word: f64,
    /// Whether it has cells.
    is_tabular: bool,
    is_leftward: bool,
}

impl LaidLine {
    fn of(row: &TextRow) -> Self {
        let mut parts: Vec<&rows::RowPart> = row.parts.iter().collect();
        let leftward = parts.iter().filter(|part| part.is_leftward).count();
        let is_leftward = leftward * 2 > parts.len();
        let left = parts.first().map_or(0.0, |part| part.left);
        let right = parts.iter().map(|part| part.right).fold(left, f64::max);
        if is_leftward {
            parts.reverse();
        }
        let (mut text, mut is_tabular) = (String::new(), false);
        let mut before: Option<&rows::RowPart> = None;
        for part in &parts {
            if let Some(before) = before {
                let gap = (part.left - before.right).max(before.left - part.right);
                let is_wide = gap > CELL_GAP * part.size.max(before.size);
                text.push_str(if is_wide { "   " } else { " " });
                is_tabular |= is_wide;
            }
            text.push_str(&part.text);
            before = Some(part);
        }
        Self {
            text,
            height: row.height,
            left,
            right,
            size: columns::usual_size(std::slice::from_ref(row)),
            first_word: parts.first().map_or(0.0, |part| part.first_word),
            is_tabular,
            is_leftward,
        }
    }
}

/// How far lines of one paragraph are apart: less than most others, since many may stand alone.
fn usual_step(lines: &[LaidLine]) -> f64 {
    let pairs = lines.iter().zip(lines.iter().skip(1));
    let mut steps: Vec<f64> = pairs.map(|(one, next)| one.height - next.height).collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 4).copied().unwrap_or(0.0)
}

/// How far to the left and to the right lines go.
fn edges(lines: &[LaidLine]) -> (f64, f64) {
    let nowhere = (f64::INFINITY, f64::NEG_INFINITY);
    lines.iter().fold(nowhere, |(left, right), line| {
        (left.min(line.left), right.max(line.right))
    })
}

fn is_apart(one: &LaidLine, next: &LaidLine, usual: f64) -> bool {
    let step = one.height - next.height;
    let size = one.size.max(next.size);
    let is_larger = size > LARGER * one.size.min(next.size);
    is_larger || step > FARTHEST * size || (step > FARTHER * usual && step > 1.4 * size)
}

/// Makes lines that stand close together paragraphs.
fn join(lines: &[LaidLine], around: (f64, f64), blocks: &mut Vec<TextBlock>) {
    let Some(first) = lines.first() else {
        return;
    };
    let own = edges(lines);
    let is_wide = own.1 - own.0 > WIDE * (around.1 - around.0);
    let (left, right) = if is_wide { own } else { around };
    let mut block = TextBlock {
        text: first.text.clone(),
        size: first.size,
        rows: 1,
    };
    for (one, next) in lines.iter().zip(lines.iter().skip(1)) {
        let is_full = is_full(one, next, left, right);
        let is_indented = next.left > left + INDENT * next.size && !next.is_leftward;
        let begins = is_indented && one.left < left + INDENT * one.size && !one.is_leftward;
        if is_full && begins {
            let next = TextBlock {
                text: next.text.clone(),
                size: next.size,
                rows: 1,
            };
            blocks.push(std::mem::replace(&mut block, next));
            continue;
        }
        block.rows += 1;
        if is_full {
            go_on(&mut block.text, &next.text);
        } else {
            block.text.push('\n');
            block.text.push_str(&next.text);
        }
    }
    blocks.push(block);
}

/// Whether the first word of the next line would not have had room in this one.
fn is_full(one: &LaidLine, next: &LaidLine, left: f64, right: f64) -> bool {
    let begins_item = next.text.starts_with(['•', '▪', '◦', '–', '‣', '■', '●']);
    let is_listed = |line: &LaidLine| line.is_tabular || line.text.contains("....");
    if is_listed(one) || is_listed(next) || begins_item {
        return false;
    }
    let needed = next.first_word + 0.25 * one.size;
    if one.is_leftward {
        one.left - needed < left + 0.5 * one.size
    } else {
        one.right + needed > right - 0.5 * one.size
    }
}

/// Appends the next line of a paragraph. A word that was divided is one again.
fn go_on(text: &mut String, next: &str) {
    let end: Vec<char> = text.chars().rev().take(3).collect();
    let begin = next.chars().next().unwrap_or(' ');
    match end[..] {
        ['-' | '\u{2010}', before, earlier]
            if before.is_lowercase() && earlier.is_alphabetic() && begin.is_lowercase() =>
        {
            text.pop();
        }
        ['\u{ad}', ..] => {
            text.pop();
        }
        [last, ..] => {
            let is_wide = |c: char| rows::is_ideographic(c.encode_utf8(&mut [0; 4]));
            if !(is_wide(last) && is_wide(begin)) {
                text.push(' ');
            }
        }
        [] => {}
    }
    text.push_str(next);
}
