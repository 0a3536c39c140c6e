//! Lines that fit the terminal: columns side by side, the widest of them cut where a word ends, and marked
//! where it is.

use rustix::termios::tcgetwinsize;

use crate::terminal::{Page, Style, columns, sanitise};

/// The narrowest screen that lines are fitted to.
const MIN_WIDTH: usize = 60;

/// The fewest columns that the rest of a line gets if others can give way, and that any column keeps.
const MIN_REST: usize = 16;
const MIN_COLUMN: usize = 6;

/// The mark of a cut.
const CUT: char = '…';

/// What is between two columns.
const GAP: &str = "  ";

/// One cell of a line.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    pub(crate) style: Style,
    pub(crate) text: String,
}

impl Cell {
    /// Text that is somebody's, made harmless.
    pub(crate) fn new(style: Style, text: impl AsRef<str>) -> Self {
        Self {
            style,
            text: sanitise::inline(text.as_ref()),
        }
    }
}

/// How a column is fitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// As wide as its widest cell.
    Whole,
    /// At most so wide; the end is cut.
    AtMost(usize),
    /// At most so wide; the beginning is cut, as of a path.
    EndOf(usize),
    /// Whatever is left of the line.
    Rest,
}

/// Lines of cells, fitted to a width. Without one, nothing is cut.
pub(crate) fn table(fits: &[Fit], lines: &[Vec<Cell>], width: Option<usize>) -> Page {
    let widths = widths(fits, lines, width);
    let mut page = Page::new();
    for line in lines {
        let last = line.len().saturating_sub(1);
        for (number, cell) in line.iter().enumerate() {
            let fit = fits.get(number).copied().unwrap_or(Fit::Whole);
            let width = widths.get(number).copied().unwrap_or(usize::MAX);
            let text = match fit {
                Fit::EndOf(_) => cut_beginning(&cell.text, width),
                Fit::Whole | Fit::AtMost(_) | Fit::Rest => cut_end(&cell.text, width),
            };
            let padding = if number == last || width == usize::MAX {
                0
            } else {
                width.saturating_sub(length(&text))
            };
            page = page.styled(cell.style, text);
            if number != last {
                page = page.text(format!("{}{GAP}", " ".repeat(padding)));
            }
        }
        page = page.end();
    }
    page
}

/// The width of standard output, if it is a terminal.
pub(crate) fn screen_width() -> Option<usize> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col).max(MIN_WIDTH))
}

fn widths(fits: &[Fit], lines: &[Vec<Cell>], width: Option<usize>) -> Vec<usize> {
    let widest = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| length(&cell.text)).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = fits
        .iter()
        .enumerate()
        .map(|(column, fit)| match (fit, width) {
            (Fit::AtMost(most) | Fit::EndOf(most), Some(_)) => widest(column).min(*most),
            _ => widest(column),
        })
        .collect();
    if let Some(width) = width {
        let rest = fits.iter().position(|fit| *fit == Fit::Rest);
        let gaps = GAP.len() * fits.len().saturating_sub(1);
        let others: usize = widths
            .iter()
            .enumerate()
            .filter(|(column, _)| Some(*column) != rest)
            .map(|(_, width)| *width)
            .sum();
        // Where the line is short, paths and names give way before what happened does.
        let wanted = rest.and_then(|rest| widths.get(rest)).copied().unwrap_or(0);
        let mut too_wide = (others + gaps + wanted.min(MIN_REST)).saturating_sub(width);
        let mut given = 0;
        for (fit, place) in fits.iter().zip(&mut widths).rev() {
            if matches!(fit, Fit::AtMost(_) | Fit::EndOf(_)) {
                let spare = place.saturating_sub(MIN_COLUMN).min(too_wide);
                *place -= spare;
                too_wide -= spare;
                given += spare;
            }
        }
        let left = width.saturating_sub(others - given + gaps);
        if let Some(place) = rest.and_then(|rest| widths.get_mut(rest)) {
            *place = (*place).min(left.max(MIN_COLUMN));
        }
    }
    widths
}

/// A text that takes at most so many columns: cut after a word if one ends in its second half.
pub(crate) fn cut_end(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut used = 0;
    let mut kept = String::new();
    for c in text.chars() {
        used += columns(c);
        if used >= width {
            break;
        }
        kept.push(c);
    }
    let begun = text.chars().nth(kept.chars().count());
    let word = kept.rfind(' ').filter(|_| begun != Some(' '));
    if let Some(end) = word.filter(|end| end * 2 >= kept.len()) {
        kept.truncate(end);
    }
    let mut kept = kept.trim_end().to_owned();
    kept.push(CUT);
    kept
}

/// The end of a text that takes at most so many columns.
pub(crate) fn cut_beginning(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut used = 1;
    let mut kept: Vec<char> = Vec::new();
    for c in text.chars().rev() {
        used += columns(c);
        if used > width {
            break;
        }
        kept.push(c);
    }
    kept.push(CUT);
    kept.into_iter().rev().collect()
}

fn length(text: &str) -> usize {
    text.chars().map(columns).sum()
}

#[cfg(test)]
mod tests {
    use crate::terminal::Colours;

    use super::*;

    #[test]
    fn a_cut_is_marked_and_falls_between_words() {
        for (text, width, cut) in [
            ("cargo test", 10, "cargo test"),
            ("cargo test --all", 12, "cargo test…"),
            ("cargo test --all", 10, "cargo…"),
            ("git commit -m 'a long message'", 20, "git commit -m 'a…"),
            ("/a/very/long/path/without/spaces", 12, "/a/very/lon…"),
            ("x averyveryverylongword", 10, "x averyve…"),
            ("你好你好你好", 7, "你好你…"),
        ] {
            assert_eq!(cut_end(text, width), cut, "{text}");
            assert!(length(&cut_end(text, width)) <= width, "{text}");
        }
        assert_eq!(cut_beginning("~/work/haft/demo", 10), "…haft/demo");
        assert_eq!(cut_beginning("~/demo", 10), "~/demo");
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let line = |what: &str, agent: &str| {
            vec![
                Cell::new(Style::Strong, "0193aaaa-bbbb"),
                Cell::new(Style::Plain, what),
                Cell::new(Style::Dim, agent),
            ]
        };
        let fits = [Fit::Whole, Fit::Rest, Fit::AtMost(12)];
        let lines = [
            line("ls", "cli"),
            line(&"word ".repeat(40), "an-agent-with-a-long-name"),
            line("\u{1b}[2J hostile", "x"),
        ];
        let narrow = table(&fits, &lines, Some(60)).render(Colours::Off);
        for line in narrow.lines() {
            assert!(length(line) <= 60, "{line:?}");
        }
        assert!(narrow.contains("word word…"), "{narrow}");
        let wide = table(&fits, &lines, None).render(Colours::Off);
        assert!(
            wide.contains(&"word ".repeat(39)) && !wide.contains(CUT),
            "{wide}"
        );
        assert!(!wide.contains('\u{1b}'));
    }
}
