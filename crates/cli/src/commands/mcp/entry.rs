//! Haft as one of an agent's servers: where the agent keeps them, what the entry says, and the
//! agent's file with it. `install` and `import` both add it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use haft_agent_settings::{
    Agent, ENTRY, Homes, OwnTools, Scope, ServersLocation,
    document::{self, EditRefusal},
    files::paths::{real_directory, this_program},
    server::{EntryValue, Server, ServerTransport},
};
use haft_contract::WorkPath;
use haft_host::{
    config::{env::CONFIG_HOME, pinned_entry::PinnedEntry},
    state::{
        foreign::{ForeignFile, MAX_BYTES},
        private,
    },
};
use haft_ledger::Redactor;
use haft_tools::change::FileChange;
use serde_json::Value;

use super::super::App;
use crate::stop::Stop;

/// Where an agent keeps its servers here.
pub(crate) fn place(
    agent: Agent,
    scope: Scope,
    file: Option<&PathBuf>,
    app: &App,
) -> Result<ServersLocation, Stop> {
    let (env, homes) = (&app.env, homes(app)?);
    let Some(mut place) = agent.dialect().place(scope, &homes) else {
        return Err(Stop::usage(
            format!("{} has no servers of that scope", agent.id()),
            "leave out `--scope`: it has servers for you, in every project",
        ));
    };
    let others = agent.dialect().also_named().iter();
    let mut others = others.map(|name| place.path.with_file_name(name));
    if let Some(other) = others.find(|path| path.exists()) {
        place.path = other;
    }
    match file {
        Some(file) => place.path = env.current_dir.join(file),
        None if scope == Scope::Project => inside_project(&place.path, app)?,
        None => {}
    }
    Ok(place)
}

/// Haft's entry in a file; `None` if the file is missing or cannot be read.
pub(crate) fn installed(agent: Agent, place: &ServersLocation) -> Option<Server> {
    let bytes = private::read(&place.path, MAX_BYTES).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    let entries = document::entries(place.format, &text, &place.table).ok()?;
    let (_, entry) = entries.iter().find(|(name, _)| name == ENTRY)?;
    agent.dialect().read(ENTRY, entry).ok().flatten()
}

/// How an agent's own tools are turned off here; `None` if it has no setting for that.
pub(super) fn own_tools(
    agent: Agent,
    scope: Scope,
    place: &ServersLocation,
    app: &App,
) -> Result<Option<OwnTools>, Stop> {
    let homes = homes(app)?;
    let dialect = agent.dialect();
    let usual = dialect.place(scope, &homes).map(|place| place.path);
    Ok(dialect.own_tools(scope, &homes).map(|own| {
        // If servers and settings share a file, settings go into the named file too.
        if usual.as_ref() == Some(&own.path) {
            let path = place.path.clone();
            OwnTools { path, ..own }
        } else {
            own
        }
    }))
}

/// Fails if a project's settings are not in the project.
pub(super) fn may_change(
    own: &OwnTools,
    scope: Scope,
    place: &ServersLocation,
    app: &App,
) -> Result<(), Stop> {
    if scope == Scope::User || own.path == place.path {
        return Ok(());
    }
    inside_project(&own.path, app)
}

/// Where a person's files are.
fn homes(app: &App) -> Result<Homes<'_>, Stop> {
    let env = &app.env;
    let (Some(home), Some(config)) = (&env.home, &env.config_home) else {
        return Err(Stop::config(
            "there is no home directory to look for the agent's configuration in",
            "set HOME",
        ));
    };
    Ok(Homes {
        home,
        config,
        project: &env.current_dir,
        variables: &app.agent_directories,
    })
}

/// A project may come from anywhere: a directory in it that is a link leads to files outside the
/// project.
fn inside_project(path: &Path, app: &App) -> Result<(), Stop> {
    if real_directory(path).is_some_and(|real| real.starts_with(&app.env.current_dir)) {
        return Ok(());
    }
    Err(Stop::config(
        format!("`{}` leads out of the project", path.display()),
        "look where its directory leads, then name the file with `--file`",
    ))
}

