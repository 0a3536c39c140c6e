//! `haft mcp install`: adds Haft to an agent's configuration, as one server, or removes it again.
//! Changes its own entry and nothing else; a second run changes nothing. With `--only-haft` the
//! agent's own shell and file tools are turned off too, by the agent's settings. Removing it leaves
//! the files as they were. The agent also gets its section in the workspace's `haft.toml`, which
//! stays: `agent_section.rs`.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use clap::Args;
use haft_agent_settings::{
    Agent, ENTRY, OwnTools, Scope, ServersLocation,
    additions::Addition,
    document,
    server::{EntryValue, Server, ServerTransport},
};
use haft_mcp::server::http;
use serde_json::{Value, json};

use super::{
    super::App,
    agent_section::AgentSection,
    entry::{
        env_of, may_change, own_tools, place, redactor, snippet, started, unchangeable, with_haft,
    },
    planned::PlannedFile,
};
use crate::{
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
};
use haft_agent_settings::files::installed::InstalledFile;

/// The variable with the token of `haft mcp --http`, in the agent's environment.
const TOKEN: &str = "HAFT_MCP_TOKEN";

/// Put Haft into an agent's configuration
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft mcp install claude-code --dry-run
  haft mcp install claude-code
  haft mcp install claude-code --only-haft
  haft mcp install cursor --scope project
  haft mcp install openclaw --workspace ~/claw
  haft mcp install codex --remove")]
pub(crate) struct InstallArgs {
    /// The agent
    #[arg(value_name = "AGENT")]
    agent: Agent,
    /// For whom the agent uses it
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    scope: Scope,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Turn the agent's own shell and file tools off, so that it has only Haft's
    #[arg(long, conflicts_with = "remove")]
    only_haft: bool,
    /// Take Haft out again, and turn the agent's own tools on again
    #[arg(long)]
    remove: bool,
    /// Have the agent connect to `haft mcp --http` at this address instead of starting it
    #[arg(long, value_name = "ADDRESS", conflicts_with = "remove")]
    http: Option<SocketAddr>,
    /// The agent's configuration file, where it is not the usual one
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &InstallArgs, app: &App) -> Result<Exit, Stop> {
    let place = place(args.agent, args.scope, args.file.as_ref(), app)?;
    let own = own_tools(args.agent, args.scope, &place, app)?;
    if let Some(own) = own.as_ref().filter(|_| args.only_haft) {
        may_change(own, args.scope, &place, app)?;
    }
    let own = own.filter(|own| may_change(own, args.scope, &place, app).is_ok());
    if args.only_haft && own.is_none() {
        return Err(Stop::usage(
            format!(
                "{} has no setting that turns its own shell and file tools off",
                args.agent.id()
            ),
            "leave out `--only-haft`, and turn them off in the agent if it lets you; nothing was changed",
        ));
    }
    let mut files = Files::read(&place, own.as_ref(), args.only_haft)?;
    let servers = document::entries(place.format, files.servers.text(), &place.table)
        .map_err(|why| unchangeable(&place.path, why, None))?;
    let entry = servers.iter().find(|(name, _)| name == ENTRY);
    let entry = entry.map(|(_, entry)| entry);
    let there = match entry {
        Some(_) => Some(files.entry(&place)?),
        None => None,
    };
    let had_settings = files.has_settings();
    let server = if args.remove {
        files.take_out(there.as_ref())?;
        None
    } else {
        // The variables that an import added stay.
        let env = entry.map(|entry| env_of(args.agent, entry));
        let server = haft(args, env.unwrap_or_default(), app)?;
        files.put_in(args, &place, entry, &server, own.as_ref())?;
        Some(server)
    };
    let changes = if args.remove {
        entry.is_some() || files.is_noted()
    } else {
        files.all().any(PlannedFile::changes)
    };
    // What listens at an address has rules of its own.
    let wanted = !args.remove && args.http.is_none();
    let section = wanted.then(|| AgentSection::plan(args.agent, app));
    if let Some(section) = section.as_ref().filter(|_| !args.dry_run) {
        section.write(app)?;
    }
    let redactor = redactor(
        args.agent,
        &servers,
        files.all().filter_map(PlannedFile::said),
    );
    let diffs = files.all().filter(|file| file.changes());
    let diffs: Vec<String> = diffs.map(|file| file.diff(&redactor)).collect();
    let report = Report {
        agent: args.agent,
        files: &files,
        server: server.as_ref(),
        section: section.as_ref(),
        dry_run: args.dry_run,
        state: match (args.remove, changes, args.dry_run) {
            (false, true, false) => State::Installed,
            (false, true, true) => State::WouldInstall,
            (false, false, _) => State::Already,
            (true, true, false) => State::Removed,
            (true, true, true) => State::WouldRemove,
            (true, false, _) => State::NotThere,
        },
        own_tools: match (args.only_haft, args.remove, had_settings) {
            (true, _, _) => OwnToolsState::Off,
            (false, false, true) => OwnToolsState::StillOff,
            (false, true, true) => OwnToolsState::GivenBack,
            (false, _, false) => OwnToolsState::Untouched,
        },
        names: own.as_ref().map_or(&[], |own| own.names),
        note: own.as_ref().and_then(|own| own.note),
        diff: changes.then(|| diffs.concat()),
        backups: if changes && !args.dry_run {
            files.write(args.remove, there.as_ref())?
        } else {
            Vec::new()
        },
    };
    report.print(app)
}

