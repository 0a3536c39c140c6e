//! From rows to columns: a gap that goes down through many rows, with prose on both of its sides, parts
//! two columns, which are read one after the other. Cells of tables stay beside each other.

use super::rows::{RowPart, TextRow};

/// How often columns are parted again.
const MAX_PARTINGS: usize = 5;

/// The narrowest gap between columns, in sizes.
const GUTTER: f64 = 0.5;

/// How many rows without a gap end the search for one.
const PATIENCE: usize = 3;

/// How wide the usual line of a column is, in sizes. Those of tables are narrower.
const PROSE_WIDTH: f64 = 10.0;

/// The fewest rows on each side.
const MIN_ROWS: usize = 2;

/// Rows in the order of reading; those of a stretch belong together.
pub(super) fn stretches(rows: Vec<TextRow>) -> Vec<Vec<TextRow>> {
    let mut found = Vec::new();
    part(rows, 0, &mut found);
    found
}

fn part(rows: Vec<TextRow>, depth: usize, found: &mut Vec<Vec<TextRow>>) {
    if depth >= MAX_PARTINGS {
        found.push(rows);
        return;
    }
    let gutter_width = GUTTER * usual_size(&rows);
    let mut rest = rows.as_slice();
    let mut plain: Vec<TextRow> = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        let (count, gutters) = band(rest, gutter_width);
        let (rows, below) = rest.split_at(count);
        if gutters.is_empty() {
            plain.push(first.clone());
            rest = after;
            continue;
        }
        rest = below;
        let Some(gutter) = gutters.iter().find(|gutter| parts_prose(rows, gutter)) else {
            plain.extend_from_slice(rows);
            continue;
        };
        if !plain.is_empty() {
            found.push(std::mem::take(&mut plain));
        }
        let (left, right) = split(rows, gutter);
        let is_leftward = is_leftward(&left) && is_leftward(&right);
        let (first, second) = if is_leftward {
            (right, left)
        } else {
            (left, right)
        };
        part(first, depth + 1, found);
        part(second, depth + 1, found);
    }
    if !plain.is_empty() {
        found.push(plain);
    }
}

/// A stretch of a line where nothing stands.
#[derive(Debug, Clone, Copy)]
struct FreeSpan {
    left: f64,
    right: f64,
}

impl FreeSpan {
    fn is_inside(&self) -> bool {
        self.left.is_finite() && self.right.is_finite()
    }

    fn width(&self) -> f64 {
        self.right - self.left
    }
}

/// How many of the first rows have a gap in common, and these gaps, the widest first.
fn band(rows: &[TextRow], gutter_width: f64) -> (usize, Vec<FreeSpan>) {
    let mut free = vec![FreeSpan {
        left: f64::NEG_INFINITY,
        right: f64::INFINITY,
    }];
    let (mut count, mut gutters): (usize, Vec<FreeSpan>) = (0, Vec::new());
    for row in rows {
        free = without(&free, &row.parts, gutter_width);
        let inside: Vec<FreeSpan> = free.iter().copied().filter(FreeSpan::is_inside).collect();
        if inside.is_empty() && (!gutters.is_empty() || count >= PATIENCE) {
            break;
        }
        gutters = inside;
        count += 1;
    }
    gutters.sort_by(|one, other| other.width().total_cmp(&one.width()));
    (count.max(1), gutters)
}

/// What is free of other spans where parts stand; both are in order.
fn without(free: &[FreeSpan], parts: &[RowPart], gutter_width: f64) -> Vec<FreeSpan> {
    let (mut left_over, mut parts) = (Vec::new(), parts.iter().peekable());
    for span in free {
        let mut left = span.left;
        while let Some(part) = parts.peek() {
            if part.left >= span.right {
                break;
            }
            let before = FreeSpan {
                left,
                right: part.left.min(span.right),
            };
            if before.width() >= gutter_width {
                left_over.push(before);
            }
            left = left.max(part.right);
            if part.right > span.right {
                // It may stand in the next one, too.
                break;
            }
            parts.next();
        }
        let rest = FreeSpan {
            left,
            right: span.right,
        };
        if rest.width() >= gutter_width {
            left_over.push(rest);
        }
    }
    left_over
}

/// Whether what stands on both sides of a gap is prose.
fn parts_prose(rows: &[TextRow], gutter: &FreeSpan) -> bool {
    let (left, right) = split(rows, gutter);
    [left, right].iter().all(|side| {
        let mut widths: Vec<f64> = side.iter().map(width_of).collect();
        widths.sort_by(f64::total_cmp);
        let usual = widths.get(widths.len() / 2).copied().unwrap_or(0.0);
        side.len() >= MIN_ROWS && usual >= PROSE_WIDTH * usual_size(side)
    })
}

fn width_of(row: &TextRow) -> f64 {
    let left = row.parts.first().map_or(0.0, |part| part.left);
    let right = row.parts.last().map_or(0.0, |part| part.right);
    right - left
}

fn split(rows: &[TextRow], gutter: &FreeSpan) -> (Vec<TextRow>, Vec<TextRow>) {
    let side = |is_on_side: &dyn Fn(&RowPart) -> bool| {
        let rows = rows.iter().map(|row| TextRow {
            height: row.height,
            parts: row
                .parts
                .iter()
                .filter(|part| is_on_side(part))
                .cloned()
                .collect(),
        });
        rows.filter(|row| !row.parts.is_empty()).collect()
    };
    let middle = f64::midpoint(gutter.left, gutter.right);
    (
        side(&|part| part.left < middle),
        side(&|part| part.left >= middle),
    )
}

/// The size of most parts.
pub(super) fn usual_size(rows: &[TextRow]) -> f64 {
    let mut sizes: Vec<f64> = rows
        .iter()
        .flat_map(|row| &row.parts)
        .map(|part| part.size)
        .collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(1.0)
}

fn is_leftward(rows: &[TextRow]) -> bool {
    let parts = rows.iter().flat_map(|row| &row.parts);
    let (leftward, rightward): (Vec<_>, Vec<_>) = parts.partition(|part| part.is_leftward);
    leftward.len() > rightward.len()
}
