//! `haft mcp import`: takes over an agent's servers, so that they sit behind Haft. They go into the
//! `haft.toml` that rules go to, possible secrets into separate files, and the agent keeps one
//! server, Haft. Everything is shown first and nothing is lost: the agent's file is backed up.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use clap::Args;
use haft_agent_settings::{
    Agent, ENTRY, Scope, ServersLocation, document,
    server::{EntryValue, Server, ServerTransport},
    takeover::{self, Secrets, TakenOverServer, TakeoverTarget},
};
use haft_host::{
    config::{Settings, launcher, mcp::Target, resolve::check},
    package_versions::{PackageVersions, RegistryUse, own_registries},
    state::{
        foreign::{BackupPolicy, ForeignFile},
        private,
    },
};
use serde_json::{Value, json};

use super::{
    super::{App, approvals::may_answer},
    entry,
};
use crate::{
    exit::Exit,
    prompt::confirm,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// The directory for values from an agent's configuration, in the data directory.
const SECRETS: &str = "mcp-secrets";

/// Take over the MCP servers an agent has, so that they sit behind Haft
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft mcp import claude-code --dry-run
  haft mcp import claude-code --scope local
  haft mcp import cursor --yes")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct ImportArgs {
    /// The agent
    #[arg(value_name = "AGENT")]
    agent: Agent,
    /// Which of its servers
    #[arg(long, value_name = "SCOPE", default_value = "user")]
    scope: Scope,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, conflicts_with = "dry_run")]
    yes: bool,
    /// Do not ask a registry for the version of a package that names none
    #[arg(long)]
    offline: bool,
    /// Write values of variables and headers into haft.toml as they are, secrets too
    #[arg(long)]
    inline_env: bool,
    /// The agent's configuration file, where it is not the usual one
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Runs the command.
pub(super) async fn run(args: &ImportArgs, app: &App) -> Result<Exit, Stop> {
    may_answer()?;
    let place = entry::place(args.agent, args.scope, args.file.as_ref(), app)?;
    let settings = app.settings()?;
    let takeover = Takeover::plan(args, &place, settings, app).await?;
    if takeover.is_empty() {
        takeover.print("nothing to take over", None, app)?;
        return Ok(Exit::Ok);
    }
    takeover.show(args, app)?;
    if args.dry_run {
        if app.output.format() == Format::Text {
            app.notes([&"nothing was changed, because of `--dry-run`".to_owned()]);
        }
        return Ok(Exit::Ok);
    }
    if !args.yes {
        ask(app).await?;
    }
    let backup = takeover.carry_out()?;
    takeover.print("taken over", backup.as_deref(), app)?;
    Ok(Exit::Ok)
}

/// What is going to be done.
struct Takeover {
    agent: Agent,
    settings: Settings,
    servers: ImportPlan,
    config: Change,
    agents: Change,
}

/// What happens to each of an agent's entries.
#[derive(Default)]
struct ImportPlan {
    /// Servers that go into the configuration.
    taken: Vec<TakenOverServer>,
    /// Servers already behind Haft: the agent's names, and their ids.
    known: Vec<(String, String)>,
    /// Entries that stay with the agent, and why.
    left: Vec<(String, String)>,
}

/// A file and its new text.
struct Change {
    file: ForeignFile,
    after: String,
    diff: String,
}

