//! `haft mcp cost`: what showing the tools costs a model, by server and by tool, and what each way
//! of listing them would cost. Starts nothing: it counts what servers last offered.

use std::sync::Arc;

use clap::Args;
use haft_contract::Principal;
use haft_host::{Assembly, HostBuilder};
use haft_mcp::{
    catalog::{Catalog, Cost, Mode, ProviderCost, tokens},
    name::{PREFIX, SEPARATOR},
    upstream::supervise::{Fleet, UnseenServer},
};
use serde::Serialize;

use super::{super::App, serve::AGENT};
use crate::{
    args::IdentityArgs,
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// Show what the tools cost a model in tokens, by server and by tool
#[derive(Debug, Args)]
#[command(after_help = "\
Tokens are estimated, from name, description and input schema: about 15 % off for one tool, 5 % for
a server. No server is started: what each offered last is counted.")]
pub(super) struct CostArgs {
    /// The agent that would be shown them [default: mcp]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

#[derive(Debug, Serialize)]
struct CostView {
    /// The most costly first.
    servers: Vec<ServerCostView>,
    tools: usize,
    tokens: usize,
    /// What `haft mcp` would list now, and why.
    mode: &'static str,
    budget: usize,
    listed: &'static str,
    modes: Vec<ModeView>,
}

#[derive(Debug, Serialize)]
struct ServerCostView {
    /// A mounted server's id, or `builtin`, or `script`.
    server: String,
    tokens: usize,
    tools: Vec<ToolCostView>,
    /// Tools not shown because nobody has accepted their current form.
    withheld: usize,
    withheld_tokens: usize,
    /// Whether it is known what the server offers.
    known: bool,
}

#[derive(Debug, Serialize)]
struct ToolCostView {
    tool: String,
    tokens: usize,
}

/// What one listing mode lists.
#[derive(Debug, Serialize)]
struct ModeView {
    mode: &'static str,
    tools: usize,
    tokens: usize,
}

/// Runs the command.
pub(super) async fn run(args: &CostArgs, app: &App) -> Result<Exit, Stop> {
    let settings = app.settings()?;
    let catalog = settings.catalog.catalog(None);
    let identity = IdentityArgs {
        agent: Some(args.agent.clone().unwrap_or_else(|| AGENT.to_owned())),
        ..IdentityArgs::default()
    };
    let principal = identity.principal(&app.env)?;
    let builder = HostBuilder::to_look(settings)?;
    app.notes(builder.notes());
    let assembly = builder.assemble().await?;
    // Same as in `haft mcp`, so that a name that is free there is free here.
    if catalog.may_search() {
        assembly.make_searchable()?;
    }
    let mounted = assembly.mount(&Arc::default(), UnseenServer::Leave)?;
    let view = count(&assembly, &mounted, &principal, &catalog);
    match app.output.format() {
        Format::Json => app.output.json(&view)?,
        Format::Text => app.output.page(&page(&view))?,
    }
    Ok(Exit::Ok)
}

fn count(
    assembly: &Assembly,
    mounted: &Fleet,
    principal: &Principal,
    catalog: &Catalog,
) -> CostView {
    let shown = assembly.runtime.tools_for(principal);
    let cost = Cost::of(&shown, catalog);
    let mut servers: Vec<ServerCostView> = cost.providers.iter().map(counted).collect();
    for status in mounted.status() {
        let id = status.server.to_string();
        let known = status.era.is_some();
        match servers.iter_mut().find(|one| one.server == id) {
            Some(one) => one.known = known,
            None => servers.push(ServerCostView {
                server: id,
                tokens: 0,
                tools: Vec::new(),
                withheld: 0,
                withheld_tokens: 0,
                known,
            }),
        }
    }
    let registry = assembly.runtime.registry().snapshot();
    let all = registry.page(0, registry.len()).iter();
    for entry in all.filter(|entry| entry.is_listed() && entry.withheld().is_some()) {
        let of = server_name(entry.key().provider.as_str());
        if let Some(server) = servers.iter_mut().find(|one| one.server == of) {
            server.withheld += 1;
            server.withheld_tokens += tokens(entry);
        }
    }
    // The search listing includes the search tools, even if search is off now.
    let mut searchable = shown.clone();
    if !catalog.may_search() {
        let extra = assembly.catalog_tools().into_iter();
        let extra = extra.filter(|entry| !registry.exists(entry.key().tool.as_str()));
        searchable.extend(extra.filter(|entry| assembly.runtime.shows(principal, entry)));
    }
    let listed = |mode: Mode| {
        let catalog = Catalog {
            mode,
            ..catalog.clone()
        };
        let listed = catalog.listed(searchable.clone());
        ModeView {
            mode: mode.as_str(),
            tools: listed.len(),
            tokens: listed.iter().map(|entry| tokens(entry)).sum(),
        }
    };
    CostView {
        tools: servers.iter().map(|server| server.tools.len()).sum(),
        tokens: cost.full,
        servers,
        mode: catalog.mode.as_str(),
        budget: catalog.budget,
        listed: if cost.searches {
            Mode::Search.as_str()
        } else {
            Mode::Full.as_str()
        },
        modes: Mode::ALL.map(listed).into(),
    }
}

fn counted(cost: &ProviderCost) -> ServerCostView {
    let tools = cost.tools.iter().map(|tool| ToolCostView {
        tool: tool.tool.to_string(),
        tokens: tool.tokens,
    });
    ServerCostView {
        server: server_name(cost.provider.as_str()).to_owned(),
        tokens: cost.tokens,
        tools: tools.collect(),
        withheld: 0,
        withheld_tokens: 0,
        known: true,
    }
}

/// A provider's name here: a mounted server's id.
fn server_name(provider: &str) -> &str {
    let id = provider.strip_prefix(PREFIX);
    let id = id.and_then(|id| id.strip_prefix(SEPARATOR));
    id.unwrap_or(provider)
}

fn page(view: &CostView) -> Page {
    let names = view.servers.iter().flat_map(|server| {
        let tools = server.tools.iter();
        let tools = tools.map(|tool| tool.tool.chars().count() + 2);
        tools.chain([server.server.chars().count()])
    });
    let width = names.chain(["total".len()]).max().unwrap_or(0);
    let line = |name: &str, tokens: usize| format!("{name:<width$}  {tokens:>7}");
    let head = format!("{:<width$}  {:>7}", "", "tokens");
    let mut page = Page::new().styled(Style::Dim, head).end();
    for server in &view.servers {
        page = page
            .styled(Style::Strong, line(&server.server, server.tokens))
            .end();
        for tool in &server.tools {
            let name = format!("  {}", tool.tool);
            page = page.text(line(&name, tool.tokens)).end();
        }
        let id = &server.server;
        if server.withheld > 0 {
            let text = format!(
                "  {} more tools of about {} tokens are withheld until accepted: `haft mcp review {id}`",
                server.withheld, server.withheld_tokens,
            );
            page = page.styled(Style::Warn, text).end();
        }
        if !server.known {
            let text =
                format!("  never started, so nothing is known of it: `haft mcp review {id}`");
            page = page.styled(Style::Warn, text).end();
        }
    }
    page = page
        .styled(Style::Strong, line("total", view.tokens))
        .end()
        .end();
    page = page.styled(Style::Dim, "catalog   tools   tokens").end();
    for mode in &view.modes {
        let row = format!("{:<8}  {:>5}  {:>7}", mode.mode, mode.tools, mode.tokens);
        let style = if mode.mode == view.mode {
            Style::Good
        } else {
            Style::Plain
        };
        page = page.styled(style, row);
        if mode.mode == view.mode {
            page = page.styled(Style::Dim, "  in force");
        }
        page = page.end();
    }
    let why = match (view.mode, view.listed) {
        ("auto", "full") => format!(
            "auto lists every tool: they fit the budget of {} tokens",
            view.budget
        ),
        ("auto", _) => format!(
            "auto lists only the search tools: all tools together exceed the budget of {} tokens",
            view.budget
        ),
        (mode, _) => format!("catalog = \"{mode}\" under [mcp] of haft.toml says so"),
    };
    page.styled(Style::Dim, why).end()
}
