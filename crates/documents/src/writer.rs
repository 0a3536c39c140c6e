//! The text as it is written: blocks with one empty line between them, what stands before each line in
//! quotations and lists, and an end when there is too much.

use crate::{Cut, Heading, MAX_HEADINGS, MAX_TEXT_BYTES};

/// The most levels of quotations and lists that are shown; deeper ones stand at the last.
const MAX_INDENTS: usize = 16;

/// What is written so far.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) text: String,
    pub(crate) headings: Vec<Heading>,
    /// What stands before each line, and before the next line only.
    prefixes: Vec<(String, Option<String>)>,
    /// How many were not taken because there were too many.
    ignored: usize,
    /// What stands before the next block, if not what it asks for.
    next_gap: Option<Gap>,
    is_full: bool,
}

/// What stands before a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The end of the line before.
    Line,
    /// An empty line.
    EmptyLine,
}

impl Writer {
    /// Writes a block: lines of text, after an empty line.
    pub(crate) fn block(&mut self, lines: &str) {
        if lines.trim().is_empty() {
            return;
        }
        self.open();
        self.lines(lines);
    }

    /// Writes a heading.
    pub(crate) fn heading(&mut self, level: u8, words: &str, mark: &str) {
        if words.is_empty() || self.is_full {
            return;
        }
        self.open();
        if self.headings.len() < MAX_HEADINGS {
            let heading = Heading::at_byte(level, words, self.text.len());
            self.headings.push(heading);
        }
        self.lines(&format!("{mark}{words}"));
    }

    /// Everything until the matching [`Writer::outdent`] stands behind this on each line, the first
    /// line behind `first`.
    pub(crate) fn indent(&mut self, first: &str, each: &str) {
        if self.prefixes.len() >= MAX_INDENTS {
            self.ignored += 1;
            return;
        }
        self.prefixes
            .push((each.to_owned(), Some(first.to_owned())));
    }

    pub(crate) fn outdent(&mut self) {
        if self.ignored > 0 {
            self.ignored -= 1;
            return;
        }
        // An item without content leaves no mark.
        self.prefixes.pop();
    }

    /// Whether there is room for more.
    pub(crate) fn has_room(&self) -> bool {
        !self.is_full
    }

    /// What stands before the next block, whatever it asks for.
    pub(crate) fn next_gap(&mut self, gap: Gap) {
        self.next_gap = Some(gap);
    }

    /// The next block stands where it asks to.
    pub(crate) fn clear_gap(&mut self) {
        self.next_gap = None;
    }

    /// What was left out.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.is_full.then_some(Cut::Text)
    }

    /// Ends the text with exactly one line break.
    pub(crate) fn finish(&mut self) {
        let end = self.text.trim_end().len();
        self.text.truncate(end);
        if !self.text.is_empty() {
            self.text.push('\n');
        }
    }

    fn lines(&mut self, lines: &str) {
        for (number, line) in lines.trim_matches('\n').split('\n').enumerate() {
            if self.text.len() + line.len() > MAX_TEXT_BYTES {
                self.is_full = true;
            }
            if self.is_full {
                return;
            }
            if number > 0 {
                self.text.push('\n');
            }
            let start = self.text.len();
            for (each, first) in &mut self.prefixes {
                match first.take() {
                    Some(first) => self.text.push_str(&first),
                    None => self.text.push_str(each),
                }
            }
            self.text.push_str(line.trim_end_matches('\r'));
            if line.is_empty() {
                let end = self.text.trim_end_matches(' ').len().max(start);
                self.text.truncate(end);
            }
        }
    }

    /// Ends the last line, with an empty one unless the next block stands directly below.
    fn open(&mut self) {
        let gap = self.next_gap.take().unwrap_or(Gap::EmptyLine);
        if self.text.is_empty() || self.is_full {
            return;
        }
        self.text.push('\n');
        if gap == Gap::Line {
            return;
        }
        // Within a quotation the empty line belongs to it.
        let within = self
            .prefixes
            .iter()
            .take_while(|(_, first)| first.is_none());
        let quotes: String = within.map(|(each, _)| each.as_str()).collect();
        self.text.push_str(quotes.trim_end());
        self.text.push('\n');
    }
}
