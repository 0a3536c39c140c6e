//! `[sandbox]` of `haft.toml`: what confined commands see besides the workspace, what they may use,
//! and which hosts they may reach.
//!
//! This can only set paths, numbers and hosts: no key turns a layer off. If several files set a
//! limit, the smaller wins, and a host that one file denies is denied. Paths and hosts add up, and
//! `haft trust` lists them before they count.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use haft_backends::remote::RemoteLimits;
use haft_contract::egress::{EgressRules, HostRule};
use haft_egress::never_granted;
use haft_sandbox::{
    Limits,
    cgroup::{CgroupName, CgroupSetting},
    reserved,
};

use super::{
    file::{Reader, Table, Value},
    mask_limits::MaskSettings,
};
use crate::error::HostError;

/// How a path in the user's home begins.
const IN_HOME: &str = "~/";

/// The `[sandbox]` tables of one file, or of several merged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SandboxSettings {
    limits: Vec<(SandboxLimit, u64)>,
    /// Paths shown read-only, including those of `path`.
    pub read_only: Vec<PathBuf>,
    /// Where programs are looked for first.
    pub path: Vec<PathBuf>,
    /// Additional variables for every command.
    pub env: BTreeMap<String, String>,
    /// Paths shown writable.
    pub writable: Vec<PathBuf>,
    /// Whose toolchains are shown.
    pub home: Option<Home>,
    /// Where control groups are created.
    pub cgroup: Option<CgroupSetting>,
    /// How far to look for what deny rules mask.
    pub masks: MaskSettings,
    /// The hosts that may be reached; `None` if no file sets them.
    pub network: Option<EgressRules>,
    /// A path that was written below `~`, if there is one, as written.
    pub below_home: Option<PathBuf>,
}

/// Whose toolchains a sandboxed command sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// Nobody's.
    Off,
    /// Those in this home.
    At(PathBuf),
}

impl SandboxSettings {
    /// Adds the settings of another file.
    pub fn join(&mut self, other: Self) {
        for (limit, value) in other.limits {
            match self
                .limits
                .iter_mut()
                .find(|(known, _)| known.key == limit.key)
            {
                Some((_, known)) => *known = value.min(*known),
                None => self.limits.push((limit, value)),
            }
        }
        self.read_only.extend(other.read_only);
        self.path.extend(other.path);
        for (name, value) in other.env {
            self.env.entry(name).or_insert(value);
        }
        self.writable.extend(other.writable);
        self.home = match (self.home.take(), other.home) {
            (Some(Home::Off), _) | (_, Some(Home::Off)) => Some(Home::Off),
            (first, second) => first.or(second),
        };
        self.cgroup = self.cgroup.take().or(other.cgroup);
        self.masks.join(other.masks);
        match (&mut self.network, other.network) {
            (Some(rules), Some(more)) => {
                rules.allow.extend(more.allow);
                rules.deny.extend(more.deny);
            }
            (rules @ None, more) => *rules = more,
            (Some(_), None) => {}
        }
    }

    /// Puts the user's home in the place of `~`. For a workspace on another machine there is none:
    /// that machine's home is not known here.
    pub fn expand_home(&mut self, home: Option<&Path>) -> Result<(), HostError> {
        let places = [&mut self.read_only, &mut self.writable, &mut self.path];
        for place in places.into_iter().flatten() {
            let Ok(below) = place.strip_prefix("~") else {
                continue;
            };
            let home = home.ok_or_else(|| {
                HostError::config(
                    format!(
                        "[sandbox] names `{}`, but there is no home directory",
                        place.display()
                    ),
                    "write an absolute path; Haft does not know `~` on another machine",
                )
            })?;
            let expanded = home.join(below);
            self.below_home = Some(std::mem::replace(place, expanded));
        }
        Ok(())
    }

