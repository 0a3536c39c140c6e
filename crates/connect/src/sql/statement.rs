//! The kinds of statements: a query, and where the source takes changes, one `INSERT`, `UPDATE` or
//! `DELETE`. Every other kind is refused.

use std::collections::BTreeSet;

use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DoUpdate, FromTable, Insert, ObjectName,
    OnConflict, OnConflictAction, OnInsert, Statement, TableFactor, TableObject, TableWithJoins,
    Update, UpdateTableFromKind,
};

use super::{
    ChangeKind, ChangedTable, Reader, RefusedStatement, SqlDialect, Walked,
    name::TablePath,
    refusal::shown,
    scope::{Relation, Scope},
};

impl Reader<'_> {
    /// Reads a statement, and says what it changes, if anything.
    pub(super) fn statement(
        &mut self,
        statement: &Statement,
    ) -> Result<Option<ChangedTable>, RefusedStatement> {
        match statement {
            Statement::Query(query) => {
                self.is_outermost = true;
                self.query(query)?;
                Ok(None)
            }
            Statement::Insert(insert) => {
                self.may_write()?;
                self.insert(insert).map(Some)
            }
            Statement::Update(update) => {
                self.may_write()?;
                self.update(update).map(Some)
            }
            Statement::Delete(delete) => {
                self.may_write()?;
                self.delete(delete).map(Some)
            }
            other => {
                let text = other.to_string();
                let word = text.split_whitespace().next().unwrap_or_default();
                Err(RefusedStatement::new(format!(
                    "`{}` is not a statement that runs here: queries do, and where the source is \
                     writable INSERT, UPDATE and DELETE",
                    shown(word)
                )))
            }
        }
    }

    fn may_write(&self) -> Walked {
        if self.rules.writable {
            return Ok(());
        }
        Err(RefusedStatement::read_only(&self.rules.source))
    }

    fn insert(&mut self, insert: &Insert) -> Result<ChangedTable, RefusedStatement> {
        let Insert {
            insert_token: _,
            optimizer_hints,
            or,
            ignore,
            into,
            table,
            table_alias,
            columns,
            overwrite,
            source,
            assignments,
            partitioned,
            after_columns,
            has_table_keyword,
            on,
            returning,
            output,
            replace_into,
            priority,
            insert_alias,
            settings,
            format_clause,
            multi_table_insert_type,
            multi_table_into_clauses,
            multi_table_when_clauses,
            multi_table_else_clause,
        } = insert;
        let unlisted = !optimizer_hints.is_empty()
            || or.is_some()
            || *ignore
            || !*into
            || table_alias.is_some()
            || *overwrite
            || !assignments.is_empty()
            || partitioned.is_some()
            || !after_columns.is_empty()
            || *has_table_keyword
            || returning.is_some()
            || output.is_some()
            || *replace_into
            || priority.is_some()
            || insert_alias.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || multi_table_insert_type.is_some()
            || !multi_table_into_clauses.is_empty()
            || !multi_table_when_clauses.is_empty()
            || multi_table_else_clause.is_some();
        if unlisted {
            return Err(RefusedStatement::unlisted("a clause of the `INSERT`"));
        }
        let TableObject::TableName(name) = table else {
            return Err(RefusedStatement::unlisted("such a target"));
        };
        let table = self.rules.table(name)?;
        if columns.is_empty() {
            self.touched.writes_all(&table);
        }
        for column in columns {
            self.writes_column(&table, column)?;
        }
        if let Some(source) = source {
            self.query(source)?;
        }
        match on {
            None => {}
            Some(OnInsert::OnConflict(on)) => self.on_conflict(&table, on)?,
            Some(_) => return Err(RefusedStatement::unlisted("`ON DUPLICATE KEY`")),
        }
        Ok(ChangedTable::new(&table, None, ChangeKind::Insert))
    }

    fn on_conflict(&mut self, table: &TablePath, on: &OnConflict) -> Walked {
        let OnConflict {
            conflict_target,
            action,
        } = on;
        match conflict_target {
            None => {}
            // Whether a row is left out says whether there is such a value.
            Some(ConflictTarget::Columns(columns)) => {
                for column in columns {
                    let column = self.rules.name(column)?;
                    self.touched.reads(table, &column);
                }
            }
            // Its columns are for the database to know.
            Some(ConflictTarget::OnConstraint(_)) => self.touched.reads_all(table),
        }
        match action {
            OnConflictAction::DoNothing => Ok(()),
            OnConflictAction::DoUpdate(DoUpdate {
                assignments,
                selection,
            }) => {
                self.scopes.queries.push(Scope::default());
                self.add(target(table, None));
                self.add(Relation {
                    alias: Some("excluded".to_owned()),
                    table: Some(table.clone()),
                    plain: false,
                });
                self.assignments(table, assignments)?;
                self.optional(selection.as_ref())
            }
        }
    }

    fn update(&mut self, update: &Update) -> Result<ChangedTable, RefusedStatement> {
        let Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from,
            selection,
            returning,
            output,
            or,
            order_by,
            limit,
        } = update;
        let unlisted = !optimizer_hints.is_empty()
            || returning.is_some()
            || output.is_some()
            || or.is_some()
            || !order_by.is_empty()
            || limit.is_some();
        if unlisted {
            return Err(RefusedStatement::unlisted("a clause of the `UPDATE`"));
        }
        let (changed, called) = self.changed(table)?;
        match from {
            None => {}
            Some(
                UpdateTableFromKind::BeforeSet(tables) | UpdateTableFromKind::AfterSet(tables),
            ) => {
                for table in tables {
                    self.table_with_joins(table)?;
                }
            }
        }
        let columns = self.assignments(&changed, assignments)?;
        self.optional(selection.as_ref())?;
        Ok(ChangedTable::new(
            &changed,
            called,
            ChangeKind::Update(columns),
        ))
    }

    fn delete(&mut self, delete: &Delete) -> Result<ChangedTable, RefusedStatement> {
        let Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from,
            using,
            selection,
            returning,
            output,
            order_by,
            limit,
        } = delete;
        let unlisted = !optimizer_hints.is_empty()
            || !tables.is_empty()
            || returning.is_some()
            || output.is_some()
            || !order_by.is_empty()
            || limit.is_some();
        if unlisted {
            return Err(RefusedStatement::unlisted("a clause of the `DELETE`"));
        }
        // There it names the tables to delete from once more.
        if self.rules.dialect == SqlDialect::MariaDb && using.is_some() {
            return Err(RefusedStatement::unlisted("a `DELETE` from several tables"));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        let [table] = from.as_slice() else {
            return Err(RefusedStatement::unlisted("a `DELETE` from several tables"));
        };
        let (changed, called) = self.changed(table)?;
        self.touched.writes_all(&changed);
        for table in using.iter().flatten() {
            self.table_with_joins(table)?;
        }
        self.optional(selection.as_ref())?;
        Ok(ChangedTable::new(&changed, called, ChangeKind::Delete))
    }

    /// The one table that an `UPDATE` or `DELETE` names, and its other name there.
    fn changed(
        &mut self,
        table: &TableWithJoins,
    ) -> Result<(TablePath, Option<String>), RefusedStatement> {
        let TableWithJoins { relation, joins } = table;
        if !joins.is_empty() {
            return Err(RefusedStatement::unlisted("a change of joined tables"));
        }
        let TableFactor::Table {
            name,
            alias,
            args: None,
            ..
        } = relation
        else {
            return Err(RefusedStatement::unlisted("such a target"));
        };
        let table = self.rules.table(name)?;
        let alias = match alias {
            Some(alias) => Some(self.rules.own_name(&alias.name)?),
            None => None,
        };
        self.scopes.queries.push(Scope::default());
        self.add(target(&table, alias.clone()));
        Ok((table, alias))
    }

    /// Reads assignments, and says to which columns.
    fn assignments(
        &mut self,
        table: &TablePath,
        assignments: &[Assignment],
    ) -> Result<BTreeSet<String>, RefusedStatement> {
        let mut assigned = BTreeSet::new();
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(column) => {
                    assigned.insert(self.writes_column(table, column)?);
                }
                AssignmentTarget::Tuple(columns) => {
                    for column in columns {
                        assigned.insert(self.writes_column(table, column)?);
                    }
                }
            }
            self.expression(value)?;
        }
        Ok(assigned)
    }

    fn writes_column(
        &mut self,
        table: &TablePath,
        column: &ObjectName,
    ) -> Result<String, RefusedStatement> {
        let parts = self.rules.parts(column)?;
        let [column] = parts.as_slice() else {
            return Err(RefusedStatement::unlisted("a part of a column"));
        };
        self.touched.writes(table, column);
        Ok(column.clone())
    }
}

fn target(table: &TablePath, alias: Option<String>) -> Relation {
    Relation {
        plain: alias.is_none(),
        alias: Some(alias.unwrap_or_else(|| table.name.clone())),
        table: Some(table.clone()),
    }
}
