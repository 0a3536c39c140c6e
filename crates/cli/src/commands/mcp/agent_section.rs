//! The agent's section in the workspace's `haft.toml`, which `haft mcp install` adds: `[agents.NAME]`,
//! so that its rules have a place and it counts as known. Makes the file as `haft init` does where
//! there is none.
//!
//! INVARIANT: a file becomes trusted here only if this command has just made it, or if it was
//! trusted exactly as it was before the section was added. Any other file is left as it is, and the
//! person is told why.

use std::path::{Path, PathBuf};

use crate::{stop::Stop, terminal::Page};
use haft_agent_settings::{Agent, Scope};
use haft_host::config::{
    ConfigPlaces, FILE_NAME,
    resolve::check,
    template,
    trust::{Trust, sha256},
};
use haft_host::state::foreign::{BackupPolicy, ForeignFile};
use haft_ledger::Redactor;
use haft_policy::Preset;
use serde_json::{Value, json};

use super::{
    super::{App, approvals::may_answer, init},
    entry,
};

/// The agent that the command line is.
const COMMAND_LINE: &str = "cli";

/// What becomes of the section.
pub(super) struct AgentSection {
    agent: Agent,
    /// The file; `None` if it is not known.
    path: Option<PathBuf>,
    step: SectionStep,
}

/// What there is to do.
enum SectionStep {
    /// Make the file, with the section.
    Make(String),
    /// Add the section to a file.
    Add {
        file: ForeignFile,
        after: String,
        /// Whether the file has to be trusted again.
        pinned: bool,
    },
    /// Nothing: the section is there.
    Already,
    /// Nothing, for this reason; with what a person can do.
    Refused(Stop),
}

impl AgentSection {
    /// Plans the section for an agent; nothing is written.
    pub(super) fn plan(agent: Agent, app: &App) -> Self {
        let places = may_answer().and_then(|()| app.places());
        let (path, step) = match places {
            Ok(places) => {
                let path = places.only_config.clone();
                let path = path.unwrap_or_else(|| places.project_config.clone());
                let step = step(agent, &path, &places, app);
                (Some(path), step.unwrap_or_else(SectionStep::Refused))
            }
            Err(stop) => (None, SectionStep::Refused(stop)),
        };
        Self { agent, path, step }
    }

    /// Does what was planned.
    pub(super) fn write(&self, app: &App) -> Result<(), Stop> {
        match &self.step {
            SectionStep::Make(text) => init::write(&mut app.places()?, text),
            SectionStep::Add {
                file,
                after,
                pinned,
            } => {
                file.replace(after, BackupPolicy::Never)?;
                if !pinned {
                    return Ok(());
                }
                let mut trust = app.places()?.trust;
                trust.pin_text(file.path(), after);
                Ok(trust.save()?)
            }
            SectionStep::Already | SectionStep::Refused(_) => Ok(()),
        }
    }

    /// The change to the file as a diff, for `--dry-run`; `None` if it is not changed.
    pub(super) fn diff(&self) -> Option<String> {
        let redactor = Redactor::new(std::iter::empty::<String>());
        match &self.step {
            SectionStep::Add { file, after, .. } => Some(entry::diff(file, Some(after), &redactor)),
            SectionStep::Make(_) | SectionStep::Already | SectionStep::Refused(_) => None,
        }
    }

    /// What was done, or under `--dry-run` would be done, for the page.
    pub(super) fn page(&self) -> Page {
        let page = Page::new();
        let file = self.path.as_deref().map(Path::display);
        let file = file.map_or_else(|| FILE_NAME.to_owned(), |path| path.to_string());
        let agent = self.agent.id();
        match &self.step {
            SectionStep::Make(_) => page
                .field(
                    "rules",
                    format!("{file}, new: as `haft init` makes it, preset {PRESET}, and trusted"),
                )
                .field(
                    "",
                    format!("[agents.{agent}] is the place for its own rules"),
                ),
            SectionStep::Add { .. } => page.field(
                "rules",
                format!("{file}, with [agents.{agent}] added: the place for its own rules"),
            ),
            SectionStep::Already => page.field("rules", format!("[agents.{agent}] in {file}")),
            SectionStep::Refused(stop) => page
                .field(
                    "rules",
                    format!(
                        "[agents.{agent}] was not added: {}",
                        stop.message().unwrap_or_default()
                    ),
                )
                .field("", stop.hint()),
        }
    }

