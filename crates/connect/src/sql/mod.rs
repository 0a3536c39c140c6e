//! What a statement touches, told from its text. The first of three fences: what is not understood
//! whole is refused, and everything that is understood must be on a list of harmless things.
//!
//! Nothing here asks a database. Read next: `text.rs` for what is refused before parsing,
//! `canonical.rs` and `canonical_mariadb.rs` for what is sent instead of the text that came,
//! `statement.rs` for the kinds of statements, `query.rs`, `from_clause.rs`, `expression.rs` and
//! `calls.rs` for the walk over a statement's tree, `scope.rs` for whose column a name is.

mod calls;
mod canonical;
mod canonical_mariadb;
mod changed_table;
mod column_types;
mod expression;
mod from_clause;
mod functions;
mod masks;
mod name;
mod query;
mod refusal;
mod reserved_words;
mod scope;
mod statement;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_mariadb;
mod text;
mod touched;

use std::collections::BTreeSet;

use haft_contract::{Access, ops::StatementReading};
use sqlparser::{
    dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect},
    parser::Parser,
    tokenizer::{Token, TokenWithSpan},
};

pub(crate) use self::canonical_mariadb::UpdatedRows;
pub(crate) use self::changed_table::{ChangeKind, ChangedTable, read_row_change};
#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use self::functions::is_harmless;
pub use self::masks::ColumnMasks;
pub(crate) use self::masks::MaskedResult;
#[cfg(feature = "sqlite")]
pub(crate) use self::name::quoted;
#[cfg(feature = "postgres")]
pub(crate) use self::name::written_table;
pub use self::{refusal::RefusedStatement, touched::CalledNames};
use self::{scope::Scopes, touched::TouchedObjects};

/// The longest statement, in bytes.
pub const MAX_STATEMENT_BYTES: usize = 64 * 1024;

/// The most words and signs in a statement. The tree of a chain of operators is as deep as the chain
/// is long.
pub const MAX_TOKENS: usize = 20_000;

/// How deep expressions and queries may nest.
const MAX_DEPTH: usize = 100;

/// From how many words and signs on a statement is read on a stack of its own.
const TOKENS_ON_THIS_STACK: usize = 400;

/// The size of that stack: at most this much of it is ever touched by a tree of `MAX_TOKENS`.
const STACK_BYTES: usize = 256 * 1024 * 1024;

/// Whose SQL it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlDialect {
    /// PostgreSQL.
    Postgres,
    /// SQLite.
    Sqlite,
    /// MariaDB and MySQL.
    MariaDb,
}

impl SqlDialect {
    fn parser(self) -> &'static dyn Dialect {
        match self {
            Self::Postgres => &PostgreSqlDialect {},
            Self::Sqlite => &SQLiteDialect {},
            Self::MariaDb => &MySqlDialect {},
        }
    }
}

/// What a reader knows of a source besides the statement.
#[derive(Debug, Clone)]
pub struct ReadingRules {
    /// The configured name, which accesses begin with.
    pub source: String,
    /// Whose SQL it speaks.
    pub dialect: SqlDialect,
    /// The schema that names without one are in; accesses leave it out.
    pub schema: String,
    /// Functions besides the built-in ones that the operator lists.
    pub functions: BTreeSet<String>,
    /// Whether statements that change data are taken.
    pub writable: bool,
    /// Columns that queries return masked and do nothing else with.
    pub masks: ColumnMasks,
}

/// What was read from one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlReading {
    /// What it touches, sorted.
    pub accesses: Vec<Access>,
    /// Whether it changes data.
    pub writes: bool,
    /// What only the database can tell from calls of functions that it has.
    pub called: CalledNames,
    /// Which columns of its result are masked.
    pub(crate) masked: MaskedResult,
    /// What it changes, if it does.
    pub(crate) change: Option<ChangedTable>,
    /// Which words find the rows of an `UPDATE`, where the database does not say which those are.
    pub(crate) updated: Option<UpdatedRows>,
    /// The statement to run, without what follows its last word: of PostgreSQL's and MariaDB's, the
    /// words that were read, written once more.
    pub statement: String,
}

impl SqlReading {
    pub(crate) fn into_parts(self) -> StatementReading {
        StatementReading {
            accesses: self.accesses,
            writes: self.writes,
            functions: self.called.listed.into_iter().collect(),
        }
    }
}

/// Reads one statement.
pub fn read(rules: &ReadingRules, statement: &str) -> Result<SqlReading, RefusedStatement> {
    if statement.len() > MAX_STATEMENT_BYTES {
        return Err(RefusedStatement::too_long());
    }
    let mut tokens = text::tokens(rules.dialect, statement)?;
    if rules.dialect == SqlDialect::MariaDb {
        tokens = canonical_mariadb::with_signs(tokens);
    }
    if tokens.len() > MAX_TOKENS {
        return Err(RefusedStatement::too_long());
    }
    let canonical = match rules.dialect {
        SqlDialect::Postgres => (canonical::write(statement, &tokens)?, None),
        SqlDialect::MariaDb => canonical_mariadb::write(statement, &tokens)?,
        SqlDialect::Sqlite => {
            let canonical = canonical::without_end(statement, &tokens);
            (canonical.to_owned(), None)
        }
    };
    if tokens.len() <= TOKENS_ON_THIS_STACK {
        return read_tokens(rules, tokens, canonical);
    }
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || read_tokens(rules, tokens, canonical));
        let read = reading.ok().and_then(|reading| reading.join().ok());
        read.unwrap_or_else(|| Err(RefusedStatement::new("the statement could not be read")))
    })
}

fn read_tokens(
    rules: &ReadingRules,
    tokens: Vec<TokenWithSpan>,
    (canonical, updated): (String, Option<UpdatedRows>),
) -> Result<SqlReading, RefusedStatement> {
    let is_question_mark = |token: &TokenWithSpan| matches!(token.token, Token::Question);
    let has_question_mark = tokens.iter().any(is_question_mark);
    let parser = Parser::new(rules.dialect.parser()).with_recursion_limit(MAX_DEPTH);
    let mut parser = parser.with_tokens_with_locations(tokens);
    let statements = parser.parse_statements().map_err(|error| {
        let refused = RefusedStatement::parse(error);
        match rules.dialect {
            SqlDialect::Postgres if has_question_mark => {
                refused.with_hint("placeholders are written `$1`, `$2` in this database, not `?`")
            }
            _ => refused,
        }
    })?;
    let [statement] = statements.as_slice() else {
        return Err(match statements.len() {
            0 => RefusedStatement::new("there is no statement"),
            _ => RefusedStatement::new("there is more than one statement")
                .with_hint("send each in a call of its own"),
        });
    };
    let mut reader = Reader {
        rules,
        touched: TouchedObjects::masking(&rules.masks),
        scopes: Scopes::default(),
        is_outermost: false,
    };
    let change = reader.statement(statement)?;
    let masked = reader.touched.masked.result()?;
    Ok(SqlReading {
        masked,
        accesses: reader.touched.accesses(&rules.source),
        writes: change.is_some(),
        change,
        called: reader.touched.into_called(),
        statement: canonical,
        updated,
    })
}

/// Walks the tree of one statement and notes what it touches.
struct Reader<'r> {
    rules: &'r ReadingRules,
    touched: TouchedObjects,
    scopes: Scopes,
    /// Whether the query that comes next is the statement itself, of which the result goes out.
    is_outermost: bool,
}

/// What a walk over a part of the tree gives: the part is known and harmless, or a refusal.
type Walked = Result<(), RefusedStatement>;
