//! `haft completions`: prints a shell completion script.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::App;
use crate::{args::Cli, exit::Exit, stop::Stop};

/// Print a completion script for a shell
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs, app: &App) -> Result<Exit, Stop> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "haft", &mut script);
    app.output.content(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
