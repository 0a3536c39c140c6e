//! The state of a mounted server, for people and for programs.

use haft_mcp::{
    pin::{RefusedDefinition, Store as _},
    upstream::{
        connection::ProtocolEra,
        supervise::{Counts, Status},
    },
};
use serde::{Deserialize, Serialize};

use super::{known_definitions::known, origin};
use crate::{
    config::{Settings, mcp::ServerSettings},
    state::{failures::Failures, pins::FilePins, running},
};

/// The state of a mounted server, as shown by `haft mcp status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerView {
    /// Its id.
    pub server: String,
    /// `known`, `starting`, `ready`, `down`, `login needed`, `stopped`, `quarantined`, `failed`,
    /// `never started`, `off`.
    pub state: String,
    /// The id of the Haft process that runs it; `None` if it is not running.
    pub pid: Option<u32>,
    /// Since when, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// When it is tried again, in microseconds since 1970.
    pub again_us: Option<i64>,
    /// `legacy` or `modern`.
    pub era: Option<String>,
    /// How many tools are offered.
    pub tools: usize,
    /// How many definitions nobody accepted yet.
    pub new: usize,
    /// How many definitions changed since they were accepted.
    pub changed: usize,
    /// Definitions that were not taken.
    pub refused: Vec<RefusedView>,
    /// Why earlier acceptances under this id do not count, if there were any.
    #[serde(default)]
    pub lapsed: Option<String>,
    /// The last error.
    pub last_error: Option<String>,
}

/// A definition that was not taken, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedView {
    /// `tool`, `prompt`, `template`.
    pub kind: String,
    /// Its name, escaped and cut.
    pub name: String,
    /// The reason.
    pub why: String,
}

impl ServerView {
    /// The state of a server of this process.
    pub fn of(status: &Status) -> Self {
        let counts = status.counts;
        Self {
            server: status.server.to_string(),
            state: status.state.as_str().to_owned(),
            pid: Some(std::process::id()),
            since_us: Some(status.since.0),
            again_us: status.again.map(|again| again.0),
            era: status.era.map(era),
            tools: counts.tools,
            new: counts.new,
            changed: counts.changed,
            refused: status.refused.iter().map(RefusedView::of).collect(),
            lapsed: status.lapsed.as_ref().map(ToString::to_string),
            last_error: status.last_error.clone(),
        }
        .quarantined(counts)
    }

    /// Marks it as quarantined, if nothing was accepted and something is waiting for that.
    fn quarantined(mut self, counts: Counts) -> Self {
        let runs = ["known", "ready"].contains(&self.state.as_str());
        if runs && counts.accepted == 0 && counts.new > 0 {
            "quarantined".clone_into(&mut self.state);
        }
        self
    }

    /// A summary of its tools, in words.
    pub fn tools_in_words(&self) -> String {
        let mut words = self.tools.to_string();
        for (count, word) in [
            (self.new, "new"),
            (self.changed, "changed"),
            (self.refused.len(), "refused"),
        ] {
            if count > 0 {
                words = format!("{words}, {count} {word}");
            }
        }
        words
    }
}

impl RefusedView {
    /// The view of a refused definition.
    pub fn of(refused: &RefusedDefinition) -> Self {
        Self {
            kind: refused.kind.as_str().to_owned(),
            name: refused.name.clone(),
            why: refused.why.clone(),
        }
    }
}

/// The name of an era.
fn era(era: ProtocolEra) -> String {
    match era {
        ProtocolEra::Legacy => "legacy".to_owned(),
        ProtocolEra::Modern => "modern".to_owned(),
    }
}

/// Every configured server: in every Haft that runs it, or at rest.
pub fn servers(settings: &Settings) -> Vec<ServerView> {
    let data_dir = &settings.places.data_dir;
    let running: Vec<ServerView> = running::read(data_dir)
        .into_iter()
        .filter_map(|file| serde_json::from_value(file.get("servers")?.clone()).ok())
        .flat_map(|servers: Vec<ServerView>| servers)
        .collect();
    let store = FilePins::new(data_dir);
    let failures = Failures::new(data_dir);
    let mut views = Vec::new();
    for server in &settings.mcp.servers {
        let id = server.id.as_str();
        let before = views.len();
        views.extend(running.iter().filter(|one| one.server == id).cloned());
        if views.len() == before {
            views.push(at_rest(server, &store, &failures));
        }
    }
    views
}

/// A server that no Haft runs.
fn at_rest(server: &ServerSettings, store: &FilePins, failures: &Failures) -> ServerView {
    let failed = failures.last(&server.id, origin(server).digest());
    let failed = failed.filter(|_| server.enabled);
    let mut view = ServerView {
        server: server.id.to_string(),
        state: if server.enabled { "known" } else { "off" }.to_owned(),
        pid: None,
        since_us: failed.as_ref().map(|failed| failed.at_us),
        again_us: None,
        era: None,
        tools: 0,
        new: 0,
        changed: 0,
        refused: Vec::new(),
        lapsed: None,
        last_error: failed.as_ref().map(|failed| failed.why.clone()),
    };
    if failed.is_some() {
        "failed".clone_into(&mut view.state);
    }
    let known = match known(server, store) {
        Ok(Some(known)) => known,
        Ok(None) => {
            if server.enabled && failed.is_none() {
                "never started".clone_into(&mut view.state);
            }
            return view;
        }
        Err(why) => {
            view.last_error = Some(why);
            return view;
        }
    };
    let seen = store.seen(&server.id, &origin(server)).ok().flatten();
    view.era = seen.map(|seen| era(seen.era));
    view.tools = known.accepted_tools();
    view.new = known.unaccepted();
    view.changed = known.changed();
    view.lapsed = known.pins.lapsed.as_ref().map(ToString::to_string);
    view.refused = known.refused.iter().map(RefusedView::of).collect();
    if server.enabled && failed.is_none() && known.pins.is_new_server() && view.new > 0 {
        "quarantined".clone_into(&mut view.state);
    }
    view
}
