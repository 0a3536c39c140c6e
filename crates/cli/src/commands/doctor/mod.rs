//! `haft doctor`: checks everything a call needs and says, line by line, what to do. Sandboxes are
//! not trusted but tested (`tiers.rs`).

mod agents;
mod back_ends;
mod check;
mod servers;
mod show;
mod sources;
mod tiers;
mod tools;
mod web;

use std::path::Path;

use clap::Args;
use haft_contract::{
    TenantId, ToolName,
    host::{History as _, Verification},
    ops::SandboxMode,
};
use haft_host::{HostBuilder, Record, config::ConfigPlaces, workspace::sandbox_options};
use haft_sandbox::SandboxOptions;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
    process::PidfdFlags,
};

use self::check::Check;
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
    let mut checks = vec![kernel_paths(), kernel_processes(), shell()];
    match app.places() {
        Err(stop) => checks.push(Check::stopped("workspace", stop)),
        Ok(places) => {
            checks.push(Check::ok(
                "workspace",
                places.workspace.display().to_string(),
            ));
            checks.push(record(&places).await);
            let place = places.data_dir.join("doctor");
            let agents = agents::checks(app, &places);
            let options = Box::pin(configuration(places, app, &mut checks)).await;
            checks.extend(agents);
            checks.extend(tiers::prove_all(&options, &place).await);
        }
    }
    check::print(&checks, app)?;
    Ok(if checks.iter().any(Check::has_failed) {
        Exit::Failed
    } else {
        Exit::Ok
    })
}

fn kernel_paths() -> Check {
    const NAME: &str = "kernel: openat2";
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(CWD, ".", flags, Mode::empty(), resolve) {
        Ok(_) => Check::ok(
            NAME,
            "paths are confined by the kernel (RESOLVE_BENEATH, NO_MAGICLINKS, NO_SYMLINKS)",
        ),
        Err(Errno::NOSYS) => {
            Check::fail(NAME, "this kernel has no openat2", "use Linux 5.6 or newer")
        }
        Err(error) => Check::fail(
            NAME,
            format!("openat2 is refused: {error}"),
            "allow openat2 in the container's seccomp profile",
        ),
    }
}

fn kernel_processes() -> Check {
    const NAME: &str = "kernel: pidfd";
    match rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty()) {
        Ok(_) => Check::ok(NAME, "processes are stopped by handle, never by number"),
        Err(error) => Check::fail(
            NAME,
            format!("pidfd_open is refused: {error}"),
            "use Linux 5.3 or newer and allow pidfd_open",
        ),
    }
}

fn shell() -> Check {
    let found = ["/bin/bash", "/usr/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    match found {
        Some(path) => Check::ok("bash", path),
        None => Check::warn(
            "bash",
            "there is no bash, so the tool `bash` cannot run",
            "install bash",
        ),
    }
}

async fn record(places: &ConfigPlaces) -> Check {
    let record = match Record::open_to_look(places).await {
        Ok(record) => record,
        Err(stop) => return Check::stopped("record", stop),
    };
    match record.ledger.verify(&TenantId::local()).await {
        Ok(Verification::Intact { records }) => Check::ok(
            "record",
            format!("{}, {records} records, intact", places.data_dir.display()),
        ),
        Ok(Verification::Broken { sequence, reason }) => Check::fail(
            "record",
            format!("record {sequence} fails verification: {reason}"),
            "everything before it is intact; keep the files and find out who wrote to them",
        ),
        Err(error) => Check::stopped("record", Stop::ledger(&error)),
    }
}

/// Checks the configuration; returns how it confines commands, or the defaults if it is invalid.
async fn configuration(places: ConfigPlaces, app: &App, checks: &mut Vec<Check>) -> SandboxOptions {
    let principal = IdentityArgs::default().principal(&app.env);
    let settings = principal.and_then(|principal| {
        let settings = places.settings()?.used_by(&principal)?;
        Ok((settings, principal))
    });
    let (settings, principal) = match settings {
        Ok(settings) => settings,
        Err(stop) => {
            checks.push(Check::stopped("config", stop));
            return SandboxOptions::default();
        }
    };
    let options = sandbox_options(&settings);
    for note in &settings.notes {
        checks.push(Check::warn(
            "trust",
            note.clone(),
            "read the file, then run `haft trust`",
        ));
    }
    let names: Vec<&str> = settings
        .sources
        .iter()
        .map(|source| source.name.as_str())
        .collect();
    checks.push(if names.is_empty() {
        Check::warn(
            "config",
            "no haft.toml; built-in defaults apply",
            "`haft init` makes one",
        )
    } else {
        Check::ok("config", names.join(", "))
    });
    checks.extend(unconfined(settings.policy.tool_settings()));
    checks.extend(back_ends::checks(&settings, &principal).await);
    checks.extend(servers::checks(&settings));
    checks.extend(web::checks(&settings));
    if !settings.databases.is_empty() {
        checks.extend(sources::checks(&settings).await);
    }
    match HostBuilder::to_look(settings) {
        Ok(builder) => {
            let notes = builder.notes().iter();
            for note in notes.filter(|note| note.starts_with("the script")) {
                checks.push(Check::warn(
                    "scripts",
                    note.clone(),
                    "read it, then run `haft trust`",
                ));
            }
            match builder.assemble().await {
                Ok(assembly) => {
                    if let Err(stop) = assembly.mount_to_look() {
                        checks.push(Check::stopped("tools", stop));
                    }
                    checks.extend(tools::checks(&assembly.runtime.registry().snapshot()));
                }
                Err(stop) => checks.push(Check::stopped("tools", stop)),
            }
        }
        Err(stop) => checks.push(Check::stopped("tools", stop)),
    }
    options
}

/// Reports a configuration that does not fully confine `bash`.
fn unconfined(settings: &haft_policy::ToolSettings) -> Option<Check> {
    let bash = ToolName::parse("bash").ok()?;
    match settings.sandbox(&bash)? {
        SandboxMode::Off => Some(Check::warn(
            "sandbox",
            "`bash` runs on this machine without a sandbox, because the configuration says sandbox = \"off\"",
            "a command can do whatever you can: allow only exact texts, or delete that line",
        )),
        SandboxMode::Basic => Some(Check::ok(
            "sandbox",
            "`bash` runs in tier t1 or stronger, because the configuration says sandbox = \"basic\"",
        )),
        SandboxMode::Full => None,
    }
}
