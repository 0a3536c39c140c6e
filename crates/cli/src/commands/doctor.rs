//! `haft doctor`: checks everything a call needs and says, line by line, what to do.

use std::path::Path;

use clap::Args;
use haft_contract::{
    ToolName,
    host::{History as _, Verification},
    ops::SandboxMode,
};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags},
    io::Errno,
    process::PidfdFlags,
};
use serde::Serialize;

use super::{App, lookup::tenant};
use crate::{
    config::Places,
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
    wire,
};

/// Check that everything a call needs is there
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}

#[derive(Debug, Serialize)]
struct Check {
    #[serde(rename = "check")]
    name: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Fail,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            detail: detail.into(),
            hint: None,
        }
    }

    fn warn(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Warn,
            detail: detail.into(),
            hint: Some(hint.into()),
        }
    }

    fn fail(name: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Fail,
            detail: detail.into(),
            hint: Some(hint.into()),
        }
    }

    fn stopped(name: &'static str, stop: &Stop) -> Self {
        Self::fail(name, stop.message().unwrap_or_default(), stop.hint())
    }
}

/// Runs the command.
pub(crate) async fn run(_: &DoctorArgs, app: &App) -> Result<Exit, Stop> {
    let mut checks = vec![kernel_paths(), kernel_processes(), shell()];
    match app.places() {
        Err(stop) => checks.push(Check::stopped("workspace", &stop)),
        Ok(places) => {
            checks.push(Check::ok(
                "workspace",
                places.workspace.display().to_string(),
            ));
            checks.push(record(&places).await);
            configuration(places, &mut checks);
        }
    }
    let failed = checks.iter().any(|check| check.state == State::Fail);
    print(&checks, app)?;
    Ok(if failed { Exit::Failed } else { Exit::Ok })
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

async fn record(places: &Places) -> Check {
    let record = match wire::open_record(places).await {
        Ok(record) => record,
        Err(stop) => return Check::stopped("record", &stop),
    };
    let tenant = match tenant() {
        Ok(tenant) => tenant,
        Err(stop) => return Check::stopped("record", &stop),
    };
    match record.ledger.verify(&tenant).await {
        Ok(Verification::Intact { records }) => Check::ok(
            "record",
            format!("{}, {records} records, intact", places.data_dir.display()),
        ),
        Ok(Verification::Broken { sequence, reason }) => Check::fail(
            "record",
            format!("record {sequence} is not as it was written: {reason}"),
            "everything before it still holds; keep the files and find out who wrote to them",
        ),
        Err(error) => Check::stopped("record", &Stop::ledger(&error)),
    }
}

fn configuration(places: Places, checks: &mut Vec<Check>) {
    let settings = match places.settings() {
        Ok(settings) => settings,
        Err(stop) => {
            checks.push(Check::stopped("config", &stop));
            return;
        }
    };
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
    checks.push(sandbox(&settings.policy.tool_settings().clone()));
    match wire::assemble(settings) {
        Ok(parts) => {
            let notes = parts.notes().to_vec();
            for note in notes.iter().filter(|note| note.starts_with("the script")) {
                checks.push(Check::warn(
                    "scripts",
                    note.clone(),
                    "read it, then run `haft trust`",
                ));
            }
            match parts.build(std::sync::Arc::new(super::rehearsal::NoRecord)) {
                Ok(wired) => {
                    let tools = wired.runtime.registry().snapshot().len();
                    checks.push(Check::ok("tools", format!("{tools} tools")));
                }
                Err(stop) => checks.push(Check::stopped("tools", &stop)),
            }
        }
        Err(stop) => checks.push(Check::stopped("tools", &stop)),
    }
}

/// No tier exists in this version, and that is said whatever the configuration.
fn sandbox(settings: &haft_policy::ToolSettings) -> Check {
    const NAME: &str = "sandbox";
    let none = "this version has no sandbox tier (T1, T2 and T3 come later)";
    let bash = ToolName::parse("bash").ok();
    match bash.and_then(|bash| settings.sandbox(&bash)) {
        Some(SandboxMode::Off) => Check::warn(
            NAME,
            format!(
                "{none}; `bash` runs on this machine, because the configuration says sandbox = \"off\""
            ),
            "a command can do whatever you can: allow only exact texts, or delete that line to refuse commands",
        ),
        Some(SandboxMode::Basic | SandboxMode::Full) | None => Check::warn(
            NAME,
            format!("{none}; `bash` and scripts are refused"),
            "to run commands without a sandbox, write [tools.bash] sandbox = \"off\" into haft.toml",
        ),
    }
}

fn print(checks: &[Check], app: &App) -> Result<(), Stop> {
    if app.output.format() == Format::Json {
        return app.output.json(&checks);
    }
    let mut page = Page::new();
    for check in checks {
        let (word, style) = match check.state {
            State::Ok => ("ok", Style::Good),
            State::Warn => ("look", Style::Warn),
            State::Fail => ("fail", Style::Bad),
        };
        page = page
            .styled(style, format!("{word:<6}"))
            .styled(Style::Strong, format!("{:<16} ", check.name))
            .block(&check.detail)
            .end();
        if let Some(hint) = &check.hint {
            page = page.styled(Style::Warn, "      hint: ").block(hint).end();
        }
    }
    app.output.page(&page)
}
