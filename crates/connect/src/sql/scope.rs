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

impl Scopes {
    /// The relation of this name, the innermost first.
    pub(super) fn named(&self, alias: &str) -> Option<&Relation> {
        let relations = self
            .queries
            .iter()
            .rev()
            .flat_map(|scope| scope.relations.iter());
        let mut relations = relations;
        relations.find(|relation| relation.alias.as_deref() == Some(alias))
    }

    /// The relation of this schema and name.
    pub(super) fn table(&self, wanted: &TablePath) -> Option<&Relation> {
        let mut relations = self
            .queries
            .iter()
            .rev()
            .flat_map(|scope| scope.relations.iter());
        relations.find(|relation| relation.plain && relation.table.as_ref() == Some(wanted))
    }

    /// Every table whose column a name without a table could be.
    pub(super) fn tables(&self) -> Vec<TablePath> {
        let relations = self.queries.iter().flat_map(|scope| &scope.relations);
        let tables = relations.filter_map(|relation| relation.table.clone());
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