    /// Applies the limits that were set.
    pub fn apply(&self, limits: &mut Limits) {
        for (limit, value) in &self.limits {
            (limit.set)(limits, *value);
        }
    }

    /// The limits that were set, in the form for another machine.
    pub fn remote_limits(&self) -> RemoteLimits {
        let mut limits = RemoteLimits::default();
        for (limit, value) in &self.limits {
            (limit.set_remote)(&mut limits, *value);
        }
        limits
    }

    /// The limits that were set, as written.
    pub fn limits(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.limits.iter().map(|(limit, value)| (limit.key, *value))
    }
}

/// One key of `[sandbox.limits]`.
#[derive(Debug, Clone, Copy)]
struct SandboxLimit {
    key: &'static str,
    most: u64,
    set: fn(&mut Limits, u64),
    set_remote: fn(&mut RemoteLimits, u64),
}

impl PartialEq for SandboxLimit {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

const COUNT: u64 = u32::MAX as u64;
const MEBIBYTES: u64 = u64::MAX >> 20;

/// The keys of `[sandbox.limits]`. For all of them, the smaller value is stricter.
const LIMITS: &[SandboxLimit] = &[
    SandboxLimit {
        key: "processes",
        most: COUNT,
        set: |limits, value| limits.processes = count(value),
        set_remote: |limits, value| limits.processes = Some(count(value)),
    },
    SandboxLimit {
        key: "memory_mib",
        most: MEBIBYTES,
        set: |limits, value| limits.memory_bytes = value << 20,
        set_remote: |limits, value| limits.memory_bytes = Some(value << 20),
    },
    SandboxLimit {
        key: "cpu_seconds",
        most: u64::MAX,
        set: |limits, value| limits.cpu_time = Duration::from_secs(value),
        set_remote: |limits, value| limits.cpu_time = Some(Duration::from_secs(value)),
    },
    SandboxLimit {
        key: "cpu_percent",
        most: COUNT,
        set: |limits, value| limits.cpu_percent = Some(count(value)),
        set_remote: |limits, value| limits.cpu_percent = Some(count(value)),
    },
    SandboxLimit {
        key: "cpu_weight",
        most: 10_000,
        set: |limits, value| limits.cpu_weight = count(value),
        set_remote: |limits, value| limits.cpu_weight = Some(count(value)),
    },
    SandboxLimit {
        key: "file_mib",
        most: MEBIBYTES,
        set: |limits, value| limits.file_bytes = value << 20,
        set_remote: |limits, value| limits.file_bytes = Some(value << 20),
    },
    SandboxLimit {
        key: "open_files",
        most: COUNT,
        set: |limits, value| limits.open_files = count(value),
        set_remote: |limits, value| limits.open_files = Some(count(value)),
    },
    SandboxLimit {
        key: "tmp_mib",
        most: MEBIBYTES,
        set: |limits, value| limits.tmp_bytes = value << 20,
        set_remote: |limits, value| limits.tmp_bytes = Some(value << 20),
    },
];

const KEYS: [&str; 9] = [
    "env",
    "path",
    "limits",
    "masks",
    "network",
    "read_only",
    "writable",
    "home",
    "cgroup",
];

impl Reader<'_> {
    /// Reads `[sandbox]`.
    pub(super) fn sandbox(&mut self, table: &Table<'_>) -> SandboxSettings {
        self.known_keys(table, "[sandbox]", &KEYS);
        let path = self.places_with_home(table, "path");
        let mut read_only = self.places_with_home(table, "read_only");
        read_only.extend(path.iter().cloned());
        SandboxSettings {
            limits: self.sandbox_limits(table),
            read_only,
            writable: self.places_with_home(table, "writable"),
            path,
            env: self.variables(table, "env"),
            home: self.home(table),
            cgroup: self.cgroup(table),
            masks: self.mask_limits(table),
            network: self.network(table),
            below_home: None,
        }
    }