/// The agent's files: the one with its servers, and the one with its settings if separate.
struct Files {
    servers: PlannedFile,
    settings: Option<PlannedFile>,
}

impl Files {
    /// Reads them. Settings that do not concern this command are not even opened.
    fn read(place: &ServersLocation, own: Option<&OwnTools>, wanted: bool) -> Result<Self, Stop> {
        let settings = match own.filter(|own| own.path != place.path) {
            Some(own) if wanted || InstalledFile::has_note(&own.path)? => {
                Some(PlannedFile::read(&own.path, own.format)?)
            }
            Some(_) | None => None,
        };
        Ok(Self {
            servers: PlannedFile::read(&place.path, place.format)?,
            settings,
        })
    }

    fn all(&self) -> impl Iterator<Item = &PlannedFile> {
        std::iter::once(&self.servers).chain(&self.settings)
    }

    fn has_settings(&self) -> bool {
        self.all().any(PlannedFile::has_settings)
    }

    fn is_noted(&self) -> bool {
        self.all().any(PlannedFile::is_noted)
    }

    /// Haft's entry, as an addition.
    fn entry(&self, place: &ServersLocation) -> Result<Addition, Stop> {
        Addition::entry(place.format, self.servers.text(), &place.table, ENTRY)
            .map_err(|why| unchangeable(&place.path, why, None))
    }

    fn take_out(&mut self, entry: Option<&Addition>) -> Result<(), Stop> {
        let path = self.servers.path().to_owned();
        let servers = self.servers.take_out(entry.cloned());
        servers.map_err(|why| unchangeable(&path, why, None))?;
        if let Some(settings) = &mut self.settings {
            let path = settings.path().to_owned();
            let taken = settings.take_out(None);
            taken.map_err(|why| unchangeable(&path, why, None))?;
        }
        Ok(())
    }

    fn put_in(
        &mut self,
        args: &InstallArgs,
        place: &ServersLocation,
        old: Option<&Value>,
        server: &Server,
        own: Option<&OwnTools>,
    ) -> Result<(), Stop> {
        let after = with_haft(args.agent, place, self.servers.text(), old, server);
        let after = after.map_err(|why| {
            let paste = snippet(args.agent, place, server);
            unchangeable(&place.path, why, Some(paste))
        })?;
        self.servers.put_entry(self.entry(place)?, after);
        if let Some(own) = own.filter(|_| args.only_haft) {
            let file = self.settings.as_mut().unwrap_or(&mut self.servers);
            for setting in &own.settings {
                file.put_setting(setting)?;
            }
        }
        Ok(())
    }

    /// Writes them and returns the backups' paths.
    fn write(&self, remove: bool, entry: Option<&Addition>) -> Result<Vec<PathBuf>, Stop> {
        let mut backups = Vec::new();
        // Settings first: running the same command again repairs a failure half way.
        for file in self.settings.iter().chain([&self.servers]) {
            backups.extend(if remove {
                file.remove()?
            } else {
                file.put_in(entry.cloned())?
            });
        }
        Ok(backups)
    }
}

/// Haft as a server of an agent.
fn haft(args: &InstallArgs, env: BTreeMap<String, EntryValue>, app: &App) -> Result<Server, Stop> {
    let Some(address) = args.http else {
        return started(args.agent, args.scope, env, app);
    };
    let token = EntryValue::Variable {
        before: "Bearer ".to_owned(),
        name: TOKEN.to_owned(),
    };
    Ok(Server {
        name: ENTRY.to_owned(),
        reach: ServerTransport::Address {
            url: format!("http://{address}{}", http::PATH),
            headers: [("Authorization".to_owned(), token)].into(),
            events_only: false,
        },
        enabled: true,
        left_out: Vec::new(),
    })
}

