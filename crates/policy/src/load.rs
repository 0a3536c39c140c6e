//! Reads the policy part of configuration files: `[policy]`, `[agents.*]`, `[tenants.*]`,
//! `[users.*]`, `[sessions.*]`, `[channels.*]`, `[scopes.*]`, and `session`, `scopes`, `subagents`
//! and `sandbox` of `[tools.*]`. Other parts of a file are ignored.
//!
//! Text in, rules out: no file is opened here. Anything not understood is an error with its line,
//! so that a misspelled `deny` can never pass for no rule. Several files add up; where they
//! contradict each other the stricter one wins, for presets as for rules. Read next: `reader.rs`,
//! which walks a document.

use std::{collections::BTreeMap, fmt};

use haft_contract::identity::{ChannelId, SessionKind, TenantId, UserId};

use crate::{
    audience::{FilePresets, Presets},
    engine::CedarPolicy,
    examples::TestedRule,
    lint,
    preset::Preset,
    reader::Reader,
    rule::{Rule, Section},
    settings::ToolSettings,
};

/// A configuration text and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicySource {
    /// Shown in explanations, such as `haft.toml`.
    pub name: String,
    /// The text of the file.
    pub text: String,
}

/// The policy part of one or several files.
#[derive(Debug)]
pub struct PolicyFile {
    pub(crate) rules: Vec<Rule>,
    pub(crate) presets: Vec<FilePresets>,
    pub(crate) sessions: BTreeMap<SessionKind, Preset>,
    pub(crate) channels: BTreeMap<ChannelId, Preset>,
    pub(crate) tenants: BTreeMap<TenantId, Option<Preset>>,
    pub(crate) users: BTreeMap<UserId, Option<Preset>>,
    pub(crate) settings: ToolSettings,
    pub(crate) tested: Vec<TestedRule>,
}

/// Why a policy could not be loaded: at least one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    problems: Vec<Problem>,
}

/// One problem, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub source: String,
    /// The line, from 1; absent if the problem is in no line.
    pub line: Option<u32>,
    /// The column in characters, from 1.
    pub column: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl PolicySource {
    /// A source from a name and a text.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            text: text.into(),
        }
    }
}

impl PolicyFile {
    /// Reads one file.
    pub fn parse(source: &PolicySource) -> Result<Self, LoadError> {
        Self::parse_all(std::slice::from_ref(source))
    }

    /// Reads several files as one policy.
    pub fn parse_all(sources: &[PolicySource]) -> Result<Self, LoadError> {
        let (file, problems) = Self::read(sources);
        LoadError::unless_empty(problems)?;
        Ok(file)
    }

    /// What it says about single tools besides rules.
    pub fn tool_settings(&self) -> &ToolSettings {
        &self.settings
    }

    /// Runs every rule's own examples, including those that fail. Any other mistake is an error.
    pub fn test(sources: &[PolicySource]) -> Result<Vec<TestedRule>, LoadError> {
        let (Self { tested, .. }, mut problems) = Self::read(sources);
        {
            // Failed examples are the result, not errors; both lists are in file order.
            let mut failed = tested.iter().flat_map(TestedRule::failures).peekable();
            problems.retain(|problem| failed.next_if_eq(&problem).is_none());
        }
        LoadError::unless_empty(problems)?;
        Ok(tested)
    }

    /// The contents of several files, and their problems.
    fn read(sources: &[PolicySource]) -> (Self, Vec<Problem>) {
        let mut file = Self {
            rules: Vec::new(),
            presets: Vec::new(),
            sessions: BTreeMap::new(),
            channels: BTreeMap::new(),
            tenants: BTreeMap::new(),
            users: BTreeMap::new(),
            settings: ToolSettings::default(),
            tested: Vec::new(),
        };
        let mut problems = Vec::new();
        for source in sources {
            Reader::new(source, &mut file, &mut problems).read();
        }
        (file, problems)
    }

    /// Checks the rules against each other and compiles them into a policy.
    pub fn build(self) -> Result<CedarPolicy, LoadError> {
        let findings = lint::check_rules(&self.rules);
        LoadError::unless_empty(findings.into_iter().map(Problem::from).collect())?;
        let sections = || self.rules.iter().map(|rule| &rule.section);
        let presets = Presets {
            scopes: sections().filter_map(Section::scope).cloned().collect(),
            about_subagents: sections().any(|section| *section == Section::Subagents),
            files: self.presets,
            sessions: self.sessions,
            channels: self.channels,
            tenants: self.tenants,
            users: self.users,
        };
        CedarPolicy::new(self.rules, presets, self.settings).map_err(|error| LoadError {
            problems: vec![Problem {
                source: "policy".to_owned(),
                line: None,
                column: None,
                message: error.to_string(),
                hint: None,
            }],
        })
    }
}

impl LoadError {
    fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            return Ok(());
        }
        Err(Self { problems })
    }

    /// All problems, in the order they were found.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadError {}
