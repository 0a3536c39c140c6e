//! `haft config`: what holds here and where it comes from, and a schema for editors.

use clap::{Args, Subcommand};
use haft_host::config::{
    effective::{EffectiveValue, ValueOrigin, effective_values},
    keys,
};
use serde::Serialize;

use super::App;
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// Show the configuration that applies, and where it comes from
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print the values that files set, each with its file and line
    Show {
        /// Also print the keys that nobody set, with their defaults
        #[arg(long)]
        effective: bool,
    },
    /// Print a JSON Schema of haft.toml for editors
    Schema,
}

/// One value, as JSON.
#[derive(Serialize)]
struct ValueView<'v> {
    table: &'v str,
    key: &'v str,
    value: &'v str,
    origin: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    both: &'v str,
}

/// Runs the command.
pub(crate) fn run(args: &ConfigArgs, app: &App) -> Result<Exit, Stop> {
    match args.command {
        ConfigCommand::Schema => app.output.json(&keys::schema())?,
        ConfigCommand::Show { effective } => show(app, effective)?,
    }
    Ok(Exit::Ok)
}

fn show(app: &App, effective: bool) -> Result<(), Stop> {
    let settings = app.settings()?;
    app.notes(&settings.notes);
    let mut values = effective_values(&settings.sources);
    values.retain(|value| effective || value.origin != ValueOrigin::Default);
    if app.output.format() == Format::Json {
        let views: Vec<ValueView<'_>> = values.iter().map(view).collect();
        return app.output.json_list(&views);
    }
    let mut page = Page::new();
    let mut table = "";
    for value in &values {
        if value.table != table {
            let gap = if table.is_empty() { page } else { page.end() };
            page = gap
                .styled(Style::Strong, format!("[{}]", value.table))
                .end();
            table = &value.table;
        }
        page = page.text(format!("{} = {}", value.key, value.value));
        let both = match value.both.as_str() {
            "" => String::new(),
            both => format!("; two files set it: {both}"),
        };
        page = page
            .styled(Style::Dim, format!("  # {}{both}", origin(value)))
            .end();
    }
    if values.is_empty() {
        page = page
            .text("no file sets anything; `--effective` prints the defaults")
            .end();
    }
    app.output.page(&page)
}

fn view(value: &EffectiveValue) -> ValueView<'_> {
    ValueView {
        table: &value.table,
        key: &value.key,
        value: &value.value,
        origin: origin(value),
        both: &value.both,
    }
}

fn origin(value: &EffectiveValue) -> String {
    match &value.origin {
        ValueOrigin::Default => "default".to_owned(),
        ValueOrigin::File { name, line } => format!("{name}:{line}"),
    }
}
