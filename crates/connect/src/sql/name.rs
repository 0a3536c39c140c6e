//! Names as the database takes them: folded where they are not quoted, and written into accesses so
//! that two different names never read the same.

use sqlparser::ast::{Ident, ObjectName, ObjectNamePart};

use super::{
    ReadingRules, RefusedStatement, SqlDialect, refusal::shown, reserved_words::is_reserved,
};

/// The longest name PostgreSQL does not cut, in bytes.
const MAX_NAME_BYTES: usize = 63;

/// Schemas whose tables say what there is besides what a plan names, what other sessions do, or who may
/// log in. All that begin with `pg_` are too.
const SYSTEM_SCHEMAS: [&str; 9] = [
    "information_schema",
    "pg_catalog",
    "pg_toast",
    "pg_temp",
    "mysql",
    "performance_schema",
    "sys",
    "temp",
    "aux",
];

/// A table as accesses name it: without the schema that is usual.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TablePath {
    pub(super) schema: Option<String>,
    pub(super) name: String,
}

impl ReadingRules {
    /// A name that stands alone or before a dot. Unlike one after a dot or after `AS` in a list of
    /// columns, it is none of the words of the database's grammar.
    pub(super) fn own_name(&self, ident: &Ident) -> Result<String, RefusedStatement> {
        let name = self.name(ident)?;
        let reserved = self.dialect == SqlDialect::Postgres
            && ident.quote_style.is_none()
            && is_reserved(&name);
        if name == "only" && reserved {
            return Err(RefusedStatement::new(
                "`ONLY` before a table is not read here; leave it out",
            ));
        }
        if reserved {
            return Err(RefusedStatement::new(format!(
                "`{name}` is a word of PostgreSQL's grammar and stands where a name should; if it is \
                 a name, quote it"
            )));
        }
        Ok(name)
    }

    /// A name as the database takes it.
    pub(super) fn name(&self, ident: &Ident) -> Result<String, RefusedStatement> {
        let text = &ident.value;
        if text.is_empty() || text.chars().any(|c| c.is_control() || is_hidden(c)) {
            return Err(RefusedStatement::new("a name with a hidden character"));
        }
        if text.len() > MAX_NAME_BYTES {
            let text = shown(text);
            return Err(RefusedStatement::new(format!(
                "the name `{text}` is too long"
            )));
        }
        match (self.dialect, ident.quote_style) {
            (SqlDialect::Postgres, Some(_)) => Ok(text.clone()),
            (SqlDialect::Postgres, None) if !text.is_ascii() => Err(RefusedStatement::new(
                "a name with letters beyond a to z must be quoted",
            )),
            (SqlDialect::Postgres, None) => Ok(text.to_ascii_lowercase()),
            (SqlDialect::MariaDb, _) if text.chars().any(is_like_another) => Err(
                RefusedStatement::new("a name with a letter that the server takes for another one"),
            ),
            (SqlDialect::Sqlite | SqlDialect::MariaDb, _) => Ok(text.to_lowercase()),
        }
    }

    /// The parts of a name with dots.
    pub(super) fn parts(&self, name: &ObjectName) -> Result<Vec<String>, RefusedStatement> {
        let parts = name.0.iter().enumerate().map(|(at, part)| match part {
            ObjectNamePart::Identifier(ident) if at == 0 => self.own_name(ident),
            ObjectNamePart::Identifier(ident) => self.name(ident),
            ObjectNamePart::Function(_) => Err(RefusedStatement::unlisted("a computed name")),
        });
        parts.collect()
    }

    /// The parts of a function's name. Alone it may be a word of the grammar: `left(name, 3)`.
    pub(super) fn function_parts(
        &self,
        name: &ObjectName,
    ) -> Result<Vec<String>, RefusedStatement> {
        match name.0.as_slice() {
            [ObjectNamePart::Identifier(ident)] => Ok(vec![self.name(ident)?]),
            _ => self.parts(name),
        }
    }

