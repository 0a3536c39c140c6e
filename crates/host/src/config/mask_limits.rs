//! `[sandbox.masks]` of `haft.toml`: how far a sandbox looks for what deny rules name, and how much
//! of it it masks for one command.
//!
//! More of each is stricter: what lies beyond is not held, and its rules ask. So of several files
//! the larger value holds.

use std::time::Duration;

use haft_sandbox::MaskLimits;

use super::file::{Reader, Table};

/// What was set, by key.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MaskSettings {
    set: Vec<(&'static MaskLimitKey, u64)>,
}

/// One key.
#[derive(Debug)]
struct MaskLimitKey {
    key: &'static str,
    most: u64,
    set: fn(&mut MaskLimits, u64),
}

impl PartialEq for MaskLimitKey {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

/// The most entries that can be asked for.
const MOST_ENTRIES: u64 = 100_000_000;

const KEYS: [MaskLimitKey; 4] = [
    MaskLimitKey {
        key: "places",
        most: MaskLimits::MOST_PLACES as u64,
        set: |limits, value| limits.places = count(value),
    },
    MaskLimitKey {
        key: "entries",
        most: MOST_ENTRIES,
        set: |limits, value| limits.entries = count(value),
    },
    MaskLimitKey {
        key: "seconds",
        most: MaskLimits::MOST_TIME.as_secs(),
        set: |limits, value| limits.time = Duration::from_secs(value),
    },
    MaskLimitKey {
        key: "patterns",
        most: MaskLimits::MOST_PATTERNS as u64,
        set: |limits, value| limits.patterns = count(value),
    },
];

impl MaskSettings {
    /// Adds the settings of another file.
    pub fn join(&mut self, other: Self) {
        for (key, value) in other.set {
            match self.set.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => *known = value.max(*known),
                None => self.set.push((key, value)),
            }
        }
    }

    /// The limits, with what was set.
    pub fn limits(&self) -> MaskLimits {
        let mut limits = MaskLimits::default();
        for (key, value) in &self.set {
            (key.set)(&mut limits, *value);
        }
        limits
    }

    /// What was set, as written.
    pub fn written(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.set.iter().map(|(key, value)| (key.key, *value))
    }
}

impl Reader<'_> {
    /// Reads `[sandbox.masks]`.
    pub(super) fn mask_limits(&mut self, sandbox: &Table<'_>) -> MaskSettings {
        let mut settings = MaskSettings::default();
        let Some(table) = self.table(sandbox, "masks") else {
            return settings;
        };
        self.known_keys(table, "[sandbox.masks]", &KEYS.map(|key| key.key));
        for key in &KEYS {
            match self.number(table, key.key) {
                Some(number) if number > key.most => {
                    let at = table.get(key.key).map_or(0, |value| value.span().start);
                    let message = format!("`{}` is at most {}", key.key, key.most);
                    self.problem(at, message, "leave it out for the default");
                }
                Some(number) => settings.set.push((key, number)),
                None => {}
            }
        }
        settings
    }
}

fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::file;

    fn read(text: &str) -> Result<MaskSettings, String> {
        let parsed = file::parse(&PolicySource::new("haft.toml", text));
        parsed.map(|file| file.sandbox.masks).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })
    }

    #[test]
    fn every_limit_can_be_set_and_of_two_the_larger_holds() {
        let mut joined =
            read("[sandbox.masks]\nplaces = 7\nentries = 8\nseconds = 9\npatterns = 10\n").unwrap();
        let set = MaskLimits {
            places: 7,
            entries: 8,
            time: Duration::from_secs(9),
            patterns: 10,
        };
        assert_eq!(joined.limits(), set);
        joined.join(read("[sandbox.masks]\nplaces = 9\nentries = 1\n").unwrap());
        assert_eq!((joined.limits().places, joined.limits().entries), (9, 8));
        assert_eq!(MaskSettings::default().limits(), MaskLimits::default());
    }

    #[test]
    fn a_mistake_names_its_line_and_what_to_write() {
        for (text, expected) in [
            (
                "[sandbox.masks]\nplaces = 801\n",
                "haft.toml:2:10: `places` is at most 800\n  hint: leave it out for the default",
            ),
            (
                "[sandbox.masks]\nplace = 8\n",
                "haft.toml:2:1: unknown key `place` in [sandbox.masks]\n  hint: did you mean `places`?",
            ),
        ] {
            assert_eq!(read(text).unwrap_err(), expected);
        }
    }
}
