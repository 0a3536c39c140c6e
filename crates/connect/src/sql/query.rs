//! The walk over queries: what they return, and which clauses they may have. What they read from is in
//! `from_clause.rs`.
//!
//! Every field of every kind of clause is named here, so that a new version of the parser that knows
//! more clauses does not compile until somebody has decided about them.

use sqlparser::ast::{
    Cte, Distinct, GroupByExpr, GroupByWithModifier, LimitClause, NamedWindowDefinition,
    NamedWindowExpr, ObjectName, Offset, OrderBy, OrderByExpr, OrderByKind, OrderByOptions,
    OrderBySort, Query, Select, SelectFlavor, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    SetQuantifier, Values, WildcardAdditionalOptions, With,
};

use super::{Reader, RefusedStatement, SqlDialect, Walked, refusal::shown, scope::Scope};

impl Reader<'_> {
    /// A query with everything in it.
    pub(super) fn query(&mut self, query: &Query) -> Walked {
        self.query_scope(query).map(drop)
    }

    /// Walks a query, and returns what it read from: an `ORDER BY` behind its closing parenthesis is its
    /// own to the database.
    fn query_scope(&mut self, query: &Query) -> Result<Scope, RefusedStatement> {
        let Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if !locks.is_empty() {
            return Err(RefusedStatement::new(
                "`FOR UPDATE` and `FOR SHARE` lock rows, and a query only reads",
            ));
        }
        if for_clause.is_some()
            || settings.is_some()
            || format_clause.is_some()
            || !pipe_operators.is_empty()
        {
            return Err(RefusedStatement::unlisted("a clause of the query"));
        }
        // Queries within this one are not.
        let is_outermost = std::mem::take(&mut self.is_outermost);
        let known = self.scopes.with.len();
        if let Some(with) = with {
            self.with(with)?;
        }
        let scope = match body.as_ref() {
            SetExpr::Select(select) => self.select(select, is_outermost)?,
            body => self.set_expression(body)?,
        };
        if let Some(order_by) = order_by {
            if is_outermost {
                self.ordered_by_columns(order_by)?;
            }
            self.scopes.queries.push(scope.clone());
            let aliases = output_aliases(self, body)?;
            let walked = self.order_by(order_by, &aliases);
            self.scopes.queries.pop();
            walked?;
        }
        match limit_clause {
            None => {}
            Some(LimitClause::LimitOffset {
                limit,
                offset,
                limit_by,
            }) => {
                self.optional(limit.as_ref())?;
                self.each(limit_by)?;
                if let Some(Offset { value, rows: _ }) = offset {
                    self.expression(value)?;
                }
            }
            Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
                self.expression(offset)?;
                self.expression(limit)?;
            }
        }
        if let Some(fetch) = fetch {
            self.optional(fetch.quantity.as_ref())?;
        }
        self.scopes.with.truncate(known);
        Ok(scope)
    }

    fn with(&mut self, with: &With) -> Walked {
        let With {
            with_token: _,
            recursive,
            cte_tables,
        } = with;
        let named = |reader: &Self, cte: &Cte| reader.rules.own_name(&cte.alias.name);
        let recursive = *recursive;
        if recursive {
            for cte in cte_tables {
                let name = named(self, cte)?;
                self.scopes.with.push(name);
            }
        }
        for cte in cte_tables {
            let Cte {
                alias: _,
                query,
                from,
                materialized: _,
                closing_paren_token: _,
            } = cte;
            if from.is_some() {
                return Err(RefusedStatement::unlisted("`FROM` of a `WITH`"));
            }
            let name = named(self, cte)?;
            self.touched.gives(&name);
            // Without `RECURSIVE` SQLite knows the name within itself; its authorizer decides then.
            let own = !recursive && self.rules.dialect == SqlDialect::Sqlite;
            if own {
                self.scopes.with.push(name.clone());
            }
            // What the queries around it read from is seen in it, as in every query within another.
            self.query(query)?;
            if !recursive && !own {
                self.scopes.with.push(name);
            }
        }
        Ok(())
    }

    /// Returns what it read from, for the `ORDER BY` that follows it.
    fn set_expression(&mut self, body: &SetExpr) -> Result<Scope, RefusedStatement> {
        match body {
            SetExpr::Select(select) => self.select(select, false),
            SetExpr::Query(query) => self.query_scope(query),
            SetExpr::SetOperation {
                left,
                op: _,
                set_quantifier,
                right,
            } => {
                match set_quantifier {
                    SetQuantifier::All | SetQuantifier::Distinct | SetQuantifier::None => {}
                    SetQuantifier::ByName
                    | SetQuantifier::AllByName
                    | SetQuantifier::DistinctByName => {
                        return Err(RefusedStatement::unlisted("`BY NAME`"));
                    }
                }
                self.set_expression(left)?;
                self.set_expression(right)?;
                // What orders the whole is a column of the result.
                Ok(Scope::computed())
            }
            SetExpr::Values(Values {
                explicit_row: _,
                value_keyword: _,
                rows,
            }) => {
                for row in rows {
                    self.each(&row.content)?;
                }
                Ok(Scope::computed())
            }
            // The parser loses whether the name is quoted, and words behind it.
            SetExpr::Table(_) => Err(RefusedStatement::new(
                "`TABLE` alone is not read here; write `SELECT * FROM` and the table",
            )),
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(RefusedStatement::new(
                    "a change within a query; send the change as a statement of its own",
                ))
            }
        }
    }

    fn select(&mut self, select: &Select, is_outermost: bool) -> Result<Scope, RefusedStatement> {
        let Select {
            select_token: _,
            optimizer_hints,
            distinct,
            select_modifiers,
            top,
            top_before_distinct: _,
            projection,
            exclude,
            into,
            from,
            lateral_views,
            prewhere,
            selection,
            connect_by,
            group_by,
            cluster_by,
            distribute_by,
            sort_by,
            having,
            named_window,
            qualify,
            window_before_qualify: _,
            value_table_mode,
            flavor,
        } = select;
        if into.is_some() {
            return Err(RefusedStatement::new(
                "`SELECT … INTO` makes a table or a file",
            ));
        }
        let unlisted = !optimizer_hints.is_empty()
            || select_modifiers.is_some()
            || top.is_some()
            || exclude.is_some()
            || !lateral_views.is_empty()
            || prewhere.is_some()
            || !connect_by.is_empty()
            || !cluster_by.is_empty()
            || !distribute_by.is_empty()
            || !sort_by.is_empty()
            || qualify.is_some()
            || value_table_mode.is_some()
            || *flavor != SelectFlavor::Standard;
        if unlisted {
            return Err(RefusedStatement::unlisted("a clause of the query"));
        }
        self.scopes.queries.push(Scope::default());
        for table in from {
            self.table_with_joins(table)?;
        }
        match distinct {
            None | Some(Distinct::All | Distinct::Distinct) => {}
            Some(Distinct::On(expressions)) => self.each(expressions)?,
        }
        if is_outermost {
            self.result(select)?;
        } else {
            for item in projection {
                self.select_item(item)?;
            }
        }
        self.optional(selection.as_ref())?;
        let GroupByExpr::Expressions(grouped, modifiers) = group_by else {
            return Err(RefusedStatement::unlisted("`GROUP BY ALL`"));
        };
        self.each(grouped)?;
        for modifier in modifiers {
            match modifier {
                GroupByWithModifier::Rollup
                | GroupByWithModifier::Cube
                | GroupByWithModifier::Totals => {}
                GroupByWithModifier::GroupingSets(sets) => self.expression(sets)?,
            }
        }
        self.optional(having.as_ref())?;
        for NamedWindowDefinition(_, window) in named_window {
            match window {
                NamedWindowExpr::NamedWindow(_) => {}
                NamedWindowExpr::WindowSpec(window) => self.window(window)?,
            }
        }
        Ok(self.scopes.queries.pop().unwrap_or_default())
    }

    pub(super) fn select_item(&mut self, item: &SelectItem) -> Walked {
        match item {
            SelectItem::UnnamedExpr(expression)
            | SelectItem::ExprWithAlias {
                expr: expression,
                alias: _,
            } => self.expression(expression),
            SelectItem::ExprWithAliases { .. } => {
                Err(RefusedStatement::unlisted("several names for one column"))
            }
            SelectItem::QualifiedWildcard(of, options) => {
                plain_wildcard(options)?;
                match of {
                    SelectItemQualifiedWildcardKind::ObjectName(name) => self.all_of(name),
                    // `(t).*` of a whole row, which the walk notes.
                    SelectItemQualifiedWildcardKind::Expr(row) => self.expression(row),
                }
            }
            SelectItem::Wildcard(options) => {
                plain_wildcard(options)?;
                self.all_columns();
                Ok(())
            }
        }
    }

    /// `*`: every column of every table that this query reads from.
    pub(super) fn all_columns(&mut self) {
        for table in self.scopes.inner_tables() {
            self.touched.reads_all(&table);
        }
    }

    /// `t.*`.
    pub(super) fn all_of(&mut self, name: &ObjectName) -> Walked {
        let parts = self.rules.parts(name)?;
        let relations = if let [alias] = parts.as_slice() {
            self.scopes.named(alias)
        } else {
            let table = self.rules.table(name)?;
            self.scopes.table(&table)
        };
        if relations.is_empty() {
            return Err(RefusedStatement::new(format!(
                "`{}.*` is not of a table that the statement names",
                shown(&parts.join("."))
            )));
        }
        for table in relations
            .iter()
            .filter_map(|relation| relation.table.as_ref())
        {
            self.touched.reads_all(table);
        }
        Ok(())
    }

    fn order_by(&mut self, order_by: &OrderBy, aliases: &[String]) -> Walked {
        let OrderBy { kind, interpolate } = order_by;
        let OrderByKind::Expressions(expressions) = kind else {
            return Err(RefusedStatement::unlisted("`ORDER BY ALL`"));
        };
        if interpolate.is_some() {
            return Err(RefusedStatement::unlisted("`INTERPOLATE`"));
        }
        for ordered in expressions {
            // A name alone is one of the result where it has such a column.
            if let sqlparser::ast::Expr::Identifier(name) = &ordered.expr
                && aliases.contains(&self.rules.name(name)?)
            {
                order_options(&ordered.options)?;
                continue;
            }
            self.ordered(ordered)?;
        }
        Ok(())
    }

    pub(super) fn ordered(&mut self, ordered: &OrderByExpr) -> Walked {
        let OrderByExpr {
            expr,
            options,
            with_fill,
        } = ordered;
        if with_fill.is_some() {
            return Err(RefusedStatement::unlisted("`WITH FILL`"));
        }
        order_options(options)?;
        self.expression(expr)
    }
}

