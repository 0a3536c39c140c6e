//! A rule: who, which tool, which pattern, and the answer. Parsed once from the notation people
//! write; nothing downstream parses the text again.
//!
//! The notation is written down at [`crate::notation`]. Read next: `pattern.rs` for what stands in
//! parentheses, `compile.rs` for the Cedar policy a rule becomes.

use std::fmt;

use haft_contract::{
    ProviderId, ToolKey, ToolName,
    host::{RuleRef, Verdict},
    identity::{AgentId, ChannelId, Scope, SessionKind, TenantId, UserId},
};

use crate::{
    access_word::AccessWord,
    action_pattern::ActionPattern,
    after_reading::AfterReading,
    facts::BUILT_IN_GROUPS,
    in_doubt::InDoubt,
    pattern::{Pattern, PatternError, PatternScope},
};

/// The tool whose pattern is a command text.
const COMMAND_TOOL: &str = "bash";

/// What is before the name of a tool that need not exist yet.
pub(crate) const FUTURE: &str = "future:";

/// The provider of the built-in tools.
const BUILT_IN: &str = "builtin";

/// Groups with tools that read or write paths. Denying a path to such a group would leave it open
/// to every other tool.
const PATH_GROUPS: [&str; 6] = [
    "read-only",
    "changes",
    "destructive",
    "open-world",
    "files",
    "search",
];

/// A parsed entry of an `allow`, `ask` or `deny` list.
#[derive(Debug, Clone)]
pub struct Rule {
    /// The answer it gives.
    pub(crate) verdict: Verdict,
    /// Who it applies to.
    pub(crate) section: Section,
    /// Which tools it applies to.
    pub(crate) selector: Selector,
    /// Which inputs it applies to; all if there is none.
    pub(crate) pattern: Option<Pattern>,
    /// Which actions of the tool it applies to; all if there is none.
    pub(crate) action: Option<ActionPattern>,
    /// Whether its tool or group need not exist yet.
    pub(crate) is_future: bool,
    /// The condition on what was read.
    pub(crate) after: AfterReading,
    /// Who decides where it is not clear whether it applies.
    pub(crate) in_doubt: InDoubt,
    /// Where it was written.
    pub(crate) origin: RuleRef,
}

/// Who a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Section {
    /// `[policy]`.
    Everyone,
    /// `[agents.NAME]`.
    Agent(AgentId),
    /// `[sessions.KIND]`.
    Session(SessionKind),
    /// Every session but the operator's own.
    NonMainSessions,
    /// `[channels.NAME]`.
    Channel(ChannelId),
    /// `[tenants.NAME]`.
    Tenant(TenantId),
    /// `[users.NAME]`.
    User(UserId),
    /// `[scopes.NAME]`: callers whose credential carries the scope.
    Scope(Scope),
    /// Callers whose credential does not carry the scope.
    WithoutScope(Scope),
    /// Agents that another one started.
    Subagents,
}

impl Section {
    /// The scope it asks about, if it does.
    pub(crate) fn scope(&self) -> Option<&Scope> {
        match self {
            Self::Scope(scope) | Self::WithoutScope(scope) => Some(scope),
            Self::Everyone
            | Self::Agent(_)
            | Self::Session(_)
            | Self::NonMainSessions
            | Self::Channel(_)
            | Self::Tenant(_)
            | Self::User(_)
            | Self::Subagents => None,
        }
    }
}

/// Which tools a rule applies to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Selector {
    /// The tool registered under this name, whatever provides it.
    Named(ToolName),
    /// The tool of one provider.
    Provided(ToolKey),
    /// Tools whose name matches, `*` for any run of characters.
    Like(String),
    /// Tools in a group.
    Group(String),
    /// Every tool with an access of this kind that the pattern matches.
    Accesses(AccessWord),
}

/// Why a rule was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    rule: String,
    kind: RuleErrorKind,
}

