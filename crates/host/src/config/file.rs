//! Reads the part of `haft.toml` that is not policy: `[workspace]`, `[record]`, `[scripts]`, the
//! tools built from configuration, and, in separate source files, `[limits]`, `[timeouts]`,
//! `[loop_guard]`, `[sandbox]`, `[ssh]`, `[docker]` and `[mcp]`. `haft-policy` reads the rest of the
//! same text.
//!
//! Nothing is ignored: an unknown key is an error with its line, because a misspelt limit is no
//! limit.

use haft_policy::{PolicySource, load::Problem};
use serde_json::Value as Json;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    backends::Backends,
    catalog::{self, CatalogSettings},
    client_questions::{self, AskingSettings},
    limits::LimitSettings,
    loop_guard::LoopGuardSettings,
    mcp::{self, McpSettings},
    sandbox::SandboxSettings,
    serve::ServeSettings,
    timeouts::TimeoutSettings,
    undo::UndoSettings,
};

/// The contents of one file, except policy.
#[derive(Debug, Clone, Default)]
pub struct ConfigFile {
    /// Caps, applied over the defaults.
    pub limits: LimitSettings,
    /// How long calls run that ask for no other time.
    pub timeouts: TimeoutSettings,
    /// When to intervene in a session that repeats itself.
    pub loop_guard: LoopGuardSettings,
    /// How clients over MCP are asked.
    pub asking: AskingSettings,
    /// How many tools are listed over MCP.
    pub catalog: CatalogSettings,
    /// Whether paths may lead onto file systems mounted inside the workspace.
    pub cross_mounts: Option<bool>,
    /// How many days artifacts are kept.
    pub artifact_days: Option<u64>,
    /// How many bytes of artifacts are kept.
    pub artifact_bytes: Option<u64>,
    /// How many bytes may wait to be written to the record.
    pub queue_bytes: Option<u64>,
    /// Folders with script tools, as written.
    pub script_folders: Vec<String>,
    /// Tools built from configuration.
    pub tools: Vec<ConfiguredTool>,
    /// How commands are confined.
    pub sandbox: SandboxSettings,
    /// Workspaces on other machines and in containers, and who works there.
    pub backends: Backends,
    /// What `haft serve` serves.
    pub serve: ServeSettings,
    /// How changes made by commands are kept for undo.
    pub undo: UndoSettings,
    /// The MCP servers to mount.
    pub mcp: McpSettings,
    /// The databases that tools reach by name.
    #[cfg(feature = "databases")]
    pub databases: Vec<haft_connect::settings::SourceSettings>,
}

/// A tool built from configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfiguredTool {
    /// What it is built from (`bash`, `copy`, …).
    pub kind: String,
    /// The name it gets.
    pub name: String,
    /// Its own settings.
    pub config: Json,
    /// The arguments that it always gets.
    pub arguments: Json,
    /// Where it was written, for messages.
    pub place: String,
}

/// The tables of a file. Policy's own tables are checked by policy.
const TABLES: [&str; 22] = [
    "policy",
    "agents",
    "tenants",
    "users",
    "sessions",
    "channels",
    "scopes",
    "tools",
    "limits",
    "timeouts",
    "loop_guard",
    "approvals",
    "mcp",
    "workspace",
    "scripts",
    "record",
    "sandbox",
    "ssh",
    "docker",
    "undo",
    "serve",
    "sources",
];

/// The keys of a tool's table. The last four belong to policy.
const TOOL_KEYS: [&str; 8] = [
    "name",
    "type",
    "config",
    "arguments",
    "session",
    "scopes",
    "subagents",
    "sandbox",
];

