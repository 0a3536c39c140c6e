//! The configuration and everything that is set up by it, for one caller: files and trust, back ends,
//! servers, the web, databases, scripts and tools.

use haft_contract::{Principal, ToolName, ops::SandboxMode};
use haft_policy::ToolSettings;
use haft_sandbox::SandboxOptions;

#[cfg(feature = "databases")]
use super::sources;
use super::{back_ends, check::Check, secrets, servers, tools, web};
use crate::{
    builder::HostBuilder,
    config::{ConfigPlaces, Settings},
    error::HostError,
    workspace::sandbox_options,
};

/// What was found out about a configuration.
#[derive(Debug)]
#[non_exhaustive]
pub struct CheckedConfiguration {
    /// What was checked.
    pub checks: Vec<Check>,
    /// How it confines commands, or the defaults if it is invalid.
    pub options: SandboxOptions,
}

/// Checks the configuration that applies to a caller.
pub async fn check(places: ConfigPlaces, principal: &Principal) -> CheckedConfiguration {
    let settings = places
        .settings()
        .and_then(|settings| settings.used_by(principal));
    let settings = match settings {
        Ok(settings) => settings,
        Err(error) => return CheckedConfiguration::stopped(&error),
    };
    let options = sandbox_options(&settings);
    let mut checks = files(&settings);
    checks.extend(unconfined(settings.policy.tool_settings()));
    checks.extend(back_ends::checks(&settings, principal).await);
    checks.extend(servers::checks(&settings));
    checks.extend(web::checks(&settings));
    checks.extend(secrets::checks(&settings));
    #[cfg(feature = "databases")]
    if !settings.databases.is_empty() {
        checks.extend(sources::checks(&settings).await);
    }
    checks.extend(offered(settings).await);
    CheckedConfiguration { checks, options }
}

impl CheckedConfiguration {
    fn stopped(error: &HostError) -> Self {
        Self {
            checks: vec![Check::stopped("config", error)],
            options: SandboxOptions::default(),
        }
    }
}

/// The files that apply, and what was found and is not trusted.
fn files(settings: &Settings) -> Vec<Check> {
    let notes = settings.notes.iter().map(|note| {
        let hint = "read the file, then run `haft trust`";
        Check::warn("trust", note.clone(), hint)
    });
    let mut checks: Vec<Check> = notes.collect();
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
    checks
}

/// The scripts that are not trusted, and the tools that a caller is offered.
async fn offered(settings: Settings) -> Vec<Check> {
    let builder = match HostBuilder::to_look(settings) {
        Ok(builder) => builder,
        Err(error) => return vec![Check::stopped("tools", &error)],
    };
    let notes = builder.notes().iter();
    let scripts = notes.filter(|note| note.starts_with("the script"));
    let mut checks: Vec<Check> = scripts
        .map(|note| Check::warn("scripts", note.clone(), "read it, then run `haft trust`"))
        .collect();
    match builder.assemble().await {
        Ok(assembly) => {
            if let Err(error) = assembly.mount_to_look() {
                checks.push(Check::stopped("tools", &error));
            }
            checks.extend(tools::checks(&assembly.runtime.registry().snapshot()));
        }
        Err(error) => checks.push(Check::stopped("tools", &error)),
    }
    checks
}

/// Reports a configuration that does not fully confine `bash`.
fn unconfined(settings: &ToolSettings) -> Option<Check> {
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