/// What is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleErrorKind {
    /// The text is empty.
    Empty,
    /// A parenthesis is missing.
    Parenthesis,
    /// The tool part is neither a name, `provider/name`, a name glob nor `@group`.
    Tool,
    /// The parentheses are empty.
    EmptyPattern,
    /// The path pattern is absolute or starts with `~`.
    NotRelative,
    /// The path pattern holds `..`.
    Climbs,
    /// The pattern starts or ends with whitespace.
    Whitespace,
    /// What follows `domain:` or is in `host(…)` is not a host.
    NotAHost,
    /// A wildcard in an address: names that lead there would not match it.
    AddressWildcard,
    /// What follows `db:` or is in `db(…)` is not a database.
    NotADatabase,
    /// What follows `message:` or is in `message(…)` is not a channel and a target.
    NotAMessage,
    /// A path in `deny` or `ask` limited to the tools of a group.
    GroupPath,
    /// `bash(@name)` in `allow`, or with a name that stands for no commands.
    CommandGroup,
    /// The path pattern is not a glob.
    Glob(String),
    /// A wildcard in an `allow` list that is not part of one command, or replaces its program.
    CommandWildcard,
    /// `after` with a rule in an `allow` list that names one tool.
    AfterName,
    /// `future:` with a rule that holds for tools of any time.
    Future,
}

impl Rule {
    /// Parses one entry of a list.
    pub(crate) fn parse(
        text: &str,
        verdict: Verdict,
        section: Section,
        origin: RuleRef,
    ) -> Result<Self, RuleError> {
        let refuse = |kind| RuleError {
            rule: text.to_owned(),
            kind,
        };
        if text.is_empty() {
            return Err(refuse(RuleErrorKind::Empty));
        }
        let (written, is_future) = without_future(text);
        let (tool, inside) = split(written).map_err(refuse)?;
        let selector = Selector::parse(tool).ok_or_else(|| refuse(RuleErrorKind::Tool))?;
        // A tool of such a name is named with its provider.
        let word = inside.and_then(|_| AccessWord::reserved(tool));
        let selector = word.map_or(selector, Selector::Accesses);
        let reach = match verdict {
            Verdict::Allow => PatternScope::Exact,
            Verdict::Ask | Verdict::Deny => PatternScope::Wide,
        };
        let commands = selector.is_command_tool();
        let action = match inside {
            Some(text) if !commands && word.is_none() => ActionPattern::parse(text),
            Some(_) | None => None,
        };
        let action = action.transpose().map_err(|error| refuse(error.into()))?;
        let pattern = match (inside, word) {
            (None, _) => None,
            (Some(_), _) if action.is_some() => None,
            (Some(text), Some(word)) => Some(Pattern::of_access(word, text, reach)),
            (Some(text), None) if commands => Some(Pattern::command(text, reach)),
            (Some(text), None) => Some(Pattern::parse(text, reach)),
        };
        let pattern = pattern.transpose().map_err(|error| refuse(error.into()))?;
        if let Some(pattern) = &pattern
            && commands
            && reach == PatternScope::Exact
            && pattern.is_wild_text()
            && pattern.program().is_none()
        {
            return Err(refuse(RuleErrorKind::CommandWildcard));
        }
        let selector = match (&pattern, reach) {
            (Some(_), PatternScope::Wide) => selector.by_access(),
            (None, _) | (_, PatternScope::Exact) => selector,
        };
        if is_future && !selector.names_what_must_exist() {
            return Err(refuse(RuleErrorKind::Future));
        }
        // A deny over every input is a deny of the tool: it must hide it too.
        let everything =
            reach == PatternScope::Wide && pattern.as_ref().is_some_and(Pattern::is_all);
        let pattern = pattern.filter(|_| !everything || matches!(selector, Selector::Accesses(_)));
        if let Selector::Group(group) = &selector
            && PATH_GROUPS.contains(&group.as_str())
            && reach == PatternScope::Wide
            && pattern
                .as_ref()
                .is_some_and(|pattern| pattern.path.is_some())
        {
            return Err(refuse(RuleErrorKind::GroupPath));
        }
        Ok(Self {
            verdict,
            section,
            selector,
            pattern,
            action,
            is_future,
            after: AfterReading::default(),
            in_doubt: InDoubt::default(),
            origin,
        })
    }

