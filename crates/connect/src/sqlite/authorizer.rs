//! Answers SQLite's question about every table, column and function that it compiles into a
//! statement: only what was read from the statement's text, which is what the plan names, and what the
//! views among it show.
//!
//! SQLite says within what a column is read, and says it alike for a view and for a name that the
//! statement gives by `WITH`. So that name counts for nothing by itself: what a view reads is asked of
//! SQLite beforehand (`objects.rs`), and a statement that gives a view's name to a query of its own is
//! refused.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use haft_contract::{Access, ErrorKind, ops::OpsError};
use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};

use super::{
    failed,
    objects::{FileObjects, ObjectKind, ViewedColumns},
    with_names::with_names,
};
use crate::sql::{SqlDialect, SqlReading, is_harmless};

/// Functions that make a table. Other functions share their names with tables people have: `log`,
/// `date`, `total`.
const TABLE_FUNCTIONS: [&str; 5] = [
    "generate_series",
    "json_each",
    "json_tree",
    "jsonb_each",
    "jsonb_tree",
];

/// Operators that are told as functions and only compute: virtual tables have the one.
const OPERATORS: [&str; 1] = ["match"];

/// Settings that virtual tables read for themselves.
const OWN_PRAGMAS: [&str; 2] = ["data_version", "page_size"];

/// What one statement may touch.
#[derive(Debug, Clone)]
pub(super) struct Allowed {
    /// `table.column`, `table.*` and `table.(rows)` that are read.
    read: BTreeSet<String>,
    /// The same that are written.
    written: BTreeSet<String>,
    /// Functions besides the built-in ones.
    functions: BTreeSet<String>,
}

/// What one statement may touch in a file.
struct Fence {
    allowed: Allowed,
    objects: FileObjects,
    shown: ViewedColumns,
    /// Names that the statement gives by `WITH`.
    given: BTreeSet<String>,
    /// Set once the statement is compiled: from then on virtual tables run statements of their own.
    compiled: Arc<AtomicBool>,
}

impl Allowed {
    pub(super) fn by(source: &str, reading: &SqlReading) -> Self {
        let mut allowed = Self {
            read: BTreeSet::new(),
            written: BTreeSet::new(),
            functions: BTreeSet::new(),
        };
        let prefix = format!("{source}.");
        for access in &reading.accesses {
            let Access::Database { source, writes } = access else {
                continue;
            };
            let what = source.strip_prefix(&prefix).unwrap_or_default().to_owned();
            match what.strip_suffix("()") {
                Some(function) if !function.is_empty() => {
                    allowed.functions.insert(function.to_owned());
                }
                Some(_) | None if *writes => {
                    allowed.written.insert(what);
                }
                Some(_) | None => {
                    allowed.read.insert(what);
                }
            }
        }
        allowed
    }

    /// Also lets a statement say which rows it changed, by these columns.
    pub(super) fn telling(mut self, table: &str, key: &[String]) -> Self {
        let key = key.iter();
        let key = key.map(|column| format!("{}.{}", written(table), written(column)));
        self.read.extend(key);
        self
    }

