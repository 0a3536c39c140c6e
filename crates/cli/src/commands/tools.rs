//! `haft tools`: the tools a caller is shown, in a model provider's form; one tool as a person
//! calls it; why a tool is not shown; and tools made of an API's description.

mod import;

use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use haft_contract::{Effects, Principal, ProviderId};
use haft_host::{
    Assembly, HostBuilder, config::backends::BackendInForce, mount::Unknown, off_until_named,
};
use haft_runtime::registry::{Entry, Filter, Format as Rendering, Snapshot};
use serde::Serialize;
use serde_json::Value;

use super::{App, arguments};
use crate::{
    args::IdentityArgs,
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    view::{decision::RuleView, time},
};

/// List the tools, show one, or say why one is not listed
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: Option<ToolsCommand>,
    /// Show this tool: what it does, its parameters, its other names
    #[arg(conflicts_with_all = ["format", "why", "group", "provider", "effects", "search"])]
    name: Option<String>,
    /// Print the tools as a model provider wants them
    #[arg(long, value_name = "FORMAT")]
    format: Option<Shape>,
    /// Say whether this tool is shown, and if not, why
    #[arg(long, value_name = "NAME", conflicts_with_all = ["format", "group", "provider", "effects", "search"])]
    why: Option<String>,
    /// Only tools of this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Only tools of this provider: `builtin`, `script` or `mcp__` and the id of a server
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Only tools with these effects
    #[arg(long, value_name = "EFFECTS")]
    effects: Option<EffectsWord>,
    /// Only tools whose name, description or parameters contain these words
    #[arg(long, value_name = "WORDS")]
    search: Option<String>,
    #[command(flatten)]
    identity: IdentityArgs,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    Import(import::ImportArgs),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shape {
    /// MCP `tools/list` entries
    Mcp,
    /// OpenAI functions
    Openai,
    /// Anthropic tools
    Anthropic,
}

/// What a tool usually does, as people ask for it.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum EffectsWord {
    /// It changes nothing
    ReadOnly,
    /// It may change something
    Changes,
    /// Running it twice has the same effect as once
    Idempotent,
    /// It may remove or overwrite something
    Destructive,
    /// It reaches things outside the workspace
    OpenWorld,
}

impl EffectsWord {
    fn applies(self) -> fn(Effects) -> bool {
        match self {
            Self::ReadOnly => |effects| effects.read_only,
            Self::Changes => |effects| !effects.read_only,
            Self::Idempotent => |effects| effects.idempotent,
            Self::Destructive => |effects| effects.destructive,
            Self::OpenWorld => |effects| effects.open_world,
        }
    }
}

/// A tool for programs.
#[derive(Debug, Serialize)]
struct ToolView<'e> {
    name: &'e str,
    provider: &'e str,
    title: &'e str,
    description: &'e str,
    effects: EffectsView,
    groups: &'e [&'static str],
    aliases: &'e [&'static str],
    timeout_ms: u64,
    max_timeout_ms: u64,
    sandbox: &'static str,
    input_schema: &'e Value,
}

#[derive(Debug, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent flags, as the contract names them"
)]
struct EffectsView {
    read_only: bool,
    idempotent: bool,
    destructive: bool,
    open_world: bool,
}

#[derive(Debug, Serialize)]
struct WhyView {
    tool: String,
    shown: bool,
    reason: String,
    /// Where its calls work, and who says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    backend: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backend_because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<RuleView>,
}

