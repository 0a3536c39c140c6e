//! The part of `[tools.*]` that belongs to policy: in which sessions a tool may be used, which scopes
//! it requires, where calls of sub-agents run, and how its commands are confined. All but the last
//! become deny rules.

use haft_contract::{
    ToolName,
    host::Verdict,
    identity::{Scope, SessionKind},
    ops::SandboxMode,
};
use toml::de::DeValue;

use crate::{
    after_reading::AfterReading,
    in_doubt::InDoubt,
    reader::{Reader, Table, Value},
    rule::{Rule, Section, Selector},
    settings::{SessionLevel, SubagentRoute},
};

impl Reader<'_> {
    /// `[tools.NAME]`, or `[[tools]]` with a `name`.
    pub(crate) fn tools(&mut self, value: &Value<'_>) {
        match value.get_ref() {
            DeValue::Table(tools) => {
                for (name, settings) in tools {
                    if let Some(table) = settings.get_ref().as_table() {
                        self.tool(name.get_ref(), name.span().start, table);
                    }
                }
            }
            DeValue::Array(tools) => {
                for tool in tools {
                    let Some(table) = tool.get_ref().as_table() else {
                        continue;
                    };
                    let name = table.get("name").or_else(|| table.get("type"));
                    if let Some(name) = name
                        && let Some(text) = name.get_ref().as_str()
                    {
                        self.tool(text, name.span().start, table);
                    }
                }
            }
            DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => {
                self.problem(value.span().start, "`tools` must be a table", None);
            }
        }
    }

    fn tool(&mut self, name: &str, at: usize, table: &Table<'_>) {
        let (session, sandbox) = (table.get("session"), table.get("sandbox"));
        let (scopes, subagents) = (table.get("scopes"), table.get("subagents"));
        if [session, sandbox, scopes, subagents]
            .iter()
            .all(Option::is_none)
        {
            return;
        }
        let tool = match ToolName::parse(name) {
            Ok(tool) => tool,
            Err(error) => {
                self.problem(at, error.to_string(), None);
                return;
            }
        };
        if let Some(value) = session
            && let Some(level) = self.word(value, "session", SessionLevel::parse, || {
                SessionLevel::ALL.map(SessionLevel::as_str).to_vec()
            })
        {
            self.session_level(tool.clone(), level, value.span().start);
        }
        if let Some(value) = scopes {
            self.required_scopes(&tool, value);
        }
        if let Some(value) = subagents
            && let Some(route) = self.word(value, "route", SubagentRoute::parse, || {
                SubagentRoute::ALL.map(SubagentRoute::as_str).to_vec()
            })
        {
            self.subagent_route(tool.clone(), route, value.span().start);
        }
        let modes = [SandboxMode::Off, SandboxMode::Basic, SandboxMode::Full];
        let parse = |word: &str| modes.into_iter().find(|mode| mode.as_str() == word);
        if let Some(value) = sandbox
            && let Some(mode) = self.word(value, "sandbox", parse, || {
                modes.map(SandboxMode::as_str).to_vec()
            })
        {
            self.file.settings.set_sandbox(tool, mode);
        }
    }

    /// A session level becomes a deny rule for the sessions it does not admit.
    fn session_level(&mut self, tool: ToolName, level: SessionLevel, at: usize) {
        let section = match level {
            SessionLevel::Always => None,
            SessionLevel::Main => Some(Section::NonMainSessions),
            SessionLevel::NonMain => Some(Section::Session(SessionKind::Main)),
            SessionLevel::Blocked => Some(Section::Everyone),
        };
        self.file.settings.set_session(tool.clone(), level);
        if let Some(section) = section {
            let text = format!("tools.{tool}.session = \"{}\"", level.as_str());
            self.denies(tool, section, text, at);
        }
    }

    /// Scopes that a tool requires become deny rules for callers without them.
    fn required_scopes(&mut self, tool: &ToolName, value: &Value<'_>) {
        for entry in self.array(value, "scopes") {
            let at = entry.span().start;
            let Some(text) = self.text(entry, "a scope") else {
                continue;
            };
            match Scope::parse(text) {
                Ok(scope) => {
                    let text = format!("tools.{tool}.scopes = [\"{scope}\"]");
                    self.denies(tool.clone(), Section::WithoutScope(scope), text, at);
                }
                Err(error) => self.problem(at, error.to_string(), None),
            }
        }
    }

    /// A route other than `here` becomes a deny rule for sub-agents: what runs at the gateway does
    /// not run in this process.
    fn subagent_route(&mut self, tool: ToolName, route: SubagentRoute, at: usize) {
        self.file.settings.set_subagents(tool.clone(), route);
        match route {
            SubagentRoute::Here => {}
            SubagentRoute::Gateway | SubagentRoute::Disabled => {
                let text = format!("tools.{tool}.subagents = \"{}\"", route.as_str());
                self.denies(tool, Section::Subagents, text, at);
            }
        }
    }

    /// Adds the rule that a setting of a tool amounts to: no use of it by these callers.
    fn denies(&mut self, tool: ToolName, section: Section, text: String, at: usize) {
        let origin = self.origin(text, at);
        self.file.rules.push(Rule {
            verdict: Verdict::Deny,
            section,
            selector: Selector::Named(tool),
            pattern: None,
            action: None,
            is_future: false,
            after: AfterReading::default(),
            in_doubt: InDoubt::default(),
            origin,
        });
    }
}
