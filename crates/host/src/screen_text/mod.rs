//! Text for a person, safe to show anywhere: in a terminal, in a client's form, in a notification.
//!
//! [`sanitise`] makes any text harmless, [`visible`] spells text that a person approves so that
//! nothing in it hides, and [`TextLine`]s carry what each piece means. Colours are the terminal's.

pub mod sanitise;
pub mod visible;
pub mod wrap;

pub use haft_contract::displayed::most_columns;

/// What a piece of text means; a terminal turns it into a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// Headings and names.
    Strong,
    /// Secondary information.
    Dim,
    /// Success.
    Good,
    /// Failure or denial.
    Bad,
    /// Needs attention.
    Warn,
}

/// A line as its pieces.
pub type TextLine = Vec<(Tone, String)>;

/// The width of the word that begins a line of ours.
const WORD_COLUMNS: usize = 9;

/// A line `word      value`. The value stays on the line: its line ends are escaped.
pub fn field(word: &str, value: &str) -> TextLine {
    let value = sanitise::inline(value);
    vec![
        (Tone::Dim, format!("{word:<WORD_COLUMNS$} ")),
        (Tone::Plain, value),
    ]
}

/// A field with several lines; those after the first stand behind a margin.
pub fn field_block<'a>(word: &str, values: impl IntoIterator<Item = &'a str>) -> Vec<TextLine> {
    let mut word = word;
    let mut lines = Vec::new();
    for value in values {
        lines.push(field(word, value));
        word = "";
    }
    lines
}

/// The lines as text without colours, each with its line end.
pub fn plain(lines: &[TextLine]) -> String {
    let mut text = String::new();
    for line in lines {
        for (_, piece) in line {
            text.push_str(piece);
        }
        text.push('\n');
    }
    text
}

/// A path as a person writes it: below `~` where it is in the home directory.
pub fn below_home(path: &str, home: Option<&str>) -> String {
    // Everything is below `/`, which is nobody's home to shorten.
    let home = home.map(|home| home.trim_end_matches('/'));
    let home = home.filter(|home| !home.is_empty());
    match home.and_then(|home| path.strip_prefix(home)) {
        Some(below) if below.is_empty() || below.starts_with('/') => format!("~{below}"),
        Some(_) | None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_below_home_only_where_it_is() {
        for (path, home, written) in [
            ("/home/ann/demo", Some("/home/ann"), "~/demo"),
            ("/home/ann/demo", Some("/home/ann/"), "~/demo"),
            ("/home/ann", Some("/home/ann/"), "~"),
            ("/home/anna", Some("/home/ann"), "/home/anna"),
            ("/srv/demo", Some("/home/ann"), "/srv/demo"),
            ("/srv/demo", Some("/"), "/srv/demo"),
            ("/srv/demo", Some(""), "/srv/demo"),
            ("/srv/demo", None, "/srv/demo"),
        ] {
            assert_eq!(below_home(path, home), written, "{path} {home:?}");
        }
    }
}
