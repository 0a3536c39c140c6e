//! `haft record`: where the record is kept, and how much it takes. `haft log export` and `import` carry
//! calls as text.

use clap::{Args, Subcommand};
use haft_contract::TenantId;
use haft_host::{
    record_migration::{MigrationTarget, migrate},
    record_size::{self, RecordSize},
    relative_time::RelativeTime,
};
use haft_ledger::MigrationStep;
use serde_json::json;

use super::{App, approvals};
use crate::{
    exit::Exit,
    prompt::confirm,
    stop::Stop,
    terminal::{Format, Page, Style, bar},
    view::{bars::bytes, time},
};

/// Measure, shrink or migrate the record
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct RecordArgs {
    #[command(subcommand)]
    command: RecordCommand,
}

#[derive(Debug, Subcommand)]
enum RecordCommand {
    /// Copy the whole record to an empty database and check what arrived: all of it, or nothing
    Migrate {
        /// The database, as postgres://user@host/database; `-` reads that from standard input, and
        /// `file` is the file in the data directory
        #[arg(long, value_name = "URL")]
        to: String,
    },
    /// Show how many bytes and calls the record has
    Size,
    /// Remove old outputs and file contents now; the calls stay, but `haft undo` needs the contents
    Prune {
        /// Remove what is older than this: 12h, 7d, 4w [default: what `[record]` of haft.toml says]
        #[arg(long, value_name = "AGE")]
        older_than: Option<RelativeTime>,
        /// Do not ask before removing what is younger than haft.toml says
        #[arg(long)]
        yes: bool,
    },
}

/// Runs the command.
pub(crate) async fn run(args: &RecordArgs, app: &App) -> Result<Exit, Stop> {
    match &args.command {
        RecordCommand::Migrate { to } => carry(to, app).await,
        RecordCommand::Size => size(app).await,
        RecordCommand::Prune { older_than, yes } => prune(*older_than, *yes, app).await,
    }
}

async fn size(app: &App) -> Result<Exit, Stop> {
    let places = app.places()?;
    let ledger = app.record().await?;
    let measured = record_size::measure(&ledger, &TenantId::local(), &places).await;
    let measured = measured.map_err(|error| Stop::ledger(&error))?;
    let RecordSize {
        record_bytes,
        artifact_bytes,
        calls,
        workspaces,
        last,
    } = measured;
    if app.output.format() == Format::Json {
        app.output.json(&json!({
            "record_bytes": record_bytes,
            "artifact_bytes": artifact_bytes,
            "calls": calls,
            "workspaces": workspaces,
            "last": last.map(time::rfc3339),
        }))?;
        return Ok(Exit::Ok);
    }
    let page = Page::new()
        .field(
            "record",
            record_bytes.map_or_else(|| "in its database".to_owned(), bytes),
        )
        .field(
            "kept",
            format!("{} of outputs and file contents", bytes(artifact_bytes)),
        )
        .field(
            "calls",
            match last {
                Some(last) => format!(
                    "{calls} in {workspaces} {}, the last at {}",
                    if workspaces == 1 {
                        "workspace"
                    } else {
                        "workspaces"
                    },
                    time::local(last)
                ),
                None => "none".to_owned(),
            },
        );
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

async fn prune(older_than: Option<RelativeTime>, yes: bool, app: &App) -> Result<Exit, Stop> {
    approvals::may_answer()?;
    let settings = app.settings()?;
    let mut retention = settings.retention;
    if let Some(age) = older_than {
        let usual = std::mem::replace(&mut retention.kept_for, age.period());
        if retention.kept_for < usual && !yes {
            let shown = Page::new()
                .text("This removes outputs and file contents of every workspace in the record.")
                .end()
                .text("`haft undo` cannot put back what it removes.")
                .end();
            let question = "Remove them?";
            confirm::confirmed(app.output, &shown, question, "nothing was removed").await?;
        }
    }
    let ledger = app.record().await?;
    let removed = record_size::prune(&ledger, retention).await;
    let removed = removed.map_err(|error| Stop::ledger(&error))?;
    if app.output.format() == Format::Json {
        app.output.json(&json!({
            "removed": removed.removed,
            "bytes": removed.bytes,
            "kept_bytes": removed.kept_bytes,
        }))?;
        return Ok(Exit::Ok);
    }
    let page = Page::new().styled(Style::Good, "done").text(format!(
        ": removed {} ({}); {} stay",
        match removed.removed {
            1 => "1 output or file content".to_owned(),
            more => format!("{more} outputs and file contents"),
        },
        bytes(removed.bytes),
        bytes(removed.kept_bytes)
    ));
    app.output.page(&page.end())?;
    Ok(Exit::Ok)
}

async fn carry(to: &str, app: &App) -> Result<Exit, Stop> {
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
