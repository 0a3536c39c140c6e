//! A database in a rule: `crm`, `crm, writes`, `crm, reads`, with `*` in the name. A name with a dot
//! is refused, because `crm.users.email` will name a part of a database once accesses do.

use crate::pattern::{PatternError, PatternScope, TextPattern};

/// Which queries of which databases a rule matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DatabasePattern {
    pub(crate) source: TextPattern,
    use_of: DatabaseUse,
}

/// What a query does to the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DatabaseUse {
    Any,
    /// It only reads.
    Reads,
    /// It may change data.
    Writes,
}

impl DatabasePattern {
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        let (source, use_of) = match text.split_once(',') {
            None => (text, DatabaseUse::Any),
            Some((source, word)) => match word.trim_start() {
                "reads" => (source, DatabaseUse::Reads),
                "writes" => (source, DatabaseUse::Writes),
                _ => return Err(PatternError::NotADatabase),
            },
        };
        if source.is_empty() {
            return Err(PatternError::Empty);
        }
        if source.contains(|c: char| c == '.' || c.is_whitespace()) {
            return Err(PatternError::NotADatabase);
        }
        Ok(Self {
            source: TextPattern::parse(source),
            use_of,
        })
    }

    /// Whether what is written as an example is a query that changes data.
    pub(crate) fn is_a_write(&self) -> bool {
        self.use_of == DatabaseUse::Writes
    }

    /// Whether it matches such a query. What may write also reads, so a denial of reading denies
    /// both.
    pub(crate) fn matches(&self, source: &str, writes: bool, reach: PatternScope) -> bool {
        let used = match (self.use_of, reach) {
            (DatabaseUse::Any, _) | (DatabaseUse::Reads, PatternScope::Wide) => true,
            (DatabaseUse::Reads, PatternScope::Exact) => !writes,
            (DatabaseUse::Writes, _) => writes,
        };
        used && self.source.matches(source)
    }
}