fn order_options(options: &OrderByOptions) -> Walked {
    match options.sort {
        None | Some(OrderBySort::Asc | OrderBySort::Desc) => Ok(()),
        Some(OrderBySort::Using(_)) => Err(RefusedStatement::unlisted("`ORDER BY … USING`")),
    }
}

/// The names a query gives its columns.
fn output_aliases(reader: &Reader<'_>, body: &SetExpr) -> Result<Vec<String>, RefusedStatement> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::Query(query) => return output_aliases(reader, &query.body),
        SetExpr::SetOperation { .. }
        | SetExpr::Values(_)
        | SetExpr::Insert(_)
        | SetExpr::Update(_)
        | SetExpr::Delete(_)
        | SetExpr::Merge(_)
        | SetExpr::Table(_) => return Ok(Vec::new()),
    };
    let mut aliases = Vec::new();
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { expr: _, alias } = item {
            aliases.push(reader.rules.name(alias)?);
        }
    }
    Ok(aliases)
}

fn plain_wildcard(options: &WildcardAdditionalOptions) -> Walked {
    let WildcardAdditionalOptions {
        wildcard_token: _,
        opt_ilike,
        opt_exclude,
        opt_except,
        opt_replace,
        opt_rename,
        opt_alias,
    } = options;
    let plain = opt_ilike.is_none()
        && opt_exclude.is_none()
        && opt_except.is_none()
        && opt_replace.is_none()
        && opt_rename.is_none()
        && opt_alias.is_none();
    if plain {
        Ok(())
    } else {
        Err(RefusedStatement::unlisted("such a `*`"))
    }
}