impl Takeover {
    async fn plan(
        args: &ImportArgs,
        place: &ServersLocation,
        settings: Settings,
        app: &App,
    ) -> Result<Self, Stop> {
        let file = ForeignFile::read(place.path.clone())?;
        let blank = document::blank(place.format);
        let text = file.text().filter(|text| !text.trim().is_empty());
        let text = text.unwrap_or(blank);
        let refused = |why| entry::unchangeable(&place.path, why, None);
        let entries = document::entries(place.format, text, &place.table).map_err(refused)?;
        let redactor = entry::redactor(args.agent, &entries, std::iter::empty());
        let versions = versions(args, &entries, &settings, app).await;
        let servers = sort(args, &entries, &settings, &versions, app);
        let config = into_config(args.agent, &servers.taken, &settings, &redactor)?;
        let mut after = text.to_owned();
        let names = servers.taken.iter().map(|taken| &taken.name);
        for name in names.chain(servers.known.iter().map(|(name, _)| name)) {
            after = document::without_entry(place.format, &after, &place.table, name)
                .map_err(refused)?;
        }
        let haft = haft(args, &entries, &servers.taken, app)?;
        let ours = entries.iter().find(|(name, _)| name == ENTRY);
        let ours = ours.map(|(_, entry)| entry);
        after = entry::with_haft(args.agent, place, &after, ours, &haft).map_err(refused)?;
        let diff = entry::diff(&file, Some(&after), &redactor);
        Ok(Self {
            agent: args.agent,
            settings,
            servers,
            config,
            agents: Change { file, after, diff },
        })
    }

    /// Whether there is nothing to do.
    fn is_empty(&self) -> bool {
        self.servers.taken.is_empty() && self.servers.known.is_empty()
    }

    /// Writes everything: first what Haft needs, last what the agent loses.
    fn carry_out(&self) -> Result<Option<PathBuf>, Stop> {
        for (path, value) in self.servers.taken.iter().flat_map(|taken| &taken.kept) {
            keep_secret(path, value)?;
        }
        if !self.servers.taken.is_empty() {
            let path = self.config.file.path();
            if let Some(directory) = path.parent() {
                private::make_directory(directory).map_err(|error| {
                    let made = directory.display();
                    Stop::config(
                        format!("`{made}` cannot be made: {error}"),
                        "check that the directory above it is yours and has room",
                    )
                })?;
            }
            self.config
                .file
                .replace(&self.config.after, BackupPolicy::Never)?;
            self.trust(path)?;
        }
        let file = &self.agents.file;
        Ok(file.replace(&self.agents.after, BackupPolicy::Always)?)
    }

    /// Trusts a workspace's file as it is now, because its operator has just seen and changed it.
    fn trust(&self, path: &Path) -> Result<(), Stop> {
        let places = &self.settings.places;
        if path != places.project_config || places.only_config.is_some() {
            return Ok(());
        }
        let mut trust = haft_host::config::trust::TrustStore::open(&places.data_dir)?;
        trust.pin_text(path, &self.config.after);
        Ok(trust.save()?)
    }

    /// Shows the changes to both files.
    fn show(&self, args: &ImportArgs, app: &App) -> Result<(), Stop> {
        if app.output.format() == Format::Json {
            if args.dry_run {
                self.print("would take over", None, app)?;
            }
            return Ok(());
        }
        app.output.content(&self.config.diff)?;
        app.output.content(&self.agents.diff)?;
        app.output.note(&self.notes());
        Ok(())
    }

    fn notes(&self) -> Page {
        let mut page = Page::new();
        let mut note = |name: &str, text: &str| {
            page = std::mem::take(&mut page)
                .styled(Style::Strong, name)
                .text(": ")
                .text(text)
                .end();
        };
        for taken in &self.servers.taken {
            if let Some(why) = &taken.off {
                note(&taken.name, &format!("taken over switched off: {why}"));
            }
            for text in &taken.notes {
                note(&taken.name, text);
            }
            for (path, _) in &taken.kept {
                let path = path.display();
                note(
                    &taken.name,
                    &format!("a value that may be a secret goes into {path}"),
                );
            }
        }
        for (name, id) in &self.servers.known {
            note(name, &format!("is behind Haft already, as `{id}`"));
        }
        for (name, why) in &self.servers.left {
            note(name, &format!("stays with {}: {why}", self.agent.id()));
        }
        page
    }

