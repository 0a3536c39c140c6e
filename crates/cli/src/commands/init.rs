//! `haft init`: makes a directory a workspace. Writes a self-explanatory `haft.toml` and trusts it,
//! because the operator created it with this command.

use std::io::ErrorKind;

use clap::{Args, ValueEnum};
use haft_host::{
    config::{ConfigPlaces, FILE_NAME, recommended::preset_guide, template},
    state::private,
};
use haft_policy::Preset;
use serde_json::json;

use super::{App, dev_container};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// Make the current directory a workspace
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// What applies when no rule matches
    #[arg(long, value_name = "PRESET", default_value = "careful")]
    preset: PresetName,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PresetName {
    /// What a sandbox without network holds is allowed; losing what no command makes again asks
    Sandboxed,
    /// The same, but commands that delete files or rewrite history ask as well
    Workspace,
    /// Reads are allowed, everything that changes something asks
    Careful,
    /// Nothing asks; what no rule allows is denied
    Locked,
}

/// Writes a workspace's new configuration and trusts it, because its operator has just made it.
/// Fails if there is one already.
pub(crate) fn write(places: &mut ConfigPlaces, text: &str) -> Result<(), Stop> {
    let path = places.project_config.clone();
    private::create(&path, text.as_bytes()).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Stop::config(
            format!("`{}` exists already", path.display()),
            "read it, then run `haft trust` to use it as it is",
        ),
        _ => Stop::config(
            format!("`{}` cannot be written: {error}", path.display()),
            "check that the directory is yours and has room",
        ),
    })?;
    places.trust.pin_text(&path, text);
    Ok(places.trust.save()?)
}

/// Runs the command.
pub(crate) async fn run(args: &InitArgs, app: &App) -> Result<Exit, Stop> {
    let mut overrides = app.global.overrides();
    // A new workspace is the directory itself, not the nearest existing one above.
    overrides.workspace.get_or_insert_with(|| {
        app.env
            .workspace
            .clone()
            .unwrap_or_else(|| app.env.current_dir.clone())
    });
    let mut places = ConfigPlaces::find(&app.env, &overrides)?;
    let preset = match args.preset {
        PresetName::Sandboxed => Preset::Sandboxed,
        PresetName::Workspace => Preset::Workspace,
        PresetName::Careful => Preset::Careful,
        PresetName::Locked => Preset::Locked,
    };
    let path = places.project_config.clone();
    write(&mut places, &template::haft_toml(preset.as_str()))?;
    let guide = preset_guide(preset, &places.workspace);
    let offer = dev_container::offer(&places.workspace).await;
    if app.output.format() == Format::Json {
        let mut made = json!({
            "workspace": places.workspace,
            "config": path,
            "data_dir": places.data_dir,
            "preset": preset.as_str(),
            "recommended": guide.recommended.as_str(),
        });
        if let (Some(offer), Some(made)) = (&offer, made.as_object_mut()) {
            made.insert("dev_container".to_owned(), offer.json());
        }
        app.output.json(&made)?;
        return Ok(Exit::Ok);
    }
    let above = places
        .workspace
        .ancestors()
        .skip(1)
        .find(|directory| places.trust.knows(&directory.join(FILE_NAME)));
    if let Some(above) = above {
        app.notes([&format!(
            "`{}` above it is a workspace too; its rules do not hold here",
            above.display()
        )]);
    }
    let page = Page::new()
        .styled(Style::Good, "ready")
        .text(format!(": {} is a workspace", places.workspace.display()))
        .end()
        .field("config", path.display().to_string())
        .field("record", places.data_dir.display().to_string())
        .end()
        .block(guide.presets)
        .end()
        .end()
        .text("Try:")
        .end()
        .block(guide.first_calls)
        .end()
        .text("  haft log                         both are on record")
        .end()
        .text("  haft explain last                why the last one was allowed or denied")
        .end()
        .end()
        .text("Give it to your agent:")
        .end()
        .text("  haft mcp install AGENT           puts Haft into the agent's configuration")
        .end()
        .text("  haft mcp import AGENT            mounts the MCP servers the agent has behind Haft")
        .end();
    let page = match offer {
        Some(offer) => page.end().block(offer.text()).end(),
        None => page,
    };
    app.output.page(&page)?;
    Ok(Exit::Ok)
}
