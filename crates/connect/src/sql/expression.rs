//! The walk over expressions: columns, functions, operators and queries within them. What is not
//! named here is refused.

use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DataType, Expr, Ident,
    Interval, Subscript, TypedString, UnaryOperator, Value,
};

use super::{
    Reader, RefusedStatement, SqlDialect, Walked, functions::may_take_a_row, name::TablePath,
    refusal::shown, reserved_words::is_value,
};

impl Reader<'_> {
    /// An expression with everything in it.
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each kind of expression, so that none is forgotten"
    )]
    pub(super) fn expression(&mut self, expression: &Expr) -> Walked {
        match expression {
            Expr::Identifier(name) => self.bare_name(name),
            Expr::CompoundIdentifier(parts) => self.dotted_name(parts),
            Expr::Value(value) => self.value(&value.value),
            Expr::TypedString(TypedString {
                data_type,
                value,
                uses_odbc_syntax: false,
            }) => {
                // To MariaDB `JSON 'x'` is a column `json` that the result calls `x`.
                let literal = matches!(
                    data_type,
                    DataType::Date | DataType::Time(None, _) | DataType::Timestamp(None, _)
                );
                if self.rules.dialect == SqlDialect::MariaDb && !literal {
                    return Err(RefusedStatement::unlisted("such a literal"));
                }
                self.rules.check_type(data_type)?;
                self.value(&value.value)
            }
            Expr::IsFalse(of)
            | Expr::IsNotFalse(of)
            | Expr::IsTrue(of)
            | Expr::IsNotTrue(of)
            | Expr::IsNull(of)
            | Expr::IsNotNull(of)
            | Expr::IsUnknown(of)
            | Expr::IsNotUnknown(of)
            | Expr::IsJson { expr: of, .. }
            | Expr::IsNormalized { expr: of, .. }
            | Expr::Nested(of) => self.expression(of),
            Expr::IsDistinctFrom(left, right) | Expr::IsNotDistinctFrom(left, right) => {
                self.both(left, right)
            }
            Expr::InList {
                expr,
                list,
                negated: _,
            } => {
                self.expression(expr)?;
                self.each(list)
            }
            Expr::InSubquery {
                expr,
                subquery,
                negated: _,
            } => {
                self.expression(expr)?;
                self.query(subquery)
            }
            Expr::InUnnest {
                expr,
                array_expr,
                negated: _,
            } => self.both(expr, array_expr),
            Expr::Between {
                expr,
                negated: _,
                low,
                high,
            } => {
                self.expression(expr)?;
                self.both(low, high)
            }
            Expr::BinaryOp { left, op, right } => {
                binary(op)?;
                self.both(left, right)
            }
            Expr::UnaryOp { op, expr } => {
                unary(*op)?;
                self.expression(expr)
            }
            Expr::Like {
                expr,
                pattern,
                escape_char,
                any: _,
                negated: _,
            }
            | Expr::ILike {
                expr,
                pattern,
                escape_char,
                any: _,
                negated: _,
            }
            | Expr::SimilarTo {
                expr,
                pattern,
                escape_char,
                negated: _,
            } => {
                self.both(expr, pattern)?;
                self.optional(escape_char.as_deref())
            }
            Expr::RLike {
                expr,
                pattern,
                negated: _,
                regexp: _,
            } => self.both(expr, pattern),
            Expr::AnyOp {
                left,
                compare_op,
                right,
                is_some: _,
            }
            | Expr::AllOp {
                left,
                compare_op,
                right,
            } => {
                binary(compare_op)?;
                self.both(left, right)
            }
            Expr::Convert {
                is_try: false,
                expr,
                data_type,
                charset: _,
                target_before_value: _,
                styles,
            } => {
                self.own_syntax("convert")?;
                if let Some(kind) = data_type {
                    self.rules.check_type(kind)?;
                }
                self.each(styles)?;
                self.expression(expr)
            }
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr,
                data_type,
                format: None,
                ..
            } => {
                self.rules.check_type(data_type)?;
                self.expression(expr)
            }
            Expr::AtTimeZone {
                timestamp,
                time_zone,
            } => self.both(timestamp, time_zone),
            Expr::Extract { expr, .. } | Expr::Collate { expr, collation: _ } => {
                self.expression(expr)
            }
            Expr::Ceil { expr, field } => self.rounded("ceil", expr, field),
            Expr::Floor { expr, field } => self.rounded("floor", expr, field),
            Expr::Position { expr, r#in } => self.both(expr, r#in),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                special: _,
                shorthand,
            } => {
                self.own_syntax(if *shorthand { "substr" } else { "substring" })?;
                self.expression(expr)?;
                self.optional(substring_from.as_deref())?;
                self.optional(substring_for.as_deref())
            }
            Expr::Trim {
                trim_where: _,
                trim_what,
                expr,
                trim_characters,
            } => {
                self.optional(trim_what.as_deref())?;
                for character in trim_characters.iter().flatten() {
                    self.expression(character)?;
                }
                self.expression(expr)
            }
            Expr::Overlay {
                expr,
                overlay_what,
                overlay_from,
                overlay_for,
            } => {
                self.expression(expr)?;
                self.both(overlay_what, overlay_from)?;
                self.optional(overlay_for.as_deref())
            }
            Expr::Function(function) => self.function(function),
            Expr::Case {
                case_token: _,
                end_token: _,
                operand,
                conditions,
                else_result,
            } => {
                self.optional(operand.as_deref())?;
                for CaseWhen { condition, result } in conditions {
                    self.both(condition, result)?;
                }
                self.optional(else_result.as_deref())
            }
            Expr::Exists {
                subquery,
                negated: _,
            }
            | Expr::Subquery(subquery) => self.query(subquery),
            // To MariaDB they are calls of functions with these names.
            Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_)
                if self.rules.dialect == SqlDialect::MariaDb =>
            {
                Err(RefusedStatement::new(
                    "such a `GROUP BY` is not MariaDB's; write `GROUP BY … WITH ROLLUP`",
                ))
            }
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                sets.iter().try_for_each(|set| self.each(set))
            }
            Expr::Tuple(items) => self.each(items),
            Expr::Array(Array { elem, named: _ }) => self.each(elem),
            Expr::Interval(Interval { value, .. }) => self.expression(value),
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain),
            Expr::Wildcard(_) => {
                self.all_columns();
                Ok(())
            }
            Expr::QualifiedWildcard(name, _) => self.all_of(name),
            Expr::MatchAgainst {
                columns,
                match_value,
                opt_search_modifier: _,
            } => {
                for column in columns {
                    let parts = self.rules.parts(column)?;
                    self.column(&parts)?;
                }
                self.value(&match_value.value)
            }
            _ => Err(RefusedStatement::unlisted(&format!(
                "`{}`",
                shown(&expression.to_string())
            ))),
        }
    }

    /// Each of several expressions.
    pub(super) fn each(&mut self, expressions: &[Expr]) -> Walked {
        expressions
            .iter()
            .try_for_each(|expression| self.expression(expression))
    }

    /// An expression that may be left out.
    pub(super) fn optional(&mut self, expression: Option<&Expr>) -> Walked {
        expression.map_or(Ok(()), |expression| self.expression(expression))
    }

    fn both(&mut self, one: &Expr, other: &Expr) -> Walked {
        self.expression(one)?;
        self.expression(other)
    }

    fn rounded(&mut self, name: &str, value: &Expr, to: &CeilFloorKind) -> Walked {
        self.own_syntax(name)?;
        if let CeilFloorKind::Scale(scale) = to {
            self.value(&scale.value)?;
        }
        self.expression(value)
    }

    /// A name without a table.
    pub(super) fn bare_name(&mut self, ident: &Ident) -> Walked {
        let postgres = self.rules.dialect == SqlDialect::Postgres;
        if postgres && ident.quote_style.is_none() && is_value(&ident.value.to_ascii_lowercase()) {
            return Ok(());
        }
        let name = self.rules.own_name(ident)?;
        if self.rules.dialect == SqlDialect::MariaDb && name.starts_with('@') {
            return Err(RefusedStatement::unlisted("a variable of the session"));
        }
        if self.rules.dialect == SqlDialect::MariaDb
            && ident.quote_style.is_none()
            && name == "default"
        {
            return Ok(());
        }
        if postgres && self.scopes.is_empty() {
            return Err(no_table(&name));
        }
        if postgres {
            for table in self
                .scopes
                .named(&name)
                .iter()
                .filter_map(|of| of.table.as_ref())
            {
                // The whole row, unless a column has this name.
                self.touched.reads_all(table);
            }
        }
        for table in self.scopes.tables() {
            self.touched.reads(&table, &name);
        }
        Ok(())
    }

    fn dotted_name(&mut self, parts: &[Ident]) -> Walked {
        let names: Result<Vec<String>, _> = parts
            .iter()
            .enumerate()
            .map(|(at, part)| match at {
                0 => self.rules.own_name(part),
                _ => self.rules.name(part),
            })
            .collect();
        self.column(&names?)
    }

    /// A column by the parts of its name.
    pub(super) fn column(&mut self, parts: &[String]) -> Walked {
        let (relations, column) = match parts {
            [column] => {
                for table in self.scopes.tables() {
                    self.touched.reads(&table, column);
                }
                return Ok(());
            }
            [table, column] => (self.scopes.named(table), column),
            [schema, table, column] => {
                let wanted = TablePath {
                    schema: (!self.rules.is_usual(schema)).then(|| schema.clone()),
                    name: table.clone(),
                };
                (self.scopes.table(&wanted), column)
            }
            _ => return Err(no_table(&parts.join("."))),
        };
        if relations.is_empty() {
            return Err(no_table(&parts.join(".")));
        }
        for relation in relations {
            let Some(table) = &relation.table else {
                self.touched.takes_field(column);
                continue;
            };
            if may_take_a_row(self.rules.dialect, column) {
                self.touched.reads_all(table);
            }
            self.touched.reads(table, column);
            self.touched.qualifies(table, column);
        }
        Ok(())
    }

    /// A value and what is taken of it. Names up to the first subscript are one column's: `u.tags[1]`.
    fn access(&mut self, root: &Expr, chain: &[AccessExpr]) -> Walked {
        let mut column = Vec::new();
        let mut rest = chain;
        if let Expr::Identifier(first) = root {
            column.push(first.clone());
            while let [AccessExpr::Dot(Expr::Identifier(name)), after @ ..] = rest {
                column.push(name.clone());
                rest = after;
            }
        }
        if column.len() > 1 {
            self.dotted_name(&column)?;
        } else {
            self.expression(root)?;
        }
        rest.iter().try_for_each(|access| self.part_of(access))
    }

    fn part_of(&mut self, access: &AccessExpr) -> Walked {
        match access {
            // A field of a composite value; the whole of it was noted with the value.
            AccessExpr::Dot(Expr::Identifier(field)) => {
                let field = self.rules.name(field)?;
                if may_take_a_row(self.rules.dialect, &field) {
                    return Err(RefusedStatement::new(format!(
                        "`.{field}` may call a function of this name"
                    )));
                }
                self.touched.takes_field(&field);
                Ok(())
            }
            AccessExpr::Dot(_) => Err(RefusedStatement::unlisted("such a field")),
            AccessExpr::Subscript(Subscript::Index { index }) => self.expression(index),
            AccessExpr::Subscript(Subscript::Slice {
                lower_bound,
                upper_bound,
                stride,
            }) => [lower_bound, upper_bound, stride]
                .into_iter()
                .try_for_each(|bound| self.optional(bound.as_ref())),
        }
    }

    pub(super) fn value(&self, value: &Value) -> Walked {
        match value {
            Value::Number(..)
            | Value::SingleQuotedString(_)
            | Value::DollarQuotedString(_)
            | Value::EscapedStringLiteral(_)
            | Value::NationalStringLiteral(_)
            | Value::HexStringLiteral(_)
            | Value::SingleQuotedByteStringLiteral(_)
            | Value::Boolean(_)
            | Value::Null => Ok(()),
            Value::DoubleQuotedString(_) if self.rules.dialect != SqlDialect::Postgres => Ok(()),
            // `@x` and `:x` are placeholders to the parser; here only `$1` and `?` are.
            Value::Placeholder(text) => {
                let number = text.trim_start_matches(['$', '?']);
                let known = text.starts_with(['$', '?']);
                if known && number.chars().all(|c| c.is_ascii_digit()) {
                    Ok(())
                } else {
                    Err(RefusedStatement::unlisted(&format!("`{}`", shown(text))))
                }
            }
            _ => Err(RefusedStatement::unlisted("such a literal")),
        }
    }
}

fn no_table(name: &str) -> RefusedStatement {
    RefusedStatement::new(format!(
        "`{}` is not of a table that the statement names",
        shown(name)
    ))
}

fn binary(operator: &BinaryOperator) -> Walked {
    match operator {
        BinaryOperator::Assignment => Err(RefusedStatement::unlisted("setting a variable")),
        BinaryOperator::PGCustomBinaryOperator(parts) => match parts.as_slice() {
            [schema, _] if schema == "pg_catalog" => Ok(()),
            _ => Err(RefusedStatement::unlisted("an operator of another schema")),
        },
        BinaryOperator::DuckIntegerDivide => Err(RefusedStatement::unlisted("such an operator")),
        // The operators of the three databases. They compute; one that an extension adds was
        // put there by whoever owns the database.
        _ => Ok(()),
    }
}

fn unary(operator: UnaryOperator) -> Walked {
    match operator {
        // It would read a variable of the server.
        UnaryOperator::DoubleAt => Err(RefusedStatement::unlisted("`@@`")),
        _ => Ok(()),
    }
}
