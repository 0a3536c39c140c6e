//! The days as data. The words are explained in `days/README.md`; words that are not listed there
//! are an error.

use std::collections::BTreeMap;

use haft::contract::host::Verdict;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// One day: a project, and what an agent calls in it, in order.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Day {
    #[serde(rename = "day")]
    pub(crate) name: String,
    pub(crate) title: String,
    /// The files of the workspace.
    pub(crate) files: BTreeMap<String, String>,
    /// The files beside it, such as those of the home directory.
    #[serde(default)]
    pub(crate) beside: BTreeMap<String, String>,
    /// A script that is run outside in the workspace once the files are there.
    pub(crate) prepare: String,
    #[serde(rename = "call")]
    pub(crate) calls: Vec<Call>,
}

/// A call as a model makes it, and the answer that is fair.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    #[serde(deserialize_with = "verdict")]
    pub(crate) fair: Verdict,
    pub(crate) why: String,
    /// Programs it takes.
    #[serde(default)]
    pub(crate) needs: Vec<String>,
    /// What it needs and a sandbox does not have. Such a call is judged and not run.
    pub(crate) reaches: Option<Reach>,
    /// The exit code it ends with where it works.
    #[serde(default)]
    pub(crate) exit: i32,
    /// What it then prints.
    pub(crate) shows: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reach {
    Network,
    Outside,
}

/// What `.ci/run` installs, or what is there wherever these tests are built. Calls that take
/// nothing else are counted; the others are run where they can be, and only printed.
pub(crate) const EVERYWHERE: [&str; 25] = [
    "bc",
    "cargo",
    "cargo-clippy",
    "cargo-fmt",
    "curl",
    "gcc",
    "git",
    "jq",
    "make",
    "node",
    "npm",
    "objdump",
    "perl",
    "pytest",
    "python3",
    "readelf",
    "rg",
    "rsync",
    "rustc",
    "rustdoc",
    "size",
    "sqlite3",
    "unzip",
    "valgrind",
    "zip",
];

impl Call {
    /// Whether every program it takes is on every machine.
    pub(crate) fn runs_everywhere(&self) -> bool {
        let everywhere = |program: &String| EVERYWHERE.contains(&program.as_str());
        self.needs.iter().all(everywhere)
    }

    /// Whether it is run at all, given its programs: a secret is not read even for a test of
    /// reading, and what a sandbox does not have would fail for that alone.
    pub(crate) fn is_run(&self) -> bool {
        self.fair != Verdict::Deny && self.reaches.is_none()
    }

    /// Its command, if it is one that ends with the call.
    pub(crate) fn command(&self) -> Option<&str> {
        let stays = ["background", "run_in_background"]
            .iter()
            .any(|word| self.arguments.get(word) == Some(&Value::Bool(true)));
        let command = self.arguments.get("command")?.as_str()?;
        (!stays).then_some(command)
    }
}

const TEXTS: [&str; COUNT] = [
    include_str!("../../../../../../days/c.toml"),
    include_str!("../../../../../../days/data.toml"),
    include_str!("../../../../../../days/docs.toml"),
    include_str!("../../../../../../days/git.toml"),
    include_str!("../../../../../../days/go.toml"),
    include_str!("../../../../../../days/node.toml"),
    include_str!("../../../../../../days/python.toml"),
    include_str!("../../../../../../days/rust.toml"),
];

/// How many days there are.
pub(crate) const COUNT: usize = 8;

/// Every day, sorted by name.
pub(crate) fn days() -> Vec<Day> {
    let parse = |text| toml::from_str(text).unwrap_or_else(|error| panic!("a day: {error}"));
    TEXTS.into_iter().map(parse).collect()
}

fn verdict<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Verdict, D::Error> {
    let word = String::deserialize(deserializer)?;
    let unknown = || D::Error::custom(format!("`{word}` is none of allow, ask, deny"));
    Verdict::parse(&word).ok_or_else(unknown)
}
