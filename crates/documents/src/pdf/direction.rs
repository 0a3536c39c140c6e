//! Arabic and Hebrew: from the order in which signs stand on a line, from left to right, to the order in
//! which they are read.

/// Joins words as they are read, and says whether that is mostly from right to left.
pub(super) fn logical(words: &[&str]) -> (String, bool) {
    let (mut leftward, mut rightward) = (0_usize, 0_usize);
    for word in words {
        match side(word) {
            Side::Left => leftward += 1,
            // Numbers are written so among letters of either side.
            Side::Right if word.chars().any(char::is_alphabetic) => rightward += 1,
            Side::Right | Side::Neither => {}
        }
    }
    if leftward == 0 {
        return (words.concat(), false);
    }
    let is_leftward = leftward > rightward;
    let mut text = String::new();
    for (side, run) in runs(words, is_leftward) {
        if side == Side::Left {
            text.extend(run.iter().rev().copied());
        } else {
            text.extend(run.iter().copied());
        }
    }
    (text, is_leftward)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// Read from right to left.
    Left,
    Right,
    /// Whatever is around it.
    Neither,
}

fn side(word: &str) -> Side {
    let is_leftward = |c: char| {
        matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}')
            && !matches!(c, '\u{660}'..='\u{669}' | '\u{6f0}'..='\u{6f9}')
    };
    if word.chars().any(is_leftward) {
        Side::Left
    } else if word.chars().any(char::is_alphanumeric) {
        Side::Right
    } else {
        Side::Neither
    }
}

/// Runs of one side, in the order in which they are read.
fn runs<'w, 'a>(words: &'w [&'a str], is_leftward: bool) -> Vec<(Side, &'w [&'a str])> {
    let base = if is_leftward { Side::Left } else { Side::Right };
    let sides: Vec<Side> = words.iter().map(|word| side(word)).collect();
    let mut resolved = Vec::with_capacity(sides.len());
    let mut before = base;
    for (index, own) in sides.iter().enumerate() {
        if *own != Side::Neither {
            before = *own;
            resolved.push(*own);
            continue;
        }
        // What has letters of one side on both of its sides is of that side.
        let after = sides.get(index..).unwrap_or_default();
        let after = after.iter().take(32).find(|side| **side != Side::Neither);
        let is_within = after == Some(&before);
        resolved.push(if is_within { before } else { base });
    }
    let (mut runs, mut start) = (Vec::new(), 0);
    for end in 1..=words.len() {
        if resolved.get(end) != resolved.get(start) || end == words.len() {
            let side = resolved.get(start).copied().unwrap_or(base);
            runs.push((side, words.get(start..end).unwrap_or_default()));
            start = end;
        }
    }
    if is_leftward {
        runs.reverse();
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (String, bool) {
        let signs: Vec<String> = line.chars().map(String::from).collect();
        let signs: Vec<&str> = signs.iter().map(String::as_str).collect();
        logical(&signs)
    }

    #[test]
    fn lines_are_read_from_their_side() {
        assert_eq!(read("plain text 1"), ("plain text 1".to_owned(), false));
        assert_eq!(read("םלוע םולש"), ("שלום עולם".to_owned(), true));
        assert_eq!(
            read(".םולש Haft 2026 םולש"),
            ("שלום Haft 2026 שלום.".to_owned(), true)
        );
        assert_eq!(
            read("He said םולש twice."),
            ("He said שלום twice.".to_owned(), false)
        );
    }
}
