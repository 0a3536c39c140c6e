//! Every agent that has Haft in its configuration, and what its calls will use: record, workspace,
//! rules. An entry is read exactly as Haft will read it when the agent starts it with the entry's
//! variables and no others. Agents without Haft are not mentioned.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use clap::Parser as _;
use haft_agent_settings::{
    Agent, Scope, ServersLocation,
    server::{EntryValue, Server, ServerTransport},
};
use haft_contract::Principal;
use haft_host::{
    config::{ConfigPlaces, Env, resolve::Overrides},
    doctor::Check,
};

use crate::{
    args::{Cli, Command},
    commands::{App, mcp::entry},
    stop::Stop,
};
use haft_agent_settings::files::paths::{same_place, this_program};

const NAME: &str = "agent";

/// One line for each entry of Haft, and one more for each problem with it.
pub(super) fn checks(app: &App, here: &ConfigPlaces) -> Vec<Check> {
    let mut seen: Vec<ServersLocation> = Vec::new();
    let mut checks = Vec::new();
    for agent in Agent::all() {
        for scope in [Scope::User, Scope::Project, Scope::Local] {
            let Ok(place) = entry::place(*agent, scope, None, app) else {
                continue;
            };
            // In the home directory, a project's file is the person's own.
            if seen.contains(&place) {
                continue;
            }
            if let Some(server) = entry::installed(*agent, &place) {
                let installed = Installed {
                    agent: *agent,
                    scope,
                    server,
                };
                checks.extend(installed.checks(app, here));
            }
            seen.push(place);
        }
    }
    checks
}

/// Haft in one agent's configuration.
struct Installed {
    agent: Agent,
    scope: Scope,
    server: Server,
}

/// What an entry's calls will use.
struct EntryUsage {
    places: ConfigPlaces,
    principal: Arc<Principal>,
    workspace: WorkspaceRule,
}

/// How the workspace is determined.
enum WorkspaceRule {
    /// The entry names it.
    Fixed,
    /// It is where the agent starts Haft, or the nearest trusted one above.
    WhereStarted,
}

impl Installed {
    fn checks(&self, app: &App, here: &ConfigPlaces) -> Vec<Check> {
        let who = self.who();
        if !self.server.enabled {
            let off = format!("{who} has Haft switched off in its configuration");
            return vec![Check::absent(NAME, off, None)];
        }
        match &self.server.reach {
            ServerTransport::Address { url, .. } => vec![Check::ok(
                NAME,
                format!("{who} connects to {url}; that server has the record and the rules"),
            )],
            ServerTransport::Command { argv, env, cwd } => {
                let mut checks = vec![self.started(argv, env, cwd.as_deref(), app, here)];
                checks.extend(argv.first().and_then(|program| self.program(program)));
                checks
            }
        }
    }

    fn who(&self) -> String {
        let agent = self.agent.id();
        match self.scope {
            Scope::User => format!("`{agent}`"),
            Scope::Project => format!("`{agent}` (this project)"),
            Scope::Local => format!("`{agent}` (this project, for you alone)"),
        }
    }

    /// The command that rewrites the entry.
    fn again(&self) -> String {
        let agent = self.agent.id();
        match self.scope {
            Scope::User => format!("`haft mcp install {agent}`"),
            Scope::Project | Scope::Local => {
                format!("`haft mcp install {agent} --scope {}`", self.scope.id())
            }
        }
    }

