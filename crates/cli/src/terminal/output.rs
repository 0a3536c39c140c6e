//! The only place that prints. Standard output carries results, standard error everything else; a
//! reader that goes away ends the program quietly.

use std::io::{ErrorKind, IsTerminal as _, Write as _};

use serde::Serialize;
use serde_json::json;

use super::{
    page::{Colours, Page, Style},
    sanitise,
};
use crate::{exit::Exit, stop::Stop};

/// Whether results are for people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text.
    Text,
    /// JSON.
    Json,
}

/// Where colours are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColorChoice {
    /// Nowhere.
    Never,
    /// If a person sees them.
    OnTerminal,
    /// Everywhere.
    Always,
}

/// Where output goes and how it looks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    lists: JsonLists,
    stdout_is_terminal: bool,
    stderr_is_terminal: bool,
    colours: ColorChoice,
}

/// How a list is printed as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonLists {
    /// As one array.
    Array,
    /// One item on each line.
    Lines,
}

impl Output {
    /// Output of this process.
    pub(crate) fn new(format: Format, colours: ColorChoice) -> Self {
        Self {
            format,
            lists: JsonLists::Array,
            stdout_is_terminal: std::io::stdout().is_terminal(),
            stderr_is_terminal: std::io::stderr().is_terminal(),
            colours,
        }
    }

    /// The same with lists printed in this way.
    pub(crate) fn with_lists(mut self, lists: JsonLists) -> Self {
        self.lists = lists;
        self
    }

    /// Whether results are for people or for programs.
    pub(crate) fn format(self) -> Format {
        self.format
    }

    /// Whether a person sees standard output.
    pub(crate) fn stdout_is_terminal(self) -> bool {
        self.stdout_is_terminal
    }

    /// How lists are printed as JSON.
    pub(crate) fn lists(self) -> JsonLists {
        self.lists
    }

    /// Whether a person sees standard error.
    pub(crate) fn stderr_is_terminal(self) -> bool {
        self.stderr_is_terminal
    }

    /// Whether standard output has colours.
    pub(crate) fn stdout_colours(self) -> Colours {
        self.colours(self.stdout_is_terminal)
    }

    /// Prints a page of results.
    pub(crate) fn page(self, page: &Page) -> Result<(), Stop> {
        to_stdout(&page.render(self.stdout_colours()))
    }

    /// Prints a tool's content: harmless on a terminal, exact in a pipe or a file.
    pub(crate) fn content(self, text: &str) -> Result<(), Stop> {
        let end = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        if self.stdout_is_terminal {
            to_stdout(&format!("{}{end}", sanitise::block(text)))
        } else {
            to_stdout(&format!("{text}{end}"))
        }
    }

    /// Prints a piece of a tool's content as it arrives; only where no terminal shows it.
    pub(crate) fn piece(self, text: &str) -> Result<(), Stop> {
        if self.stdout_is_terminal {
            return Ok(());
        }
        to_stdout(text)
    }

    /// Prints one JSON value: on several lines for a person, on one for a program.
    pub(crate) fn json(self, value: &impl Serialize) -> Result<(), Stop> {
        let text = if self.stdout_is_terminal {
            serde_json::to_string_pretty(value)
        } else {
            serde_json::to_string(value)
        };
        to_stdout(&format!("{}\n", sanitise::json(&text.map_err(not_json)?)))
    }

    /// Prints a list as JSON: one array, or one item on each line.
    pub(crate) fn json_list(self, items: &[impl Serialize]) -> Result<(), Stop> {
        match self.lists {
            JsonLists::Array => self.json(&items),
            JsonLists::Lines => items.iter().try_for_each(|item| self.json_line(item)),
        }
    }

    /// Prints one JSON value on a single line.
    #[expect(clippy::unused_self, reason = "nothing prints but through an `Output`")]
    pub(crate) fn json_line(self, value: &impl Serialize) -> Result<(), Stop> {
        let text = serde_json::to_string(value).map_err(not_json)?;
        to_stdout(&format!("{}\n", sanitise::json(&text)))
    }

    /// Prints a note for a person, which is not a result.
    pub(crate) fn note(self, page: &Page) {
        to_stderr(&page.render(self.colours(self.stderr_is_terminal)));
    }

    /// Says why a command could not continue.
    pub(crate) fn stop(self, stop: &Stop) {
        let Some(message) = stop.message() else {
            return;
        };
        if self.format == Format::Json {
            let error = json!({
                "error": message,
                "hint": stop.hint(),
                "exit_code": stop.exit().code(),
            });
            to_stderr(&format!("{}\n", sanitise::json(&error.to_string())));
            return;
        }
        let page = Page::new()
            .styled(Style::Bad, "error: ")
            .block(message)
            .end();
        self.note(&page.page(hint(stop.hint())));
    }

    fn colours(self, terminal: bool) -> Colours {
        match (self.colours, terminal) {
            (ColorChoice::Always, _) | (ColorChoice::OnTerminal, true) => Colours::On,
            (ColorChoice::OnTerminal, false) | (ColorChoice::Never, _) => Colours::Off,
        }
    }
}

/// A hint, on separate lines.
pub(crate) fn hint(text: &str) -> Page {
    Page::new().styled(Style::Warn, "hint: ").block(text).end()
}

fn not_json(error: serde_json::Error) -> Stop {
    Stop::new(
        Exit::Failed,
        format!("the result is not JSON: {error}"),
        "this is a fault in Haft; please report it",
    )
}

fn to_stdout(text: &str) -> Result<(), Stop> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Stop::reader_gone(),
        _ => Stop::new(
            Exit::Failed,
            format!("standard output cannot be written: {error}"),
            "check that there is room where the output goes",
        ),
    })
}

fn to_stderr(text: &str) {
    // If standard error fails, there is nowhere to report it.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
