//! `haft trust`: pins a workspace's `haft.toml`, and the scripts it names, at their current
//! content. Shows what changed in its rules since it was last trusted, what it lets tools do that they could
//! not, and what happens without asking. Standing approvals of tools that it changed end. Where something that was denied may no longer be, a person confirms it.

use std::{collections::BTreeSet, io::IsTerminal as _, path::Path};

use clap::Args;
use haft_host::{
    ConfiguredScript, HostBuilder,
    config::{
        Consequences,
        resolve::check,
        trust::{Trust, hex, sha256},
        trusted_changes::{TrustedChanges, remade_tools},
    },
    configured_scripts,
    state::private,
};
use haft_policy::PolicyChange;
use serde_json::{Value, json};

use super::{App, approvals::may_answer, grants::end_outdated};
use crate::{
    exit::Exit,
    prompt::confirm,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// Trust this workspace's haft.toml as it is now
#[derive(Debug, Args)]
pub(crate) struct TrustArgs {
    /// Trust it no longer
    #[arg(long, conflicts_with = "list")]
    forget: bool,
    /// List everything that is trusted
    #[arg(long)]
    list: bool,
    /// Do not ask when a deny rule is gone or covers less than before
    #[arg(long, conflicts_with_all = ["forget", "list"])]
    yes: bool,
}

/// Runs the command.
pub(crate) async fn run(args: &TrustArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    if args.list {
        return list(app);
    }
    let mut places = app.places()?;
    let path = places.project_config.clone();
    if args.forget {
        if !places.trust.forget(&path) {
            return Err(Stop::new(
                Exit::NotFound,
                format!("`{}` is not trusted", path.display()),
                "`haft trust --list` shows what is",
            ));
        }
        places.trust.forget(&places.workspace);
        places.trust.save()?;
        return done(app, &path, ("forgotten", &[]), None, Page::new());
    }
    let text = text_of(&path)?;
    let name = places.name_of(&path);
    check(&name, &path, &text)?;
    let hash = sha256(text.as_bytes());
    let before = places.trust.of(&path, hash);
    let changes = match before {
        Trust::Changed => Some(TrustedChanges::of(&places.trust, &path, &name, &text)),
        Trust::Trusted | Trust::Never => None,
    };
    let mut remade = match before {
        Trust::Trusted => BTreeSet::new(),
        Trust::Changed | Trust::Never => remade_tools(&places.trust, &path, &name, &text),
    };
    // Pinned in memory first: a file that would then stop every call is not trusted.
    places.trust.pin(&path, hash);
    let mut settings = places.settings()?;
    let scripts = configured_scripts(&settings)?;
    for configured in &scripts {
        let trust = &mut settings.places.trust;
        if !configured.script.is_pinned(trust) {
            remade.insert(configured.name().to_string());
        }
        configured.script.pin(trust);
    }
    let consequences = Consequences::of(&settings);
    HostBuilder::to_look(settings)?.assemble().await?;
    if let Some(changes) = &changes {
        confirm_changes(changes, &name, args, app).await?;
    }
    // Before it applies: no call of a tool that does something else finds what stood for the former one.
    let ended = end_outdated(app, &remade).await?;
    let mut store = app.places()?.trust;
    store.pin_text(&path, &text);
    for ConfiguredScript { script, .. } in &scripts {
        script.pin(&mut store);
        app.notes([&format!(
            "trusted the script `{}` and its program",
            script.manifest_path().display()
        )]);
    }
    store.save()?;
    let word = match before {
        Trust::Trusted => "trusted as before",
        Trust::Changed => "trusted again",
        Trust::Never => "trusted",
    };
    let page = consequences
        .lines()
        .iter()
        .fold(Page::new(), |page, (name, value)| page.field(name, value))
        .field("sha256", hex(hash));
    let page = ended.iter().fold(page, |page, rule| {
        page.field(
            "ended",
            format!("the standing approval `{rule}`: the tool is not what it was"),
        )
    });
    done(app, &path, (word, &ended), changes.as_ref(), page)
}

/// The text of the file that is to be trusted.
fn text_of(path: &Path) -> Result<String, Stop> {
    let bytes = private::read(path, private::MAX_CONFIG_BYTES)
        .map_err(|error| {
            Stop::config(
                format!("`{}` cannot be read: {error}", path.display()),
                "check who may read it",
            )
        })?
        .ok_or_else(|| {
            Stop::config(
                format!("there is no `{}`", path.display()),
                "`haft init` makes one",
            )
        })?;
    String::from_utf8(bytes).map_err(|_| {
        Stop::config(
            format!("`{}` is not UTF-8", path.display()),
            "save it as UTF-8",
        )
    })
}

/// Shows what changed in the rules, and asks if something that was denied may no longer be.
async fn confirm_changes(
    changes: &TrustedChanges,
    name: &str,
    args: &TrustArgs,
    app: &App,
) -> Result<(), Stop> {
    if app.output.format() == Format::Text {
        app.output.page(&changes_page(changes))?;
    }
    if args.yes || !changes.may_lose_denial() {
        return Ok(());
    }
    let lost = lost_denials(changes, name);
    if !std::io::stdin().is_terminal() || !app.output.stderr_is_terminal() {
        return Err(Stop::usage(
            format!("{lost}, and nobody is there to confirm it"),
            "if you want that, run `haft trust --yes`; nothing was trusted",
        ));
    }
    if confirm::yes(app.output, &format!("{lost}. Trust it? [y/N] ")).await {
        return Ok(());
    }
    Err(Stop::new(
        Exit::Denied,
        format!("`{name}` was not trusted"),
        "put the deny rules back, or answer y",
    ))
}

/// What is no longer denied, as the start of a sentence.
fn lost_denials(changes: &TrustedChanges, name: &str) -> String {
    let TrustedChanges::Compared { rules: changes, .. } = changes else {
        return format!("it is not known what `{name}` denied when you last trusted it");
    };
    let lost = changes.iter().filter(|change| change.loses_denial);
    match lost.count() {
        1 => format!("`{name}` no longer denies something it denied when you last trusted it"),
        several => {
            format!("`{name}` no longer denies {several} things it denied when you last trusted it")
        }
    }
}

/// What changed in the rules since the file was last trusted, one change on each line.
fn changes_page(changes: &TrustedChanges) -> Page {
    let page = Page::new();
    match changes {
        TrustedChanges::Unknown => page
            .text("what changed since you last trusted it cannot be shown: that text was not kept")
            .end(),
        TrustedChanges::Compared { rules, loosened } if rules.is_empty() && loosened.is_empty() => {
            page.text("its rules are the same as when you last trusted it")
                .end()
        }
        TrustedChanges::Compared { rules, loosened } => {
            let page = page.text("changed since you last trusted it:").end();
            let page = rules.iter().fold(page, |page, change| {
                let style = if change.loses_denial {
                    Style::Bad
                } else {
                    Style::Plain
                };
                let (word, text) = in_words(change);
                changed(page, word, style, text)
            });
            loosened.iter().fold(page, |page, text| {
                changed(page, "loosens", Style::Bad, text.clone())
            })
        }
    }
}

/// One change on its line.
fn changed(page: Page, word: &str, style: Style, text: String) -> Page {
    page.styled(Style::Dim, format!("{word:<9} "))
        .styled(style, text)
        .end()
}

/// A change as a word and a text.
fn in_words(change: &PolicyChange) -> (&'static str, String) {
    let (word, text) = match (&change.before, &change.after) {
        (Some(before), Some(after)) => ("changed", format!("{before} is now {after}")),
        (Some(before), None) => ("gone", before.clone()),
        (None, Some(after)) => ("new", after.clone()),
        (None, None) => ("", String::new()),
    };
    let lost = if change.loses_denial {
        ", so it denies less"
    } else {
        ""
    };
    (word, format!("{text}{lost}"))
}

/// The changes as JSON; null if there was nothing to compare with.
fn changes_json(changes: Option<&TrustedChanges>) -> Value {
    match changes {
        Some(TrustedChanges::Compared { rules, .. }) => rules
            .iter()
            .map(|change| {
                json!({
                    "before": change.before,
                    "after": change.after,
                    "loses_denial": change.loses_denial,
                })
            })
            .collect(),
        Some(TrustedChanges::Unknown) | None => Value::Null,
    }
}

/// What tools may do in addition, as JSON; null if there was nothing to compare with.
fn loosened_json(changes: Option<&TrustedChanges>) -> Value {
    match changes {
        Some(TrustedChanges::Compared { loosened, .. }) => json!(loosened),
        Some(TrustedChanges::Unknown) | None => Value::Null,
    }
}

fn done(
    app: &App,
    path: &Path,
    (word, ended): (&str, &[String]),
    changes: Option<&TrustedChanges>,
    more: Page,
) -> Result<Exit, Stop> {
    match app.output.format() {
        Format::Json => app.output.json(&json!({
            "config": path,
            "state": word,
            "changes": changes_json(changes),
            "loosens": loosened_json(changes),
            "ended_grants": ended,
        }))?,
        Format::Text => {
            let page = Page::new()
                .styled(Style::Good, word)
                .text(format!(": {}", path.display()))
                .end();
            app.output.page(&page.page(more))?;
        }
    }
    Ok(Exit::Ok)
}

fn list(app: &App) -> Result<Exit, Stop> {
    let store = app.places()?.trust;
    if app.output.format() == Format::Json {
        let files: Vec<_> = store
            .files()
            .map(|(path, hash)| json!({"path": path, "sha256": hash}))
            .collect();
        app.output.json(&files)?;
        return Ok(Exit::Ok);
    }
    let mut page = Page::new();
    for (path, hash) in store.files() {
        page = page
            .styled(Style::Dim, hash.get(..12).unwrap_or(hash))
            .text(format!("  {}", path.display()))
            .end();
    }
    app.output.page(&page)?;
    Ok(Exit::Ok)
}