/// The changes to an agent's configuration, for the person.
struct Report<'r> {
    agent: Agent,
    files: &'r Files,
    server: Option<&'r Server>,
    /// The agent's section in the rules; `None` if this is not about it.
    section: Option<&'r AgentSection>,
    dry_run: bool,
    state: State,
    own_tools: OwnToolsState,
    names: &'static [&'static str],
    note: Option<&'static str>,
    diff: Option<String>,
    backups: Vec<PathBuf>,
}

/// The state of the agent's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnToolsState {
    /// They were not changed.
    Untouched,
    /// They are now turned off.
    Off,
    /// They were already turned off.
    StillOff,
    /// They are turned on again.
    GivenBack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Installed,
    WouldInstall,
    Already,
    Removed,
    WouldRemove,
    NotThere,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Installed => "installed",
            Self::WouldInstall => "would install",
            Self::Already => "already",
            Self::Removed => "removed",
            Self::WouldRemove => "would remove",
            Self::NotThere => "not there",
        }
    }
}

impl Report<'_> {
    fn print(&self, app: &App) -> Result<Exit, Stop> {
        let path = self.files.servers.path();
        if app.output.format() == Format::Json {
            app.output.json(&json!({
                "agent": self.agent.id(),
                "file": path,
                "state": self.state.word().replace(' ', "_"),
                "diff": self.diff,
                "backup": self.backups.last(),
                "own_tools": match self.own_tools {
                    OwnToolsState::Untouched => None,
                    OwnToolsState::Off | OwnToolsState::StillOff => Some("off"),
                    OwnToolsState::GivenBack => Some("given_back"),
                },
                "settings": self.settings_path(),
                "rules": self.section.map(AgentSection::json),
            }))?;
            return Ok(Exit::Ok);
        }
        if self.dry_run && self.show_diffs(app)? {
            app.notes([&"nothing was changed, because of `--dry-run`".to_owned()]);
            return Ok(Exit::Ok);
        }
        let mut page = Page::new()
            .styled(Style::Good, self.state.word())
            .text(format!(": {ENTRY} in {}", path.display()))
            .end();
        match self.server.map(|server| &server.reach) {
            Some(ServerTransport::Command { argv, .. }) => {
                page = page.field("runs", argv.join(" "));
            }
            Some(ServerTransport::Address { url, .. }) => {
                page = page.field("connects", url).field(
                    "token",
                    format!("in {TOKEN} where the agent is started; `haft mcp token` prints it"),
                );
            }
            None => {}
        }
        page = page.page(self.about_own_tools());
        for backup in &self.backups {
            page = page.field("before", backup.display().to_string());
        }
        if let Some(section) = self.section {
            page = page.page(section.page());
        }
        if matches!(self.state, State::Installed | State::Already) {
            page = page.field("next", self.agent.dialect().look());
        }
        app.output.page(&page)?;
        Ok(Exit::Ok)
    }

    /// Shows what would change; returns whether anything would.
    fn show_diffs(&self, app: &App) -> Result<bool, Stop> {
        let section = self.section.and_then(AgentSection::diff);
        let diffs: Vec<&String> = self.diff.iter().chain(&section).collect();
        for diff in &diffs {
            app.output.content(diff)?;
        }
        let made = self.section.and_then(AgentSection::would_make);
        app.notes(&made);
        Ok(!diffs.is_empty() || made.is_some())
    }

    /// Describes the state of the agent's own tools.
    fn about_own_tools(&self) -> Page {
        let (page, names) = (Page::new(), self.names.join(", "));
        match self.own_tools {
            OwnToolsState::Untouched => page,
            OwnToolsState::Off => {
                let path = self.settings_path().display();
                let page = page.field("off", format!("the agent's own {names}, in {path}"));
                self.note
                    .into_iter()
                    .fold(page, |page, note| page.field("", note))
            }
            OwnToolsState::StillOff => page.field(
                "off",
                "the agent's own shell and file tools, still; `--remove` turns them on again",
            ),
            OwnToolsState::GivenBack => page.field("on", format!("the agent's own {names}")),
        }
    }

    /// The file with the settings that turn tools off.
    fn settings_path(&self) -> &Path {
        let settings = self.files.settings.as_ref();
        settings.unwrap_or(&self.files.servers).path()
    }
}
