//! `haft tools import`: operations of an API as tools. Prints the lines for haft.toml, or adds them to it;
//! trusting them is another step.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use haft_agent_settings::document::{self, EditRefusal, Format as FileFormat};
use haft_host::{
    HostError,
    config::extended_config::ExtendedConfig,
    openapi::{self, ImportedTool, OpenApiImport},
    state::private,
};
use serde_json::{Value, json};

use super::super::{App, approvals::may_answer};
use crate::{
    exit::Exit,
    prompt::confirm,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// Make tools of an API's description
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft tools import openapi api.yaml --only listIssues,createIssue
  haft tools import openapi api.json --only listIssues --write")]
pub(crate) struct ImportArgs {
    /// What the description is written in
    #[arg(value_name = "KIND")]
    kind: Kind,
    /// The file, in JSON or YAML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The operations, by `operationId`, with commas between them
    #[arg(long, value_name = "IDS", value_delimiter = ',', required = true)]
    only: Vec<String>,
    /// The server, instead of the first that the description names
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// What the name of each tool begins with
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// The server may be on a private network or this machine
    #[arg(long)]
    private: bool,
    /// Add the tools to haft.toml instead of printing them
    #[arg(long)]
    write: bool,
    /// Do not ask for confirmation
    #[arg(long, requires = "write")]
    yes: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// OpenAPI 3.0 or 3.1
    Openapi,
}

/// Runs the command.
pub(super) async fn run(args: &ImportArgs, app: &App) -> Result<Exit, Stop> {
    let Kind::Openapi = args.kind;
    let wanted = OpenApiImport {
        only: args.only.clone(),
        server: args.server.clone(),
        prefix: args.prefix.clone(),
        private: args.private,
    };
    let tools = openapi::import(&read(&args.file)?, &wanted).map_err(HostError::from)?;
    let lines = openapi::lines(&tools);
    if !args.write {
        match app.output.format() {
            Format::Json => print(&tools, None, app)?,
            Format::Text => app.output.content(&lines)?,
        }
        return Ok(Exit::Ok);
    }
    may_answer()?;
    let settings = app.settings()?;
    let config = ExtendedConfig::read(&settings)?;
    let after = openapi::add_to(&tools, &config)?;
    if app.output.format() == Format::Text {
        app.output.content(&lines)?;
    }
    if !args.yes {
        confirm::adding(app.output, config.name()).await?;
    }
    config.replace(&after)?;
    let next = if config.is_own() {
        "the file is your own, so they are on"
    } else {
        "`haft trust` shows what they may do and turns them on"
    };
    print(&tools, Some((config.path(), next)), app)?;
    Ok(Exit::Ok)
}

/// The description as a value.
fn read(path: &Path) -> Result<Value, Stop> {
    let wrong = |why: String| {
        let message = format!("`{}` cannot be read: {why}", path.display());
        Stop::config(message, "give a file in JSON or YAML")
    };
    let bytes =
        private::read(path, private::MAX_CONFIG_BYTES).map_err(|why| wrong(why.to_string()))?;
    let bytes = bytes.ok_or_else(|| wrong("it does not exist".to_owned()))?;
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
    if text.trim_start().starts_with('{') {
        return serde_json::from_str(&text).map_err(|why| wrong(why.to_string()));
    }
    let read = document::value_at(FileFormat::Yaml, &text, &[]);
    let read =
        read.map_err(|(EditRefusal::Broken(why) | EditRefusal::NotSimple(why))| wrong(why))?;
    Ok(read.unwrap_or_default())
}

/// Prints what was made, and where it was written and what happens next if it was.
fn print(tools: &[ImportedTool], written: Option<(&Path, &str)>, app: &App) -> Result<(), Stop> {
    if app.output.format() == Format::Json {
        let tools = tools.iter().map(|tool| {
            json!({"name": tool.name, "request": tool.line, "notes": tool.notes, "toml": tool.text})
        });
        let tools: Vec<Value> = tools.collect();
        return app
            .output
            .json(&json!({"tools": tools, "written": written.map(|(path, _)| path)}));
    }
    let mut page = Page::new();
    for tool in tools {
        page = page
            .styled(Style::Strong, &tool.name)
            .text(format!("  {}", tool.line))
            .end();
    }
    if let Some((path, next)) = written {
        let path = path.display();
        page = page.text(format!("added to {path}; {next}")).end();
    }
    app.output.page(&page)
}