    fn sandbox_limits(&mut self, sandbox: &Table<'_>) -> Vec<(SandboxLimit, u64)> {
        let Some(table) = self.table(sandbox, "limits") else {
            return Vec::new();
        };
        let keys: Vec<&str> = LIMITS.iter().map(|limit| limit.key).collect();
        self.known_keys(table, "[sandbox.limits]", &keys);
        let mut set = Vec::new();
        for limit in LIMITS {
            let Some(number) = self.number(table, limit.key) else {
                continue;
            };
            if number > limit.most {
                let at = table.get(limit.key).map_or(0, |value| value.span().start);
                let message = format!("`{}` must be at most {}", limit.key, limit.most);
                self.problem(at, message, "leave it out for the default");
                continue;
            }
            set.push((*limit, number));
        }
        set
    }

    pub(super) fn places(&mut self, table: &Table<'_>, key: &str) -> Vec<PathBuf> {
        let texts = self.texts(table, key, "[\"/opt/data\"]").into_iter();
        texts
            .filter_map(|(at, text)| self.shown_place(at, &text))
            .collect()
    }

    /// Places of which some may be in the user's home, written with `~/`.
    fn places_with_home(&mut self, table: &Table<'_>, key: &str) -> Vec<PathBuf> {
        let texts = self
            .texts(table, key, "[\"/opt/data\", \"~/data\"]")
            .into_iter();
        texts
            .filter_map(|(at, text)| match text.strip_prefix(IN_HOME) {
                Some(below) if is_place(&Path::new("/").join(below)) => Some(PathBuf::from(text)),
                Some(_) | None => self.shown_place(at, &text),
            })
            .collect()
    }

    fn shown_place(&mut self, at: usize, text: &str) -> Option<PathBuf> {
        let path = PathBuf::from(text);
        let own = reserved(&path).filter(|_| is_place(&path));
        if let Some(own) = own {
            self.problem(
                at,
                format!("`{text}` cannot be shown: a sandbox has its own `{own}`"),
                "name another directory; commands see their own processes and devices",
            );
            return None;
        }
        if is_place(&path) {
            return Some(path);
        }
        self.problem(
            at,
            format!("`{text}` is not a place outside the workspace"),
            "write an absolute path without `..`, such as \"/opt/data\"",
        );
        None
    }

    fn home(&mut self, table: &Table<'_>) -> Option<Home> {
        let (at, text) = self.text(table, "home")?;
        if text == "off" {
            return Some(Home::Off);
        }
        let path = PathBuf::from(&text);
        if is_place(&path) {
            return Some(Home::At(path));
        }
        self.problem(
            at,
            format!("`{text}` is not a home directory"),
            "write an absolute path, or \"off\" to show no toolchains",
        );
        None
    }

    fn cgroup(&mut self, table: &Table<'_>) -> Option<CgroupSetting> {
        let (at, text) = self.text(table, "cgroup")?;
        match text.as_str() {
            "off" => return Some(CgroupSetting::Off),
            "auto" => return Some(CgroupSetting::Auto),
            _ => {}
        }
        let name = CgroupName::parse(&text).map(CgroupSetting::Below);
        if name.is_none() {
            self.problem(
                at,
                format!("`{text}` does not name a control group"),
                "write \"auto\", \"off\" or a directory below the top, such as \"services/haft\"",
            );
        }
        name
    }

    fn network(&mut self, sandbox: &Table<'_>) -> Option<EgressRules> {
        let table = self.table(sandbox, "network")?;
        self.known_keys(table, "[sandbox.network]", &["allow", "deny"]);
        Some(EgressRules {
            allow: self.granted_hosts(table, "allow"),
            deny: rules(self.hosts(table, "deny")),
        })
    }