/// Reads the part of a file that is not policy.
pub fn parse(source: &PolicySource) -> Result<ConfigFile, Vec<Problem>> {
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

/// Reads one file and collects every mistake in it.
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
                let hint = match error.message() {
                    "duplicate key" => {
                        "a table or key stands in a file once: put these lines into the one that is there"
                    }
                    _ => "see https://toml.io for the syntax",
                };
                self.problem(at, error.message(), hint);
                return;
            }
        };
        let document = document.get_ref();
        self.known_keys(document, "the file", &TABLES);
        if let Some(limits) = self.table(document, "limits") {
            self.file.limits = self.limits(limits);
        }
        if let Some(table) = self.table(document, "timeouts") {
            self.file.timeouts = self.timeouts(table);
        }
        if let Some(table) = self.table(document, "loop_guard") {
            self.file.loop_guard = self.loop_guard(table);
        }
        if let Some(table) = self.table(document, "mcp") {
            let keys = [&client_questions::KEYS[..], &catalog::KEYS, &mcp::KEYS].concat();
            self.known_keys(table, "[mcp]", &keys);
            self.file.asking = self.asking(table);
            self.file.catalog = self.catalog(table);
            self.file.mcp = self.mcp(table);
        }
        if let Some(table) = self.table(document, "approvals") {
            self.file.asking.places = self.approval_places(table);
        }
        if let Some(workspace) = self.table(document, "workspace") {
            self.known_keys(workspace, "[workspace]", &["cross_mounts"]);
            if let Some(value) = workspace.get("cross_mounts") {
                self.file.cross_mounts = value.get_ref().as_bool();
                if self.file.cross_mounts.is_none() {
                    self.problem(
                        value.span().start,
                        "`cross_mounts` must be true or false",
                        "write `cross_mounts = true`",
                    );
                }
            }
        }
        if let Some(record) = self.table(document, "record") {
            let known = ["artifact_days", "artifact_bytes", "queue_bytes"];
            self.known_keys(record, "[record]", &known);
            self.file.artifact_days = self.number(record, "artifact_days");
            self.file.artifact_bytes = self.number(record, "artifact_bytes");
            self.file.queue_bytes = self.number(record, "queue_bytes");
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
        if let Some(serve) = self.table(document, "serve") {
            self.file.serve = self.serve(serve);
        }
        if let Some(undo) = self.table(document, "undo") {
            self.file.undo = self.undo(undo);
        }
        if let Some(sources) = self.table(document, "sources") {
            #[cfg(feature = "databases")]
            {
                self.file.databases = self.sources(sources);
            }
            #[cfg(not(feature = "databases"))]
            {
                let at = sources.keys().next().map_or(0, |name| name.span().start);
                self.problem(
                    at,
                    "this build of Haft has no databases",
                    "remove [sources], or use a build with the feature `databases`",
                );
            }
        }
        self.file.backends = self.backends(document);
        if let Some(tools) = document.get("tools") {
            self.tools(tools);
        }
    }

    /// The value of a key that must be a whole number above 0.
    pub(super) fn number(&mut self, table: &Table<'_>, key: &str) -> Option<u64> {
        let value = table.get(key)?;
        let number = whole_number(value).filter(|number| *number > 0);
        if number.is_none() {
            self.problem(
                value.span().start,
                format!("`{key}` must be a whole number above 0"),
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
                None => self.problem(
                    folder.span().start,
                    "a folder must be a string",
                    "write \"tools\"",
                ),
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

    /// `[tools.NAME]` with settings, or `[[tools]]` with its own name or type.
    fn tool(&mut self, table: &Table<'_>, named: Option<&str>, at: usize) {
        self.known_keys(table, "a tool", &TOOL_KEYS);
        let place = self.place(at);
        let text = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str());
        for key in ["name", "type"] {
            if let Some(value) = table.get(key)
                && value.get_ref().as_str().is_none()
            {
                self.problem(
                    value.span().start,
                    format!("`{key}` must be a string"),
                    "write it in quotes",
                );
            }
        }
        let kind = text("type").map(str::to_owned);
        let name = text("name").or(named).map(str::to_owned);
        match (kind, name) {
            (Some(kind), name) => {
                let name = name.unwrap_or_else(|| kind.clone());
                let [config, arguments] =
                    ["config", "arguments"].map(|key| match self.table(table, key) {
                        Some(members) => members
                            .iter()
                            .map(|(key, value)| (key.get_ref().to_string(), self.json(value)))
                            .collect(),
                        None => Json::Object(serde_json::Map::new()),
                    });
                self.file.tools.push(ConfiguredTool {
                    kind,
                    name,
                    config,
                    arguments,
                    place,
                });
            }
            (None, Some(_)) => {
                for key in ["config", "arguments"] {
                    if let Some((written, _)) = table.get_key_value(key) {
                        self.problem(
                            written.span().start,
                            format!("`{key}` without `type`"),
                            "`type` says what the tool is built from",
                        );
                    }
                }
            }
            (None, None) => {
                self.problem(at, "a tool without `name` or `type`", "add `type = \"…\"`");
            }
        }
    }

    /// A TOML value as JSON, for a tool's own settings. JSON cannot represent some of TOML's
    /// numbers. They are refused, because dropping them would drop the setting.
    fn json(&mut self, value: &Value<'_>) -> Json {
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                let (text, radix) = (number.as_str(), number.radix());
                let signed = i64::from_str_radix(text, radix).map(Json::from);
                signed
                    .or_else(|_| u64::from_str_radix(text, radix).map(Json::from))
                    .ok()
            }
            DeValue::Float(number) => {
                let number: Option<f64> = number.as_str().parse().ok();
                number.filter(|number| number.is_finite()).map(Json::from)
            }
            DeValue::String(text) => return Json::from(text.as_ref()),
            DeValue::Boolean(value) => return Json::from(*value),
            DeValue::Datetime(moment) => return Json::from(moment.to_string()),
            DeValue::Array(items) => return items.iter().map(|item| self.json(item)).collect(),
            DeValue::Table(table) => {
                let members = table.iter();
                return members
                    .map(|(key, value)| (key.get_ref().to_string(), self.json(value)))
                    .collect();
            }
        };
        number.unwrap_or_else(|| {
            self.problem(
                value.span().start,
                "a number that cannot be used",
                "write one that fits into 64 bits",
            );
            Json::Null
        })
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

    /// The file and the line, for messages.
    pub(super) fn place(&self, at: usize) -> String {
        let (line, _) = self.line_and_column(at);
        format!("{}:{line}", self.source.name)
    }

    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let before = self.source.text.get(..at).unwrap_or(&self.source.text);
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before.get(start..).unwrap_or_default().chars().count() + 1;
        (line, column)
    }
}

