//! How a mounted server is, for people and for programs.

use haft_mcp::{
    pin::Refused,
    upstream::{
        connection::Era,
        supervise::{Counts, Status},
    },
};
use serde::{Deserialize, Serialize};

use super::time;

/// How a mounted server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServerView {
    /// Its id.
    pub(crate) server: String,
    /// `known`, `starting`, `ready`, `down`, `login needed`, `stopped`, `quarantined`, `failed`, `never
    /// started`, `off`.
    pub(crate) state: String,
    /// The process of the Haft that runs it; none where it is not running.
    pub(crate) pid: Option<u32>,
    /// Since when, in microseconds since 1970.
    pub(crate) since_us: Option<i64>,
    /// When it is tried again.
    pub(crate) again_us: Option<i64>,
    /// `legacy` or `modern`.
    pub(crate) era: Option<String>,
    /// Tools that are offered.
    pub(crate) tools: usize,
    /// Definitions nobody accepted yet.
    pub(crate) new: usize,
    /// Definitions that changed since they were accepted.
    pub(crate) changed: usize,
    /// Definitions that were not taken.
    pub(crate) refused: Vec<RefusedView>,
    /// Why what was accepted under this id before does not count, if something was.
    #[serde(default)]
    pub(crate) lapsed: Option<String>,
    /// What went wrong last.
    pub(crate) last_error: Option<String>,
}

/// A definition that was not taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefusedView {
    /// `tool`, `prompt`, `template`.
    pub(crate) kind: String,
    /// Its name, escaped and cut.
    pub(crate) name: String,
    /// Why.
    pub(crate) why: String,
}

impl ServerView {
    /// How a server of this process is.
    pub(crate) fn of(status: &Status) -> Self {
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

    /// The same, where nothing was accepted and something waits for that.
    fn quarantined(mut self, counts: Counts) -> Self {
        let runs = ["known", "ready"].contains(&self.state.as_str());
        if runs && counts.accepted == 0 && counts.new > 0 {
            "quarantined".clone_into(&mut self.state);
        }
        self
    }

    /// What there is of tools, in words.
    pub(crate) fn tools_in_words(&self) -> String {
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

    /// Since when, in words.
    pub(crate) fn since_in_words(&self) -> String {
        self.since_us.map_or_else(
            || "-".to_owned(),
            |since| time::local(haft_contract::host::Timestamp(since)),
        )
    }
}

impl RefusedView {
    /// A definition that was not taken.
    pub(crate) fn of(refused: &Refused) -> Self {
        Self {
            kind: refused.kind.as_str().to_owned(),
            name: refused.name.clone(),
            why: refused.why.clone(),
        }
    }
}

/// The word for an era.
pub(crate) fn era(era: Era) -> String {
    match era {
        Era::Legacy => "legacy".to_owned(),
        Era::Modern => "modern".to_owned(),
    }
}