    /// Sets SQLite's authorizer, after a look at what the file has. The flag is to be set once the
    /// statement is compiled.
    pub(super) fn guard(
        &self,
        connection: &Connection,
        statement: &str,
    ) -> Result<Arc<AtomicBool>, OpsError> {
        let objects = FileObjects::of(connection).map_err(|error| failed(&error))?;
        if let Some((shadow, owner)) = self.shadow(&objects) {
            return Err(refused(format!(
                "`{shadow}` is where `{owner}` keeps its data; ask `{owner}`"
            )));
        }
        let shown = self.shown(connection, &objects);
        let shown = shown.map_err(|error| failed(&error))?;
        let given = with_names(statement)
            .ok_or_else(|| refused("the statement could not be read surely".to_owned()))?;
        if let Some(name) = given.iter().find(|name| objects.is_taken(name)) {
            return Err(refused(format!(
                "`{name}` is a table or a view, and the statement gives the name to a query of its \
                 own; choose another name there"
            )));
        }
        if let Some(name) = given.iter().find(|name| shown.is_within(name)) {
            return Err(refused(format!(
                "a view that the statement reads has a query named `{name}`, and so has the \
                 statement; choose another name there"
            )));
        }
        let compiled = Arc::new(AtomicBool::new(false));
        let fence = Fence {
            allowed: self.clone(),
            objects,
            shown,
            given,
            compiled: Arc::clone(&compiled),
        };
        let authorize = connection.authorizer(Some(move |context: AuthContext<'_>| {
            if fence.allows(&context) {
                Authorization::Allow
            } else {
                Authorization::Deny
            }
        }));
        authorize.map_err(|error| failed(&error))?;
        Ok(compiled)
    }

    /// Whether a virtual table is written to: what it keeps its data in changes with it.
    pub(super) fn writes_to_virtual(&self, connection: &Connection) -> Result<bool, OpsError> {
        let objects = FileObjects::of(connection).map_err(|error| failed(&error))?;
        let mut tables = objects.all(ObjectKind::Virtual);
        Ok(tables.any(|table| self.writes_to(table)))
    }

    /// A table named in the plan in which a virtual one keeps its data, and that one.
    fn shadow<'o>(&self, objects: &'o FileObjects) -> Option<(&'o str, &'o str)> {
        let mut shadows = objects.all(ObjectKind::Shadow);
        let shadow = shadows.find(|shadow| self.touches(shadow))?;
        Some((
            shadow,
            objects.virtual_of(shadow).unwrap_or("another table"),
        ))
    }

    /// What views and virtual tables named in the plan read themselves.
    fn shown(
        &self,
        connection: &Connection,
        objects: &FileObjects,
    ) -> rusqlite::Result<ViewedColumns> {
        let mut shown = ViewedColumns::default();
        for kind in [ObjectKind::View, ObjectKind::Virtual] {
            for name in objects.all(kind).filter(|name| self.touches(name)) {
                shown.add(objects.shown_by(connection, name)?);
            }
        }
        Ok(shown)
    }

    fn touches(&self, table: &str) -> bool {
        let table = written(table);
        let mut both = self.read.iter().chain(&self.written);
        both.any(|touched| is_of(touched, &table))
    }

    fn reads(&self, table: &str, column: &str) -> bool {
        let table = written(table);
        let whole = format!("{table}.*");
        let named = format!("{table}.{}", written(column));
        let both = [&self.read, &self.written];
        both.iter().any(|set| {
            set.contains(&whole)
                || set.contains(&named)
                // SQLite names no column where only rows are counted.
                || column.is_empty() && set.iter().any(|read| is_of(read, &table))
        })
    }

    fn writes_to(&self, table: &str) -> bool {
        let table = written(table);
        self.written.iter().any(|written| is_of(written, &table))
    }
}

impl Fence {
    /// Whether SQLite may do this.
    fn allows(&self, context: &AuthContext<'_>) -> bool {
        // There is no other database, and nothing temporary.
        if context
            .database_name
            .is_some_and(|name| !name.eq_ignore_ascii_case("main"))
        {
            return false;
        }
        // A trigger may do nothing: what it does is in no plan.
        let direct = context.accessor.is_none();
        match &context.action {
            AuthAction::Select | AuthAction::Recursive => true,
            AuthAction::Transaction { .. } => direct,
            AuthAction::Function { function_name } => {
                let name = function_name.to_lowercase();
                is_harmless(SqlDialect::Sqlite, &name)
                    || OPERATORS.contains(&name.as_str())
                    || self.allowed.functions.contains(&name)
            }
            AuthAction::Read {
                table_name,
                column_name,
            } => self.allows_reading(&table_name.to_lowercase(), column_name, context.accessor),
            AuthAction::Insert { table_name } => {
                direct && (self.allowed.writes_to(table_name) || self.keeps_written(table_name))
            }
            AuthAction::Delete { table_name } => {
                let whole = format!("{}.*", written(table_name));
                direct && (self.allowed.written.contains(&whole) || self.keeps_written(table_name))
            }
            AuthAction::Update {
                table_name,
                column_name,
            } => {
                let table = written(table_name);
                let column = format!("{table}.{}", written(column_name));
                // An `INSERT` that names no columns, and sets some of them on a conflict.
                let whole = format!("{table}.*");
                let named = [column, whole];
                let named = named.iter().any(|name| self.allowed.written.contains(name));
                direct && (named || self.keeps_written(table_name))
            }
            AuthAction::Pragma {
                pragma_name,
                pragma_value: None,
            } => direct && self.is_compiled() && OWN_PRAGMAS.contains(pragma_name),
            _ => false,
        }
    }

