//! The walk over `FROM`: tables, joins, functions that make tables, and queries in the place of one.

use sqlparser::ast::{
    FunctionArg, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor,
    TableFunctionArgs, TableSampleKind, TableWithJoins,
};

use super::{
    Reader, RefusedStatement, SqlDialect, Walked,
    scope::{Relation, Scope},
};

impl Reader<'_> {
    pub(super) fn table_with_joins(&mut self, table: &TableWithJoins) -> Walked {
        let TableWithJoins { relation, joins } = table;
        self.factor(relation)?;
        for join in joins {
            let Join {
                relation,
                global,
                join_operator,
            } = join;
            if *global {
                return Err(RefusedStatement::unlisted("a global join"));
            }
            self.factor(relation)?;
            let (JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint)
            | JoinOperator::CrossJoin(constraint)
            | JoinOperator::StraightJoin(constraint)) = join_operator
            else {
                return Err(RefusedStatement::unlisted("such a join"));
            };
            // MariaDB takes the word for the name of the table before it, and joins otherwise.
            if self.rules.dialect == SqlDialect::MariaDb
                && matches!(join_operator, JoinOperator::FullOuter(_))
            {
                return Err(RefusedStatement::new(
                    "MariaDB has no `FULL JOIN`; write a `LEFT JOIN` and a `RIGHT JOIN` with `UNION`",
                ));
            }
            match constraint {
                JoinConstraint::On(condition) => self.expression(condition)?,
                JoinConstraint::Using(columns) => {
                    for column in columns {
                        let parts = self.rules.parts(column)?;
                        let [column] = parts.as_slice() else {
                            return Err(RefusedStatement::unlisted("`USING` with a table"));
                        };
                        for table in self.scopes.inner_tables() {
                            self.touched.reads(&table, column);
                        }
                    }
                }
                // Which columns it compares is for the database to know.
                JoinConstraint::Natural => self.all_columns(),
                JoinConstraint::None => {}
            }
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor) -> Walked {
        match factor {
            TableFactor::Table {
                name,
                alias,
                args:
                    Some(TableFunctionArgs {
                        args,
                        settings: None,
                    }),
                with_hints,
                version: None,
                with_ordinality: _,
                partitions,
                json_path: None,
                sample: None,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                self.table_function(name, args, alias.as_ref())
            }
            TableFactor::Table {
                name,
                alias,
                args: None,
                with_hints,
                version: None,
                with_ordinality: false,
                partitions,
                json_path: None,
                sample,
                index_hints,
            } if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty() => {
                if let Some(sample) = sample {
                    self.sample(sample)?;
                }
                let relation = self.relation(name, alias.as_ref())?;
                self.add(relation);
                Ok(())
            }
            TableFactor::Derived {
                lateral,
                subquery,
                alias,
                sample: None,
            } => {
                let beside = if *lateral {
                    None
                } else {
                    self.scopes.queries.pop()
                };
                let walked = self.query(subquery);
                self.scopes.queries.extend(beside);
                walked?;
                self.computed(alias.as_ref())
            }
            TableFactor::Function {
                lateral: _,
                name,
                args,
                with_ordinality: _,
                alias,
            } => self.table_function(name, args, alias.as_ref()),
            TableFactor::UNNEST {
                alias,
                array_exprs,
                with_offset: false,
                with_offset_alias: None,
                with_ordinality: _,
            } => {
                self.each(array_exprs)?;
                self.computed(alias.as_ref())
            }
            TableFactor::NestedJoin {
                table_with_joins,
                alias,
            } => {
                if alias.is_some() {
                    return Err(RefusedStatement::unlisted("a name for joined tables"));
                }
                self.table_with_joins(table_with_joins)
            }
            TableFactor::JsonTable {
                json_expr,
                json_path: _,
                columns: _,
                alias,
            } => {
                self.expression(json_expr)?;
                self.computed(alias.as_ref())
            }
            _ => Err(RefusedStatement::unlisted("such a table expression")),
        }
    }

    fn table_function(
        &mut self,
        name: &ObjectName,
        args: &[FunctionArg],
        alias: Option<&TableAlias>,
    ) -> Walked {
        let called = self.function_name(name)?;
        for arg in args {
            self.argument(arg)?;
        }
        let alias = match alias {
            Some(alias) => {
                for column in &alias.columns {
                    if let Some(kind) = &column.data_type {
                        self.rules.check_type(kind)?;
                    }
                }
                self.rules.own_name(&alias.name)?
            }
            None => called,
        };
        self.add(Relation {
            alias: Some(alias),
            table: None,
            plain: false,
        });
        Ok(())
    }

    /// A table by its name, or what `WITH` gave this name.
    pub(super) fn relation(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
    ) -> Result<Relation, RefusedStatement> {
        let parts = self.rules.parts(name)?;
        if self.rules.dialect == SqlDialect::MariaDb
            && name.to_string().eq_ignore_ascii_case("dual")
        {
            // Unquoted it is never a table.
            return Ok(Relation {
                alias: None,
                table: None,
                plain: false,
            });
        }
        let given = match parts.as_slice() {
            [name] => self.scopes.with.contains(name),
            _ => false,
        };
        let table = if given {
            None
        } else {
            Some(self.rules.table(name)?)
        };
        if let Some(table) = &table {
            self.touched.reads_rows(table);
            if alias.is_some_and(|alias| !alias.columns.is_empty()) {
                // Its columns get other names, which the walk could not attribute.
                self.touched.reads_all(table);
            }
        }
        let plain = alias.is_none();
        let alias = match alias {
            Some(TableAlias { at: Some(_), .. }) => {
                return Err(RefusedStatement::unlisted("`AT` of a table"));
            }
            Some(alias) => self.rules.own_name(&alias.name)?,
            None => parts.last().cloned().unwrap_or_default(),
        };
        Ok(Relation {
            alias: Some(alias),
            table,
            plain,
        })
    }

    fn computed(&mut self, alias: Option<&TableAlias>) -> Walked {
        let alias = match alias {
            Some(alias) => Some(self.rules.own_name(&alias.name)?),
            None => None,
        };
        self.add(Relation {
            alias,
            table: None,
            plain: false,
        });
        Ok(())
    }

    pub(super) fn add(&mut self, relation: Relation) {
        match self.scopes.queries.last_mut() {
            Some(scope) => scope.relations.push(relation),
            None => self.scopes.queries.push(Scope {
                relations: vec![relation],
            }),
        }
    }

    fn sample(&mut self, sample: &TableSampleKind) -> Walked {
        let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
            sample;
        let quantity = sample.quantity.as_ref();
        if sample.bucket.is_some() || sample.offset.is_some() {
            return Err(RefusedStatement::unlisted("such a sample"));
        }
        self.optional(quantity.map(|quantity| &quantity.value))
    }
}