    /// Whether the rule matches an example given with it: a command for a command tool, an action
    /// for `action:`, a tool name if there are no parentheses, and otherwise what the pattern is
    /// about: a path, a host, a database or a message.
    pub(crate) fn speaks_of(&self, example: &str) -> bool {
        match (&self.pattern, &self.action) {
            (None, Some(action)) => action.matches_name(example),
            (None, None) => self.selector.matches_name(example),
            (Some(pattern), _) if self.selector.is_command_tool() => {
                pattern.speaks_of_script(example)
            }
            (Some(pattern), _) => pattern.speaks_of(example),
        }
    }

    /// What stands in the parentheses, if there are any.
    pub(crate) fn inside(&self) -> Option<&str> {
        let action = self.action.as_ref().map(|action| action.text.as_str());
        let pattern = self.pattern.as_ref().map(|pattern| pattern.text.as_str());
        action.or(pattern)
    }

    /// Whether it applies to whatever the tool is asked to do.
    pub(crate) fn is_about_every_input(&self) -> bool {
        self.inside().is_none()
    }

    /// Whether it is about command texts, and restricts.
    pub(crate) fn restricts_commands(&self) -> bool {
        let about_commands = self.selector.is_command_tool() && self.pattern.is_some();
        about_commands && self.verdict != Verdict::Allow
    }

    /// What the name of every database or part of one that it is about starts with; none if it is about
    /// something else.
    pub fn database_prefix(&self) -> Option<&str> {
        let database = self.pattern.as_ref()?.database.as_ref();
        database.map(|database| database.source.prefix())
    }

    /// Whether it may be about this database, as a whole or in part; none if it is about something else.
    pub fn may_name_database(&self, source: &str) -> Option<bool> {
        let database = self.pattern.as_ref()?.database.as_ref()?;
        Some(database.matches(source, true, PatternScope::Wide))
    }

    /// Where the rule was written.
    pub fn origin(&self) -> &RuleRef {
        &self.origin
    }

    /// The answer it gives.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Who it applies to, as the title of its section; none for everyone.
    pub fn holds_for(&self) -> Option<String> {
        match &self.section {
            Section::Everyone => None,
            Section::Agent(agent) => Some(format!("[agents.{agent}]")),
            Section::Session(kind) => Some(format!("[sessions.{kind}]")),
            Section::NonMainSessions => Some("every session but main".to_owned()),
            Section::Channel(channel) => Some(format!("[channels.{channel}]")),
            Section::Tenant(tenant) => Some(format!("[tenants.{tenant}]")),
            Section::User(user) => Some(format!("[users.{user}]")),
            Section::Scope(scope) => Some(format!("[scopes.\"{scope}\"]")),
            Section::WithoutScope(scope) => Some(format!("callers without scope `{scope}`")),
            Section::Subagents => Some("sub-agents".to_owned()),
        }
    }
}

