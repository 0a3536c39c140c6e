//! `[timeouts]` of `haft.toml`: how long calls run unless they ask for another time, for every tool,
//! for one, or for one action of one (`"browser.download"`). A name that no tool has is an error, as
//! is more than the tool's maximum. If several files set a key, the smaller value wins.

use std::{collections::BTreeMap, time::Duration};

use haft_contract::ToolSpec;
use haft_runtime::{
    Runtime,
    registry::{Snapshot, Timeouts},
};
use haft_tools::catalog::undo_tool;

use super::file::{Reader, Table, nearest};
use crate::error::HostError;

/// The key that stands for every tool without an entry.
const DEFAULT: &str = "default";

/// How the tools of a mounted server begin.
const MOUNTED: &str = "mcp__";

/// The entries of `[timeouts]`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeoutSettings(BTreeMap<String, Timeout>);

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Timeout {
    seconds: u64,
    /// Where it was written, for messages.
    place: String,
}

impl TimeoutSettings {
    /// Adds the entries of another file. If both have one, the smaller value wins.
    pub fn join(&mut self, other: Self) {
        for (name, timeout) in other.0 {
            let smaller = self
                .0
                .get(&name)
                .is_none_or(|own| timeout.seconds < own.seconds);
            if smaller {
                self.0.insert(name, timeout);
            }
        }
    }

    /// Removes where entries were written, to compare files.
    #[cfg(test)]
    pub(crate) fn forget_places(&mut self) {
        for timeout in self.0.values_mut() {
            timeout.place.clear();
        }
    }

    /// The keys and values as written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        let entries = self.0.iter();
        entries.map(|(name, timeout)| (name.as_str(), timeout.seconds))
    }

    /// The same for a runtime.
    pub(crate) fn timeouts(&self) -> Timeouts {
        self.iter().fold(Timeouts::new(), |all, (name, seconds)| {
            let time = Duration::from_secs(seconds);
            match name {
                DEFAULT => all.default_of_all(time),
                name => all.of(name, time),
            }
        })
    }

    /// Refuses an entry for what no tool is or does, or that exceeds its maximum. Where tools are
    /// missing, a name may be one of theirs.
    pub(crate) fn check(
        &self,
        runtime: &Runtime,
        tools_are_missing: bool,
    ) -> Result<(), HostError> {
        let tools = runtime.registry().snapshot();
        for (key, timeout) in self.0.iter().filter(|(key, _)| *key != DEFAULT) {
            let wrong = |Mistake { what, hint }| {
                HostError::config(format!("{}: {what}", timeout.place), hint)
            };
            let (name, action) = match key.split_once('.') {
                Some((name, action)) => (name, Some(action)),
                None => (key.as_str(), None),
            };
            let Some(spec) = spec_of(name, &tools).map_err(wrong)? else {
                if tools_are_missing {
                    continue;
                }
                return Err(wrong(no_such_tool(name, &tools)));
            };
            let maximum = match action {
                None => spec.deadline.maximum,
                Some(action) => maximum_of(name, action, &spec).map_err(wrong)?,
            };
            if Duration::from_secs(timeout.seconds) > maximum {
                let most = maximum.as_secs();
                return Err(wrong(Mistake {
                    what: format!("`{key}` never runs longer than {most} seconds"),
                    hint: format!("write {most} or less"),
                }));
            }
        }
        Ok(())
    }
}

/// What is wrong with an entry, and what to do.
struct Mistake {
    what: String,
    hint: String,
}

/// What a tool says about itself; none if there is no such tool.
fn spec_of(name: &str, tools: &Snapshot) -> Result<Option<ToolSpec>, Mistake> {
    if let Some(entry) = tools.get(name) {
        let canonical = entry.key().tool.as_str();
        if canonical == name {
            return Ok(Some(entry.spec().clone()));
        }
        return Err(Mistake {
            what: format!("[timeouts] names `{name}`, which is another name of `{canonical}`"),
            hint: format!("write `{canonical}`"),
        });
    }
    if name.starts_with(MOUNTED) {
        return Err(Mistake {
            what: format!("[timeouts] names `{name}`, which belongs to a mounted server"),
            hint: "write `call_timeout` in its entry of [[mcp.servers]]".to_owned(),
        });
    }
    // Only its own command registers it.
    let undo = undo_tool().filter(|tool| tool.name().as_str() == name);
    Ok(undo.map(|tool| tool.spec()))
}

fn no_such_tool(name: &str, tools: &Snapshot) -> Mistake {
    let known = tools.page(0, tools.len()).iter();
    let known: Vec<&str> = known.map(|entry| entry.key().tool.as_str()).collect();
    Mistake {
        what: format!("[timeouts] names `{name}`, and there is no such tool"),
        hint: did_you_mean(name, &known, "`haft tools` lists the tools"),
    }
}

/// The longest that one action of a tool may run.
fn maximum_of(name: &str, action: &str, spec: &ToolSpec) -> Result<Duration, Mistake> {
    let actions = spec.actions.iter();
    let known: Vec<&str> = actions.map(|known| known.name.as_str()).collect();
    let mut actions = spec.actions.iter();
    let found = actions.find(|known| known.name.as_str() == action);
    found.map(|found| found.deadline.maximum).ok_or_else(|| {
        let list = match known.as_slice() {
            [] => format!("no action of `{name}` has a time of its own; write `{name}`"),
            known => format!("its actions are {}", known.join(", ")),
        };
        Mistake {
            what: format!("`{name}` has no action `{action}`"),
            hint: did_you_mean(action, &known, &list),
        }
    })
}

fn did_you_mean(name: &str, known: &[&str], otherwise: &str) -> String {
    match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => otherwise.to_owned(),
    }
}

impl Reader<'_> {
    /// Reads `[timeouts]`. Which names are tools is known only once there are tools.
    pub(super) fn timeouts(&mut self, table: &Table<'_>) -> TimeoutSettings {
        let mut found = BTreeMap::new();
        for (key, value) in table {
            let name: &str = key.get_ref();
            if value.get_ref().as_table().is_some() {
                self.problem(
                    key.span().start,
                    format!("`{name}` must be a number of seconds"),
                    "write an action in quotes: \"browser.download\" = 600",
                );
            } else if let Some(seconds) = self.number(table, name) {
                let place = self.place(key.span().start);
                found.insert(name.to_owned(), Timeout { seconds, place });
            }
        }
        TimeoutSettings(found)
    }
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use crate::config::file::parse;

    #[test]
    fn the_smaller_of_two_files_wins_and_an_action_is_written_in_quotes() {
        let read = |text: &str| parse(&PolicySource::new("haft.toml", text));
        let mut own = read("[timeouts]\ndefault = 60\nbash = 300\n")
            .unwrap()
            .timeouts;
        own.join(
            read("[timeouts]\nbash = 400\n\"process.poll\" = 5\n")
                .unwrap()
                .timeouts,
        );
        let found: Vec<(&str, u64)> = own.iter().collect();
        assert_eq!(found, [("bash", 300), ("default", 60), ("process.poll", 5)]);
        for (text, expect) in [
            (
                "[timeouts]\nbash = 0\n",
                "haft.toml:2:8: `bash` must be a whole number",
            ),
            (
                "[timeouts]\nbash = \"5 m\"\n",
                "haft.toml:2:8: `bash` must be a whole number",
            ),
            (
                "[timeouts]\nprocess.poll = 5\n",
                "`process` must be a number of seconds",
            ),
        ] {
            let problem = read(text).unwrap_err()[0].to_string();
            assert!(problem.contains(expect), "{problem}");
        }
    }
}
