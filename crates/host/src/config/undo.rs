//! `[undo]` of `haft.toml`: whether, and up to which caps, changes made by commands are kept so
//! that they can be undone. Changes made by file tools are always kept.
//!
//! If several files set a switch or a cap, the one that keeps more wins. Excluded paths add up, and
//! `haft trust` lists them before they count.

use std::time::Duration;

use haft_backends::ChangeOptions;

use super::file::{Reader, Table};

/// The `[undo]` tables of one file, or of several merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UndoSettings {
    commands: Option<bool>,
    ignore: Vec<String>,
    caps: Vec<(Cap, u64)>,
}

/// One cap of `[undo]`.
#[derive(Debug, Clone, Copy)]
struct Cap {
    key: &'static str,
    set: fn(&mut ChangeOptions, u64),
}

impl PartialEq for Cap {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Cap {}

const CAPS: [Cap; 3] = [
    Cap {
        key: "max_files",
        set: |options, value| options.max_files = usize::try_from(value).unwrap_or(usize::MAX),
    },
    Cap {
        key: "max_bytes",
        set: |options, value| options.max_bytes = value,
    },
    Cap {
        key: "max_millis",
        set: |options, value| options.max_time = Duration::from_millis(value),
    },
];

impl UndoSettings {
    /// Adds the settings of another file.
    pub fn join(&mut self, other: Self) {
        self.commands = self.commands.max(other.commands);
        self.ignore.extend(other.ignore);
        for (cap, value) in other.caps {
            match self.caps.iter_mut().find(|(known, _)| *known == cap) {
                Some((_, known)) => *known = value.max(*known),
                None => self.caps.push((cap, value)),
            }
        }
    }

    /// How the workspace is compared before and after commands; `None` if it is not.
    pub fn options(&self, usual: ChangeOptions) -> Option<ChangeOptions> {
        if self.commands == Some(false) {
            return None;
        }
        let mut options = usual;
        options.ignore.extend(self.ignore.iter().cloned());
        for (cap, value) in &self.caps {
            (cap.set)(&mut options, *value);
        }
        Some(options)
    }

    /// The settings as written.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(commands) = self.commands {
            lines.push(format!("commands = {commands}"));
        }
        let ignored = |glob: &String| format!("what commands change in `{glob}` is not kept");
        lines.extend(self.ignore.iter().map(ignored));
        let capped = |(cap, value): &(Cap, u64)| format!("{} = {value}", cap.key);
        lines.extend(self.caps.iter().map(capped));
        lines
    }
}

impl Reader<'_> {
    /// Reads `[undo]`.
    pub(super) fn undo(&mut self, table: &Table<'_>) -> UndoSettings {
        let keys: Vec<&str> = ["commands", "ignore"]
            .into_iter()
            .chain(CAPS.iter().map(|cap| cap.key))
            .collect();
        self.known_keys(table, "[undo]", &keys);
        let commands = table.get("commands").and_then(|value| {
            let commands = value.get_ref().as_bool();
            if commands.is_none() {
                let at = value.span().start;
                self.problem(
                    at,
                    "`commands` must be true or false",
                    "write `commands = false`",
                );
            }
            commands
        });
        let caps = CAPS
            .iter()
            .filter_map(|cap| Some((*cap, self.number(table, cap.key)?)))
            .collect();
        UndoSettings {
            commands,
            ignore: self.globs(table),
            caps,
        }
    }

    fn globs(&mut self, table: &Table<'_>) -> Vec<String> {
        let Some(value) = table.get("ignore") else {
            return Vec::new();
        };
        let entries = value.get_ref().as_array();
        let texts = entries.map(|entries| {
            let text = |entry: &super::file::Value<'_>| entry.get_ref().as_str().map(str::to_owned);
            entries.iter().map(text).collect::<Option<Vec<String>>>()
        });
        texts.flatten().unwrap_or_else(|| {
            let at = value.span().start;
            self.problem(
                at,
                "`ignore` must be a list of patterns",
                "write ignore = [\"target/**\"]",
            );
            Vec::new()
        })
    }
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::file::parse;

    fn undo(text: &str) -> UndoSettings {
        parse(&PolicySource::new("haft.toml", text)).unwrap().undo
    }

    #[test]
    fn of_two_files_the_one_that_keeps_more_holds() {
        let one = "[undo]\ncommands = false\nmax_files = 5\nignore = [\"a/**\"]\n";
        let other = "[undo]\ncommands = true\nmax_files = 7\nmax_millis = 9\n";
        for (first, second) in [(one, other), (other, one)] {
            let mut joined = undo(first);
            joined.join(undo(second));
            let options = joined.options(ChangeOptions::new("/x")).unwrap();
            assert_eq!(options.max_files, 7);
            assert_eq!(options.max_time, Duration::from_millis(9));
            assert_eq!(options.ignore, ["a/**"]);
        }
        assert_eq!(undo(one).options(ChangeOptions::new("/x")), None);
    }

    #[test]
    fn what_is_not_understood_is_a_mistake() {
        for text in [
            "[undo]\ncommands = 1\n",
            "[undo]\nignore = 1\n",
            "[undo]\nx = 1\n",
        ] {
            assert!(
                parse(&PolicySource::new("haft.toml", text)).is_err(),
                "{text}"
            );
        }
    }
}
