//! Text for a person, put together from pieces that are sanitised one by one, so that colour codes
//! are ours and nobody else's.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style as Ansi};

use super::sanitise;

/// How a piece looks on a terminal with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// As it is.
    Plain,
    /// Headings and names.
    Strong,
    /// What is said beside the point.
    Dim,
    /// It went well.
    Good,
    /// It went wrong, or was denied.
    Bad,
    /// Somebody should look.
    Warn,
}

impl Style {
    fn ansi(self) -> Option<Ansi> {
        let colour = |colour: AnsiColor| Ansi::new().fg_color(Some(colour.into()));
        match self {
            Self::Plain => None,
            Self::Strong => Some(Ansi::new().bold()),
            Self::Dim => Some(Ansi::new().dimmed()),
            Self::Good => Some(colour(AnsiColor::Green)),
            Self::Bad => Some(colour(AnsiColor::Red).bold()),
            Self::Warn => Some(colour(AnsiColor::Yellow)),
        }
    }
}

/// Text for a person.
#[derive(Debug, Default, Clone)]
pub(crate) struct Page {
    pieces: Vec<(Style, String)>,
}

impl Page {
    /// An empty page.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds text that stays on its line.
    pub(crate) fn text(self, text: impl AsRef<str>) -> Self {
        self.styled(Style::Plain, text)
    }

    /// Adds text that stays on its line, in a style.
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
        self.styled(Style::Dim, format!("{name:<10}"))
            .text(value)
            .end()
    }

    /// Adds a field whose value may have several lines; they are indented alike.
    pub(crate) fn field_block(self, name: &str, value: &str) -> Self {
        let indented = value.replace('\n', "\n          ");
        self.styled(Style::Dim, format!("{name:<10}"))
            .block(indented)
            .end()
    }

    /// Adds another page.
    pub(crate) fn page(mut self, other: Self) -> Self {
        self.pieces.extend(other.pieces);
        self
    }

    /// The text, with colours or without.
    pub(crate) fn render(&self, colours: Colours) -> String {
        let mut text = String::new();
        for (style, piece) in &self.pieces {
            match (colours, style.ansi()) {
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

/// Whether colours are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    /// Used.
    On,
    /// Not used.
    Off,
}
