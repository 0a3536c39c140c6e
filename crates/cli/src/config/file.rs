//! The part of `haft.toml` that is not policy: `[limits]`, `[workspace]`, `[record]`, `[scripts]`,
//! `[sandbox]` (`sandbox.rs`), `[ssh]` (`ssh.rs`) and the tools built from configuration. `haft-policy` reads the rest of
//! the same text.
//!
//! Nothing is ignored: a key nobody knows is an error with its line, because a misspelt limit is
//! no limit.

use std::time::Duration;

use super::{sandbox::SandboxSettings, ssh::SshSettings};
use haft_policy::{PolicySource, load::Problem};
use haft_runtime::Limits;
use serde_json::Value as Json;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// What one file says, beside policy.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfigFile {
    /// Caps, applied over the defaults.
    pub(crate) limits: LimitSettings,
    /// Whether paths may lead onto file systems mounted inside the workspace.
    pub(crate) cross_mounts: Option<bool>,
    /// How many days artifacts are kept.
    pub(crate) artifact_days: Option<u64>,
    /// How many bytes of artifacts are kept.
    pub(crate) artifact_bytes: Option<u64>,
    /// Folders with script tools, as written.
    pub(crate) script_folders: Vec<String>,
    /// Tools built from configuration.
    pub(crate) tools: Vec<ConfiguredTool>,
    /// How commands are confined.
    pub(crate) sandbox: SandboxSettings,
    /// The workspace, where it is on another machine.
    pub(crate) ssh: Option<SshSettings>,
}

/// A tool built from configuration.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfiguredTool {
    /// What it is built from (`bash`, `copy`, …).
    pub(crate) kind: String,
    /// The name it gets.
    pub(crate) name: String,
    /// Its own settings.
    pub(crate) config: Json,
    /// Where it was written, for messages.
    pub(crate) place: String,
}

/// The keys of `[limits]` that were set, each once.
#[derive(Debug, Clone, Default)]
pub(crate) struct LimitSettings(Vec<(Limit, u64)>);

impl LimitSettings {
    /// Adds what another file says. Where both speak, the stricter holds.
    pub(crate) fn join(&mut self, other: &Self) {
        for (limit, value) in &other.0 {
            match self.0.iter_mut().find(|(known, _)| known.key == limit.key) {
                Some((_, known)) => *known = limit.stricter.of(*known, *value),
                None => self.0.push((*limit, *value)),
            }
        }
    }