    /// Hosts that may be reached. Metadata services that hand out credentials are refused.
    pub(super) fn granted_hosts(&mut self, table: &Table<'_>, key: &str) -> Vec<HostRule> {
        let allow = self.hosts(table, key);
        for (at, rule) in &allow {
            if let Some(why) = never_granted(rule) {
                self.problem(*at, format!("no rule allows `{rule}`: {why}"), "remove it");
            }
        }
        rules(allow)
    }

    /// Host rules with their positions.
    fn hosts(&mut self, table: &Table<'_>, key: &str) -> Vec<(usize, HostRule)> {
        self.texts(table, key, "[\"docs.rs\"]")
            .into_iter()
            .filter_map(|(at, text)| match HostRule::parse(&text) {
                Ok(rule) => Some((at, rule)),
                Err(error) => {
                    let hint = "write a name, `*.` and a name, or an address, each with or without \
                                a port: \"docs.rs\", \"*.crates.io:443\"";
                    self.problem(at, error.to_string(), hint);
                    None
                }
            })
            .collect()
    }

    /// The texts of a list with their positions.
    pub(super) fn texts(
        &mut self,
        table: &Table<'_>,
        key: &str,
        example: &str,
    ) -> Vec<(usize, String)> {
        let Some(value) = table.get(key) else {
            return Vec::new();
        };
        let Some(entries) = value.get_ref().as_array() else {
            let message = format!("`{key}` must be a list");
            self.problem(value.span().start, message, &format!("write {example}"));
            return Vec::new();
        };
        let texts = entries.iter().filter_map(|entry: &Value<'_>| {
            let at = entry.span().start;
            let text = entry.get_ref().as_str().map(str::to_owned);
            if text.is_none() {
                let message = format!("an entry of `{key}` must be a string");
                self.problem(at, message, &format!("write {example}"));
            }
            Some((at, text?))
        });
        texts.collect()
    }

    /// The text of a key with its position.
    pub(super) fn text(&mut self, table: &Table<'_>, key: &str) -> Option<(usize, String)> {
        let value = table.get(key)?;
        let at = value.span().start;
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.problem(
                at,
                format!("`{key}` must be a string"),
                "write it in quotes",
            );
        }
        Some((at, text?))
    }
}

fn rules(hosts: Vec<(usize, HostRule)>) -> Vec<HostRule> {
    hosts.into_iter().map(|(_, rule)| rule).collect()
}

/// Whether a path means the same wherever it is read from.
pub(super) fn is_place(path: &Path) -> bool {
    use std::path::Component;
    path.is_absolute()
        && path.parent().is_some()
        && path
            .components()
            .all(|part| matches!(part, Component::RootDir | Component::Normal(_)))
}

