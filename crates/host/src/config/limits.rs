//! `[limits]` of `haft.toml`: the runtime's caps, by key. If several files set a key, the stricter
//! value wins.
//!
//! One table of keys drives reading, joining and applying. `[sandbox.limits]`, which limits
//! commands, is in `sandbox.rs`.

use std::time::Duration;

use haft_runtime::Limits;

use super::file::{Reader, Table};

/// The keys of `[limits]` that were set, each once.
#[derive(Debug, Clone, Default)]
pub struct LimitSettings(Vec<(Limit, u64)>);

impl LimitSettings {
    /// Adds the settings of another file. If both set a key, the stricter value wins.
    pub fn join(&mut self, other: &Self) {
        for (limit, value) in &other.0 {
            match self.0.iter_mut().find(|(known, _)| known.key == limit.key) {
                Some((_, known)) => *known = limit.stricter.of(*known, *value),
                None => self.0.push((*limit, *value)),
            }
        }
    }

    /// The keys and values as written.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(limit, value)| (limit.key, *value))
    }

    /// Applies the values that were set.
    pub fn apply(&self, limits: &mut Limits) {
        for (limit, value) in &self.0 {
            (limit.set)(limits, *value);
        }
    }
}

/// One key of `[limits]`.
#[derive(Debug, Clone, Copy)]
struct Limit {
    key: &'static str,
    stricter: Stricter,
    set: fn(&mut Limits, u64),
}

/// Which of two values is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stricter {
    /// The smaller: a cap.
    Smaller,
    /// The larger: how much is recorded, or how long to wait for the record.
    Larger,
}

impl Stricter {
    fn of(self, one: u64, other: u64) -> u64 {
        match self {
            Self::Smaller => one.min(other),
            Self::Larger => one.max(other),
        }
    }
}

const LIMITS: &[Limit] = &[
    Limit {
        key: "calls_in_flight",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.calls_in_flight = count(value),
    },
    Limit {
        key: "calls_in_flight_per_tenant",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.calls_in_flight_per_tenant = count(value),
    },
    Limit {
        key: "admission_wait_ms",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.admission_wait = Duration::from_millis(value),
    },
    Limit {
        key: "approval_wait_ms",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.approval_wait = Duration::from_millis(value),
    },
    Limit {
        key: "open_approvals",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.open_approvals = count(value),
    },
    Limit {
        key: "hard_deadline_ms",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.hard_deadline = Duration::from_millis(value),
    },
    Limit {
        key: "stop_grace_ms",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.stop_grace = Duration::from_millis(value),
    },
    Limit {
        key: "settle_wait_ms",
        stricter: Stricter::Larger,
        set: |limits, value| limits.settle_wait = Duration::from_millis(value),
    },
    Limit {
        key: "preimage_bytes",
        stricter: Stricter::Larger,
        set: |limits, value| limits.preimage_bytes = value,
    },
    Limit {
        key: "preimage_rows",
        stricter: Stricter::Larger,
        set: |limits, value| limits.preimage_rows = value,
    },
    Limit {
        key: "outgoing_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.outgoing_bytes = value,
    },
    Limit {
        key: "structured_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.structured_bytes = count(value),
    },
    Limit {
        key: "items",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.items = count(value),
    },
    Limit {
        key: "item_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.item_bytes = count(value),
    },
    Limit {
        key: "lookups_per_tenant",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.lookups_per_tenant = count(value),
    },
    Limit {
        key: "readers_per_tenant",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.readers_per_tenant = count(value),
    },
    Limit {
        key: "output_head_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.output.head_bytes = count(value),
    },
    Limit {
        key: "output_tail_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.output.tail_bytes = count(value),
    },
    Limit {
        key: "output_artifact_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.output.artifact_bytes = value,
    },
    Limit {
        key: "output_stream_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.output.stream_bytes = count(value),
    },
    Limit {
        key: "processes_per_session",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.processes.per_session = count(value),
    },
    Limit {
        key: "processes_per_tenant",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.processes.per_tenant = count(value),
    },
    Limit {
        key: "processes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.processes.in_all = count(value),
    },
    Limit {
        key: "process_log_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.processes.log_bytes = count(value),
    },
    Limit {
        key: "process_idle_ms",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.processes.idle = Duration::from_millis(value),
    },
    Limit {
        key: "process_finished_ms",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.processes.finished = Duration::from_millis(value),
    },
];

impl Reader<'_> {
    /// Reads `[limits]`.
    pub(super) fn limits(&mut self, table: &Table<'_>) -> LimitSettings {
        let keys: Vec<&str> = LIMITS.iter().map(|limit| limit.key).collect();
        self.known_keys(table, "[limits]", &keys);
        let set = LIMITS
            .iter()
            .filter_map(|limit| Some((*limit, self.number(table, limit.key)?)));
        LimitSettings(set.collect())
    }
}

fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::file::parse;

    #[test]
    fn cf_11_of_two_files_the_stricter_limit_holds() {
        let limits = |text: &str| parse(&PolicySource::new("haft.toml", text)).unwrap().limits;
        let user = "[limits]\nhard_deadline_ms = 5\npreimage_bytes = 9\n";
        let project = "[limits]\nhard_deadline_ms = 7\npreimage_bytes = 1\ncalls_in_flight = 3\n";
        for (first, second) in [(user, project), (project, user)] {
            let mut joined = limits(first);
            joined.join(&limits(second));
            let mut joined: Vec<_> = joined.iter().collect();
            joined.sort_unstable();
            assert_eq!(
                joined,
                [
                    ("calls_in_flight", 3),
                    ("hard_deadline_ms", 5),
                    ("preimage_bytes", 9)
                ]
            );
        }
    }

    #[test]
    fn every_limit_can_be_set() {
        let mut text = "[limits]\n".to_owned();
        for limit in LIMITS {
            text = format!("{text}{} = 7\n", limit.key);
        }
        let file = parse(&PolicySource::new("haft.toml", text)).unwrap();
        let mut limits = Limits::default();
        file.limits.apply(&mut limits);
        let seven = Duration::from_millis(7);
        assert_eq!(
            limits,
            Limits {
                calls_in_flight: 7,
                calls_in_flight_per_tenant: 7,
                admission_wait: seven,
                approval_wait: seven,
                open_approvals: 7,
                hard_deadline: seven,
                stop_grace: seven,
                settle_wait: seven,
                preimage_bytes: 7,
                preimage_rows: 7,
                outgoing_bytes: 7,
                structured_bytes: 7,
                items: 7,
                item_bytes: 7,
                lookups_per_tenant: 7,
                readers_per_tenant: 7,
                output: haft_runtime::OutputLimits {
                    head_bytes: 7,
                    tail_bytes: 7,
                    artifact_bytes: 7,
                    stream_bytes: 7,
                },
                processes: haft_runtime::ProcessLimits {
                    per_session: 7,
                    per_tenant: 7,
                    in_all: 7,
                    log_bytes: 7,
                    idle: seven,
                    finished: seven,
                },
            }
        );
    }
}
