//! What the file has: tables, views, virtual tables and the tables these keep their data in; and what
//! a view itself reads.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::{
    Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};

/// Every table and view of the file itself. There is no other schema: nothing can be attached, and
/// nothing temporary made.
const OBJECTS: &str = "SELECT name, type FROM pragma_table_list WHERE schema = 'main'";

/// Tables that SQLite makes up: their names are no object's of the file.
const MODULES: &str = "SELECT name FROM pragma_module_list";

/// What a name of the file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Table,
    View,
    Virtual,
    /// Where a virtual table keeps its data.
    Shadow,
}

/// Every table and view, by its name in lower case as the plan has it.
#[derive(Debug, Clone, Default)]
pub(super) struct FileObjects {
    objects: BTreeMap<String, Object>,
    modules: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Object {
    /// As SQLite has it.
    name: String,
    kind: ObjectKind,
    /// Whether another name differs only in the case of letters beyond a to z, which SQLite tells
    /// apart and a plan does not.
    twice: bool,
}

impl FileObjects {
    /// Looks, which must be before an authorizer is set.
    pub(super) fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut found = Self::default();
        let mut statement = connection.prepare(OBJECTS)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
            let kind = match kind.as_str() {
                "view" => ObjectKind::View,
                "virtual" => ObjectKind::Virtual,
                "shadow" => ObjectKind::Shadow,
                _ => ObjectKind::Table,
            };
            let key = name.to_lowercase();
            let twice = found.objects.contains_key(&key);
            found.objects.insert(key, Object { name, kind, twice });
        }
        drop(rows);
        let mut statement = connection.prepare(MODULES)?;
        let modules = statement.query_map([], |row| row.get::<_, String>(0))?;
        for module in modules {
            found.modules.insert(module?.to_lowercase());
        }
        Ok(found)
    }

    /// What a name in lower case is.
    pub(super) fn kind(&self, name: &str) -> Option<ObjectKind> {
        let object = self.objects.get(name)?;
        (!object.twice).then_some(object.kind)
    }

    /// Whether SQLite knows the name, as an object of the file or one that it makes up.
    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.objects.contains_key(name)
            || self.modules.contains(name)
            || name.starts_with("sqlite_")
            || name.starts_with("pragma_")
    }

    /// Every name that is one kind of object, in lower case.
    pub(super) fn all(&self, kind: ObjectKind) -> impl Iterator<Item = &str> {
        let objects = self.objects.iter();
        let wanted = objects.filter(move |(_, object)| object.kind == kind && !object.twice);
        wanted.map(|(name, _)| name.as_str())
    }

    /// The virtual table that keeps its data in this one.
    pub(super) fn virtual_of(&self, shadow: &str) -> Option<&str> {
        if self.kind(shadow) != Some(ObjectKind::Shadow) {
            return None;
        }
        let owners = self.all(ObjectKind::Virtual);
        let owners = owners.filter(|owner| {
            let rest = shadow.strip_prefix(owner);
            rest.is_some_and(|rest| rest.starts_with('_'))
        });
        owners.max_by_key(|owner| owner.len())
    }

    /// Compiles a query for everything of a view or a virtual table, so that SQLite says what is read
    /// for it, and has a virtual table's own statements ready.
    pub(super) fn shown_by(
        &self,
        connection: &Connection,
        name: &str,
    ) -> rusqlite::Result<ViewedColumns> {
        let Some(object) = self.objects.get(name) else {
            return Ok(ViewedColumns::default());
        };
        let shown = Arc::new(Mutex::new(ViewedColumns::default()));
        let note = Arc::clone(&shown);
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            let mut shown = note.lock().unwrap_or_else(PoisonError::into_inner);
            shown.note(&context);
            Authorization::Allow
        }))?;
        let name = object.name.replace('"', "\"\"");
        let compiled = connection.prepare(&format!("SELECT * FROM main.\"{name}\""));
        drop(compiled);
        connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>)?;
        let shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(shown.clone())
    }
}

/// What views read, all names in lower case.
#[derive(Debug, Clone, Default)]
pub(super) struct ViewedColumns {
    /// Within which view or name of `WITH`, the table, and the column.
    columns: BTreeSet<(String, String, String)>,
    /// Tables of which only the rows count.
    rows: BTreeSet<String>,
}

impl ViewedColumns {
    fn note(&mut self, context: &AuthContext<'_>) {
        let AuthAction::Read {
            table_name,
            column_name,
        } = context.action
        else {
            return;
        };
        let (table, column) = (table_name.to_lowercase(), column_name.to_lowercase());
        if column.is_empty() {
            self.rows.insert(table);
        } else if let Some(within) = context.accessor {
            self.columns.insert((within.to_lowercase(), table, column));
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.columns.extend(other.columns);
        self.rows.extend(other.rows);
    }

    /// Whether a view reads this.
    pub(super) fn reads(&self, within: &str, table: &str, column: &str) -> bool {
        let read = (
            within.to_lowercase(),
            table.to_lowercase(),
            column.to_lowercase(),
        );
        self.columns.contains(&read)
    }

    /// Whether a view shows how many rows a table has. SQLite asks this within the view or outside,
    /// as it happens to join the two.
    pub(super) fn counts(&self, table: &str) -> bool {
        self.rows.contains(table)
    }

    /// Whether a name of `WITH` in a statement is also one within a view.
    pub(super) fn is_within(&self, name: &str) -> bool {
        self.columns.iter().any(|(within, ..)| within == name)
    }

    /// The tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = &str> {
        let columns = self.columns.iter().map(|(_, table, _)| table.as_str());
        columns.chain(self.rows.iter().map(String::as_str))
    }
}