impl Selector {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(group) = text.strip_prefix('@') {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            return (!group.is_empty() && group.chars().all(plain)).then(|| match group {
                "all" => Self::Like("*".to_owned()),
                _ => Self::Group(group.to_owned()),
            });
        }
        if text.contains('*') {
            let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '*');
            return text.chars().all(name).then(|| Self::Like(text.to_owned()));
        }
        match text.split_once('/') {
            Some((provider, tool)) => Some(Self::Provided(ToolKey::new(
                ProviderId::parse(provider).ok()?,
                ToolName::parse(tool).ok()?,
            ))),
            None => ToolName::parse(text).ok().map(Self::Named),
        }
    }

    /// What it selects in `deny` and `ask` with a pattern: a rule about the tool that reads or
    /// writes becomes one about reading or writing, since other tools can do the same.
    fn by_access(self) -> Self {
        let name = match &self {
            Self::Named(name) => name,
            Self::Provided(key) if key.provider.as_str() == BUILT_IN => &key.tool,
            Self::Provided(_) | Self::Like(_) | Self::Group(_) | Self::Accesses(_) => return self,
        };
        match name.as_str() {
            "read" => Self::Accesses(AccessWord::Read),
            "write" => Self::Accesses(AccessWord::Write),
            _ => self,
        }
    }

    /// Whether the lint misses it where it is not registered.
    fn names_what_must_exist(&self) -> bool {
        match self {
            Self::Named(_) | Self::Provided(_) => true,
            Self::Group(group) => !BUILT_IN_GROUPS.contains(&group.as_str()),
            Self::Like(_) | Self::Accesses(_) => false,
        }
    }

    /// Whether patterns of this selector are always command texts.
    pub(crate) fn is_command_tool(&self) -> bool {
        match self {
            Self::Named(name) => name.as_str() == COMMAND_TOOL,
            Self::Provided(key) => key.tool.as_str() == COMMAND_TOOL,
            Self::Like(_) | Self::Group(_) | Self::Accesses(_) => false,
        }
    }

    /// Whether it selects a tool by name alone.
    pub(crate) fn matches_name(&self, name: &str) -> bool {
        match self {
            Self::Named(tool) => tool.as_str() == name,
            Self::Provided(key) => key.to_string() == name,
            Self::Like(glob) => name_matches(glob, name),
            Self::Group(_) | Self::Accesses(_) => false,
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => name.fmt(f),
            Self::Provided(key) => key.fmt(f),
            Self::Like(glob) => f.write_str(glob),
            Self::Group(group) => write!(f, "@{group}"),
            Self::Accesses(word) => f.write_str(word.as_str()),
        }
    }
}

impl RuleError {
    pub(crate) fn new(rule: &str, kind: RuleErrorKind) -> Self {
        let rule = rule.to_owned();
        Self { rule, kind }
    }

