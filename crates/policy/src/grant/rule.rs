//! A rule as a grant: in the notation of `allow` lists, but more restricted. Nobody who accepts a
//! rule in the middle of their work should have to foresee what it opens.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use haft_contract::{
    WorkPath,
    access::{Command, SoleAccess},
    host::{RuleRef, Verdict},
};

use super::runner::{is_known_module, is_runner};
use crate::{
    action_pattern::ActionPattern,
    cache::Generations,
    pattern::{Pattern, PatternKind},
    rule::{Rule, RuleError, RuleErrorKind, Section, Selector},
    shell,
    text_pattern::TextPattern,
};

/// How many parsed rules are cached.
const REMEMBERED: usize = 1024;

/// Tools a grant cannot name by a wildcard: they can be told to do anything.
const COMMAND_TOOLS: [&str; 2] = ["bash", "process"];

/// A rule that can be granted.
#[derive(Debug, Clone)]
pub struct GrantRule {
    pub(super) selector: Selector,
    pub(super) pattern: Option<Pattern>,
    pub(super) action: Option<ActionPattern>,
    text: String,
}

/// Why a rule cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GrantRefusal {
    /// It is not a valid rule of an `allow` list.
    Rule(RuleError),
    /// It selects a group of tools, or selects tools that run commands by a wildcard.
    ManyTools(String),
    /// It matches every command.
    EveryCommand(String),
    /// It has a wildcard after a program that runs whatever it is told to.
    Runner {
        /// The rule.
        rule: String,
        /// The program.
        program: String,
    },
    /// It has a wildcard after words that make a program do something else.
    Hazard {
        /// The rule.
        rule: String,
        /// The word, or why it is not understood.
        word: String,
    },
}

impl GrantRule {
    /// Parses a rule, and refuses one that opens more than a person can foresee.
    pub fn parse(text: &str) -> Result<Self, GrantRefusal> {
        let origin = RuleRef {
            text: text.to_owned(),
            source: "grant".to_owned(),
            line: None,
        };
        let rule = Rule::parse(text, Verdict::Allow, Section::Everyone, origin)
            .map_err(GrantRefusal::Rule)?;
        if rule.is_future {
            // A person is asked about a tool that is there.
            let error = RuleError::new(text, RuleErrorKind::Future);
            return Err(GrantRefusal::Rule(error));
        }
        let many = match &rule.selector {
            Selector::Named(_) | Selector::Provided(_) => false,
            Selector::Like(_) => COMMAND_TOOLS
                .iter()
                .any(|tool| rule.selector.matches_name(tool)),
            Selector::Group(_) | Selector::Accesses(_) => true,
        };
        if many {
            return Err(GrantRefusal::ManyTools(text.to_owned()));
        }
        let grant = Self {
            selector: rule.selector,
            pattern: rule.pattern,
            action: rule.action,
            text: text.to_owned(),
        };
        match &grant.pattern {
            None if grant.selector.is_command_tool() => {
                Err(GrantRefusal::EveryCommand(text.to_owned()))
            }
            Some(pattern) if pattern.command.is_some() && pattern.is_wild_text() => {
                grant.foreseeable(pattern).map(|()| grant.clone())
            }
            Some(_) | None => Ok(grant),
        }
    }

    /// Whether it is about the tool of this name, whoever provides it.
    pub fn names_tool(&self, name: &str) -> bool {
        match &self.selector {
            Selector::Provided(key) => key.tool.as_str() == name,
            Selector::Named(_) | Selector::Like(_) | Selector::Group(_) | Selector::Accesses(_) => {
                self.selector.matches_name(name)
            }
        }
    }

    /// The rule as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What granting it means, in one sentence.
    pub fn meaning(&self) -> String {
        self.meaning_for(None)
    }

    /// The same for a tool that touches only one kind of thing, if that is so: `web_fetch(docs.rs)` is
    /// about a host, though there may be a file of that name.
    pub fn meaning_for(&self, touches: Option<SoleAccess>) -> String {
        let tool = &self.selector;
        if let Some(action) = &self.action {
            return format!("every use of `{tool}` for its action `{}`", action.name());
        }
        let Some(pattern) = &self.pattern else {
            return format!("every use of `{tool}`, whatever its input");
        };
        let is_host = pattern.kind() == PatternKind::Host || touches == Some(SoleAccess::Hosts);
        match (is_host, &pattern.host) {
            (true, Some(TextPattern::Literal(host))) => {
                return format!("`{tool}` may reach the host `{host}`");
            }
            (true, _) => {
                return format!("`{tool}` may reach every host like `{}`", pattern.text);
            }
            (false, _) => {}
        }
        if let Some(database) = &pattern.database {
            return format!("`{tool}` may {}", database.meaning());
        }
        if self.selector.is_command_tool() {
            return command_meaning(pattern);
        }
        match pattern.text.strip_suffix("/**") {
            Some(directory) => format!("`{tool}` on everything beneath `{directory}`"),
            None if pattern.is_wild_text() => {
                format!("`{tool}` on everything that matches `{}`", pattern.text)
            }
            None => format!("`{tool}` on `{}`", pattern.text),
        }
    }