    /// Whether a column may be read, or without one the number of rows.
    fn allows_reading(&self, table: &str, column: &str, within: Option<&str>) -> bool {
        match self.objects.kind(table) {
            Some(ObjectKind::Shadow) => within.is_none() && self.keeps_touched(table),
            // Of itself too: to sort by rank, for one.
            Some(ObjectKind::Virtual) if within.is_none() && self.is_running(table) => true,
            Some(ObjectKind::Table | ObjectKind::View | ObjectKind::Virtual) => {
                let shown = match within {
                    _ if column.is_empty() => self.shown.counts(table),
                    Some(view) => self.shown.reads(view, table, column),
                    None => false,
                };
                shown || self.allowed.reads(table, column)
            }
            None => {
                // SQLite names no column of what the statement itself gives.
                let given = self.given.contains(table) || self.shown.counts(table);
                TABLE_FUNCTIONS.contains(&table) || column.is_empty() && given
            }
        }
    }

    fn is_compiled(&self) -> bool {
        self.compiled.load(Ordering::Relaxed)
    }

    /// Whether this virtual table runs statements of its own: one that the plan names, or that a view
    /// in it shows.
    fn is_running(&self, table: &str) -> bool {
        let shown = || self.shown.tables().any(|shown| shown == table);
        self.is_compiled() && (self.allowed.touches(table) || shown())
    }

    /// Whether a running virtual table keeps its data here.
    fn keeps_touched(&self, shadow: &str) -> bool {
        let owner = self.objects.virtual_of(shadow);
        owner.is_some_and(|owner| self.is_running(owner))
    }

    /// Whether a running virtual table that the plan writes to keeps its data here.
    fn keeps_written(&self, shadow: &str) -> bool {
        let owner = self.objects.virtual_of(&shadow.to_lowercase());
        self.is_compiled() && owner.is_some_and(|owner| self.allowed.writes_to(owner))
    }
}

fn refused(why: String) -> OpsError {
    OpsError::new(ErrorKind::Denied, why)
}

/// A name as accesses have it.
fn written(name: &str) -> String {
    crate::sql::quoted(&name.to_lowercase())
}

