//! Which tier a test belongs to. The test says so itself, in the reason of its `#[ignore]`:
//!
//! - no attribute: `fast`, green on a bare machine; what plain `cargo test` runs too;
//! - `#[ignore = "ci: needs sshd"]`: guards correctness, and needs more than a bare machine has or
//!   takes long;
//! - `#[ignore = "soak: 20,000 races"]`: the same as a smaller test, with counts for a quiet hour;
//! - `#[ignore = "vm: needs version 2 of cgroups alone"]`: CI runs it in a virtual machine
//!   (`.ci/cgroup2`);
//! - `#[ignore = "child: of that_test"]`: not a test, but a process that a test restarts and kills.
//!
//! nextest selects tests by their names only, so [`tagged`] asks the test binaries.

use std::{collections::BTreeMap, fmt, path::PathBuf, process::Command};

use serde::Deserialize;

/// The first word of an `#[ignore]` reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tag {
    /// CI runs it.
    Ci,
    /// `just soak` runs it.
    Soak,
    /// CI runs it in a virtual machine.
    Vm,
    /// Another test runs it.
    Child,
}

impl Tag {
    /// Every tag.
    pub const ALL: [Self; 4] = [Self::Ci, Self::Soak, Self::Vm, Self::Child];

    /// The tag as written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ci => "ci",
            Self::Soak => "soak",
            Self::Vm => "vm",
            Self::Child => "child",
        }
    }

    /// The tag and the explanation in a reason, if it is well-formed: one line that says why.
    pub fn parse(reason: &str) -> Option<(Self, &str)> {
        let (word, why) = reason.split_once(": ")?;
        let tag = Self::ALL.into_iter().find(|tag| tag.as_str() == word)?;
        let says_why = !why.trim().is_empty() && !why.contains('\n');
        says_why.then_some((tag, why))
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A test with a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tagged {
    /// The test binary, such as `haft-policy::it`.
    pub binary: String,
    /// The test's name in its binary.
    pub name: String,
    /// Its tag.
    pub tag: Tag,
    /// The reason for the tag.
    pub why: String,
}

/// The test binaries of the workspace, as nextest lists them.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Binaries {
    rust_binaries: BTreeMap<String, Binary>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Binary {
    binary_path: PathBuf,
}

/// Every tagged test of the workspace; builds what is not built.
///
/// A test binary lists the names of its ignored tests. Asked to run exactly those, it prints their
/// reasons and runs none.
#[expect(
    clippy::disallowed_methods,
    reason = "asks our own test binaries, on a maintainer's machine"
)]
pub fn tagged() -> Result<Vec<Tagged>, String> {
    let mut list = Command::new("cargo");
    list.args(["nextest", "list", "--workspace", "--locked"])
        .args(["--list-type", "binaries-only", "--message-format", "json"]);
    let binaries: Binaries = serde_json::from_str(&output(&mut list)?)
        .map_err(|error| format!("what `cargo nextest list` says: {error}"))?;
    let mut tagged = Vec::new();
    for (id, Binary { binary_path }) in binaries.rust_binaries {
        let names =
            output(Command::new(&binary_path).args(["--list", "--ignored", "--format", "terse"]))?;
        let names: Vec<&str> = names
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .collect();
        if names.is_empty() {
            continue;
        }
        let said = output(Command::new(&binary_path).arg("--exact").args(&names))?;
        for name in names {
            let reason = said
                .lines()
                .find_map(|line| line.strip_prefix(&format!("test {name} ... ignored, ")));
            let Some((tag, why)) = reason.and_then(Tag::parse) else {
                return Err(format!(
                    "{id} {name} is ignored because of {reason:?}; a reason begins with `ci: `, \
                     `soak: `, `vm: ` or `child: ` and says why in one line"
                ));
            };
            tagged.push(Tagged {
                binary: id.clone(),
                name: name.to_owned(),
                tag,
                why: why.to_owned(),
            });
        }
    }
    Ok(tagged)
}

/// The filter expression of nextest that selects these tests.
pub fn filter<'a>(tests: impl Iterator<Item = &'a Tagged>) -> String {
    let tests: Vec<String> = tests
        .map(|test| format!("(binary_id(={}) & test(={}))", test.binary, test.name))
        .collect();
    if tests.is_empty() {
        return "none()".to_owned();
    }
    tests.join(" | ")
}

fn output(command: &mut Command) -> Result<String, String> {
    let shown = format!("{command:?}");
    let output = command
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{shown}: {complaint}"));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{shown}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_names_a_tier_and_says_why() {
        assert_eq!(Tag::parse("ci: needs sshd"), Some((Tag::Ci, "needs sshd")));
        assert_eq!(
            Tag::parse("soak: 20,000 races"),
            Some((Tag::Soak, "20,000 races"))
        );
        for wrong in ["", "slow", "ci:", "ci: ", "nightly: x", "ci: two\nlines"] {
            assert_eq!(Tag::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn no_test_is_selected_by_an_empty_filter() {
        assert_eq!(filter([].iter()), "none()");
    }
}
