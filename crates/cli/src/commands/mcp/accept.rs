//! `haft mcp accept` and `haft mcp revoke`: whether a model may use what a mounted server offers.
//! Only what `haft mcp review` last showed, exactly as shown, can be accepted.

use clap::Args;
use haft_host::{
    mount::{
        accept,
        known_definitions::{configured, known, store_failed},
        origin,
    },
    state::pins::FilePins,
};
use haft_mcp::pin::{Item, ItemKey, PinStatus, Store as _};
use serde_json::json;

use super::super::{App, approvals::may_answer};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// Accept what `haft mcp review` showed of a mounted server
#[derive(Debug, Args)]
pub(super) struct AcceptArgs {
    /// The server
    server: String,
    /// The tools, prompts or templates to accept, by the server's names for them
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// Everything that was shown
    #[arg(long)]
    all: bool,
}

/// Revoke what was accepted from a mounted server
#[derive(Debug, Args)]
pub(super) struct RevokeArgs {
    /// The server
    server: String,
    /// The tools, prompts or templates, by the server's names for them
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    names: Vec<String>,
    /// Everything that was accepted
    #[arg(long)]
    all: bool,
}

/// Runs `haft mcp accept`.
pub(super) fn accept(args: &AcceptArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    let settings = app.settings()?;
    let server = configured(&settings, &args.server)?;
    let store = FilePins::new(&settings.places.data_dir);
    let review = || format!("`haft mcp review {}` shows it", server.id);
    let Some(known) = known(server, &store).map_err(store_failed)? else {
        return Err(Stop::new(
            Exit::NotFound,
            format!("nothing is known of what `{}` offers", server.id),
            review(),
        ));
    };
    let named = |item: &Item| args.all || args.names.contains(&item.key.name);
    let (already, wanted): (Vec<_>, Vec<_>) = known
        .standings()
        .filter(|(item, _)| named(item))
        .partition(|(_, standing)| *standing == PinStatus::Accepted);
    let wanted: Vec<Item> = wanted.into_iter().map(|(item, _)| item.clone()).collect();
    for name in &args.names {
        let already = already.iter().map(|(item, _)| *item);
        if !already.chain(&wanted).any(|item| item.key.name == *name) {
            return Err(Stop::new(
                Exit::NotFound,
                format!("`{}` offers nothing called `{name}`", server.id),
                review(),
            ));
        }
    }
    accept::accept(&store, server, &wanted)?;
    let keys: Vec<&ItemKey> = wanted.iter().map(|item| &item.key).collect();
    // Accepting everything means everything that is left.
    let already = already.iter().filter(|_| !args.all);
    let already: Vec<&ItemKey> = already.map(|(item, _)| &item.key).collect();
    done(app, server.id.as_str(), "accepted", &keys, &already)
}

/// Runs `haft mcp revoke`.
pub(super) fn revoke(args: &RevokeArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    let settings = app.settings()?;
    let server = configured(&settings, &args.server)?;
    let store = FilePins::new(&settings.places.data_dir);
    let pins = store.pins(&server.id, &origin(server));
    let pins = pins.map_err(|error| store_failed(error.to_string()))?;
    let wanted: Vec<ItemKey> = pins
        .accepted
        .keys()
        .filter(|key| args.all || args.names.contains(&key.name))
        .cloned()
        .collect();
    for name in &args.names {
        if !wanted.iter().any(|key| key.name == *name) {
            return Err(Stop::new(
                Exit::NotFound,
                format!("nothing called `{name}` of `{}` is accepted", server.id),
                format!("`haft mcp review {} --all` shows what is", server.id),
            ));
        }
    }
    store
        .change(&server.id, &origin(server), &[], &mut |pins| {
            for key in &wanted {
                pins.revoke(key);
            }
        })
        .map_err(|error| store_failed(error.to_string()))?;
    let keys: Vec<&ItemKey> = wanted.iter().collect();
    done(app, server.id.as_str(), "revoked", &keys, &[])
}

/// Reports what was done, and what was already so.
fn done(
    app: &App,
    server: &str,
    word: &str,
    keys: &[&ItemKey],
    already: &[&ItemKey],
) -> Result<Exit, Stop> {
    if app.output.format() == Format::Json {
        let name = |key: &&ItemKey| json!({"kind": key.kind.as_str(), "name": key.name});
        let names = |keys: &[&ItemKey]| keys.iter().map(name).collect::<Vec<_>>();
        app.output.json(&json!({
            "server": server,
            "state": word,
            "definitions": names(keys),
            "already": names(already),
        }))?;
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    for key in keys {
        page = page
            .styled(Style::Good, word)
            .text(format!("  {key} of {server}"))
            .end();
    }
    for key in already {
        page = page
            .styled(Style::Dim, format!("already {word}"))
            .text(format!("  {key} of {server}"))
            .end();
    }
    if keys.is_empty() && already.is_empty() {
        page = page.text(format!("nothing to be {word}")).end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}