    /// What was set, as written.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(limit, value)| (limit.key, *value))
    }

    /// Applies what was set.
    pub(crate) fn apply(&self, limits: &mut Limits) {
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

/// Which of two values binds tools more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stricter {
    /// The smaller: a cap.
    Smaller,
    /// The larger: how much is recorded, or waited for the record.
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
        key: "structured_bytes",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.structured_bytes = count(value),
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
        key: "processes_per_session",
        stricter: Stricter::Smaller,
        set: |limits, value| limits.processes.per_session = count(value),
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

/// The tables of a file. Those of policy are checked there.
const TABLES: [&str; 11] = [
    "policy",
    "agents",
    "sessions",
    "channels",
    "tools",
    "limits",
    "workspace",
    "scripts",
    "record",
    "sandbox",
    "ssh",
];

/// What a tool's table may hold. `session` and `sandbox` are policy's.
const TOOL_KEYS: [&str; 5] = ["name", "type", "config", "session", "sandbox"];

/// Reads the part of a file that is not policy.
pub(crate) fn parse(source: &PolicySource) -> Result<ConfigFile, Vec<Problem>> {
    let mut reader = Reader {
        source,
        file: ConfigFile::default(),
        problems: Vec::new(),
    };
    reader.read();
    if reader.problems.is_empty() {
        Ok(reader.file)
    } else {
        Err(reader.problems)
    }
}

pub(super) type Table<'t> = DeTable<'t>;
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// Reads one file and notes every mistake in it.
pub(super) struct Reader<'s> {
    source: &'s PolicySource,
    file: ConfigFile,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn read(&mut self) {
        let source = self.source;
        let document = match DeTable::parse(&source.text) {
            Ok(document) => document,
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                self.problem(at, error.message(), "see https://toml.io for the syntax");
                return;
            }
        };
        let document = document.get_ref();
        self.known_keys(document, "the file", &TABLES);
        if let Some(limits) = self.table(document, "limits") {
            self.limits(limits);
        }
        if let Some(workspace) = self.table(document, "workspace") {
            self.known_keys(workspace, "[workspace]", &["cross_mounts"]);
            if let Some(value) = workspace.get("cross_mounts") {
                self.file.cross_mounts = value.get_ref().as_bool();
                if self.file.cross_mounts.is_none() {
                    self.problem(
                        value.span().start,
                        "`cross_mounts` is true or false",
                        "write `cross_mounts = true`",
                    );
                }
            }
        }
        if let Some(record) = self.table(document, "record") {
            self.known_keys(record, "[record]", &["artifact_days", "artifact_bytes"]);
            self.file.artifact_days = self.number(record, "artifact_days");
            self.file.artifact_bytes = self.number(record, "artifact_bytes");
        }
        if let Some(scripts) = self.table(document, "scripts") {
            self.known_keys(scripts, "[scripts]", &["folders"]);
            if let Some(folders) = scripts.get("folders") {
                self.folders(folders);
            }
        }
        if let Some(sandbox) = self.table(document, "sandbox") {
            self.file.sandbox = self.sandbox(sandbox);
        }
        if let Some(ssh) = self.table(document, "ssh") {
            let at = document.get("ssh").map_or(0, |value| value.span().start);
            self.file.ssh = self.ssh(ssh, at);
        }
        if let Some(tools) = document.get("tools") {
            self.tools(tools);
        }
    }

    fn limits(&mut self, table: &Table<'_>) {
        let keys: Vec<&str> = LIMITS.iter().map(|limit| limit.key).collect();
        self.known_keys(table, "[limits]", &keys);
        for limit in LIMITS {
            if let Some(number) = self.number(table, limit.key) {
                self.file.limits.0.push((*limit, number));
            }
        }
    }

    /// The value of a key that is a whole number above 0.
    pub(super) fn number(&mut self, table: &Table<'_>, key: &str) -> Option<u64> {
        let value = table.get(key)?;
        let number = whole_number(value).filter(|number| *number > 0);
        if number.is_none() {
            self.problem(
                value.span().start,
                format!("`{key}` is a whole number above 0"),
                "write a plain number; the unit is in the name",
            );
        }
        number
    }

    fn folders(&mut self, value: &Value<'_>) {
        let entries = value.get_ref().as_array();
        for folder in entries.into_iter().flatten() {
            match folder.get_ref().as_str() {
                Some(folder) => self.file.script_folders.push(folder.to_owned()),
                None => self.problem(folder.span().start, "a folder is a text", "write \"tools\""),
            }
        }
        if entries.is_none() {
            self.problem(
                value.span().start,
                "`folders` must be a list",
                "write [\"tools\"]",
            );
        }
    }

    fn tools(&mut self, value: &Value<'_>) {
        if let Some(tools) = value.get_ref().as_table() {
            for (name, settings) in tools {
                match settings.get_ref().as_table() {
                    Some(table) => self.tool(table, Some(name.get_ref()), name.span().start),
                    None => self.problem(
                        settings.span().start,
                        format!("`tools.{}` must be a table", name.get_ref()),
                        "write [tools.NAME] and its settings below",
                    ),
                }
            }
        } else if let Some(tools) = value.get_ref().as_array() {
            for tool in tools {
                match tool.get_ref().as_table() {
                    Some(table) => self.tool(table, None, tool.span().start),
                    None => self.problem(
                        tool.span().start,
                        "an entry of `tools` must be a table",
                        "write [[tools]] and its settings below",
                    ),
                }
            }
        } else {
            self.problem(
                value.span().start,
                "`tools` must be a table",
                "write [tools.NAME]",
            );
        }
    }

    /// `[tools.NAME]` with settings, or `[[tools]]` with a name or a type of its own.
    fn tool(&mut self, table: &Table<'_>, named: Option<&str>, at: usize) {
        self.known_keys(table, "a tool", &TOOL_KEYS);
        let (line, _) = self.line_and_column(at);
        let place = format!("{}:{line}", self.source.name);
        let text = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str());
        for key in ["name", "type"] {
            if let Some(value) = table.get(key)
                && value.get_ref().as_str().is_none()
            {
                self.problem(
                    value.span().start,
                    format!("`{key}` must be a text"),
                    "write it in quotes",
                );
            }
        }
        let kind = text("type").map(str::to_owned);
        let name = text("name").or(named).map(str::to_owned);
        match (kind, name) {
            (Some(kind), name) => {
                let name = name.unwrap_or_else(|| kind.clone());
                let config = table
                    .get("config")
                    .map_or_else(|| Json::Object(serde_json::Map::new()), json);
                self.file.tools.push(ConfiguredTool {
                    kind,
                    name,
                    config,
                    place,
                });
            }
            (None, Some(_)) => {
                if let Some((key, _)) = table.get_key_value("config") {
                    self.problem(
                        key.span().start,
                        "`config` without `type`",
                        "`type` says what the tool is built from",
                    );
                }
            }
            (None, None) => {
                self.problem(at, "a tool without `name` or `type`", "add `type = \"…\"`");
            }
        }
    }

    pub(super) fn table<'v, 't>(
        &mut self,
        document: &'v Table<'t>,
        key: &str,
    ) -> Option<&'v Table<'t>> {
        let value = document.get(key)?;
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.problem(
                value.span().start,
                format!("`{key}` must be a table"),
                &format!("write [{key}] and its settings below"),
            );
        }
        table
    }

    pub(super) fn known_keys(&mut self, table: &Table<'_>, place: &str, known: &[&str]) {
        for (key, _) in table {
            let name: &str = key.get_ref();
            if known.contains(&name) {
                continue;
            }
            let hint = match nearest(name, known) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known: {}", known.join(", ")),
            };
            self.problem(
                key.span().start,
                format!("unknown key `{name}` in {place}"),
                &hint,
            );
        }
    }

    pub(super) fn problem(&mut self, at: usize, message: impl Into<String>, hint: &str) {
        let (line, column) = self.line_and_column(at);
        self.problems.push(Problem {
            source: self.source.name.clone(),
            line: u32::try_from(line).ok(),
            column: u32::try_from(column).ok(),
            message: message.into(),
            hint: Some(hint.to_owned()),
        });
    }

    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.source.text.get(..at).unwrap_or(&self.source.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(start..).unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

/// The known word most like one that is not.
pub(crate) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    const LIKENESS: f64 = 0.8;
    known
        .iter()
        .map(|known| (strsim::jaro_winkler(word, known), *known))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

fn count(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn whole_number(value: &Value<'_>) -> Option<u64> {
    let number = value.get_ref().as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

/// A TOML value as JSON, for a tool's own settings.
fn json(value: &Value<'_>) -> Json {
    match value.get_ref() {
        DeValue::String(text) => Json::from(text.as_ref()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).map_or(Json::Null, Json::from)
        }
        DeValue::Float(number) => number
            .as_str()
            .parse::<f64>()
            .map_or(Json::Null, Json::from),
        DeValue::Boolean(value) => Json::from(*value),
        DeValue::Datetime(moment) => Json::from(moment.to_string()),
        DeValue::Array(items) => Json::Array(items.iter().map(json).collect()),
        DeValue::Table(table) => Json::Object(
            table
                .iter()
                .map(|(key, value)| (key.get_ref().to_string(), json(value)))
                .collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let shown = match parse(&PolicySource::new("haft.toml", text)) {
            Ok(file) => format!(
                "{:?} {:?} {:?}",
                file.tools,
                file.script_folders,
                file.limits.0.len()
            ),
            Err(problems) => problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n"),
        };
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_unknown_key_names_its_line_and_the_nearest_known_one() {
        check(
            "[policy]\npreset = \"careful\"\n[limit]\ncalls = 1\n",
            "haft.toml:3:2: unknown key `limit` in the file\n  hint: did you mean `limits`?",
        );
        check(
            "[limits]\n  aproval_wait_ms = 1\n",
            "haft.toml:2:3: unknown key `aproval_wait_ms` in [limits]\n  hint: did you mean `approval_wait_ms`?",
        );
        check(
            "[limits]\nhard_deadline_ms = 0\n",
            "haft.toml:2:20: `hard_deadline_ms` is a whole number above 0\n  hint: write a plain number; the unit is in the name",
        );
    }

    #[test]
    fn r7_a_tool_is_built_from_a_type_a_name_and_its_settings() {
        check(
            "[[tools]]\ntype = \"bash\"\nname = \"shell\"\nconfig = { a = 1 }\n",
            "[ConfiguredTool { kind: \"bash\", name: \"shell\", config: Object {\"a\": Number(1)}, place: \"haft.toml:1\" }] [] 0",
        );
        check("[tools.bash]\nsandbox = \"off\"\n", "[] [] 0");
    }

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
                admission_wait: seven,
                approval_wait: seven,
                hard_deadline: seven,
                stop_grace: seven,
                settle_wait: seven,
                preimage_bytes: 7,
                structured_bytes: 7,
                output: haft_runtime::OutputLimits {
                    head_bytes: 7,
                    tail_bytes: 7,
                    artifact_bytes: 7,
                },
                processes: haft_runtime::ProcessLimits {
                    per_session: 7,
                    in_all: 7,
                    log_bytes: 7,
                    idle: seven,
                    finished: seven,
                },
            }
        );
    }
}
