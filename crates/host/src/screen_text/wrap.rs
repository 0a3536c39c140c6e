//! Lines for a place that is only so wide. A longer line continues below, behind a margin of ours, so
//! that a place that breaks lines itself cannot put the agent's text where ours begins.

use super::{TextLine, Tone};

/// The margin of a continued line.
pub const CONTINUED: &str = "        ↳ ";

/// Splits a line into the lines it takes in this width, between words where there are any. Nothing is
/// lost: a space at the end of a line is still there. `columns` is how wide a character is.
pub fn wrap_line(line: TextLine, width: usize, columns: fn(char) -> usize) -> Vec<TextLine> {
    let margin = CONTINUED.chars().count();
    // Narrower than this is unreadable, and a margin would leave no room.
    let width = width.max(margin + 4);
    let letters = line
        .iter()
        .flat_map(|(tone, text)| text.chars().map(|c| (*tone, c)));
    let mut wrapped: Vec<Vec<(Tone, char)>> = Vec::new();
    let mut current: Vec<(Tone, char)> = Vec::new();
    let mut used = 0;
    for (tone, c) in letters {
        if used + columns(c) > width {
            let word = last_word(&current);
            // A word that fills more than half of a line is cut.
            let whole =
                word.len() < current.len() && columns_of(word, columns) * 2 <= width && c != ' ';
            let kept = if whole {
                current.len() - word.len()
            } else {
                current.len()
            };
            let rest = current.split_off(kept);
            wrapped.push(std::mem::replace(&mut current, rest));
            used = margin + columns_of(&current, columns);
        }
        used += columns(c);
        current.push((tone, c));
    }
    wrapped.push(current);
    let mut lines: Vec<TextLine> = wrapped.iter().map(|line| pieces(line)).collect();
    for line in lines.iter_mut().skip(1) {
        line.insert(0, (Tone::Dim, CONTINUED.to_owned()));
    }
    lines
}

/// The letters after the last space.
fn last_word(letters: &[(Tone, char)]) -> &[(Tone, char)] {
    let start = letters.iter().rposition(|(_, c)| *c == ' ');
    let start = start.map_or(0, |space| space + 1);
    letters.get(start..).unwrap_or_default()
}

fn columns_of(letters: &[(Tone, char)], columns: fn(char) -> usize) -> usize {
    letters.iter().map(|(_, c)| columns(*c)).sum()
}

/// Letters as pieces of one tone each.
fn pieces(letters: &[(Tone, char)]) -> TextLine {
    let mut pieces = TextLine::new();
    for (tone, c) in letters {
        match pieces.last_mut() {
            Some((last, text)) if last == tone => text.push(*c),
            Some(_) | None => pieces.push((*tone, String::from(*c))),
        }
    }
    pieces
}