/// The variables that our entry gives Haft.
pub(super) fn env_of(agent: Agent, entry: &Value) -> BTreeMap<String, EntryValue> {
    match agent.dialect().read(ENTRY, entry) {
        Ok(Some(Server {
            reach: ServerTransport::Command { env, .. },
            ..
        })) => env,
        Ok(_) | Err(_) => BTreeMap::new(),
    }
}

/// Haft as a server that an agent starts. It uses the same locations as here.
pub(super) fn started(
    agent: Agent,
    scope: Scope,
    mut env: BTreeMap<String, EntryValue>,
    app: &App,
) -> Result<Server, Stop> {
    let mut pinned = PinnedEntry::of(&app.env, &app.global.overrides());
    let config_home = pinned.config_home.take();
    // An older entry may have an outdated one.
    env.remove(CONFIG_HOME);
    env.extend(config_home.map(|path| {
        let given = EntryValue::Text(path.display().to_string());
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
        reach: ServerTransport::Command {
            argv,
            env,
            cwd: None,
        },
        enabled: true,
        left_out: Vec::new(),
    })
}

/// The agent's file with Haft in it. An entry that already says so stays as it is, however it is
/// written; if it does not, the agent's own settings in it stay.
pub(super) fn with_haft(
    agent: Agent,
    place: &ServersLocation,
    text: &str,
    old: Option<&Value>,
    server: &Server,
) -> Result<String, EditRefusal> {
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

/// The entry as a complete file, to be pasted.
pub(super) fn snippet(agent: Agent, place: &ServersLocation, server: &Server) -> String {
    let blank = document::blank(place.format);
    with_haft(agent, place, blank, None, server).unwrap_or_default()
}

/// Says why a file is not changed.
pub(super) fn unchangeable(path: &Path, why: EditRefusal, paste: Option<String>) -> Stop {
    let path = path.display();
    let paste = paste.map_or_else(
        || "change it by hand".to_owned(),
        |paste| format!("put this into it by hand:\n{}", paste.trim_end()),
    );
    match why {
        EditRefusal::Broken(why) => Stop::config(
            format!("`{path}` cannot be parsed: {why}"),
            "mend it, or move it away, and run the command again; nothing was changed",
        ),
        EditRefusal::NotSimple(why) => {
            Stop::config(format!("`{path}` is not changed: {why}"), paste)
        }
    }
}

/// The change to a file, without secrets that are known or recognisable by their form.
pub(super) fn diff(file: &ForeignFile, after: Option<&str>, redactor: &Redactor) -> String {
    let path = file.path().to_string_lossy();
    let Ok(path) = WorkPath::parse(&path, "/") else {
        return String::new();
    };
    let change = FileChange {
        path: &path,
        to: None,
        before: file.text().map(str::as_bytes),
        after: after.map(str::as_bytes),
    };
    redactor.text(&change.show().diff.text).into_owned()
}

/// Blanks out the values that servers are given, and those of variables in other settings.
pub(super) fn redactor(
    agent: Agent,
    servers: &[(String, Value)],
    settings: impl Iterator<Item = Value>,
) -> Redactor {
    let read = |(name, entry): &(String, Value)| agent.dialect().read(name, entry).ok().flatten();
    let given = servers
        .iter()
        .filter_map(read)
        .flat_map(|server| match server.reach {
            ServerTransport::Command { env: given, .. }
            | ServerTransport::Address { headers: given, .. } => given.into_values(),
        });
    let given = given.filter_map(|given| match given {
        EntryValue::Text(text) => Some(text),
        EntryValue::Variable { .. } | EntryValue::Foreign(_) => None,
    });
    let variables = settings.flat_map(|settings| match settings.get("env") {
        Some(Value::Object(env)) => env.values().cloned().collect(),
        Some(_) | None => Vec::new(),
    });
    let variables = variables.filter_map(|value| value.as_str().map(str::to_owned));
    Redactor::new(given.chain(variables))
}