fn count(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use haft_policy::PolicySource;

    use super::*;
    use crate::config::file;

    fn read(text: &str) -> Result<SandboxSettings, String> {
        let parsed = file::parse(&PolicySource::new("haft.toml", text));
        parsed.map(|file| file.sandbox).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            lines.join("\n")
        })
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(read(text).unwrap_err(), expected);
    }

    #[test]
    fn every_mistake_names_its_line_and_what_to_write() {
        check(
            "[sandbox]\nread_onyl = []\n",
            "haft.toml:2:1: unknown key `read_onyl` in [sandbox]\n  hint: did you mean `read_only`?",
        );
        check(
            "[sandbox.limits]\nmemory = 1\n",
            "haft.toml:2:1: unknown key `memory` in [sandbox.limits]\n  hint: did you mean `memory_mib`?",
        );
        check(
            "[sandbox.limits]\ncpu_weight = 20000\n",
            "haft.toml:2:14: `cpu_weight` must be at most 10000\n  hint: leave it out for the default",
        );
        check(
            "[sandbox]\nwritable = [\"cache\"]\n",
            "haft.toml:2:13: `cache` is not a place outside the workspace\n  hint: write an absolute path without `..`, such as \"/opt/data\"",
        );
        check(
            "[sandbox]\nwritable = [\"/\", \"/a/../b\"]\n",
            "haft.toml:2:13: `/` is not a place outside the workspace\n  hint: write an absolute path without `..`, such as \"/opt/data\"\n\
             haft.toml:2:18: `/a/../b` is not a place outside the workspace\n  hint: write an absolute path without `..`, such as \"/opt/data\"",
        );
        check(
            "[sandbox]\nhome = \"~\"\n",
            "haft.toml:2:8: `~` is not a home directory\n  hint: write an absolute path, or \"off\" to show no toolchains",
        );
        check(
            "[sandbox.network]\nallow = [\"https://docs.rs/\"]\n",
            "haft.toml:2:10: `https://docs.rs/` is not a host rule: name only a host, without scheme or path\n  hint: write a name, `*.` and a name, or an address, each with or without a port: \"docs.rs\", \"*.crates.io:443\"",
        );
        check(
            "[sandbox.network]\nallow = [\"docs.rs\", \"169.254.169.254:80\"]\n",
            "haft.toml:2:21: no rule allows `169.254.169.254:80`: it hands out the machine's credentials\n  hint: remove it",
        );
        check(
            "[sandbox]\ncgroup = \"../other\"\n",
            "haft.toml:2:10: `../other` does not name a control group\n  hint: write \"auto\", \"off\" or a directory below the top, such as \"services/haft\"",
        );
    }

    #[test]
    fn cf_11_of_two_files_the_smaller_limit_and_every_denial_holds() {
        let own = "[sandbox]\nhome = \"off\"\n[sandbox.limits]\nprocesses = 10\n[sandbox.network]\nallow = [\"a.org\"]\n";
        let project = "[sandbox]\nhome = \"/home/ada\"\n[sandbox.limits]\nprocesses = 20\nmemory_mib = 5\n[sandbox.network]\ndeny = [\"a.org\"]\n";
        for (first, second) in [(own, project), (project, own)] {
            let mut joined = read(first).unwrap();
            joined.join(read(second).unwrap());
            let mut limits: Vec<_> = joined.limits().collect();
            limits.sort_unstable();
            assert_eq!(limits, [("memory_mib", 5), ("processes", 10)]);
            assert_eq!(joined.home, Some(Home::Off));
            let network = joined.network.unwrap();
            assert_eq!((network.allow.len(), network.deny.len()), (1, 1));
        }
    }

    #[test]
    fn a_place_in_the_home_a_search_path_and_variables_can_be_set() {
        let text = "[sandbox]\nread_only = [\"~/data\"]\npath = [\"~/bin\", \"/srv/bin\"]\n\
                    env = { MODE = \"test\" }\n";
        let mut settings = read(text).unwrap();
        assert!(settings.clone().expand_home(None).is_err());
        settings.expand_home(Some(Path::new("/home/ada"))).unwrap();
        let bins = ["/home/ada/bin", "/srv/bin"].map(PathBuf::from);
        assert_eq!(settings.path, bins);
        let shown = ["/home/ada/data", "/home/ada/bin", "/srv/bin"].map(PathBuf::from);
        assert_eq!(settings.read_only, shown);
        assert_eq!(settings.env["MODE"], "test");
        for text in ["~", "~/", "~/../x", "~root/x"] {
            let text = format!("[sandbox]\nread_only = [\"{text}\"]\n");
            assert!(read(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_limit_can_be_set() {
        let mut text = "[sandbox.limits]\n".to_owned();
        for limit in LIMITS {
            text = format!("{text}{} = 7\n", limit.key);
        }
        let mut limits = Limits::default();
        read(&text).unwrap().apply(&mut limits);
        assert_eq!(
            limits,
            Limits {
                processes: 7,
                memory_bytes: 7 << 20,
                cpu_time: Duration::from_secs(7),
                cpu_weight: 7,
                cpu_percent: Some(7),
                file_bytes: 7 << 20,
                open_files: 7,
                tmp_bytes: 7 << 20,
            }
        );
    }
}