/// Whether something read is of this table.
fn is_of(read: &str, table: &str) -> bool {
    let rest = read.strip_prefix(table);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// The fence alone: each statement here is compiled under the plan of another one, as if the first
/// fence had misread it.
#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use rusqlite::OpenFlags;
    use tempfile::TempDir;

    use super::*;
    use crate::sql::{ReadingRules, read};

    const TABLES: &str = "
        CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, email TEXT, active INTEGER);
        CREATE TABLE vault (id INTEGER PRIMARY KEY, secret TEXT);
        CREATE TABLE log (what TEXT);
        CREATE TABLE \"Über\" (a TEXT);
        CREATE TABLE \"über\" (a TEXT);
        CREATE VIEW people AS SELECT id, name FROM users WHERE active;
        CREATE VIEW outer_people AS SELECT name FROM people;
        CREATE VIEW recent AS WITH picked AS (SELECT name FROM users) SELECT name FROM picked;
        CREATE VIEW counted AS SELECT count(*) AS n FROM users;
        CREATE VIEW ones AS SELECT 1 AS one FROM users;
        CREATE VIRTUAL TABLE docs USING fts5(title, body);
        CREATE VIRTUAL TABLE docs_old USING fts5(title);
        CREATE VIRTUAL TABLE old_text USING fts4(title);
        CREATE VIRTUAL TABLE places USING rtree(id, x0, x1);
        CREATE VIEW titles AS SELECT title FROM docs;
        INSERT INTO users VALUES (1, 'a', 'SECRET', 1);
        INSERT INTO vault VALUES (1, 'SECRET');
        INSERT INTO docs VALUES ('one', 'two'); INSERT INTO docs_old VALUES ('one');
        INSERT INTO old_text VALUES ('one'); INSERT INTO places VALUES (1, 0, 2);";

    /// A file with the tables.
    static FILE: LazyLock<TempDir> = LazyLock::new(|| {
        let folder = tempfile::tempdir().unwrap();
        let made = Connection::open(folder.path().join("a.db")).unwrap();
        let tables = format!("PRAGMA synchronous = OFF; BEGIN; {TABLES} COMMIT");
        made.execute_batch(&tables).unwrap();
        folder
    });

    /// The first value of a statement under the plan of another.
    fn first(plan: &str, statement: &str) -> Result<String, String> {
        let rules = ReadingRules {
            source: "shop".to_owned(),
            dialect: SqlDialect::Sqlite,
            schema: "main".to_owned(),
            functions: BTreeSet::new(),
            writable: false,
            masks: crate::sql::ColumnMasks::default(),
        };
        let allowed = Allowed::by("shop", &read(&rules, plan).unwrap());
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
        let file = FILE.path().join("a.db");
        let connection = Connection::open_with_flags(file, flags).unwrap();
        let compiled = allowed.guard(&connection, statement);
        let compiled = compiled.map_err(|error| error.message().to_owned())?;
        let mut statement = connection
            .prepare(statement)
            .map_err(|error| error.to_string())?;
        compiled.store(true, Ordering::Relaxed);
        let mut rows = statement.query([]).map_err(|error| error.to_string())?;
        match rows.next() {
            Ok(Some(row)) => Ok(format!("{:?}", row.get_ref(0).unwrap())),
            Ok(None) => Ok("no row".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[track_caller]
    fn refused(plan: &str, statement: &str, why: &str) {
        let error = first(plan, statement).unwrap_err();
        assert!(error.contains(why), "{statement}: {error}");
    }

    #[test]
    fn a_name_given_by_with_reads_nothing_that_is_not_planned() {
        let users = "SELECT * FROM users";
        for statement in [
            "WITH users AS (SELECT secret FROM vault) SELECT * FROM users",
            "WITH USERS(secret) AS (SELECT secret FROM vault) SELECT * FROM users",
            "WITH 'users' AS (SELECT secret FROM vault) SELECT * FROM users",
            "WITH [users] AS MATERIALIZED (SELECT secret FROM vault) SELECT * FROM users",
            "WITH RECURSIVE users(n) AS (SELECT secret FROM vault UNION SELECT n FROM users) SELECT n FROM users",
            "SELECT * FROM (WITH users AS (SELECT secret FROM vault) SELECT * FROM users)",
            "WITH a AS (WITH users AS (SELECT secret FROM vault) SELECT * FROM users) SELECT * FROM a",
            "SELECT (WITH users AS (SELECT secret FROM vault) SELECT secret FROM users) FROM main.users",
        ] {
            refused(users, statement, "choose another name");
        }
        let people = "SELECT name FROM people";
        let hidden = "WITH people AS (SELECT email FROM users) SELECT * FROM people";
        refused(people, hidden, "choose another name");
        // The name within the view, which SQLite asks about in the same words.
        let recent = "SELECT name FROM recent";
        let hidden = "WITH picked AS (SELECT name FROM users) SELECT * FROM picked";
        refused(recent, hidden, "a view that the statement reads");
        for statement in [
            "WITH a AS (SELECT secret FROM vault) SELECT * FROM a",
            "SELECT secret FROM vault AS users",
            "SELECT * FROM (SELECT secret FROM vault) AS users",
        ] {
            refused(users, statement, "vault.secret");
            refused(people, statement, "vault.secret");
        }
    }

    #[test]
    fn a_view_reads_what_it_shows_and_nothing_more() {
        for (view, statement) in [
            (
                "SELECT name FROM people",
                "SELECT p.name FROM people AS p WHERE p.name > ''",
            ),
            ("SELECT count(*) FROM people", "SELECT count(*) FROM people"),
            (
                "SELECT name FROM outer_people",
                "SELECT name FROM outer_people",
            ),
            ("SELECT name FROM recent", "SELECT max(name) FROM recent"),
            ("SELECT n FROM counted", "SELECT n FROM counted"),
            ("SELECT one FROM ones", "SELECT one FROM ones"),
            ("SELECT one FROM ones", "SELECT count(*) FROM ones"),
            (
                "SELECT one FROM ones",
                "SELECT count(one) FROM ones AS a, (SELECT 1) AS b",
            ),
            (
                "SELECT name FROM people",
                "WITH p AS (SELECT name FROM people) SELECT name FROM p",
            ),
            (
                "SELECT name FROM people",
                "WITH p AS (SELECT name FROM people) SELECT count(*) FROM p",
            ),
            (
                "SELECT name FROM people",
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3)
                SELECT count(*) FROM n, people",
            ),
            ("SELECT title FROM titles", "SELECT title FROM titles"),
            ("SELECT 1", "SELECT value FROM json_each('[1]')"),
        ] {
            if let Err(error) = first(view, statement) {
                panic!("{statement}: {error}");
            }
        }
        let people = "SELECT name FROM people";
        refused(people, "SELECT email FROM users", "users.email");
        refused(people, "SELECT name FROM users", "users.name");
        refused(
            people,
            "SELECT p.name, u.name FROM people p, users u",
            "users.name",
        );
        refused(
            people,
            "SELECT (SELECT email FROM users) FROM people",
            "users.email",
        );
        refused("SELECT n FROM counted", "SELECT id FROM users", "users.id");
    }

    #[test]
    fn tables_whose_names_are_functions_or_of_the_library_are_not_open() {
        refused("SELECT 1", "SELECT what FROM log", "log.what");
        refused("SELECT 1", "SELECT count(*) FROM log", "not authorized");
        refused("SELECT 1", "SELECT count(*) FROM vault", "not authorized");
        refused("SELECT 1", "SELECT count(*) FROM dbstat", "not authorized");
        refused(
            "SELECT 1",
            "SELECT count(*) FROM pragma_table_list",
            "not authorized",
        );
        refused(
            "SELECT 1",
            "SELECT name FROM sqlite_schema",
            "sqlite_master.name",
        );
        refused(
            "SELECT 1",
            "SELECT name FROM temp.sqlite_schema",
            "prohibited",
        );
        refused(
            "SELECT 1",
            "SELECT count(*) FROM \"Über\"",
            "not authorized",
        );
        // A plan does not tell the two apart.
        refused("SELECT a FROM \"über\"", "SELECT a FROM \"Über\"", "Über.a");
        let window = "SELECT count(*) OVER dbstat FROM dbstat WINDOW dbstat AS ()";
        refused("SELECT 1", window, "choose another name");
    }

    #[test]
    fn a_virtual_table_is_asked_and_what_it_keeps_its_data_in_is_not() {
        let docs = "SELECT * FROM docs";
        for shadow in [
            "docs_content",
            "docs_data",
            "docs_idx",
            "docs_docsize",
            "docs_config",
            "docs_old_content",
            "old_text_content",
            "old_text_segments",
            "old_text_segdir",
            "places_node",
            "places_rowid",
            "places_parent",
        ] {
            let statement = format!("SELECT * FROM {shadow}");
            refused(&statement, &statement, "keeps its data");
            refused(docs, &statement, "prohibited");
            let quoted = format!("SELECT * FROM main.[{}]", shadow.to_uppercase());
            refused("SELECT * FROM places", &quoted, "prohibited");
            refused(
                docs,
                &format!("SELECT count(*) FROM {shadow}"),
                "not authorized",
            );
        }
        for (plan, statement) in [
            (
                docs,
                "SELECT title, rank FROM docs WHERE docs MATCH 'one' ORDER BY rank",
            ),
            (
                docs,
                "SELECT snippet(docs, 0, '[', ']', '', 5), highlight(docs, 1, '', '') FROM docs('one')",
            ),
            (docs, "SELECT count(*) FROM docs"),
            ("SELECT title FROM titles", "SELECT title FROM titles"),
            (
                "SELECT * FROM old_text",
                "SELECT title FROM old_text WHERE old_text MATCH 'one'",
            ),
            (
                "SELECT * FROM places",
                "SELECT id FROM places WHERE x0 < 1 AND x1 > 1",
            ),
        ] {
            let found = first(plan, statement);
            assert!(
                found.as_ref().is_ok_and(|found| found != "no row"),
                "{statement}: {found:?}"
            );
        }
    }
}