    /// Whether a folded name is that of the schema which accesses leave out.
    pub(super) fn is_usual(&self, schema: &str) -> bool {
        match self.dialect {
            SqlDialect::MariaDb => schema == self.schema.to_lowercase(),
            SqlDialect::Postgres | SqlDialect::Sqlite => schema == self.schema,
        }
    }

    /// A table by its name.
    pub(super) fn table(&self, name: &ObjectName) -> Result<TablePath, RefusedStatement> {
        let mut parts = self.parts(name)?;
        let name_parts = name.0.as_slice();
        let (Some(name), schema) = (parts.pop(), parts.pop()) else {
            return Err(RefusedStatement::new("a table without a name"));
        };
        if !parts.is_empty() {
            return Err(RefusedStatement::new(format!(
                "`{}` names a table of another database",
                shown(&name)
            )));
        }
        // To most servers `CRM` is another database than `crm`, which accesses leave out.
        let own = |ident: &Ident| {
            ident.value != self.schema && ident.value.to_lowercase() == self.schema.to_lowercase()
        };
        if self.dialect == SqlDialect::MariaDb
            && let [ObjectNamePart::Identifier(schema), _] = name_parts
            && own(schema)
        {
            return Err(RefusedStatement::new(format!(
                "write the database's name as the source has it, `{}`, or leave it out",
                shown(&self.schema)
            )));
        }
        // An operator who names such a schema as the source's own wants it read.
        let system = |schema: &str| {
            !self.is_usual(schema)
                && (SYSTEM_SCHEMAS.contains(&schema) || schema.starts_with("pg_"))
        };
        let refused = match (self.dialect, schema.as_deref()) {
            (_, Some(schema)) if system(schema) => true,
            (SqlDialect::Sqlite, Some(schema)) if schema != self.schema => true,
            // The server looks for it among its own tables first.
            (SqlDialect::Postgres, None) => name.starts_with("pg_") && self.schema != "pg_catalog",
            (SqlDialect::Sqlite, _) => {
                name.starts_with("sqlite_") || name.starts_with("pragma_") || name == "dbstat"
            }
            (SqlDialect::Postgres | SqlDialect::MariaDb, _) => false,
        };
        if refused {
            let allowed = match (self.dialect, schema.as_deref()) {
                (SqlDialect::Postgres, Some(schema @ ("information_schema" | "pg_catalog"))) => {
                    format!(
                        "; the operator can make a source of its own with `schema = \"{schema}\"`"
                    )
                }
                _ => String::new(),
            };
            let name = shown(&name);
            return Err(RefusedStatement::new(format!(
                "`{name}` is a table of the system, and statements do not read those; the action \
                 `schema` lists tables and columns{allowed}"
            )));
        }
        let schema = schema.filter(|schema| !self.is_usual(schema));
        Ok(TablePath { schema, name })
    }
}

impl TablePath {
    /// The table in an access.
    pub(super) fn written(&self) -> String {
        written_table(self.schema.as_deref(), &self.name)
    }
}

/// A table in an access, with its schema unless that is the usual one.
pub(crate) fn written_table(schema: Option<&str>, name: &str) -> String {
    match schema {
        Some(schema) => format!("{}.{}", quoted(schema), quoted(name)),
        None => quoted(name),
    }
}

/// A name in an access: quoted where it could be taken for something else.
pub(crate) fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '-' | '#');
    if !name.is_empty() && name.chars().all(plain) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A letter that MariaDB folds to one of a to z, and characters it has no names of.
fn is_like_another(c: char) -> bool {
    let folded = |mut letters: std::char::ToUppercase| match (letters.next(), letters.next()) {
        (Some(letter), None) => letter.is_ascii(),
        _ => false,
    };
    let lower = c.to_lowercase().next();
    !c.is_ascii()
        && (c > '\u{ffff}' || folded(c.to_uppercase()) || lower.is_some_and(|c| c.is_ascii()))
}

/// Characters that turn the direction of text or take no room.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}')
}