    /// Whether it allows one module of an interpreter with any further words.
    pub(super) fn is_for_module(&self) -> bool {
        let words = self.pattern.as_ref().and_then(prefix_of);
        words.is_some_and(|words| {
            is_known_module(words.split(' ')) && words.matches(' ').count() == 2
        })
    }

    /// Whether a person can foresee what a wildcard after this command's words opens.
    fn foreseeable(&self, pattern: &Pattern) -> Result<(), GrantRefusal> {
        if self.is_for_module() {
            return Ok(());
        }
        if let Some(program) = pattern.program().filter(|program| is_runner(program)) {
            return Err(GrantRefusal::Runner {
                rule: self.text.clone(),
                program: program.to_owned(),
            });
        }
        let words = pattern.text.strip_suffix(" *").unwrap_or(&pattern.text);
        let command = Command::Shell(words.to_owned());
        let hazard = |word: String| GrantRefusal::Hazard {
            rule: self.text.clone(),
            word,
        };
        let analysis = shell::analyse(&command, &WorkPath::root(), "/")
            .map_err(|refusal| hazard(refusal.to_string()))?;
        let found = analysis
            .segments()
            .iter()
            .find_map(|segment| segment.hazards().next().map(str::to_owned));
        found.map_or(Ok(()), |word| Err(hazard(word)))
    }
}

/// The words before a star that stands for all further words.
fn prefix_of(pattern: &Pattern) -> Option<&str> {
    let words = pattern.text.strip_suffix(" *")?;
    (!words.contains('*')).then_some(words)
}

fn command_meaning(pattern: &Pattern) -> String {
    if !pattern.is_wild_text() {
        return format!(
            "exactly this command: `{}`",
            pattern.text.replace("\\*", "*")
        );
    }
    match pattern.text.strip_suffix(" *") {
        Some(words) if is_known_module(words.split(' ')) => format!(
            "every command that begins with the words `{words}`, alone or as part of a script, in \
             a sandbox without network, as long as it stays in the workspace"
        ),
        Some(words) if words.contains(' ') => format!(
            "every command that begins with the words `{words}`, alone or as part of a script, as \
             long as it stays in the workspace"
        ),
        Some(program) => format!(
            "the program `{program}` with any words, alone or as part of a script, as long as it \
             stays in the workspace"
        ),
        None => format!("every command that matches `{}`", pattern.text),
    }
}

impl GrantRefusal {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Rule(error) => error.hint().to_owned(),
            Self::ManyTools(_) => {
                "name one tool, or those of one server: `mcp__github__*`".to_owned()
            }
            Self::EveryCommand(_) => {
                "name a command, such as `bash(cargo test *)`, or choose another preset".to_owned()
            }
            Self::Runner { .. } | Self::Hazard { .. } => {
                "grant the command word for word, without `*`".to_owned()
            }
        }
    }
}

impl fmt::Display for GrantRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(error) => error.fmt(f),
            Self::ManyTools(rule) => write!(
                f,
                "`{rule}` cannot be granted: it covers more tools than it names"
            ),
            Self::EveryCommand(rule) => {
                write!(
                    f,
                    "`{rule}` cannot be granted: it would allow every command"
                )
            }
            Self::Runner { rule, program } => write!(
                f,
                "`{rule}` cannot be granted: `{program}` runs whatever its arguments say, so only \
                 the exact command can be granted"
            ),
            Self::Hazard { rule, word } => write!(
                f,
                "`{rule}` cannot be granted: `{word}` makes the program do something else, so it is \
                 granted only word for word"
            ),
        }
    }
}

impl std::error::Error for GrantRefusal {}

/// Parsed grant rules, cached.
#[derive(Debug)]
pub(crate) struct GrantRules {
    read: Mutex<Generations<String, Option<Arc<GrantRule>>>>,
}

impl GrantRules {
    pub(crate) fn new() -> Self {
        Self {
            read: Mutex::new(Generations::new(REMEMBERED)),
        }
    }

    /// The parsed rule, or none if it cannot be granted: such a grant covers nothing.
    pub(super) fn read(&self, text: &str) -> Option<Arc<GrantRule>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rule) = read.get(text) {
            return rule;
        }
        let rule = GrantRule::parse(text).ok().map(Arc::new);
        read.insert(text.to_owned(), rule.clone());
        rule
    }
}
