//! The walk over expressions: columns, functions, operators and queries within them. What is not
//! named here is refused.

use sqlparser::ast::{
    AccessExpr, Array, BinaryOperator, CaseWhen, CastKind, CeilFloorKind, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments,
    Ident, Interval, ObjectName, ObjectNamePart, Subscript, TypedString, UnaryOperator, Value,
    WindowFrame, WindowFrameBound, WindowSpec, WindowType,
};

use super::{
    Reader, RefusedStatement, SqlDialect, Walked,
    functions::{is_harmless, may_take_a_row},
    name::{TablePath, quoted},
    refusal::shown,
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
            Expr::Ceil { expr, field } | Expr::Floor { expr, field } => match field {
                CeilFloorKind::DateTimeField(_) => self.expression(expr),
                CeilFloorKind::Scale(scale) => {
                    self.value(&scale.value)?;
                    self.expression(expr)
                }
            },
            Expr::Position { expr, r#in } => self.both(expr, r#in),
            Expr::Substring {
                expr,
                substring_from,
                substring_for,
                ..
            } => {
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
            Expr::GroupingSets(sets) | Expr::Cube(sets) | Expr::Rollup(sets) => {
                sets.iter().try_for_each(|set| self.each(set))
            }
            Expr::Tuple(items) => self.each(items),
            Expr::Array(Array { elem, named: _ }) => self.each(elem),
            Expr::Interval(Interval { value, .. }) | Expr::JsonAccess { value, path: _ } => {
                self.expression(value)
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                self.expression(root)?;
                access_chain
                    .iter()
                    .try_for_each(|access| self.part_of(access))
            }
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

    /// A name without a table.
    fn bare_name(&mut self, ident: &Ident) -> Walked {
        let name = self.rules.name(ident)?;
        if self.rules.dialect == SqlDialect::MariaDb && name.starts_with('@') {
            return Err(RefusedStatement::unlisted("a variable of the session"));
        }
        if self.rules.dialect == SqlDialect::Postgres
            && let Some(relation) = self.scopes.named(&name)
            && let Some(table) = relation.table.clone()
        {
            // The whole row, unless a column has this name.
            self.touched.reads_all(&table);
        }
        for table in self.scopes.tables() {
            self.touched.reads(&table, &name);
        }
        Ok(())
    }

    fn dotted_name(&mut self, parts: &[Ident]) -> Walked {
        let names: Result<Vec<String>, _> =
            parts.iter().map(|part| self.rules.name(part)).collect();
        self.column(&names?)
    }

    /// A column by the parts of its name.
    pub(super) fn column(&mut self, parts: &[String]) -> Walked {
        let found = match parts {
            [column] => {
                for table in self.scopes.tables() {
                    self.touched.reads(&table, column);
                }
                return Ok(());
            }
            [table, column] => Some((self.scopes.named(table).cloned(), column)),
            [schema, table, column] => {
                let wanted = TablePath {
                    schema: (*schema != self.rules.schema).then(|| schema.clone()),
                    name: table.clone(),
                };
                Some((self.scopes.table(&wanted).cloned(), column))
            }
            _ => None,
        };
        match found {
            Some((Some(relation), column)) => {
                if let Some(table) = &relation.table {
                    if may_take_a_row(self.rules.dialect, column) {
                        self.touched.reads_all(table);
                    }
                    self.touched.reads(table, column);
                }
                Ok(())
            }
            Some((None, _)) | None => Err(RefusedStatement::new(format!(
                "`{}` is not of a table that the statement names",
                shown(&parts.join("."))
            ))),
        }
    }

    fn part_of(&mut self, access: &AccessExpr) -> Walked {
        match access {
            // A field of a composite value; the whole of it was noted with the value.
            AccessExpr::Dot(Expr::Identifier(field)) => {
                let field = self.rules.name(field)?;
                if may_take_a_row(self.rules.dialect, &field) || !self.known_as_field(&field) {
                    return Err(RefusedStatement::new(format!(
                        "`.{field}` may call a function of this name"
                    )));
                }
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

    /// `(value).f` calls `f` where the value has no such field; only names of harmless functions and
    /// of no function of the system pass.
    fn known_as_field(&self, field: &str) -> bool {
        is_harmless(self.rules.dialect, field)
            || !field.starts_with("pg_") && !field.starts_with("lo_")
    }

    fn value(&self, value: &Value) -> Walked {
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

    fn function(&mut self, function: &Function) -> Walked {
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group,
            filter,
            null_treatment: _,
            over,
        } = function;
        if *uses_odbc_syntax {
            return Err(RefusedStatement::unlisted("`{fn …}`"));
        }
        self.function_name(name)?;
        for arguments in [parameters, args] {
            self.arguments(arguments)?;
        }
        for ordered in within_group {
            self.ordered(ordered)?;
        }
        self.optional(filter.as_deref())?;
        match over {
            None | Some(WindowType::NamedWindow(_)) => Ok(()),
            Some(WindowType::WindowSpec(window)) => self.window(window),
        }
    }

    /// Refuses a function unless it is known to be harmless or the operator lists it. Returns the
    /// last part of its name.
    pub(super) fn function_name(&mut self, name: &ObjectName) -> Result<String, RefusedStatement> {
        let mut parts = self.rules.parts(name)?;
        let quoted_name = name.0.iter().any(
            |part| matches!(part, ObjectNamePart::Identifier(ident) if ident.quote_style.is_some()),
        );
        let listed = parts.iter().map(|part| quoted(part)).collect::<Vec<_>>();
        let listed = listed.join(".");
        if self.rules.functions.contains(&listed) {
            self.touched.calls(&listed);
            return Ok(parts.pop().unwrap_or_default());
        }
        let schema = self.rules.dialect == SqlDialect::Postgres
            && parts.first().is_some_and(|first| first == "pg_catalog");
        let own = match parts.as_slice() {
            [name] => Some(name),
            [_, name] if schema => Some(name),
            _ => None,
        };
        match own {
            Some(own) if !quoted_name && is_harmless(self.rules.dialect, own) => {
                if !schema {
                    self.touched.calls_built_in(own);
                }
                Ok(own.clone())
            }
            _ => Err(RefusedStatement::new(format!(
                "the function `{}` is not among those that statements may call here",
                shown(&listed)
            ))),
        }
    }

    fn arguments(&mut self, arguments: &FunctionArguments) -> Walked {
        match arguments {
            FunctionArguments::None => Ok(()),
            FunctionArguments::Subquery(query) => self.query(query),
            FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: _,
                args,
                clauses,
            }) => {
                for arg in args {
                    self.argument(arg)?;
                }
                clauses.iter().try_for_each(|clause| self.clause(clause))
            }
        }
    }

    pub(super) fn argument(&mut self, argument: &FunctionArg) -> Walked {
        let (FunctionArg::Named { arg, .. }
        | FunctionArg::ExprNamed { arg, .. }
        | FunctionArg::Unnamed(arg)) = argument;
        match arg {
            FunctionArgExpr::Expr(expression) => self.expression(expression),
            FunctionArgExpr::QualifiedWildcard(name) => self.all_of(name),
            // `count(*)`: the rows were noted with the table.
            FunctionArgExpr::Wildcard => Ok(()),
            FunctionArgExpr::WildcardWithOptions(_) => {
                Err(RefusedStatement::unlisted("such a `*`"))
            }
        }
    }

    fn clause(&mut self, clause: &FunctionArgumentClause) -> Walked {
        match clause {
            FunctionArgumentClause::OrderBy(ordered) => {
                ordered.iter().try_for_each(|ordered| self.ordered(ordered))
            }
            FunctionArgumentClause::Limit(limit) => self.expression(limit),
            FunctionArgumentClause::Where(condition) => self.expression(condition),
            FunctionArgumentClause::Separator(value) => self.value(&value.value),
            FunctionArgumentClause::IgnoreOrRespectNulls(_)
            | FunctionArgumentClause::JsonNullClause(_) => Ok(()),
            FunctionArgumentClause::JsonReturningClause(returning) => {
                self.rules.check_type(&returning.data_type)
            }
            FunctionArgumentClause::OnOverflow(_) | FunctionArgumentClause::Having(_) => {
                Err(RefusedStatement::unlisted("such a clause of a function"))
            }
        }
    }

    pub(super) fn window(&mut self, window: &WindowSpec) -> Walked {
        let WindowSpec {
            window_name: _,
            partition_by,
            order_by,
            window_frame,
        } = window;
        self.each(partition_by)?;
        for ordered in order_by {
            self.ordered(ordered)?;
        }
        let Some(WindowFrame {
            units: _,
            start_bound,
            end_bound,
        }) = window_frame
        else {
            return Ok(());
        };
        for bound in [Some(start_bound), end_bound.as_ref()]
            .into_iter()
            .flatten()
        {
            match bound {
                WindowFrameBound::CurrentRow => {}
                WindowFrameBound::Preceding(distance) | WindowFrameBound::Following(distance) => {
                    self.optional(distance.as_deref())?;
                }
            }
        }
        Ok(())
    }
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
