//! The walk over calls of functions: their names, arguments, clauses and windows.

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, ObjectName, ObjectNamePart, WindowFrame,
    WindowFrameBound, WindowSpec, WindowType,
};

use super::{
    Reader, RefusedStatement, SqlDialect, Walked, functions::is_harmless, name::quoted,
    refusal::shown,
};

/// Functions of MariaDB whose first argument is a unit of time.
const UNIT_FIRST: [&str; 2] = ["timestampadd", "timestampdiff"];

/// Those units.
const UNITS: [&str; 9] = [
    "microsecond",
    "second",
    "minute",
    "hour",
    "day",
    "week",
    "month",
    "quarter",
    "year",
];

impl Reader<'_> {
    /// A function that the parser has an expression of its own for. To the database it may be a call of
    /// whatever has this name.
    pub(super) fn own_syntax(&mut self, name: &str) -> Walked {
        if !is_harmless(self.rules.dialect, name) {
            return Err(not_listed(name));
        }
        self.touched.calls_built_in(name);
        Ok(())
    }

    pub(super) fn function(&mut self, function: &Function) -> Walked {
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
        let called = self.function_name(name)?;
        if self.rules.dialect == SqlDialect::MariaDb && UNIT_FIRST.contains(&called.as_str()) {
            return self.behind_the_unit(args);
        }
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
        let mut parts = self.rules.function_parts(name)?;
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
            // Quoted it is not what the parser has an expression of its own for.
            Some(own) if (schema || !quoted_name) && is_harmless(self.rules.dialect, own) => {
                if !schema {
                    self.touched.calls_built_in(own);
                }
                Ok(own.clone())
            }
            _ => Err(not_listed(&listed)),
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

    /// The arguments behind a unit of time: `TIMESTAMPDIFF(DAY, since, until)`. The unit looks like a
    /// column.
    fn behind_the_unit(&mut self, arguments: &FunctionArguments) -> Walked {
        let FunctionArguments::List(list) = arguments else {
            return Err(RefusedStatement::unlisted("such a call"));
        };
        let Some((FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(unit))), rest)) =
            list.args.split_first()
        else {
            return Err(RefusedStatement::unlisted("such a unit of time"));
        };
        let known =
            unit.quote_style.is_none() && UNITS.contains(&unit.value.to_ascii_lowercase().as_str());
        if !known || !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
            return Err(RefusedStatement::unlisted("such a unit of time"));
        }
        rest.iter().try_for_each(|argument| self.argument(argument))
    }

    pub(super) fn argument(&mut self, argument: &FunctionArg) -> Walked {
        let arg = match argument {
            FunctionArg::Unnamed(arg) => arg,
            FunctionArg::Named {
                name,
                arg,
                operator,
            } => {
                if !names_a_parameter(operator) {
                    self.bare_name(name)?;
                }
                arg
            }
            FunctionArg::ExprNamed {
                name,
                arg,
                operator,
            } => {
                match name {
                    Expr::Identifier(_) if names_a_parameter(operator) => {}
                    name => self.expression(name)?,
                }
                arg
            }
        };
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

/// Whether what stands before the operator is a parameter's name. Otherwise it is a value: in
/// `JSON_OBJECT(email: 1)` the column `email`.
fn names_a_parameter(operator: &FunctionArgOperator) -> bool {
    match operator {
        FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment => true,
        FunctionArgOperator::Equals
        | FunctionArgOperator::Colon
        | FunctionArgOperator::Value
        | FunctionArgOperator::Space => false,
    }
}

fn not_listed(function: &str) -> RefusedStatement {
    RefusedStatement::new(format!(
        "the function `{}` is not among those that statements may call here",
        shown(function)
    ))
}
