//! `haft doctor`: checks everything a call needs and says, line by line, what to do. Sandboxes are
//! not trusted but tested.

mod agents;
mod screen;
mod show;

use clap::Args;
use haft_host::{
    config::{ConfigPlaces, Settings},
    doctor::{Check, configuration, machine, record, sources, tiers},
};
use haft_sandbox::SandboxOptions;

use super::App;
use crate::{args::IdentityArgs, exit::Exit, stop::Stop};

/// Check that this machine has everything a call needs
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Show what would confine a call of this tool here, and start nothing
    #[arg(long, value_name = "TOOL")]
    show_sandbox: Option<String>,
    /// Arguments of that call, as for `haft call`
    #[arg(value_name = "ARGUMENT", requires = "show_sandbox")]
    arguments: Vec<String>,
}

/// Runs the command.
pub(crate) async fn run(args: &DoctorArgs, app: &App) -> Result<Exit, Stop> {
    if let Some(tool) = &args.show_sandbox {
        return show::run(tool, &args.arguments, app).await;
    }
    let mut checks = machine::checks();
    match app.places() {
        Err(stop) => checks.push(stopped("workspace", &stop)),
        Ok(places) => {
            checks.push(Check::ok(
                "workspace",
                places.workspace.display().to_string(),
            ));
            checks.push(record::check(&places).await);
            let place = places.data_dir.join("doctor");
            let agents = agents::checks(app, &places);
            let options = configured(places, app, &mut checks).await;
            checks.extend(agents);
            checks.extend(tiers::prove_all(&options, &place).await);
        }
    }
    screen::print(&checks, app)?;
    Ok(exit_of(&checks))
}

/// Checks these databases and nothing else.
pub(crate) async fn check_sources(settings: &Settings, app: &App) -> Result<Exit, Stop> {
    let checks = sources::checks(settings).await;
    screen::print(&checks, app)?;
    Ok(exit_of(&checks))
}

/// Something prevented a check.
fn stopped(name: &'static str, stop: &Stop) -> Check {
    Check::fail(name, stop.message().unwrap_or_default(), stop.hint())
}

fn exit_of(checks: &[Check]) -> Exit {
    if checks.iter().any(Check::has_failed) {
        Exit::Failed
    } else {
        Exit::Ok
    }
}

/// Checks the configuration; returns how it confines commands.
async fn configured(places: ConfigPlaces, app: &App, checks: &mut Vec<Check>) -> SandboxOptions {
    let principal = match IdentityArgs::default().principal(&app.env) {
        Ok(principal) => principal,
        Err(stop) => {
            checks.push(stopped("config", &stop));
            return SandboxOptions::default();
        }
    };
    let checked = Box::pin(configuration::check(places, &principal)).await;
    checks.extend(checked.checks);
    checked.options
}
