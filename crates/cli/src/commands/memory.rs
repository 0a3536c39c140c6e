//! `haft memory`: what agents keep beyond a session, for the person whose agents they are. Only a person
//! looks here: an agent uses its tools, by which a session gets the labels of what it reads.

use clap::{Args, Subcommand};
use haft_contract::{Label, TenantId, host::Ledger as _, memory::Memory};
use haft_ledger::StoredLedger;
use serde::Serialize;
use serde_json::json;

use super::{App, approvals};
use crate::{
    exit::Exit,
    prompt::confirm,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{call::prefix_length, time},
};

/// The most memories that are listed.
const MAX_LISTED: usize = 10_000;

/// How many candidates of an ambiguous id are named.
const MAX_NAMED: usize = 5;

/// The longest beginning of a text in a list, in characters.
const MAX_SHOWN: usize = 80;

/// List, show, export and forget what agents keep beyond a session
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub(crate) struct MemoryArgs {
    #[command(subcommand)]
    command: MemoryCommand,
}

#[derive(Debug, Subcommand)]
enum MemoryCommand {
    /// List what agents keep, oldest first
    List {
        /// Only what this agent keeps
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
    },
    /// Show one memory, and where it came from
    Show {
        /// Its id, or the beginning of it, as `haft memory list` shows it
        #[arg(value_name = "ID")]
        id: String,
    },
    /// Print all of it as JSON lines
    Export {
        /// Only what this agent keeps
        #[arg(long, value_name = "AGENT")]
        agent: Option<String>,
    },
    /// Remove memories for good
    Forget {
        /// Their ids, or the beginnings of them, as `haft memory list` shows them
        #[arg(value_name = "ID", required_unless_present = "all")]
        ids: Vec<String>,
        /// Remove all of them
        #[arg(long, conflicts_with = "ids")]
        all: bool,
        /// With `--all`: only what this agent keeps
        #[arg(long, value_name = "AGENT", requires = "all")]
        agent: Option<String>,
        /// With `--all`: do not ask
        #[arg(long, requires = "all")]
        yes: bool,
    },
}

/// A memory for programs.
#[derive(Debug, Serialize)]
struct MemoryView {
    id: String,
    agent: String,
    user: String,
    text: String,
    read_from: Vec<String>,
    session: String,
    call: String,
    saved: String,
}

impl MemoryView {
    fn of(memory: &Memory) -> Self {
        Self {
            id: memory.id.to_string(),
            agent: memory.owner.agent.to_string(),
            user: memory.owner.user.to_string(),
            text: memory.text.clone(),
            read_from: memory.read_from.iter().map(Label::to_string).collect(),
            session: memory.session.to_string(),
            call: memory.call.to_string(),
            saved: time::rfc3339(memory.saved),
        }
    }
}

/// Runs the command.
pub(crate) async fn run(args: MemoryArgs, app: &App) -> Result<Exit, Stop> {
    // A command of an agent would read past the labels, and forget past the rules.
    approvals::may_answer()?;
    let ledger = app.record().await?;
    let done = match args.command {
        MemoryCommand::List { agent } => list(&kept(&ledger, agent.as_deref()).await?, app),
        MemoryCommand::Show { id } => show(find(&kept(&ledger, None).await?, &id)?, app),
        MemoryCommand::Export { agent } => export(&kept(&ledger, agent.as_deref()).await?, app),
        MemoryCommand::Forget {
            ids,
            all,
            agent,
            yes,
        } => {
            let kept = kept(&ledger, agent.as_deref()).await?;
            let chosen = if all {
                confirmed(&kept, yes, app).await?;
                kept.iter().collect()
            } else {
                let chosen = ids.iter().map(|id| find(&kept, id));
                chosen.collect::<Result<Vec<_>, _>>()?
            };
            forget(&ledger, &chosen, app).await
        }
    };
    let closed = ledger.close().await;
    closed.map_err(|error| Stop::ledger(&error))?;
    done
}

/// What agents keep, oldest first.
async fn kept(ledger: &StoredLedger, agent: Option<&str>) -> Result<Vec<Memory>, Stop> {
    let store = ledger.memories();
    let kept = store.list(&TenantId::local(), MAX_LISTED).await;
    let mut kept = kept.map_err(|error| Stop::ledger(&error))?;
    kept.retain(|memory| agent.is_none_or(|agent| memory.owner.agent.as_str() == agent));
    Ok(kept)
}