/// The known word closest to an unknown one.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    const LIKENESS: f64 = 0.8;
    known
        .iter()
        .map(|known| (strsim::jaro_winkler(word, known), *known))
        .filter(|(likeness, _)| *likeness >= LIKENESS)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

pub(super) fn whole_number(value: &Value<'_>) -> Option<u64> {
    let number = value.get_ref().as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
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
                file.limits.iter().count()
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
            "haft.toml:2:20: `hard_deadline_ms` must be a whole number above 0\n  hint: write a plain number; the unit is in the name",
        );
    }

    #[test]
    fn a_number_that_no_tool_can_be_given_is_refused() {
        for number in [
            "99999999999999999999",
            "inf",
            "-nan",
            "1e999",
            "[{ n = inf }]",
        ] {
            let text = format!("[tools.x]\ntype = \"bash\"\nconfig = {{ timeout_ms = {number} }}");
            let problems = parse(&PolicySource::new("haft.toml", text)).unwrap_err();
            let [problem] = problems.as_slice() else {
                panic!("{problems:?}");
            };
            assert_eq!(problem.line, Some(3), "{problem}");
        }
    }

    #[test]
    fn r7_a_tool_is_built_from_a_type_a_name_and_its_settings() {
        check(
            "[[tools]]\ntype = \"bash\"\nname = \"shell\"\nconfig = { a = 1 }\n",
            "[ConfiguredTool { kind: \"bash\", name: \"shell\", config: Object {\"a\": Number(1)}, arguments: Object {}, place: \"haft.toml:1\" }] [] 0",
        );
        check("[tools.bash]\nsandbox = \"off\"\n", "[] [] 0");
    }
}
