//! `haft sources add`: writes the table of a database at the end of haft.toml, read first by the code
//! that will read it there. Trusting it is another step, as is connecting to it.

use std::path::PathBuf;

use clap::Args;
use haft_host::{
    config::extended_config::ExtendedConfig,
    sources::{AddedSource, NewSource},
};
use serde_json::json;

use super::super::{App, approvals::may_answer};
use crate::{
    exit::Exit,
    prompt::confirm,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// What `haft sources add` takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft sources add crm --type postgres --address postgres://haft@db.example.org/crm --password env:CRM_PASSWORD
  haft sources add shop --type sqlite --path /srv/data/shop.db --yes
  haft sources add shop --type sqlite --path /srv/data/shop.db --dry-run
A password is never an argument: name the variable or the file that has it.")]
pub(crate) struct AddArgs {
    /// What tools and rules call it: a-z, 0-9, `-` and `_`
    #[arg(value_name = "NAME")]
    name: String,
    /// What kind of database it is: one that `type` of [sources.NAME] takes
    #[arg(long = "type", value_name = "KIND")]
    kind: String,
    /// Where the server is, without a password
    #[arg(long, value_name = "ADDRESS", conflicts_with = "path")]
    address: Option<String>,
    /// Where the password is: env:NAME or file:/absolute/path
    #[arg(long, value_name = "REFERENCE", requires = "address")]
    password: Option<String>,
    /// The file of an SQLite database, by its absolute path
    #[arg(long, value_name = "FILE")]
    path: Option<PathBuf>,
    /// Take statements that change data, too
    #[arg(long)]
    writable: bool,
    /// Show what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
}

/// Runs the command.
pub(super) async fn run(args: &AddArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    let source = NewSource {
        name: args.name.clone(),
        kind: args.kind.clone(),
        address: args.address.clone(),
        password: args.password.clone(),
        path: args.path.as_ref().map(|path| path.display().to_string()),
        writable: args.writable,
    };
    source.refuse_passwords()?;
    let settings = app.settings()?;
    let config = ExtendedConfig::read(&settings)?;
    let AddedSource { table, text } = source.add_to(&config, &settings.databases)?;
    if app.output.format() == Format::Text {
        app.output.content(&table)?;
    }
    if args.dry_run {
        print(args, &table, None, app)?;
        return Ok(Exit::Ok);
    }
    if !args.yes {
        confirm::adding(app.output, config.name()).await?;
    }
    config.replace(&text)?;
    let next = if config.is_own() {
        "`haft sources check` connects to it"
    } else {
        "`haft trust` turns it on, and `haft sources check` connects to it"
    };
    let written = format!("added to {}; {next}", config.path().display());
    print(args, &table, Some(&written), app)?;
    Ok(Exit::Ok)
}

fn print(args: &AddArgs, table: &str, written: Option<&str>, app: &App) -> Result<(), Stop> {
    if app.output.format() == Format::Json {
        return app.output.json(&json!({
            "name": args.name,
            "toml": table,
            "written": written.is_some(),
        }));
    }
    let page = match written {
        Some(written) => Page::new().styled(Style::Good, written).end(),
        None => Page::new()
            .text("nothing was written, because of `--dry-run`")
            .end(),
    };
    app.output.page(&page)
}
