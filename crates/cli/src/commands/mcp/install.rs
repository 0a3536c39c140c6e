//! `haft mcp install`: puts Haft into an agent's own configuration, as one server, or takes it out
//! again. Changes its own entry and nothing else; run twice it changes nothing.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use clap::Args;
use haft_contract::WorkPath;
use haft_ledger::Redactor;
use haft_mcp::server::http;
use haft_tools::change::FileChange;
use serde_json::{Value, json};

use super::super::App;
use crate::{
    agents::{
        Agent, ENTRY, Homes, Place, Scope,
        document::{self, Unchangeable},
        server::{Given, Reach, Server},
    },
    config::{
        env::CONFIG_HOME,
        foreign::{ForeignFile, Keep, real_directory, this_program},
        pinned::Pinned,
    },
    exit::Exit,
    stop::Stop,
    terminal::{Format, Page, Style},
};

/// The variable that holds the token of `haft mcp --http` where an agent is started.
const TOKEN: &str = "HAFT_MCP_TOKEN";

/// Put Haft into an agent's configuration
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  haft mcp install claude-code --dry-run
  haft mcp install claude-code
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
    /// Take Haft out again
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
    let file = ForeignFile::read(place.path.clone())?;
    let before = file.text().filter(|text| !text.trim().is_empty());
    let text = before.unwrap_or(document::blank(place.format));
    let servers = document::entries(place.format, text, &place.table)
        .map_err(|why| unchangeable(&place, why, None))?;
    let entry = servers.iter().find(|(name, _)| name == ENTRY);
    let (after, server) = if args.remove {
        let after = document::without_entry(place.format, text, &place.table, ENTRY);
        (after, None)
    } else {
        // What an import gave it stays.
        let env = entry.map(|(_, entry)| env_of(args.agent, entry));
        let server = haft(args, env.unwrap_or_default(), app)?;
        let old = entry.map(|(_, entry)| entry);
        (
            with_haft(args.agent, &place, text, old, &server),
            Some(server),
        )
    };
    let after = after.map_err(|why| {
        let paste = server
            .as_ref()
            .map(|server| snippet(args.agent, &place, server));
        unchangeable(&place, why, paste)
    })?;
    let changes = if args.remove {
        entry.is_some()
    } else {
        after != text
    };
    let report = Report {
        agent: args.agent,
        file: &file,
        server: server.as_ref(),
        state: match (args.remove, changes, args.dry_run) {
            (false, true, false) => State::Installed,
            (false, true, true) => State::WouldInstall,
            (false, false, _) => State::Already,
            (true, true, false) => State::Removed,
            (true, true, true) => State::WouldRemove,
            (true, false, _) => State::NotThere,
        },
        diff: changes.then(|| {
            let redactor = redactor(args.agent, &servers);
            diff(&file, &after, &redactor)
        }),
        backup: if changes && !args.dry_run {
            file.replace(&after, Keep::Once)?
        } else {
            None
        },
    };
    report.print(app)
}

/// Where an agent keeps its servers here.
pub(crate) fn place(
    agent: Agent,
    scope: Scope,
    file: Option<&PathBuf>,
    app: &App,
) -> Result<Place, Stop> {
    let env = &app.env;
    let (Some(home), Some(config)) = (&env.home, &env.config_home) else {
        return Err(Stop::config(
            "there is no home directory to look for the agent's configuration in",
            "set HOME",
        ));
    };
    let project = &env.current_dir;
    let homes = Homes {
        home,
        config,
        project,
        variables: &env.agents,
    };
    let Some(mut place) = agent.dialect().place(scope, &homes) else {
        return Err(Stop::usage(
            format!("{} has no servers of that scope", agent.id()),
            "leave `--scope` away: it has servers for you, in every project",
        ));
    };
    match file {
        Some(file) => place.path = env.current_dir.join(file),
        // A project may come from anywhere: a directory of it that is a link leads into files that
        // are not the project's.
        None if scope == Scope::Project => {
            let inside = real_directory(&place.path).is_some_and(|real| real.starts_with(project));
            if !inside {
                return Err(Stop::config(
                    format!("`{}` leads out of the project", place.path.display()),
                    "look where its directory leads, then name the file with `--file`",
                ));
            }
        }
        None => {}
    }
    Ok(place)
}

