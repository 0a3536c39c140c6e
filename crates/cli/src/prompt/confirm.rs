//! A yes-or-no question, for commands a person typed themselves. `approve.rs` asks about agents'
//! calls.

use std::io::IsTerminal as _;

use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Output, Page, Style},
};

/// Asks a person to confirm what `shown` says; stops with `declined` unless the answer is yes, and where
/// nobody can be asked.
pub(crate) async fn confirmed(
    output: Output,
    shown: &Page,
    question: &str,
    declined: &str,
) -> Result<(), Stop> {
    if !std::io::stdin().is_terminal() || !output.stderr_is_terminal() {
        return Err(Stop::usage(
            "nobody can confirm this here",
            "add `--yes` to do it without a question",
        ));
    }
    output.note(shown);
    if yes(output, &format!("{question} [y/N] ")).await {
        return Ok(());
    }
    Err(Stop::new(Exit::Denied, declined, "answer y to do it"))
}

/// Asks a person to confirm that what they have just seen is added to a file.
pub(crate) async fn adding(output: Output, file: &str) -> Result<(), Stop> {
    if !std::io::stdin().is_terminal() || !output.stderr_is_terminal() {
        return Err(Stop::usage(
            "nobody is there to confirm this",
            "add `--yes` if it is right",
        ));
    }
    if yes(output, &format!("Add this to {file}? [y/N] ")).await {
        return Ok(());
    }
    Err(Stop::new(
        Exit::Denied,
        "nothing was added",
        "answer y to do it",
    ))
}

/// Asks on standard error and reads one line. Anything but a yes is a no.
pub(crate) async fn yes(output: Output, question: &str) -> bool {
    output.note(&Page::new().styled(Style::Strong, question));
    let line = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let Ok(Ok(line)) = line.await else {
        return false;
    };
    matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}