fn list(kept: &[Memory], app: &App) -> Result<Exit, Stop> {
    if app.output.format() == Format::Json {
        let views: Vec<MemoryView> = kept.iter().map(MemoryView::of).collect();
        app.output.json_list(&views)?;
        return Ok(Exit::Ok);
    }
    if kept.is_empty() {
        let text = "no agent keeps anything";
        app.output.note(&Page::new().text(text).end());
        return Ok(Exit::Ok);
    }
    let ids: Vec<String> = kept.iter().map(|memory| memory.id.to_string()).collect();
    let shown = prefix_length(&ids);
    let mut page = Page::new();
    for memory in kept {
        let id: String = memory.id.to_string().chars().take(shown).collect();
        let (saved, agent) = (time::short(memory.saved), &memory.owner.agent);
        page = page
            .styled(Style::Strong, id)
            .styled(Style::Dim, format!("  {saved}  {agent}  "))
            .text(beginning(&memory.text))
            .styled(Style::Dim, source(memory))
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// The first words of a text, in one line.
fn beginning(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let beginning: String = line.chars().take(MAX_SHOWN).collect();
    if beginning.len() < text.trim_end().len() {
        return format!("{beginning} …");
    }
    beginning
}

fn source(memory: &Memory) -> String {
    if memory.read_from.is_empty() {
        return String::new();
    }
    format!("  (after reading from {})", memory.read_from)
}

fn show(memory: &Memory, app: &App) -> Result<Exit, Stop> {
    if app.output.format() == Format::Json {
        app.output.json(&MemoryView::of(memory))?;
        return Ok(Exit::Ok);
    }
    let read_from = if memory.read_from.is_empty() {
        "nothing that others write".to_owned()
    } else {
        memory.read_from.to_string()
    };
    let page = Page::new()
        .field("memory", memory.id.to_string())
        .field("saved", time::local(memory.saved))
        .field("agent", memory.owner.agent.as_str())
        .field("for", memory.owner.user.as_str())
        .field("session", memory.session.as_str())
        .field("call", memory.call.to_string())
        .field("had read from", read_from)
        .block(&memory.text);
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

fn export(kept: &[Memory], app: &App) -> Result<Exit, Stop> {
    for memory in kept {
        app.output.json_line(&MemoryView::of(memory))?;
    }
    Ok(Exit::Ok)
}

/// Asks before everything is removed.
async fn confirmed(kept: &[Memory], yes: bool, app: &App) -> Result<(), Stop> {
    if yes || kept.is_empty() {
        return Ok(());
    }
    let shown = Page::new()
        .text(format!("This removes {}.", in_words(kept.len())))
        .end();
    let declined = "nothing was removed";
    confirm::confirmed(app.output, &shown, "Remove them?", declined).await
}

fn in_words(count: usize) -> String {
    match count {
        1 => "1 memory".to_owned(),
        more => format!("{more} memories"),
    }
}

async fn forget(ledger: &StoredLedger, chosen: &[&Memory], app: &App) -> Result<Exit, Stop> {
    let store = ledger.memories();
    for memory in chosen {
        // Someone may have been faster; either way it is gone.
        let had = store.forget(&memory.owner, memory.id).await;
        had.map_err(|error| Stop::ledger(&error))?;
    }
    if app.output.format() == Format::Json {
        let ids: Vec<String> = chosen.iter().map(|memory| memory.id.to_string()).collect();
        app.output.json(&json!({"forgotten": ids}))?;
        return Ok(Exit::Ok);
    }
    let page = Page::new()
        .styled(Style::Good, "forgot")
        .text(format!(" {}", in_words(chosen.len())))
        .styled(
            Style::Dim,
            "; the record of the calls that saved and read them stays",
        );
    app.output.page(&page.end())?;
    Ok(Exit::Ok)
}

fn find<'m>(kept: &'m [Memory], id: &str) -> Result<&'m Memory, Stop> {
    let wanted = id.to_ascii_lowercase();
    let fits = |memory: &&Memory| !wanted.is_empty() && memory.id.to_string().starts_with(&wanted);
    let found: Vec<&Memory> = kept.iter().filter(fits).collect();
    match found.as_slice() {
        [memory] => Ok(memory),
        [] => Err(Stop::new(
            Exit::NotFound,
            format!("there is no memory `{id}`"),
            "`haft memory list` shows what there is",
        )),
        several => {
            let named = several.iter().take(MAX_NAMED);
            let named: Vec<String> = named.map(|memory| memory.id.to_string()).collect();
            Err(Stop::new(
                Exit::NotFound,
                format!("`{id}` is the beginning of {} ids", several.len()),
                format!("give more of it: {}", named.join(", ")),
            ))
        }
    }
}
