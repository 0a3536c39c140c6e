//! A database in a rule: `crm`, `crm, writes`, `crm, reads`, with `*` in the name; or a part of it:
//! `crm.users`, `crm.users.email`. A pattern reaches everything within what it names. In `deny` and
//! `ask` it also reaches an access that is wider than it: `SELECT *` reads the column that is named.

use crate::{
    pattern::{PatternError, PatternScope},
    text_pattern::TextPattern,
};

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
        let empty_part = source.starts_with('.') || source.ends_with('.') || source.contains("..");
        if empty_part || source.contains(char::is_whitespace) {
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

    /// What such a query does, for a person: `read \`crm.users.email\``.
    pub(crate) fn meaning(&self) -> String {
        let verb = match self.use_of {
            DatabaseUse::Any => "read and change",
            DatabaseUse::Reads => "read",
            DatabaseUse::Writes => "change",
        };
        format!("{verb} `{}`", self.source)
    }

    /// Whether it matches such a query. What may write also reads, so a denial of reading denies
    /// both.
    pub(crate) fn matches(&self, source: &str, writes: bool, reach: PatternScope) -> bool {
        let used = match (self.use_of, reach) {
            (DatabaseUse::Any, _) | (DatabaseUse::Reads, PatternScope::Wide) => true,
            (DatabaseUse::Reads, PatternScope::Exact) => !writes,
            (DatabaseUse::Writes, _) => writes,
        };
        used && match reach {
            PatternScope::Exact => {
                names(&self.source, source) && !takes_schema_for_table(&self.source, source)
            }
            // Which database folds names and which does not is not known here.
            PatternScope::Wide => {
                let pattern = self.source.lowercase();
                let source = source.to_lowercase();
                names(&pattern, &source) || is_within(&pattern, &source)
            }
        }
    }
}

/// Whether the pattern names the access or something that it is a part of.
fn names(pattern: &TextPattern, source: &str) -> bool {
    let dots = source.match_indices('.').map(|(at, _)| at);
    let mut parts = dots.chain([source.len()]);
    parts.any(|end| pattern.matches(source.get(..end).unwrap_or_default()))
}

/// Whether the pattern is that of a table, `crm.users`, and the access is in a schema of that name,
/// `crm.users.logins.id`. Nobody who allowed the table spoke of the schema.
fn takes_schema_for_table(pattern: &TextPattern, source: &str) -> bool {
    const PARTS_OF_A_TABLE: usize = 2;
    const PARTS_WITH_A_SCHEMA: usize = 4;
    match pattern {
        TextPattern::Literal(named) => {
            parts(named) == PARTS_OF_A_TABLE && parts(source) >= PARTS_WITH_A_SCHEMA
        }
        TextPattern::Wild(_) => false,
    }
}

/// How many names a text has, between dots that are in none of them.
fn parts(text: &str) -> usize {
    let mut quoted = false;
    let dots = text.chars().filter(|c| {
        quoted ^= *c == '"';
        *c == '.' && !quoted
    });
    dots.count() + 1
}

/// Whether the pattern names a part of what is accessed as a whole: `crm` or `crm.users.*`.
fn is_within(pattern: &TextPattern, source: &str) -> bool {
    // `crm.users.(rows)` and its like have no parts.
    if source.ends_with(')') {
        return false;
    }
    let whole = source.strip_suffix(".*").unwrap_or(source);
    let whole = format!("{whole}.");
    match pattern {
        TextPattern::Literal(part) => part.starts_with(&whole),
        // A column has nothing in it.
        TextPattern::Wild(_) if is_column(source) => false,
        // What a wildcard stands for may be in there.
        TextPattern::Wild(_) => {
            let prefix = pattern.prefix();
            prefix.starts_with(&whole) || whole.starts_with(prefix)
        }
    }
}

/// Whether an access is a column: a name in a table of a database, and not all of them.
fn is_column(source: &str) -> bool {
    source.matches('.').count() >= 2 && !source.ends_with(".*")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, reach: PatternScope, matches: &[&str], others: &[&str]) {
        let parsed = DatabasePattern::parse(pattern).unwrap();
        let is = |access: &str| {
            let (source, writes) = match access.strip_prefix("write ") {
                Some(source) => (source, true),
                None => (access, false),
            };
            parsed.matches(source, writes, reach)
        };
        for access in matches {
            assert!(is(access), "{pattern} {reach:?} {access}");
        }
        for access in others {
            assert!(!is(access), "{pattern} {reach:?} {access}");
        }
    }

    #[test]
    fn a_pattern_reaches_everything_within_what_it_names() {
        let (exact, wide) = (PatternScope::Exact, PatternScope::Wide);
        let parts = [
            "crm",
            "crm.users",
            "crm.users.email",
            "crm.users.*",
            "crm.users.(rows)",
            "crm.()",
        ];
        check(
            "crm",
            exact,
            &parts,
            &["crmx", "crmx.users", "CRM.users", "x.crm"],
        );
        check("crm", wide, &parts, &["crmx", "crmx.users"]);
        check(
            "crm.users",
            exact,
            &[
                "crm.users.email",
                "crm.users.*",
                "crm.users.(rows)",
                "write crm.users.email",
            ],
            &["crm", "crm.usersx.email", "crm.orders.*", "crm.(schema)"],
        );
        check(
            "crm.users, reads",
            exact,
            &["crm.users.id"],
            &["write crm.users.id"],
        );
        check(
            "crm.users.email",
            exact,
            &["crm.users.email"],
            &["crm.users.*", "crm", "crm.users.Email"],
        );
        check(
            "crm.users.email",
            wide,
            &[
                "crm.users.email",
                "crm.users.*",
                "crm",
                "crm.Users.EMAIL",
                "write crm.users.*",
            ],
            &[
                "crm.users.name",
                "crm.orders.*",
                "crm.users.(rows)",
                "crm.(schema)",
                "crmx",
            ],
        );
        check(
            "crm.users, writes",
            wide,
            &["write crm.users.name"],
            &["crm.users.name"],
        );
        check(
            "crm.*.email",
            wide,
            &["crm.users.email", "crm.users.*", "crm"],
            &["crm.users.name", "sales.users.email"],
        );
        check("*", exact, &["crm.users.email", "x"], &[]);
        // A schema of a table's name is not the table; `deny` takes no chance.
        let in_schema = ["crm.users.logins.id", "crm.users.logins.*"];
        check("crm.users", exact, &["crm.users.\"a.b\""], &in_schema);
        check("crm.users", wide, &in_schema, &[]);
        check("crm.users.logins", exact, &in_schema, &[]);
        check("crm", exact, &in_schema, &[]);
        check(
            "*, reads",
            exact,
            &["crm.users.email"],
            &["write crm.users.email"],
        );
    }

    #[test]
    fn a_part_without_a_name_is_refused() {
        for text in ["crm.", ".users", "crm..email", "crm users", ""] {
            assert!(DatabasePattern::parse(text).is_err(), "{text}");
        }
    }
}