/// The variables an entry of ours gives Haft.
pub(super) fn env_of(agent: Agent, entry: &Value) -> BTreeMap<String, Given> {
    match agent.dialect().read(ENTRY, entry) {
        Ok(Some(Server {
            reach: Reach::Command { env, .. },
            ..
        })) => env,
        Ok(_) | Err(_) => BTreeMap::new(),
    }
}

/// Haft as a server of an agent.
fn haft(args: &InstallArgs, env: BTreeMap<String, Given>, app: &App) -> Result<Server, Stop> {
    let Some(address) = args.http else {
        return started(args.agent, args.scope, env, app);
    };
    let token = Given::Variable {
        before: "Bearer ".to_owned(),
        name: TOKEN.to_owned(),
    };
    Ok(Server {
        name: ENTRY.to_owned(),
        reach: Reach::Address {
            url: format!("http://{address}{}", http::PATH),
            headers: [("Authorization".to_owned(), token)].into(),
            events_only: false,
        },
        enabled: true,
        left_out: Vec::new(),
    })
}

/// Haft as a server that an agent starts. What holds here about where things are holds there too.
pub(super) fn started(
    agent: Agent,
    scope: Scope,
    mut env: BTreeMap<String, Given>,
    app: &App,
) -> Result<Server, Stop> {
    let mut pinned = Pinned::of(&app.env, &app.global.overrides());
    let config_home = pinned.config_home.take();
    // An older entry may have one that holds no longer.
    env.remove(CONFIG_HOME);
    env.extend(config_home.map(|path| {
        let given = Given::Text(path.display().to_string());
        (CONFIG_HOME.to_owned(), given)
    }));
    if pinned.workspace.is_none() {
        let directory = agent.dialect().project_directory(scope);
        pinned.workspace = directory.map(PathBuf::from);
    }
    let mut argv = vec![this_program()?.display().to_string()];
    argv.extend(["mcp", "--agent", agent.id()].map(str::to_owned));
    for (flag, value) in pinned.flags() {
        argv.extend([flag.to_owned(), value]);
    }
    Ok(Server {
        name: ENTRY.to_owned(),
        reach: Reach::Command {
            argv,
            env,
            cwd: None,
        },
        enabled: true,
        left_out: Vec::new(),
    })
}

/// The agent's file with Haft in it. An entry that says so already stays as it is, however it is
/// spelt; of one that does not, settings of the agent's own stay.
pub(super) fn with_haft(
    agent: Agent,
    place: &Place,
    text: &str,
    old: Option<&Value>,
    server: &Server,
) -> Result<String, Unchangeable> {
    let written = agent.dialect().write(server);
    let mut fields: Vec<(&str, &Value)> =
        written.iter().map(|(key, value)| (*key, value)).collect();
    if let Some(there) = old.and_then(Value::as_object) {
        let read = agent.dialect().read(ENTRY, &Value::Object(there.clone()));
        let read = read.ok().flatten();
        let same = read.as_ref().is_some_and(|read| read.reach == server.reach);
        let own = read.map(|server| server.left_out).unwrap_or_default();
        fields.retain(|(key, _)| !own.iter().any(|own| own == key));
        let said = |(key, value): &(&str, &Value)| there.get(*key) == Some(*value);
        if same && fields.iter().all(said) {
            return Ok(text.to_owned());
        }
        let kept = there.iter().filter(|(key, _)| own.contains(key));
        fields.extend(kept.map(|(key, value)| (key.as_str(), value)));
    }
    document::with_entry(place.format, text, &place.table, ENTRY, &fields)
}

