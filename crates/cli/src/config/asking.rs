//! Of `[mcp]` in `haft.toml`: whether clients are asked when a rule asks, and how long one that cannot
//! be asked is kept waiting. Of several files the stricter one holds.

use std::time::Duration;

use haft_mcp::server::approve::{APPROVAL_WAIT, Elicitation};

use super::file::{Reader, Table, whole_number};

/// The keys of `[mcp]` that are read here.
pub(super) const KEYS: [&str; 2] = ["elicitation", "approval_wait"];

/// The longest a client may be kept waiting, in seconds: questions lapse long before.
const MOST_SECONDS: u64 = 3_600;

/// What `[mcp]` says about asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct AskingSettings {
    elicitation: Option<Elicitation>,
    approval_wait: Option<Duration>,
}

impl AskingSettings {
    /// Adds what another file says. Where both speak, the one that asks clients less holds.
    pub(crate) fn join(&mut self, other: Self) {
        self.elicitation = self.elicitation.max(other.elicitation);
        let waits = self.approval_wait.into_iter().chain(other.approval_wait);
        self.approval_wait = waits.min();
    }

    /// Whether clients are asked.
    pub(crate) fn elicitation(self) -> Elicitation {
        self.elicitation.unwrap_or_default()
    }

    /// How long a client that cannot be asked is kept waiting.
    pub(crate) fn approval_wait(self) -> Duration {
        self.approval_wait.unwrap_or(APPROVAL_WAIT)
    }
}

impl Reader<'_> {
    /// Reads what `[mcp]` says about asking.
    pub(super) fn asking(&mut self, table: &Table<'_>) -> AskingSettings {
        let mut settings = AskingSettings::default();
        if let Some(value) = table.get("elicitation") {
            settings.elicitation = match value.get_ref().as_str() {
                Some("ask") => Some(Elicitation::Ask),
                Some("never") => Some(Elicitation::Never),
                Some(_) | None => {
                    self.problem(
                        value.span().start,
                        "`elicitation` is \"ask\" or \"never\"".to_owned(),
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
                    format!("`approval_wait` is a whole number up to {MOST_SECONDS}"),
                    "write how many seconds a client that cannot be asked is kept waiting",
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
            elicitation: Some(Elicitation::Ask),
            approval_wait: Some(Duration::from_secs(9)),
        };
        let never = AskingSettings {
            elicitation: Some(Elicitation::Never),
            approval_wait: Some(Duration::from_secs(5)),
        };
        for (mut one, other) in [(ask, never), (never, ask)] {
            one.join(other);
            assert_eq!(one, never);
            one.join(AskingSettings::default());
            assert_eq!(one, never);
        }
        assert_eq!(AskingSettings::default().elicitation(), Elicitation::Ask);
    }
}
