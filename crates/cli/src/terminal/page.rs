//! Text for a person, assembled from pieces that are sanitised one by one, so that all colour codes
//! are ours.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style as Ansi};
use haft_host::screen_text::{TextLine, wrap::wrap_line};
use rustix::termios::tcgetwinsize;

use super::sanitise;

/// How a piece looks on a terminal with colours.
pub(crate) use haft_host::screen_text::Tone as Style;

fn ansi(style: Style) -> Option<Ansi> {
    let colour = |colour: AnsiColor| Ansi::new().fg_color(Some(colour.into()));
    match style {
        Style::Plain => None,
        Style::Strong => Some(Ansi::new().bold()),
        Style::Dim => Some(Ansi::new().dimmed()),
        Style::Good => Some(colour(AnsiColor::Green)),
        Style::Bad => Some(colour(AnsiColor::Red).bold()),
        Style::Warn => Some(colour(AnsiColor::Yellow)),
    }
}

/// Styled, sanitised text for a person.
#[derive(Debug, Default, Clone)]
pub(crate) struct Page {
    pieces: Vec<(Style, String)>,
}

impl Page {
    /// An empty page.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds text that must stay on its line.
    pub(crate) fn text(self, text: impl AsRef<str>) -> Self {
        self.styled(Style::Plain, text)
    }

    /// Adds text that must stay on its line, in a style.
    pub(crate) fn styled(mut self, style: Style, text: impl AsRef<str>) -> Self {
        self.pieces.push((style, sanitise::inline(text.as_ref())));
        self
    }

    /// Adds text that may have several lines.
    pub(crate) fn block(mut self, text: impl AsRef<str>) -> Self {
        self.pieces
            .push((Style::Plain, sanitise::block(text.as_ref())));
        self
    }

    /// Ends the line.
    pub(crate) fn end(mut self) -> Self {
        self.pieces.push((Style::Plain, "\n".to_owned()));
        self
    }

    /// Adds a line `name  value`, the name padded.
    pub(crate) fn field(self, name: &str, value: impl AsRef<str>) -> Self {
        self.styled(Style::Dim, format!("{name:<9} "))
            .text(value)
            .end()
    }

    /// Adds a field whose value may have several lines; they are indented alike.
    pub(crate) fn field_block(self, name: &str, value: &str) -> Self {
        let indented = value.replace('\n', "\n          ");
        self.styled(Style::Dim, format!("{name:<9} "))
            .block(indented)
            .end()
    }

    /// Adds lines drawn elsewhere.
    pub(crate) fn text_lines(self, lines: &[TextLine]) -> Self {
        lines.iter().fold(self, |page, line| {
            let pieces = line.iter();
            pieces
                .fold(page, |page, (style, text)| page.styled(*style, text))
                .end()
        })
    }

    /// Adds another page.
    pub(crate) fn page(mut self, other: Self) -> Self {
        self.pieces.extend(other.pieces);
        self
    }

    /// The lines, each as its pieces.
    pub(crate) fn lines(&self) -> Vec<Vec<(Style, String)>> {
        let mut lines = vec![Vec::new()];
        for (style, piece) in &self.pieces {
            for (number, part) in piece.split('\n').enumerate() {
                if number > 0 {
                    lines.push(Vec::new());
                }
                if let Some(line) = lines.last_mut().filter(|_| !part.is_empty()) {
                    line.push((*style, part.to_owned()));
                }
            }
        }
        // Text that ends with a line end has no further line.
        if lines.last().is_some_and(Vec::is_empty) {
            lines.pop();
        }
        lines
    }

    /// The same with no line wider than this. Longer lines continue below, behind a margin, so that
    /// the terminal's own wrapping cannot put the agent's text where ours begins.
    pub(crate) fn wrapped(&self, width: usize) -> Self {
        let mut page = Self::new();
        for line in self.lines() {
            for piece in wrap(line, width) {
                page.pieces.extend(piece);
                page = page.end();
            }
        }
        page
    }

    /// The same, wrapped to the width of standard error if that is a terminal.
    pub(crate) fn fitting_stderr(self) -> Self {
        match stderr_columns() {
            Some(columns) => self.wrapped(columns),
            None => self,
        }
    }

    /// The text, with colours or without.
    pub(crate) fn render(&self, colours: Colours) -> String {
        let mut text = String::new();
        for (style, piece) in &self.pieces {
            match (colours, ansi(*style)) {
                (Colours::On, Some(ansi)) if !piece.is_empty() => {
                    // Writing to a `String` cannot fail.
                    let _ = write!(text, "{ansi}{piece}{ansi:#}");
                }
                (Colours::On | Colours::Off, _) => text.push_str(piece),
            }
        }
        text
    }
}

/// The width of standard error, if that is a terminal.
pub(crate) fn stderr_columns() -> Option<usize> {
    let size = tcgetwinsize(std::io::stderr()).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Splits a line into the lines it takes on a screen of this width.
pub(crate) fn wrap(line: TextLine, width: usize) -> Vec<TextLine> {
    wrap_line(line, width, columns)
}

/// How many columns of a terminal a character takes.
pub(crate) fn columns(c: char) -> usize {
    if c.is_ascii() {
        return 1;
    }
    ratatui::text::Span::raw(c.encode_utf8(&mut [0; 4]).to_owned()).width()
}

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    /// Used.
    On,
    /// Not used.
    Off,
}

#[cfg(test)]
mod tests {
    use haft_host::screen_text::wrap::CONTINUED;

    use super::*;

    #[test]
    fn ap_08_what_is_too_long_goes_on_behind_a_margin() {
        let page = Page::new()
            .field("will", format!("{}Allow this one call?", "x".repeat(30)))
            .text("你好".repeat(10));
        let narrow = page.wrapped(30).render(Colours::Off);
        for line in narrow.lines() {
            assert!(line.chars().map(columns).sum::<usize>() <= 30, "{line:?}");
            assert!(!line.starts_with("Allow"), "{narrow}");
        }
        let text: String = narrow
            .lines()
            .map(|line| line.trim_start_matches(CONTINUED))
            .collect();
        assert!(text.contains("xAllow this one call?"), "{narrow}");
        assert_eq!(narrow.matches('你').count(), 10);
        // Words are whole where they can be, and nothing is lost.
        let words = "no rule allows writing `notes.txt` here ".repeat(3);
        let narrow = Page::new().text(&words).wrapped(30).render(Colours::Off);
        assert!(
            narrow.lines().all(|line| !line.ends_with("notes.t")),
            "{narrow}"
        );
        let again: String = narrow
            .lines()
            .map(|line| line.strip_prefix(CONTINUED).unwrap_or(line))
            .collect();
        assert_eq!(again, words);
        let wide = page.wrapped(200).render(Colours::Off);
        assert_eq!(wide.trim_end(), page.render(Colours::Off));
    }
}