    fn print(&self, state: &str, backup: Option<&Path>, app: &App) -> Result<(), Stop> {
        if app.output.format() == Format::Json {
            let servers: Vec<Value> = self
                .servers
                .taken
                .iter()
                .map(|taken| {
                    json!({
                        "name": taken.name,
                        "id": taken.id.as_str(),
                        "off": taken.off,
                        "notes": taken.notes,
                    })
                })
                .collect();
            let left: BTreeMap<_, _> = self.servers.left.iter().cloned().collect();
            return app.output.json(&json!({
                "agent": self.agent.id(),
                "state": state.replace(' ', "_"),
                "file": self.agents.file.path(),
                "config": self.config.file.path(),
                "servers": servers,
                "known": self.servers.known.iter().map(|(name, _)| name).collect::<Vec<_>>(),
                "left": left,
                "backup": backup,
                "diffs": [self.config.diff, self.agents.diff],
            }));
        }
        let mut page = Page::new()
            .styled(Style::Good, state)
            .text(format!(": {} of {}", self.count(), self.agent.id()))
            .end();
        if !self.servers.taken.is_empty() {
            page = page.field("into", self.config.file.path().display().to_string());
        }
        if let Some(backup) = backup {
            page = page.field("before", backup.display().to_string());
        }
        if state == "taken over" {
            page = page
                .field(
                    "next",
                    "`haft mcp review SERVER` shows the tools of each, `haft mcp accept SERVER --all` lets models use them",
                )
                .field(
                    "",
                    "each runs confined: `sandbox` in its entry names the hosts and files it may reach",
                )
                .field("", self.agent.dialect().look());
        } else {
            page = page.page(self.notes());
        }
        app.output.page(&page)
    }

    fn count(&self) -> String {
        match self.servers.taken.len() + self.servers.known.len() {
            0 => "no server".to_owned(),
            1 => "1 server".to_owned(),
            more => format!("{more} servers"),
        }
    }
}

/// Looks for the versions of packages that are fetched without one. What names a registry of its
/// own is not looked for at the public one, where its name may be somebody else's.
async fn versions(
    args: &ImportArgs,
    entries: &[(String, Value)],
    settings: &Settings,
    app: &App,
) -> PackageVersions {
    let (mut public, mut own) = (BTreeSet::new(), BTreeSet::new());
    for (name, entry) in entries.iter().filter(|(name, _)| name != ENTRY) {
        let Ok(Some(server)) = args.agent.dialect().read(name, entry) else {
            continue;
        };
        if let ServerTransport::Command { argv, env, .. } = &server.reach
            && known_as(&server, settings).is_none()
        {
            let named = own_registries(argv, &takeover::variables(env));
            let packages = if named.is_some() {
                &mut own
            } else {
                &mut public
            };
            packages.extend(launcher::unpinned(argv));
        }
    }
    let registries = if args.offline {
        RegistryUse::Offline
    } else {
        RegistryUse::Ask
    };
    let public = public.difference(&own).cloned().collect();
    let home = app.env.home.clone();
    let mut versions = PackageVersions::find(own, home.clone(), RegistryUse::Offline).await;
    versions.join(PackageVersions::find(public, home, registries).await);
    versions
}

/// Decides what happens to each of an agent's entries.
fn sort(
    args: &ImportArgs,
    entries: &[(String, Value)],
    settings: &Settings,
    versions: &PackageVersions,
    app: &App,
) -> ImportPlan {
    let secrets_in = settings.places.data_dir.join(SECRETS);
    let into = TakeoverTarget {
        secrets_in: &secrets_in,
        secrets: if args.inline_env {
            Secrets::Inline
        } else {
            Secrets::Apart
        },
        project: &app.env.current_dir,
        versions,
    };
    let servers = settings.mcp.servers.iter();
    let mut ids: BTreeSet<String> = servers.map(|server| server.id.to_string()).collect();
    let mut sorted = ImportPlan::default();
    for (name, entry) in entries.iter().filter(|(name, _)| name != ENTRY) {
        let server = match args.agent.dialect().read(name, entry) {
            Ok(Some(server)) => server,
            // Something else of the agent's.
            Ok(None) => continue,
            Err(why) => {
                sorted.left.push((name.clone(), why));
                continue;
            }
        };
        if let Some(id) = known_as(&server, settings) {
            sorted.known.push((name.clone(), id));
            continue;
        }
        match TakenOverServer::from(&server, &ids, into) {
            Ok(server) => {
                ids.insert(server.id.to_string());
                sorted.taken.push(server);
            }
            Err(why) => sorted.left.push((name.clone(), why)),
        }
    }
    sorted
}

