//! The headings of a text.

/// A heading, and where it is in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// From 1 to 6.
    pub level: u8,
    /// Its words.
    pub text: String,
    /// How many characters come before it.
    pub offset: usize,
}

/// The longest heading that is listed whole.
const MAX_HEADING: usize = 200;

impl Heading {
    /// A heading that begins at a byte of the text; `offset` is made characters later.
    pub(crate) fn at_byte(level: u8, text: &str, byte: usize) -> Self {
        Self {
            level,
            text: text.chars().take(MAX_HEADING).collect(),
            offset: byte,
        }
    }
}

/// The headings of a text that is Markdown already, with bytes as offsets.
pub(crate) fn of_markdown(text: &str) -> Vec<Heading> {
    let (mut headings, mut byte, mut fence) = (Vec::new(), 0, None);
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let words = start.trim_start_matches('#');
                let level = start.len() - words.len();
                if let (1..=6, true) = (level, words.starts_with([' ', '\t'])) {
                    let words = words.trim().trim_end_matches('#').trim_end();
                    headings.push(Heading::at_byte(level.try_into().unwrap_or(6), words, byte));
                }
            }
        }
        if headings.len() >= crate::MAX_HEADINGS {
            break;
        }
        byte += line.len();
    }
    headings
}

/// Makes the offsets of headings, which are in order, characters instead of bytes.
pub(crate) fn in_characters(text: &str, headings: &mut [Heading]) {
    let (mut byte, mut characters) = (0, 0);
    for heading in headings {
        let between = text.get(byte..heading.offset).unwrap_or_default();
        characters += between.chars().count();
        byte = heading.offset.max(byte);
        heading.offset = characters;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_of_markdown_are_found_outside_code() {
        let text = "# Ä\n\n```sh\n# no heading\n```\n## b ##\n#tag\n";
        let mut headings = of_markdown(text);
        in_characters(text, &mut headings);
        let found: Vec<(u8, &str, usize)> = headings
            .iter()
            .map(|heading| (heading.level, heading.text.as_str(), heading.offset))
            .collect();
        assert_eq!(found, [(1, "Ä", 0), (2, "b", 28)]);
    }
}
