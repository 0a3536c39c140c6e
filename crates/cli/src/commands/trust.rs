//! `haft trust`: pins a workspace's `haft.toml`, and the scripts it names, at their current
//! content. Shows what that lets tools do without asking.

use clap::Args;
use haft_host::{
    HostBuilder,
    config::{
        resolve::check,
        trust::{Trust, hex, sha256},
    },
    configured_scripts,
    state::private,
};
use serde_json::json;

use super::{App, approvals::may_answer, consequences::consequences};
use crate::{
    exit::Exit,
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
        return done(app, &path.display().to_string(), "forgotten", Page::new());
    }
    let bytes = private::read(&path, private::MAX_CONFIG_BYTES)
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
    let text = std::str::from_utf8(&bytes).map_err(|_| {
        Stop::config(
            format!("`{}` is not UTF-8", path.display()),
            "save it as UTF-8",
        )
    })?;
    check(&places.name_of(&path), &path, text)?;
    let hash = sha256(&bytes);
    let before = places.trust.of(&path, hash);
    // Pinned in memory first: a file that would then stop every call is not trusted.
    places.trust.pin(&path, hash);
    let mut settings = places.settings()?;
    let scripts = configured_scripts(&settings)?;
    for (script, _) in &scripts {
        script.pin(&mut settings.places.trust);
    }
    let consequences = consequences(&settings);
    HostBuilder::to_look(settings)?.assemble().await?;
    let mut store = app.places()?.trust;
    store.pin(&path, hash);
    for (script, _) in &scripts {
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
    let page = consequences.field("sha256", hex(hash));
    done(app, &path.display().to_string(), word, page)
}

fn done(app: &App, path: &str, word: &str, more: Page) -> Result<Exit, Stop> {
    match app.output.format() {
        Format::Json => app.output.json(&json!({"config": path, "state": word}))?,
        Format::Text => {
            let page = Page::new()
                .styled(Style::Good, word)
                .text(format!(": {path}"))
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