/// The id of a server that is already behind Haft.
fn known_as(server: &Server, settings: &Settings) -> Option<String> {
    let same = |target: &Target| match (&server.reach, target) {
        // A package that names no version is the one that was pinned before.
        (ServerTransport::Command { argv, .. }, Target::Command(command)) => {
            *argv == command.argv
                || (launcher::check(argv).is_err()
                    && launcher::without_versions(argv)
                        == launcher::without_versions(&command.argv))
        }
        (ServerTransport::Address { url, .. }, Target::Url { url: known, .. }) => url == known,
        (ServerTransport::Command { .. }, Target::Url { .. })
        | (ServerTransport::Address { .. }, Target::Command(_)) => false,
    };
    let mut servers = settings.mcp.servers.iter();
    let known = servers.find(|known| same(&known.target))?;
    Some(known.id.to_string())
}

/// The configuration with the servers in it, parsed by the code that will read it.
fn into_config(
    agent: Agent,
    taken: &[TakenOverServer],
    settings: &Settings,
    redactor: &haft_ledger::Redactor,
) -> Result<Change, Stop> {
    let path = settings.rules_go_to.clone();
    let file = ForeignFile::read(path.clone())?;
    let text = file.text().unwrap_or_default().to_owned();
    let after = takeover::added(&text, taken, agent.id()).map_err(|why| {
        let (document::EditRefusal::Broken(why) | document::EditRefusal::NotSimple(why)) = why;
        Stop::config(
            format!("`{}` is not changed: {why}", path.display()),
            "write its servers as [[mcp.servers]], and run the command again",
        )
    })?;
    check(&settings.places.name_of(&path), &path, &after)?;
    let diff = entry::diff(&file, Some(&after), redactor);
    Ok(Change { file, after, diff })
}

/// Haft as the agent's server, with the variables its own servers need.
fn haft(
    args: &ImportArgs,
    entries: &[(String, Value)],
    taken: &[TakenOverServer],
    app: &App,
) -> Result<Server, Stop> {
    let ours = entries.iter().find(|(name, _)| name == ENTRY);
    let env = ours.map(|(_, entry)| entry::env_of(args.agent, entry));
    let mut env = env.unwrap_or_default();
    for variable in taken.iter().flat_map(|taken| &taken.needs) {
        let given = EntryValue::Variable {
            before: String::new(),
            name: variable.clone(),
        };
        env.insert(variable.clone(), given);
    }
    entry::started(args.agent, args.scope, env, app)
}

fn keep_secret(path: &Path, value: &str) -> Result<(), Stop> {
    let made = path.parent().map_or(Ok(()), private::make_directory);
    made.and_then(|()| private::replace(path, value.as_bytes()))
        .map_err(|error| {
            Stop::config(
                format!("`{}` cannot be written: {error}", path.display()),
                "check that the data directory is yours and has room",
            )
        })
}

/// Asks for confirmation of what was shown.
async fn ask(app: &App) -> Result<(), Stop> {
    if !std::io::stdin().is_terminal() || !app.output.stderr_is_terminal() {
        return Err(Stop::usage(
            "nobody is there to confirm this",
            "add `--yes` if it is",
        ));
    }
    if confirm::yes(app.output, "Take them over? [y/N] ").await {
        return Ok(());
    }
    Err(Stop::new(
        Exit::Denied,
        "nothing was taken over",
        "answer y to do it",
    ))
}
