//! `haft record`: where the record is kept.

use clap::{Args, Subcommand};
use haft_host::record_migration::{MigrationTarget, migrate};
use haft_ledger::MigrationStep;

use super::App;
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style, bar},
};

/// Carry the record to another database
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct RecordArgs {
    #[command(subcommand)]
    command: RecordCommand,
}

#[derive(Debug, Subcommand)]
enum RecordCommand {
    /// Carry the whole record to an empty database and check what arrived: all of it, or nothing
    Migrate {
        /// The database, as postgres://user@host/database; `-` reads that from standard input, and
        /// `file` is the file in the data directory
        #[arg(long, value_name = "URL")]
        to: String,
    },
}

/// Runs the command.
pub(crate) async fn run(args: &RecordArgs, app: &App) -> Result<Exit, Stop> {
    let RecordCommand::Migrate { to } = &args.command;
    let target = MigrationTarget::read(to)?;
    let bar = bar(app.output, None, "{msg} {wide_bar} {percent} %");
    let progress = |step, reached, newest| {
        bar.set_message(match step {
            MigrationStep::CheckingSource => "checking the record",
            MigrationStep::Carrying => "carrying the record",
            MigrationStep::CheckingTarget => "checking what arrived",
        });
        bar.set_length(newest);
        bar.set_position(reached);
    };
    let migrated = migrate(&app.places()?, &target, &progress).await;
    bar.finish_and_clear();
    let migrated = migrated?;
    if app.output.format() == Format::Json {
        app.output.json(&migrated)?;
    } else {
        let page = Page::new().styled(Style::Good, "done");
        let page = page.text(format!(": {migrated}")).end();
        app.output.page(&page.text(target.next_step()).end())?;
    }
    Ok(Exit::Ok)
}
