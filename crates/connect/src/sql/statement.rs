//! The kinds of statements: a query, and where the source takes changes, one `INSERT`, `UPDATE` or
//! `DELETE`. Every other kind is refused.

use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DoUpdate, FromTable, Insert, ObjectName,
    OnConflict, OnConflictAction, OnInsert, Statement, TableFactor, TableObject, TableWithJoins,
    Update, UpdateTableFromKind,
};

use super::{
    Reader, RefusedStatement, Walked,
    name::TablePath,
    refusal::shown,
    scope::{Relation, Scope},
};

impl Reader<'_> {
    /// Reads a statement, and says whether it changes data.
    pub(super) fn statement(&mut self, statement: &Statement) -> Result<bool, RefusedStatement> {
        match statement {
            Statement::Query(query) => {
                self.query(query)?;
                Ok(false)
            }
            Statement::Insert(insert) => {
                self.may_write()?;
                self.insert(insert)?;
                Ok(true)
            }
            Statement::Update(update) => {
                self.may_write()?;
                self.update(update)?;
                Ok(true)
            }
            Statement::Delete(delete) => {
                self.may_write()?;
                self.delete(delete)?;
                Ok(true)
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
        Err(RefusedStatement::new(format!(
            "the source `{}` takes no changes",
            self.rules.source
        )))
    }

    fn insert(&mut self, insert: &Insert) -> Walked {
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
            None => Ok(()),
            Some(OnInsert::OnConflict(on)) => self.on_conflict(&table, on),
            Some(_) => Err(RefusedStatement::unlisted("`ON DUPLICATE KEY`")),
        }
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

    fn update(&mut self, update: &Update) -> Walked {
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
        let changed = self.changed(table)?;
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
        self.assignments(&changed, assignments)?;
        self.optional(selection.as_ref())
    }

    fn delete(&mut self, delete: &Delete) -> Walked {
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
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = from;
        let [table] = from.as_slice() else {
            return Err(RefusedStatement::unlisted("a `DELETE` from several tables"));
        };
        let changed = self.changed(table)?;
        self.touched.writes_all(&changed);
        for table in using.iter().flatten() {
            self.table_with_joins(table)?;
        }
        self.optional(selection.as_ref())
    }

    /// The one table that an `UPDATE` or `DELETE` names.
    fn changed(&mut self, table: &TableWithJoins) -> Result<TablePath, RefusedStatement> {
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
        self.add(target(&table, alias));
        Ok(table)
    }

    fn assignments(&mut self, table: &TablePath, assignments: &[Assignment]) -> Walked {
        for Assignment { target, value } in assignments {
            match target {
                AssignmentTarget::ColumnName(column) => self.writes_column(table, column)?,
                AssignmentTarget::Tuple(columns) => {
                    for column in columns {
                        self.writes_column(table, column)?;
                    }
                }
            }
            self.expression(value)?;
        }
        Ok(())
    }

    fn writes_column(&mut self, table: &TablePath, column: &ObjectName) -> Walked {
        let parts = self.rules.parts(column)?;
        let [column] = parts.as_slice() else {
            return Err(RefusedStatement::unlisted("a part of a column"));
        };
        self.touched.writes(table, column);
        Ok(())
    }
}

fn target(table: &TablePath, alias: Option<String>) -> Relation {
    Relation {
        plain: alias.is_none(),
        alias: Some(alias.unwrap_or_else(|| table.name.clone())),
        table: Some(table.clone()),
    }
}
