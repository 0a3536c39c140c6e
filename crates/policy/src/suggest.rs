//! The nearest known word to an unknown one, for hints.

/// The largest edit distance of a suggestion.
const MAX_DISTANCE: usize = 3;

/// The known word nearest to `written`, if one is near.
pub(crate) fn nearest<'k>(
    written: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    known
        .into_iter()
        .map(|word| {
            let (a, b) = (written.to_ascii_lowercase(), word.to_ascii_lowercase());
            (distance(&a, &b), word)
        })
        .filter(|(distance, word)| *distance <= MAX_DISTANCE && *distance < word.len())
        .min()
        .map(|(_, word)| word)
}

/// Levenshtein distance by two rows; the words are configuration keys and tool names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for ((y, above), diagonal) in b.iter().zip(row.iter().skip(1)).zip(row.iter()) {
            let left = next.last().copied().unwrap_or(usize::MAX - 1);
            let change = diagonal + usize::from(x != *y);
            next.push(change.min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_a_far_one_is_not() {
        let known = ["allow", "ask", "deny", "preset"];
        assert_eq!(nearest("alow", known), Some("allow"));
        assert_eq!(nearest("Deny", known), Some("deny"));
        assert_eq!(nearest("elephants", known), None);
    }
}
