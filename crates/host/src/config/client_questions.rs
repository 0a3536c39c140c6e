//! The part of `[mcp]` in `haft.toml` that sets whether clients are asked when a rule asks, how
//! long a client that cannot be asked is kept waiting, and how many requests one may have in
//! flight. If several files set a key, the stricter value wins.

use std::time::Duration;

use haft_mcp::server::{
    approve::{APPROVAL_WAIT, Elicitation},
    capped::REQUESTS_IN_FLIGHT,
};

use super::{
    approval_places::ApprovalPlaces,
    file::{Reader, Table, whole_number},
};

/// The keys of `[mcp]` that are read here.
pub(super) const KEYS: [&str; 3] = ["elicitation", "approval_wait", "requests_in_flight"];

/// The longest a client may be kept waiting, in seconds: questions lapse long before.
const MOST_SECONDS: u64 = 3_600;

/// The highest number of requests of one client served at once.
const MOST_REQUESTS: usize = 65_536;

/// The keys of `[mcp]` about asking clients, and where else questions are answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskingSettings {
    /// `[approvals]`.
    pub places: ApprovalPlaces,
    elicitation: Option<Elicitation>,
    approval_wait: Option<Duration>,
    requests_in_flight: Option<usize>,
}

impl AskingSettings {
    /// Adds the settings of another file. If both set a key, the one that asks clients less wins.
    pub fn join(&mut self, other: Self) {
        self.places.join(other.places);
        self.elicitation = self.elicitation.max(other.elicitation);
        let waits = self.approval_wait.into_iter().chain(other.approval_wait);
        self.approval_wait = waits.min();
        let most = self.requests_in_flight.into_iter();
        self.requests_in_flight = most.chain(other.requests_in_flight).min();
    }

    /// Whether clients are asked.
    pub fn elicitation(&self) -> Elicitation {
        self.elicitation.unwrap_or_default()
    }

    /// How long a client that cannot be asked is kept waiting.
    pub fn approval_wait(&self) -> Duration {
        self.approval_wait.unwrap_or(APPROVAL_WAIT)
    }

    /// How many requests of one client are served at once.
    pub fn requests_in_flight(&self) -> usize {
        self.requests_in_flight.unwrap_or(REQUESTS_IN_FLIGHT)
    }
}

impl Reader<'_> {
    /// Reads the keys of `[mcp]` about asking clients.
    pub(super) fn asking(&mut self, table: &Table<'_>) -> AskingSettings {
        let mut settings = AskingSettings::default();
        if let Some(value) = table.get("elicitation") {
            settings.elicitation = match value.get_ref().as_str() {
                Some("ask") => Some(Elicitation::Ask),
                Some("never") => Some(Elicitation::Never),
                Some(_) | None => {
                    self.problem(
                        value.span().start,
                        "`elicitation` must be \"ask\" or \"never\"".to_owned(),
                        "with \"never\" questions are answered by `haft approve` and \
                         `haft approvals --watch` only",
                    );
                    None
                }
            };
        }
        if let Some(value) = table.get("approval_wait") {
            match whole_number(value).filter(|seconds| *seconds <= MOST_SECONDS) {
                Some(seconds) => settings.approval_wait = Some(Duration::from_secs(seconds)),
                None => self.problem(
                    value.span().start,
                    format!("`approval_wait` must be a whole number up to {MOST_SECONDS}"),
                    "write how many seconds a client that cannot be asked is kept waiting",
                ),
            }
        }
        if let Some(value) = table.get("requests_in_flight") {
            let most = whole_number(value).and_then(|most| usize::try_from(most).ok());
            match most.filter(|most| (1..=MOST_REQUESTS).contains(most)) {
                Some(most) => settings.requests_in_flight = Some(most),
                None => self.problem(
                    value.span().start,
                    format!(
                        "`requests_in_flight` must be a whole number from 1 to {MOST_REQUESTS}"
                    ),
                    "write how many requests of one client are served at once",
                ),
            }
        }
        settings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_files_the_stricter_holds() {
        let ask = AskingSettings {
            places: ApprovalPlaces::default(),
            elicitation: Some(Elicitation::Ask),
            approval_wait: Some(Duration::from_secs(9)),
            requests_in_flight: Some(9),
        };
        let never = AskingSettings {
            places: ApprovalPlaces::default(),
            elicitation: Some(Elicitation::Never),
            approval_wait: Some(Duration::from_secs(5)),
            requests_in_flight: Some(5),
        };
        for (one, other) in [(&ask, &never), (&never, &ask)] {
            let (mut one, other) = (one.clone(), other.clone());
            one.join(other);
            assert_eq!(one, never);
            one.join(AskingSettings::default());
            assert_eq!(one, never);
        }
        assert_eq!(AskingSettings::default().elicitation(), Elicitation::Ask);
    }
}
