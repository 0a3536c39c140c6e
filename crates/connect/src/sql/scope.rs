//! Whose column a name is. Where that cannot be told without asking the database, the name counts as
//! a column of every table it could belong to.

use super::name::TablePath;

/// The queries around an expression, the outermost first, and the names that `WITH` gives.
#[derive(Debug, Default)]
pub(super) struct Scopes {
    pub(super) queries: Vec<Scope>,
    /// Names of `WITH` that are known now, the newest last.
    pub(super) with: Vec<String>,
}

/// What one query reads from.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    pub(super) relations: Vec<Relation>,
}

/// Something in a `FROM` clause.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    /// What the statement calls it.
    pub(super) alias: Option<String>,
    /// The table it is; none for what the statement computes itself.
    pub(super) table: Option<TablePath>,
    /// Whether it is named without an alias, so that `schema.table.column` may name it.
    pub(super) plain: bool,
}

impl Scope {
    /// The scope of a result that is nobody's table: names in it are columns of the result.
    pub(super) fn computed() -> Self {
        Self {
            relations: vec![Relation {
                alias: None,
                table: None,
                plain: false,
            }],
        }
    }
}

impl Scopes {
    /// Every relation of this name. Which of them the database takes depends on where in `FROM` the
    /// name stands: in an `ON` it may look past a relation of the same query to one of a query around it.
    pub(super) fn named(&self, alias: &str) -> Vec<Relation> {
        let named = self
            .relations()
            .filter(|relation| relation.alias.as_deref() == Some(alias));
        named.cloned().collect()
    }

    /// Every relation of this schema and name.
    pub(super) fn table(&self, wanted: &TablePath) -> Vec<Relation> {
        let tables = self
            .relations()
            .filter(|relation| relation.plain && relation.table.as_ref() == Some(wanted));
        tables.cloned().collect()
    }

    /// Whether nothing is read from, so that no name can be a column.
    pub(super) fn is_empty(&self) -> bool {
        self.relations().next().is_none()
    }

    fn relations(&self) -> impl Iterator<Item = &Relation> {
        self.queries.iter().flat_map(|scope| &scope.relations)
    }

    /// Every table whose column a name without a table could be.
    pub(super) fn tables(&self) -> Vec<TablePath> {
        let tables = self
            .relations()
            .filter_map(|relation| relation.table.clone());
        tables.collect()
    }

    /// The tables of the innermost query.
    pub(super) fn inner_tables(&self) -> Vec<TablePath> {
        let relations = self.queries.last().into_iter();
        let relations = relations.flat_map(|scope| &scope.relations);
        let tables = relations.filter_map(|relation| relation.table.clone());
        tables.collect()
    }
}