/// Runs the command.
pub(crate) async fn run(args: &ToolsArgs, app: &App) -> Result<Exit, Stop> {
    if let Some(ToolsCommand::Import(args)) = &args.command {
        return import::run(args, app).await;
    }
    let principal = args.identity.principal(&app.env)?;
    let settings = app.settings()?.used_by(&principal)?;
    let in_force = settings.said_of_backend(&principal);
    let builder = HostBuilder::to_look(settings)?;
    app.notes(builder.notes());
    let assembly = builder.assemble().await?;
    // Uses what servers last offered; none is started for a list.
    assembly.mount_to_look()?;
    if let Some(name) = &args.why {
        return why(name, &principal, in_force, &assembly, app);
    }
    if let Some(name) = &args.name {
        return one(name, &assembly, app);
    }
    let tools = assembly.runtime.registry().snapshot();
    let filter = Filter {
        group: args.group.clone(),
        text: args.search.clone(),
        provider: args.provider.as_deref().map(provider).transpose()?,
        effects: args.effects.map(EffectsWord::applies),
        ..Filter::default()
    };
    let shown: Vec<_> = tools
        .list(&filter)
        .into_iter()
        .filter(|entry| entry.is_shown_to(&principal, &*assembly.policy))
        .collect();
    if let Some(shape) = args.format {
        let rendering = match shape {
            Shape::Mcp => Rendering::Mcp,
            Shape::Openai => Rendering::OpenAi,
            Shape::Anthropic => Rendering::Anthropic,
        };
        let list: Vec<&Value> = shown
            .iter()
            .map(|entry| entry.rendering(rendering))
            .collect();
        app.output.json(&list)?;
        return Ok(Exit::Ok);
    }
    if app.output.format() == Format::Json {
        let list: Vec<_> = shown.iter().map(|entry| view(entry)).collect();
        app.output.json(&list)?;
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    let width = shown
        .iter()
        .map(|entry| entry.key().tool.as_str().len())
        .max()
        .unwrap_or(0);
    for entry in &shown {
        let first = entry
            .spec()
            .description
            .split_once(". ")
            .map_or(&*entry.spec().description, |(first, _)| first);
        page = page
            .styled(
                Style::Strong,
                format!("{:<width$}", entry.key().tool.as_str()),
            )
            .styled(
                Style::Dim,
                format!(
                    "  {:<11}  ",
                    if entry.spec().effects.read_only {
                        "reads"
                    } else {
                        "changes"
                    }
                ),
            )
            .text(first.lines().next().unwrap_or_default())
            .end();
    }
    if shown.is_empty() {
        page = page
            .text("no tools; `haft tools --why NAME` says why one is missing")
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

/// A provider by its name.
fn provider(name: &str) -> Result<ProviderId, Stop> {
    ProviderId::parse(name).map_err(|error| {
        let hint = "`haft tools --json` shows the provider of each tool";
        Stop::new(Exit::Usage, error.to_string(), hint)
    })
}

fn find<'t>(tools: &'t Snapshot, assembly: &Assembly, name: &str) -> Result<&'t Arc<Entry>, Stop> {
    tools.get(name).ok_or_else(|| {
        let near = tools.nearest(name);
        let hint = match (assembly.mounts().about_unknown(name), near.first()) {
            (Some(Unknown::Unseen(hint) | Unknown::Other(hint)), _) => hint,
            (None, Some(near)) => format!("did you mean `{near}`?"),
            (None, None) => "`haft tools` lists the tools".to_owned(),
        };
        match off_until_named(name) {
            Some(off) => Stop::new(Exit::NotFound, off.reason, off.hint),
            None => Stop::new(Exit::NotFound, format!("there is no tool `{name}`"), hint),
        }
    })
}

/// Everything a person needs to call one tool.
fn one(name: &str, assembly: &Assembly, app: &App) -> Result<Exit, Stop> {
    let tools = assembly.runtime.registry().snapshot();
    let view = view(find(&tools, assembly, name)?);
    if app.output.format() == Format::Json {
        app.output.json(&view)?;
        return Ok(Exit::Ok);
    }
    let effects: Vec<&str> = [
        (view.effects.read_only, "only reads"),
        (view.effects.idempotent, "may be repeated"),
        (view.effects.destructive, "may destroy"),
        (view.effects.open_world, "reaches beyond the workspace"),
    ]
    .into_iter()
    .filter_map(|(holds, words)| holds.then_some(words))
    .collect();
    let mut page = Page::new()
        .styled(Style::Strong, format!("{}/{}", view.provider, view.name))
        .end()
        .field_block("about", view.description)
        .field("effects", effects.join(", "))
        .field("groups", view.groups.join(", "))
        .field("aliases", view.aliases.join(", "))
        .field(
            "deadline",
            format!(
                "{} unless a call says otherwise, at most {}",
                time::duration(view.timeout_ms.saturating_mul(1_000)),
                time::duration(view.max_timeout_ms.saturating_mul(1_000))
            ),
        );
    for parameter in arguments::described(view.input_schema) {
        page = page
            .styled(Style::Dim, format!("{:<10}", "parameter"))
            .styled(Style::Strong, &parameter.name)
            .text(format!("  {}", parameter.kind))
            .styled(
                Style::Dim,
                if parameter.required { "  required" } else { "" },
            )
            .end();
        if !parameter.description.is_empty() {
            page = page.field_block("", &parameter.description);
        }
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

fn why(
    name: &str,
    principal: &Principal,
    in_force: Option<BackendInForce>,
    assembly: &Assembly,
    app: &App,
) -> Result<Exit, Stop> {
    let Some(why) = assembly.why_shown(name, principal) else {
        return find(&assembly.runtime.registry().snapshot(), assembly, name).map(|_| Exit::Ok);
    };
    let view = WhyView {
        tool: why.tool,
        shown: why.shown,
        reason: why.reason,
        backend: in_force.as_ref().map(|said| said.backend.to_string()),
        backend_because: in_force.map(|said| said.because),
        hint: why.hint,
        rule: why.rule.as_ref().map(RuleView::of),
    };
    if app.output.format() == Format::Json {
        app.output.json(&view)?;
        return Ok(Exit::Ok);
    }
    let (word, style) = if view.shown {
        ("shown", Style::Good)
    } else {
        ("hidden", Style::Bad)
    };
    let mut page = Page::new()
        .styled(Style::Strong, &view.tool)
        .text("  ")
        .styled(style, word)
        .end()
        .field("because", &view.reason);
    if let (Some(backend), Some(because)) = (&view.backend, &view.backend_because) {
        page = page.field("back end", format!("{backend}: {because}"));
    }
    if let Some(hint) = &view.hint {
        page = page.field("hint", hint);
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}

fn view(entry: &Entry) -> ToolView<'_> {
    let spec = entry.spec();
    let millis =
        |duration: std::time::Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    ToolView {
        name: entry.key().tool.as_str(),
        provider: entry.key().provider.as_str(),
        title: &spec.title,
        description: &spec.description,
        effects: EffectsView {
            read_only: spec.effects.read_only,
            idempotent: spec.effects.idempotent,
            destructive: spec.effects.destructive,
            open_world: spec.effects.open_world,
        },
        groups: &spec.groups,
        aliases: &spec.aliases,
        timeout_ms: millis(spec.deadline.default),
        max_timeout_ms: millis(spec.deadline.maximum),
        sandbox: spec.sandbox.as_str(),
        input_schema: entry.input_schema(),
    }
}