/// The entry as a file of its own, to be pasted.
fn snippet(agent: Agent, place: &Place, server: &Server) -> String {
    let blank = document::blank(place.format);
    with_haft(agent, place, blank, None, server).unwrap_or_default()
}

/// Says why a file is left as it is.
pub(super) fn unchangeable(place: &Place, why: Unchangeable, paste: Option<String>) -> Stop {
    let path = place.path.display();
    let paste = paste.map_or_else(
        || "change it by hand".to_owned(),
        |paste| format!("put this into it by hand:\n{}", paste.trim_end()),
    );
    match why {
        Unchangeable::Broken(why) => Stop::config(
            format!("`{path}` cannot be read as what it is: {why}"),
            "mend it, or move it away, and run the command again; nothing was changed",
        ),
        Unchangeable::NotSimple(why) => {
            Stop::config(format!("`{path}` is not changed: {why}"), paste)
        }
    }
}

/// What becomes of a file, without the secrets in it that are known or can be told by their looks.
pub(super) fn diff(file: &ForeignFile, after: &str, redactor: &Redactor) -> String {
    let path = file.path().to_string_lossy();
    let Ok(path) = WorkPath::parse(&path, "/") else {
        return String::new();
    };
    let change = FileChange {
        path: &path,
        to: None,
        before: file.text().map(str::as_bytes),
        after: Some(after.as_bytes()),
    };
    redactor.text(&change.show().diff.text).into_owned()
}

/// What blanks out the values that servers are given.
pub(super) fn redactor(agent: Agent, servers: &[(String, Value)]) -> Redactor {
    let read = |(name, entry): &(String, Value)| agent.dialect().read(name, entry).ok().flatten();
    let given = servers
        .iter()
        .filter_map(read)
        .flat_map(|server| match server.reach {
            Reach::Command { env: given, .. } | Reach::Address { headers: given, .. } => {
                given.into_values()
            }
        });
    Redactor::new(given.filter_map(|given| match given {
        Given::Text(text) => Some(text),
        Given::Variable { .. } | Given::Foreign(_) => None,
    }))
}

/// What became of an agent's configuration.
struct Report<'r> {
    agent: Agent,
    file: &'r ForeignFile,
    server: Option<&'r Server>,
    state: State,
    diff: Option<String>,
    backup: Option<PathBuf>,
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
        let path = self.file.path();
        if app.output.format() == Format::Json {
            app.output.json(&json!({
                "agent": self.agent.id(),
                "file": path,
                "state": self.state.word().replace(' ', "_"),
                "diff": self.diff,
                "backup": self.backup,
            }))?;
            return Ok(Exit::Ok);
        }
        let dry = matches!(self.state, State::WouldInstall | State::WouldRemove);
        if let Some(diff) = self.diff.as_ref().filter(|_| dry) {
            app.output.content(diff)?;
            app.notes([&"nothing was changed, because of `--dry-run`".to_owned()]);
            return Ok(Exit::Ok);
        }
        let mut page = Page::new()
            .styled(Style::Good, self.state.word())
            .text(format!(": {ENTRY} in {}", path.display()))
            .end();
        match self.server.map(|server| &server.reach) {
            Some(Reach::Command { argv, .. }) => page = page.field("runs", argv.join(" ")),
            Some(Reach::Address { url, .. }) => {
                page = page.field("connects", url).field(
                    "token",
                    format!("in {TOKEN} where the agent is started; `haft mcp token` prints it"),
                );
            }
            None => {}
        }
        if let Some(backup) = &self.backup {
            page = page.field("before", backup.display().to_string());
        }
        if matches!(self.state, State::Installed | State::Already) {
            page = page.field("next", self.agent.dialect().look());
        }
        app.output.page(&page)?;
        Ok(Exit::Ok)
    }
}