    /// What would be done, as one sentence; `None` if the diff says it or there is nothing to do.
    pub(super) fn would_make(&self) -> Option<String> {
        let path = self.path.as_ref()?.display();
        match &self.step {
            SectionStep::Make(_) => Some(format!(
                "would make `{path}` as `haft init` does, preset {PRESET}, with [agents.{}]",
                self.agent.id()
            )),
            SectionStep::Add { .. } | SectionStep::Already | SectionStep::Refused(_) => None,
        }
    }

    /// The same as JSON.
    pub(super) fn json(&self) -> Value {
        let (state, why) = match &self.step {
            SectionStep::Make(_) => ("made", None),
            SectionStep::Add { .. } => ("added", None),
            SectionStep::Already => ("already", None),
            SectionStep::Refused(stop) => ("not_added", stop.message()),
        };
        json!({"file": self.path, "section": state, "why": why})
    }
}

/// The preset of a file that is made here: the default of `haft init`.
const PRESET: Preset = Preset::Careful;

/// What there is to do with the file at this path.
fn step(agent: Agent, path: &Path, places: &ConfigPlaces, app: &App) -> Result<SectionStep, Stop> {
    let pinned = places.only_config.is_none();
    let file = ForeignFile::read(path.to_owned())?;
    let Some(text) = file.text() else {
        if !pinned || places.trust.knows(path) {
            return Err(Stop::config(
                format!("`{}` is missing, although it counts", path.display()),
                "put it back, or make a new one with `haft init`; then run this command again",
            ));
        }
        let text = template::haft_toml(PRESET.as_str());
        let after = with_sections(&text, agent, app)?.unwrap_or(text);
        check(&places.name_of(path), path, &after)?;
        return Ok(SectionStep::Make(after));
    };
    let trust = places.trust.of(path, sha256(text.as_bytes()));
    let again = "read it, run `haft trust`, then run this command again";
    match trust {
        Trust::Changed if pinned => {
            let why = format!("`{}` has changed since you trusted it", path.display());
            return Err(Stop::config(why, again));
        }
        Trust::Never if pinned => {
            let why = format!("you have not trusted `{}`", path.display());
            return Err(Stop::config(why, again));
        }
        Trust::Trusted | Trust::Changed | Trust::Never => {}
    }
    let Some(after) = with_sections(text, agent, app)? else {
        return Ok(SectionStep::Already);
    };
    check(&places.name_of(path), path, &after)?;
    Ok(SectionStep::Add {
        file,
        after,
        pinned,
    })
}

/// The text with the section at its end; `None` if it has it. Nothing else in it changes.
///
/// A file that lists one agent makes every other one a stranger. So the first section brings those
/// of the command line and of the agents that have Haft already.
fn with_sections(text: &str, agent: Agent, app: &App) -> Result<Option<String>, Stop> {
    let file = text.parse::<toml::Table>().map_err(|error| {
        Stop::config(
            format!("the configuration cannot be parsed: {}", error.message()),
            "correct it; `haft policy lint` names the line",
        )
    })?;
    let listed = file.get("agents").and_then(toml::Value::as_table);
    if listed.is_some_and(|listed| listed.contains_key(agent.id())) {
        return Ok(None);
    }
    let mut after = text.trim_end().to_owned();
    if !after.is_empty() {
        after.push_str("\n\n");
    }
    if listed.is_none_or(toml::Table::is_empty) {
        after.push_str(
            "# Agents, each with rules of its own beside those above: preset, allow, ask, deny. An agent\n\
             # without a section is a stranger, and asks for everything. `cli` is the command line.\n",
        );
        after.extend(["[agents.", COMMAND_LINE, "]\n\n"]);
        let others = Agent::all().iter().filter(|other| **other != agent);
        for other in others.filter(|other| has_haft(**other, app)) {
            after.extend(["[agents.", other.id(), "]\n\n"]);
        }
    }
    after.extend(["[agents.", agent.id(), "]\n"]);
    Ok(Some(after))
}

/// Whether an agent has Haft in its configuration, for the person or here.
fn has_haft(agent: Agent, app: &App) -> bool {
    [Scope::User, Scope::Project, Scope::Local]
        .into_iter()
        .filter_map(|scope| entry::place(agent, scope, None, app).ok())
        .any(|place| entry::installed(agent, &place).is_some())
}