    /// What is wrong.
    pub fn kind(&self) -> &RuleErrorKind {
        &self.kind
    }

    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self.kind {
            RuleErrorKind::Empty | RuleErrorKind::Parenthesis | RuleErrorKind::Tool => {
                "write `tool`, `tool(pattern)`, `provider/tool`, `mcp__server__*` or `@group`"
            }
            RuleErrorKind::EmptyPattern => "omit the parentheses to match every input",
            RuleErrorKind::NotRelative | RuleErrorKind::Climbs => {
                "paths are relative to the workspace, such as `src/**` or `**/.env`"
            }
            RuleErrorKind::Whitespace => "remove the whitespace between the parentheses",
            RuleErrorKind::CommandGroup => {
                "the one there is, `bash(@ruinous)`, is for `ask` and `deny`"
            }
            RuleErrorKind::NotAHost => "write the host alone, such as `domain:example.com`",
            RuleErrorKind::AddressWildcard => {
                "write one rule for each address, such as `host(10.0.0.1)`, which also holds for names \
                 that lead there, or name the hosts: `host(*.internal)`"
            }
            RuleErrorKind::NotADatabase => {
                "write the name of the database, and `reads` or `writes` for one of the two: \
                 `db(crm, writes)`"
            }
            RuleErrorKind::NotAMessage => {
                "write the channel and the target, such as `message(slack:#ops)` or `message(slack:*)`"
            }
            RuleErrorKind::GroupPath => {
                "use `read(…)` or `write(…)`, which apply to every tool, or `bash(…)` for commands"
            }
            RuleErrorKind::Glob(_) => "put `\\` before a character to match it literally",
            RuleErrorKind::CommandWildcard => {
                "name the program of one command, such as `bash(npm run *)`, or allow the exact text"
            }
            RuleErrorKind::Future => "remove `future:`",
            RuleErrorKind::AfterName => {
                "remove `after`, or move the rule to `ask` or `deny` so that it applies only then"
            }
        }
    }
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rule = &self.rule;
        match &self.kind {
            RuleErrorKind::Empty => write!(f, "the rule is empty"),
            RuleErrorKind::Parenthesis => write!(f, "`{rule}` has unbalanced parentheses"),
            RuleErrorKind::Tool => write!(f, "`{rule}` does not start with a tool"),
            RuleErrorKind::EmptyPattern => write!(f, "`{rule}` has an empty pattern"),
            RuleErrorKind::NotRelative => {
                write!(f, "`{rule}` can never match: its path is not relative")
            }
            RuleErrorKind::Climbs => write!(f, "`{rule}` can never match: its path contains `..`"),
            RuleErrorKind::Whitespace => write!(
                f,
                "`{rule}` would cover less than it says: its pattern starts or ends with whitespace"
            ),
            RuleErrorKind::CommandGroup => {
                write!(
                    f,
                    "`{rule}` can never match: there are no such commands here"
                )
            }
            RuleErrorKind::NotAHost => {
                write!(f, "`{rule}` can never match: `domain:` takes a host name")
            }
            RuleErrorKind::AddressWildcard => write!(
                f,
                "`{rule}` would cover less than it says: a wildcard of addresses holds for no name that leads to one"
            ),
            RuleErrorKind::NotADatabase => write!(
                f,
                "`{rule}` can never match: a database is named as in `crm`, `crm.users` or `crm.users.email`"
            ),
            RuleErrorKind::NotAMessage => {
                write!(
                    f,
                    "`{rule}` can never match: a message has a channel and a target"
                )
            }
            RuleErrorKind::GroupPath => write!(
                f,
                "`{rule}` would cover less than it says: tools outside the group still reach the path"
            ),
            RuleErrorKind::Glob(error) => write!(f, "`{rule}` is not a valid glob: {error}"),
            RuleErrorKind::CommandWildcard => write!(
                f,
                "`{rule}` can never match: in allow, a wildcard matches only words after a named program"
            ),
            RuleErrorKind::Future => write!(
                f,
                "`future:` changes nothing about `{rule}`: it is for one tool or group that is not there yet"
            ),
            RuleErrorKind::AfterName => write!(
                f,
                "`after` changes nothing about `{rule}`: an allow rule that names a tool applies whatever was read"
            ),
        }
    }
}

impl std::error::Error for RuleError {}

impl From<PatternError> for RuleErrorKind {
    fn from(error: PatternError) -> Self {
        match error {
            PatternError::Empty => Self::EmptyPattern,
            PatternError::NotRelative => Self::NotRelative,
            PatternError::Climbs => Self::Climbs,
            PatternError::Whitespace => Self::Whitespace,
            PatternError::UnknownGroup => Self::CommandGroup,
            PatternError::NotAHost => Self::NotAHost,
            PatternError::AddressWildcard => Self::AddressWildcard,
            PatternError::NotADatabase => Self::NotADatabase,
            PatternError::NotAMessage => Self::NotAMessage,
            PatternError::Glob(error) => Self::Glob(error),
        }
    }
}

/// Whether a name matches a name glob.
pub(crate) fn name_matches(glob: &str, name: &str) -> bool {
    Pattern::command(glob, PatternScope::Wide).is_ok_and(|pattern| pattern.matches_command(name))
}

/// The rule without `future:`, and whether it had it.
pub(crate) fn without_future(text: &str) -> (&str, bool) {
    match text.strip_prefix(FUTURE) {
        Some(rest) => (rest, true),
        None => (text, false),
    }
}

/// The tool part and the pattern, whitespace kept as written.
fn split(text: &str) -> Result<(&str, Option<&str>), RuleErrorKind> {
    match text.split_once('(') {
        None if text.contains(')') => Err(RuleErrorKind::Parenthesis),
        None => Ok((text, None)),
        Some((tool, rest)) => rest
            .strip_suffix(')')
            .map(|pattern| (tool, Some(pattern)))
            .ok_or(RuleErrorKind::Parenthesis),
    }
}