    /// What calls will use when the agent starts Haft.
    fn started(
        &self,
        argv: &[String],
        env: &BTreeMap<String, EntryValue>,
        cwd: Option<&str>,
        app: &App,
        here: &ConfigPlaces,
    ) -> Check {
        let who = self.who();
        let uses = match uses(argv, env, cwd, app) {
            Ok(uses) => uses,
            Err(stop) => {
                let why = stop.message().unwrap_or_default();
                return Check::warn(NAME, format!("{who} cannot start Haft: {why}"), stop.hint());
            }
        };
        let record = uses.places.data_dir.clone();
        let works = match uses.workspace {
            WorkspaceRule::Fixed => format!("works in {}", uses.places.workspace.display()),
            WorkspaceRule::WhereStarted => format!(
                "works where it is started (here {})",
                uses.places.workspace.display()
            ),
        };
        let (rules, listed) = match rules(uses) {
            Ok(rules) => rules,
            Err(stop) => {
                let why = stop.message().unwrap_or_default();
                return Check::warn(NAME, format!("{who} {works}: {why}"), stop.hint());
            }
        };
        let said = format!("{who} {works}, {rules}, record {}", record.display());
        if !same_place(&record, &here.data_dir) {
            return Check::warn(
                NAME,
                format!("{said}, which `haft log` does not show here"),
                format!("{} writes the record into its configuration", self.again()),
            );
        }
        if !listed {
            return Check::warn(
                NAME,
                format!(
                    "{said}; the rules list agents but not this one, so Haft asks about everything it does"
                ),
                format!("add `[agents.{}]` to them", self.agent.id()),
            );
        }
        Check::ok(NAME, said)
    }

    /// What is wrong with the program the agent starts.
    fn program(&self, program: &str) -> Option<Check> {
        let who = self.who();
        let hint = format!(
            "{} writes this program into its configuration",
            self.again()
        );
        if !Path::new(program).is_file() {
            let gone = format!("{who} starts {program}, which does not exist");
            return Some(Check::warn(NAME, gone, hint));
        }
        let this = this_program().ok()?;
        (!same_place(Path::new(program), &this)).then(|| {
            let other = format!("{who} starts {program}, which is not this program");
            Check::warn(NAME, other, hint)
        })
    }
}

/// Parses a command the way the started program will.
fn uses(
    argv: &[String],
    env: &BTreeMap<String, EntryValue>,
    cwd: Option<&str>,
    app: &App,
) -> Result<EntryUsage, Stop> {
    let foreign = |what: String| Stop::config(what, "install Haft again");
    let given: BTreeMap<String, String> = env
        .iter()
        .filter_map(|(name, given)| match given {
            EntryValue::Text(text) => Some((name.clone(), text.clone())),
            EntryValue::Variable { .. } | EntryValue::Foreign(_) => None,
        })
        .collect();
    let mut env = Env::of_server(&given);
    if let Some(cwd) = cwd {
        env.current_dir = app.env.current_dir.join(cwd);
    }
    let cli = Cli::try_parse_from(argv)
        .map_err(|_| foreign("Haft does not understand its arguments".to_owned()))?;
    let Command::Mcp(command) = &cli.command else {
        return Err(foreign("its command is not `haft mcp`".to_owned()));
    };
    let principal = command
        .serves(&env)
        .ok_or_else(|| foreign("its command is not `haft mcp`".to_owned()))??;
    let mut overrides: Overrides = cli.global.overrides();
    // The only thing an agent fills in is the open project's directory.
    overrides.workspace = overrides
        .workspace
        .filter(|path| !path.to_string_lossy().contains("${"));
    let workspace = match overrides.workspace.as_ref().or(env.workspace.as_ref()) {
        Some(_) => WorkspaceRule::Fixed,
        None => WorkspaceRule::WhereStarted,
    };
    Ok(EntryUsage {
        places: ConfigPlaces::find(&env, &overrides)?,
        principal,
        workspace,
    })
}

/// The configuration and the preset in words, and whether the rules list the agent.
fn rules(uses: EntryUsage) -> Result<(String, bool), Stop> {
    let settings = uses.places.settings()?;
    let presets = settings.policy.presets_of(&uses.principal);
    let presets: Vec<&str> = presets.iter().map(|preset| preset.as_str()).collect();
    let names: Vec<&str> = settings
        .sources
        .iter()
        .map(|source| source.name.as_str())
        .collect();
    let config = match names.as_slice() {
        [] => "no haft.toml".to_owned(),
        names => names.join(" and "),
    };
    let listed = settings.policy.lists(&uses.principal.agent);
    Ok((
        format!("{config}, preset {}", presets.join(" and ")),
        listed,
    ))
}
