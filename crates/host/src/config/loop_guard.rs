//! `[loop_guard]` of `haft.toml`: after how many equal results in a row a session is warned and a
//! person is asked. If several files set a key, the one that acts earlier wins.

use haft_runtime::LoopGuard;

use super::file::{Reader, Table, whole_number};

const KEYS: [&str; 2] = ["warn", "ask"];

/// The keys of `[loop_guard]`; 0 means never.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopGuardSettings {
    warn: Option<u32>,
    ask: Option<u32>,
}

impl LoopGuardSettings {
    /// Adds the settings of another file. If both set a key, the stricter value wins.
    pub fn join(&mut self, other: Self) {
        self.warn = earlier(self.warn, other.warn);
        self.ask = earlier(self.ask, other.ask);
    }

    /// The keys and values as written.
    pub fn iter(self) -> impl Iterator<Item = (&'static str, u32)> {
        KEYS.into_iter()
            .zip([self.warn, self.ask])
            .filter_map(|(key, value)| Some((key, value?)))
    }

    /// The loop guard with these settings over the defaults.
    pub fn guard(self) -> LoopGuard {
        let default = LoopGuard::default();
        LoopGuard {
            warn: self.warn.unwrap_or(default.warn),
            ask: self.ask.unwrap_or(default.ask),
        }
    }
}

/// The smaller of two counts, where 0 means never.
fn earlier(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    let rank = |count: &u32| count.checked_sub(1).unwrap_or(u32::MAX);
    one.into_iter().chain(other).min_by_key(rank)
}

impl Reader<'_> {
    /// Reads `[loop_guard]`.
    pub(super) fn loop_guard(&mut self, table: &Table<'_>) -> LoopGuardSettings {
        self.known_keys(table, "[loop_guard]", &KEYS);
        let mut count = |key: &str| {
            let value = table.get(key)?;
            let count = whole_number(value).and_then(|count| u32::try_from(count).ok());
            if count.is_none() {
                self.problem(
                    value.span().start,
                    format!("`{key}` must be a whole number"),
                    "write how many equal results in a row it takes; 0 turns it off",
                );
            }
            count
        };
        LoopGuardSettings {
            warn: count("warn"),
            ask: count("ask"),
        }
    }
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::file::parse;

    fn read(text: &str) -> LoopGuardSettings {
        parse(&PolicySource::new("haft.toml", text))
            .unwrap()
            .loop_guard
    }

    #[test]
    fn of_two_files_the_one_that_speaks_up_earlier_holds() {
        let check = |one: &str, other: &str, warn: u32, ask: u32| {
            for (first, second) in [(one, other), (other, one)] {
                let mut joined = read(first);
                joined.join(read(second));
                assert_eq!(joined.guard(), LoopGuard { warn, ask }, "{one} {other}");
            }
        };
        check("", "", 3, 6);
        check("[loop_guard]\nwarn = 0\nask = 0\n", "", 0, 0);
        check(
            "[loop_guard]\nwarn = 0\nask = 9\n",
            "[loop_guard]\nwarn = 5\nask = 4\n",
            5,
            4,
        );
    }

    #[test]
    fn what_is_not_a_count_is_refused_with_its_line() {
        let problems = |text: &str| {
            let problems = parse(&PolicySource::new("haft.toml", text)).unwrap_err();
            problems[0].to_string()
        };
        let text = problems("[loop_guard]\nwarn = \"3\"\n");
        assert!(
            text.starts_with("haft.toml:2:8: `warn` must be a whole number"),
            "{text}"
        );
        let text = problems("[loop_guard]\nasks = 3\n");
        assert!(text.contains("did you mean `ask`"), "{text}");
    }
}
