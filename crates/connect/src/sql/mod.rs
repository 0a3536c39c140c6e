//! What a statement touches, told from its text. The first of three fences: what is not understood
//! whole is refused, and everything that is understood must be on a list of harmless things.
//!
//! Nothing here asks a database. Read next: `text.rs` for what is refused before parsing,
//! `canonical.rs` for what is sent instead of the text that came, `statement.rs` for the kinds of
//! statements, `query.rs`, `from_clause.rs`, `expression.rs` and `calls.rs` for the walk over a
//! statement's tree, `scope.rs` for whose column a name is.

mod calls;
mod canonical;
mod column_types;
mod expression;
mod from_clause;
mod functions;
mod name;
mod query;
mod refusal;
mod reserved_words;
mod scope;
mod statement;
#[cfg(test)]
mod tests;
mod text;
mod touched;

use std::collections::BTreeSet;

use haft_contract::{Access, ops::StatementReading};
use sqlparser::{
    dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect},
    parser::Parser,
    tokenizer::TokenWithSpan,
};

#[cfg(any(feature = "postgres", feature = "sqlite"))]
pub(crate) use self::functions::is_harmless;
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
    /// The statement to run: of PostgreSQL's, the words that were read, written once more.
    pub statement: String,
}

impl SqlReading {
    pub(crate) fn into_parts(self) -> StatementReading {
        StatementReading {
            accesses: self.accesses,
            writes: self.writes,
        }
    }
}

/// Reads one statement.
pub fn read(rules: &ReadingRules, statement: &str) -> Result<SqlReading, RefusedStatement> {
    if statement.len() > MAX_STATEMENT_BYTES {
        return Err(RefusedStatement::too_long());
    }
    let tokens = text::tokens(rules.dialect, statement)?;
    if tokens.len() > MAX_TOKENS {
        return Err(RefusedStatement::too_long());
    }
    let canonical = match rules.dialect {
        SqlDialect::Postgres => canonical::write(statement, &tokens)?,
        SqlDialect::Sqlite | SqlDialect::MariaDb => statement.to_owned(),
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
    canonical: String,
) -> Result<SqlReading, RefusedStatement> {
    let parser = Parser::new(rules.dialect.parser()).with_recursion_limit(MAX_DEPTH);
    let mut parser = parser.with_tokens_with_locations(tokens);
    let statements = parser.parse_statements().map_err(RefusedStatement::parse)?;
    let [statement] = statements.as_slice() else {
        return Err(RefusedStatement::new(match statements.len() {
            0 => "there is no statement",
            _ => "there is more than one statement; send each in a call of its own",
        }));
    };
    let mut reader = Reader {
        rules,
        touched: TouchedObjects::default(),
        scopes: Scopes::default(),
    };
    let writes = reader.statement(statement)?;
    Ok(SqlReading {
        accesses: reader.touched.accesses(&rules.source),
        writes,
        called: reader.touched.into_called(),
        statement: canonical,
    })
}

/// Walks the tree of one statement and notes what it touches.
struct Reader<'r> {
    rules: &'r ReadingRules,
    touched: TouchedObjects,
    scopes: Scopes,
}

/// What a walk over a part of the tree gives: the part is known and harmless, or a refusal.
type Walked = Result<(), RefusedStatement>;
