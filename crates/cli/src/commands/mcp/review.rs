//! `haft mcp review`: everything a mounted server offers, unaltered, for the person who decides
//! whether a model may use its tools. Only what is shown here can be accepted.

use clap::Args;
use haft_host::{
    config::{Settings, mcp::ServerSettings},
    mount::{
        MountPlan, accept,
        known_definitions::{KnownDefinitions, configured, known, store_failed},
        origin,
    },
    state::pins::FilePins,
};
use haft_mcp::pin::{Difference, Item, Kind, LapseReason, PinStatus, Store as _, difference};
use serde_json::{Value, json};

use super::super::{App, approvals::may_answer};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style, visible},
};

/// Show what a mounted server offers, to accept it or not
#[derive(Debug, Args)]
pub(super) struct ReviewArgs {
    /// The server
    server: String,
    /// Ask the server what it offers now, even if it is known
    #[arg(long)]
    fetch: bool,
    /// Show what was accepted, too
    #[arg(long)]
    all: bool,
}

/// Runs the command.
pub(super) async fn run(args: &ReviewArgs, app: &App) -> Result<Exit, Stop> {
    // Whoever reviews also accepts.
    may_answer()?;
    let settings = app.settings()?;
    let server = configured(&settings, &args.server)?.clone();
    let store = FilePins::new(&settings.places.data_dir);
    let mut found = known(&server, &store).map_err(store_failed)?;
    if args.fetch || found.is_none() {
        fetch(&settings, &server).await?;
        found = known(&server, &store).map_err(store_failed)?;
    }
    let Some(known) = found else {
        return Err(Stop::new(
            Exit::Failed,
            format!("nothing is known of what `{}` offers", server.id),
            "try again with `--fetch`",
        ));
    };
    let shown: Vec<(&Item, PinStatus)> = known
        .standings()
        .filter(|(_, standing)| args.all || *standing != PinStatus::Accepted)
        .collect();
    if app.output.format() == Format::Json {
        let items: Vec<Value> = shown
            .iter()
            .map(|(item, standing)| view(item, *standing, &store))
            .collect();
        let lapsed = known.pins.lapsed.as_ref().map(|lapsed| match lapsed {
            LapseReason::Origin(before) => json!({"why": "origin", "before": before.what()}),
            LapseReason::Version => json!({"why": "version"}),
        });
        app.output.json(&json!({
            "server": server.id.as_str(),
            "origin": origin(&server).what(),
            "lapsed": lapsed,
            "definitions": items,
        }))?;
    } else {
        app.output.page(&page(&server, &known, &shown, &store))?;
    }
    let reviewed: Vec<Item> = known.items.clone();
    store
        .change(&server.id, &origin(&server), &[], &mut |pins| {
            pins.review(
                reviewed
                    .iter()
                    .filter(|item| args.all || known.pins.standing(item) != PinStatus::Accepted),
            );
        })
        .map_err(|error| store_failed(error.to_string()))?;
    Ok(Exit::Ok)
}

/// Starts the server to learn what it offers, and ends it again.
async fn fetch(settings: &Settings, server: &ServerSettings) -> Result<(), Stop> {
    let plan = MountPlan::of(settings).only(&server.id);
    if plan.is_empty() {
        return Err(Stop::config(
            format!("the server `{}` is switched off", server.id),
            "remove `enabled = false` from its entry",
        ));
    }
    Ok(accept::fetch(&plan, server).await?)
}

fn page(
    server: &ServerSettings,
    known: &KnownDefinitions,
    shown: &[(&Item, PinStatus)],
    store: &FilePins,
) -> Page {
    let mut page = Page::new()
        .styled(Style::Strong, server.id.as_str())
        .text(format!(
            "  {} new, {} changed, {} definitions in all",
            known.unaccepted(),
            known.changed(),
            known.items.len()
        ))
        .end();
    if let Some(lapsed) = &known.pins.lapsed {
        page = lapse(page, server, lapsed);
    }
    for (item, standing) in shown {
        let style = match standing {
            PinStatus::Accepted => Style::Good,
            PinStatus::New => Style::Warn,
            PinStatus::Changed { .. } => Style::Bad,
        };
        page = page
            .end()
            .styled(style, format!("{:<9}", standing.as_str()))
            .styled(Style::Strong, item.key.to_string())
            .styled(Style::Dim, format!("  {}", item.digest.short()))
            .end();
        page = match changes(item, *standing, store) {
            Some(changes) => changes.iter().fold(page, changed),
            None => spelt(page, &item.definition),
        };
        if let Some(remark) = remark(item) {
            page = page.styled(Style::Warn, format!("  note: {remark}")).end();
        }
    }
    for refused in &known.refused {
        let text = format!(
            "refused  {} `{}`: {}",
            refused.kind.as_str(),
            refused.name,
            refused.why
        );
        page = page.end().styled(Style::Warn, text).end();
    }
    let next = if shown
        .iter()
        .any(|(_, standing)| *standing != PinStatus::Accepted)
    {
        format!(
            "the server wrote all of this; if you want models to use it: `haft mcp accept {} --all`, or name what you accept",
            server.id
        )
    } else {
        "nothing waits for you".to_owned()
    };
    page.end().styled(Style::Dim, next).end()
}

/// Says that an acceptance under this id does not count, and why.
fn lapse(page: Page, server: &ServerSettings, lapsed: &LapseReason) -> Page {
    let page = page.styled(Style::Bad, lapsed.to_string()).end();
    match lapsed {
        LapseReason::Version => page,
        LapseReason::Origin(before) => {
            let now = origin(server);
            difference(before.what(), now.what())
                .iter()
                .fold(page, changed)
        }
    }
}

/// What a person should know of a definition that its text does not show.
fn remark(item: &Item) -> Option<&'static str> {
    let description = item.definition.get("description").and_then(Value::as_str);
    let described = description.is_some_and(|text| !text.trim().is_empty());
    (item.key.kind == Kind::Tool && !described).then_some(
        "it has no description, so a model can only guess from its name what it does and when to use it",
    )
}

/// What changed since it was accepted, if the accepted form is still stored.
fn changes(item: &Item, standing: PinStatus, store: &FilePins) -> Option<Vec<Difference>> {
    let PinStatus::Changed { accepted } = standing else {
        return None;
    };
    let before = store.definition(accepted).ok().flatten()?;
    Some(difference(&before, &item.definition))
}

fn changed(page: Page, change: &Difference) -> Page {
    let mut page = page.text(format!("  {}", visible::line(&change.at))).end();
    for (mark, style, value) in [
        ("  - ", Style::Bad, &change.before),
        ("  + ", Style::Good, &change.after),
    ] {
        if let Some(value) = value {
            page = page
                .styled(style, mark)
                .text(visible::line(&value.to_string()))
                .end();
        }
    }
    page
}

/// A definition, member by member, spelt so that nothing is hidden.
fn spelt(mut page: Page, definition: &Value) -> Page {
    for line in visible::json(definition) {
        page = page.text(format!("  {line}")).end();
    }
    page
}

fn view(item: &Item, standing: PinStatus, store: &FilePins) -> Value {
    let changes = changes(item, standing, store).map(|changes| {
        let change =
            |one: &Difference| json!({"at": one.at, "before": one.before, "after": one.after});
        changes.iter().map(change).collect::<Vec<_>>()
    });
    json!({
        "kind": item.key.kind.as_str(),
        "name": item.key.name,
        "standing": standing.as_str(),
        "sha256": item.digest.to_string(),
        "definition": item.definition,
        "remark": remark(item),
        "changes": changes,
    })
}
