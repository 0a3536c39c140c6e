//! `haft sources`: the databases that tools reach by name. They are named in `haft.toml`; passwords
//! are not, and no command here prints or takes one.

mod add;
mod list;

use clap::{Args, Subcommand};
use haft_host::config::Settings;

use super::{App, doctor};
use crate::{exit::Exit, stop::Stop};

/// List, add and check the databases that tools reach
#[derive(Debug, Args)]
pub(crate) struct SourcesArgs {
    #[command(subcommand)]
    command: SourcesCommand,
}

#[derive(Debug, Subcommand)]
enum SourcesCommand {
    /// List the databases that haft.toml names
    List(list::ListArgs),
    /// Name a database in haft.toml
    Add(add::AddArgs),
    /// Connect to databases and say what is wrong with them
    Check(CheckArgs),
}

/// What `haft sources check` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft sources check
  haft sources check crm
Says what `haft doctor` says of databases, and ends with exit code 1 if one of them cannot be used.")]
struct CheckArgs {
    /// The database; all of them if none is named
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Runs the command.
pub(crate) async fn run(args: SourcesArgs, app: &App) -> Result<Exit, Stop> {
    match args.command {
        SourcesCommand::List(args) => list::run(&args, app),
        SourcesCommand::Add(args) => add::run(&args, app).await,
        SourcesCommand::Check(args) => check(&args, app).await,
    }
}

async fn check(args: &CheckArgs, app: &App) -> Result<Exit, Stop> {
    let mut settings = app.settings()?;
    app.notes(&settings.notes);
    if let Some(name) = &args.name {
        settings.databases.retain(|source| source.name == *name);
        if settings.databases.is_empty() {
            return Err(unknown(name, &app.settings()?));
        }
    }
    doctor::check_sources(&settings, app).await
}

/// There is no such database.
fn unknown(name: &str, settings: &Settings) -> Stop {
    let known: Vec<&str> = settings
        .databases
        .iter()
        .map(|source| source.name.as_str())
        .collect();
    let hint = match known.as_slice() {
        [] => "`haft sources add` names one".to_owned(),
        known => format!("there are: {}", known.join(", ")),
    };
    Stop::usage(format!("there is no database `{name}`"), hint)
}
