//! `haft docs man`: the manual pages, made from the definitions the program parses with: `haft.1`,
//! and one page for each command such as `haft-mcp-install.1`.
//!
//! `clap_mangen` renders options and commands. The synopsis and what help ends with are rendered
//! here: examples must keep their lines.

use std::{
    fmt::Write as _,
    io,
    path::{Path, PathBuf},
};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use haft_host::config::env::VARIABLES;

use crate::{
    args::Cli,
    exit::{Exit, STOPPED_AT_ONCE},
    stop::Stop,
};

/// The section of the manual that programs are in.
const SECTION: &str = "1";

/// One manual page.
struct ManPage {
    file: String,
    roff: String,
}

/// Writes every page into a directory, which is made if it does not exist. Returns their paths.
pub(super) fn write(directory: &Path) -> Result<Vec<PathBuf>, Stop> {
    let failed = |error: io::Error| {
        Stop::usage(
            format!(
                "cannot write manual pages into `{}`: {error}",
                directory.display()
            ),
            "name a directory that you may write to, such as ~/.local/share/man/man1",
        )
    };
    let pages = pages().map_err(failed)?;
    save(directory, &pages).map_err(failed)
}

#[expect(
    clippy::disallowed_methods,
    reason = "writes where the person who runs the command says, which no workspace confines"
)]
fn save(directory: &Path, pages: &[ManPage]) -> io::Result<Vec<PathBuf>> {
    std::fs::create_dir_all(directory)?;
    let mut paths = Vec::new();
    for page in pages {
        let path = directory.join(&page.file);
        std::fs::write(&path, &page.roff)?;
        paths.push(path);
    }
    Ok(paths)
}

/// The page of the program, then those of its commands and of their commands.
fn pages() -> io::Result<Vec<ManPage>> {
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = Vec::new();
    let mut commands = vec![&root];
    while let Some(command) = commands.pop() {
        let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
        commands.extend(shown);
        pages.push(page(command)?);
    }
    pages.sort_by(|one, other| one.file.cmp(&other.file));
    Ok(pages)
}

fn page(command: &Command) -> io::Result<ManPage> {
    let is_root = command.get_name() == "haft";
    let name = command.get_display_name().unwrap_or("haft").to_owned();
    let man = Man::new(command.clone()).section(SECTION);
    let mut roff = title(&name).into_bytes();
    man.render_name_section(&mut roff)?;
    roff.extend(synopsis(command).into_bytes());
    man.render_description_section(&mut roff)?;
    man.render_options_section(&mut roff)?;
    if command.get_subcommands().any(|one| !one.is_hide_set()) {
        man.render_subcommands_section(&mut roff)?;
    }
    let end = if is_root {
        format!("{}{}", exit_status(), environment())
    } else {
        let notes = command
            .get_after_long_help()
            .or_else(|| command.get_after_help());
        notes.map_or_else(String::new, |notes| self::notes(&notes.to_string()))
    };
    roff.extend(end.into_bytes());
    roff.extend(see_also(command, &name).into_bytes());
    Ok(ManPage {
        file: format!("{name}.{SECTION}"),
        roff: in_ascii(&String::from_utf8_lossy(&roff)),
    })
}

/// The line that heads and foots the page. It has no date: the same program makes the same pages.
fn title(name: &str) -> String {
    let name = escaped(&name.to_uppercase());
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {name} {SECTION} \"\" \"haft {version}\" \"Haft Manual\"\n")
}

/// Every way to call the command, as its help has them.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let mut text = ".SH SYNOPSIS\n.nf\n".to_owned();
    for line in usage.lines() {
        let line = line.trim_start_matches("Usage:").trim();
        text.push_str(&escaped(line));
        text.push('\n');
    }
    text.push_str(".fi\n");
    text
}

fn exit_status() -> String {
    let mut text = ".SH EXIT STATUS\n".to_owned();
    let mut code = |number: &str, meaning: &str| {
        let _ = writeln!(text, ".TP\n{number}\n{}", escaped(meaning));
    };
    for exit in Exit::ALL {
        code(&exit.code().to_string(), exit.meaning());
    }
    code(&STOPPED_AT_ONCE.to_string(), "Ctrl-C was pressed twice");
    text
}

fn environment() -> String {
    let mut text = ".SH ENVIRONMENT\n".to_owned();
    for (name, meaning) in VARIABLES {
        let _ = writeln!(text, ".TP\n{}\n{}", escaped(name), escaped(meaning));
    }
    text
}

/// What help ends with: indented lines are examples and stay as they are, others are prose.
fn notes(help: &str) -> String {
    let mut text = ".SH NOTES\n".to_owned();
    let mut is_example = false;
    for line in help.lines() {
        let indented = line.starts_with(' ');
        if indented && !is_example {
            text.push_str(".RS 4\n.nf\n");
        } else if !indented && is_example {
            text.push_str(".fi\n.RE\n.PP\n");
        }
        is_example = indented;
        if line.is_empty() {
            text.push_str(".PP\n");
        } else {
            let line = line.strip_prefix("  ").unwrap_or(line);
            text.push_str(&escaped(line));
            text.push('\n');
        }
    }
    if is_example {
        text.push_str(".fi\n.RE\n");
    }
    text
}

/// The pages above and below this one.
fn see_also(command: &Command, name: &str) -> String {
    let mut names: Vec<String> = command
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .filter_map(|one| one.get_display_name().map(str::to_owned))
        .collect();
    let above = name.match_indices('-').filter_map(|(at, _)| name.get(..at));
    names.extend(above.map(str::to_owned));
    names.sort();
    let pages: Vec<String> = names
        .iter()
        .map(|name| format!(".BR {} ({SECTION})", escaped(name)))
        .collect();
    format!(".SH SEE ALSO\n{}\n", pages.join(" ,\n"))
}

/// A page that every roff reads, whatever encoding it expects.
fn in_ascii(page: &str) -> String {
    let mut text = String::new();
    for letter in page.chars() {
        if letter.is_ascii() {
            text.push(letter);
        } else {
            let _ = write!(text, "\\[u{:04X}]", u32::from(letter));
        }
    }
    text
}

/// A line of text with nothing in it that roff would obey.
fn escaped(line: &str) -> String {
    let mut text = String::new();
    if line.starts_with(['.', '\'']) {
        text.push_str("\\&");
    }
    for letter in line.chars() {
        match letter {
            '\\' => text.push_str("\\e"),
            '-' => text.push_str("\\-"),
            '\'' => text.push_str("\\(aq"),
            '`' => text.push_str("\\(ga"),
            '^' => text.push_str("\\(ha"),
            '~' => text.push_str("\\(ti"),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_line_is_an_instruction() {
        assert_eq!(escaped(".so /etc/passwd"), "\\&.so /etc/passwd");
        assert_eq!(escaped("a\\nb -x 'y'"), "a\\enb \\-x \\(aqy\\(aq");
    }

    #[test]
    fn letters_outside_ascii_are_named() {
        assert_eq!(in_ascii("a … b"), "a \\[u2026] b");
    }

    #[test]
    fn examples_keep_their_lines_and_prose_is_filled() {
        assert_eq!(
            notes("Examples:\n  haft a\n    haft b\nMore.\n\nEnd."),
            ".SH NOTES\nExamples:\n.RS 4\n.nf\nhaft a\n  haft b\n.fi\n.RE\n.PP\nMore.\n.PP\nEnd.\n"
        );
    }
}
