//! Masked columns: what a query may do with them is to name them as a column of its result, where
//! every value comes back masked. Anywhere else they could be guessed by comparing, ordering or
//! grouping, so a statement that uses one elsewhere is refused.
//!
//! The walk over a statement notes every column that it reads at one place (`touched.rs`), so a use
//! that nobody thought of here is one that is refused.

use std::collections::BTreeSet;

use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, OrderBy, OrderByKind, Select, SelectItem,
    SelectItemQualifiedWildcardKind,
};

use super::{Reader, RefusedStatement, Walked, name::TablePath};

/// The masked columns of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnMasks(BTreeSet<(TablePath, String)>);

impl ColumnMasks {
    /// The masks of these columns: `users.email`, `sales.users.email`. A schema that is the usual one
    /// may be left out. Fails with a text that names no column.
    pub fn parse<'m>(
        texts: impl IntoIterator<Item = &'m str>,
        usual_schema: &str,
    ) -> Result<Self, String> {
        let mut masks = BTreeSet::new();
        for text in texts {
            let parts: Vec<&str> = text.split('.').collect();
            let (schema, table, column) = match parts.as_slice() {
                [table, column] => (None, *table, *column),
                [schema, table, column] => (Some(*schema), *table, *column),
                _ => return Err(text.to_owned()),
            };
            if parts.iter().any(|part| part.is_empty()) {
                return Err(text.to_owned());
            }
            let path = TablePath {
                schema: schema
                    .filter(|schema| *schema != usual_schema)
                    .map(str::to_owned),
                name: table.to_owned(),
            };
            masks.insert((path, column.to_owned()));
        }
        Ok(Self(masks))
    }

    /// The masked columns: schema if it is not the usual one, table, column.
    pub(crate) fn columns(&self) -> impl Iterator<Item = (Option<&str>, &str, &str)> {
        let columns = self.0.iter();
        columns.map(|(path, column)| (path.schema.as_deref(), path.name.as_str(), column.as_str()))
    }

    /// The masked columns of a table. Letters are compared without regard to their case: to a
    /// database that tells them apart, this masks more than it must.
    fn of<'m>(&'m self, table: &'m TablePath) -> impl Iterator<Item = &'m str> {
        let same = |one: &str, other: &str| one.to_lowercase() == other.to_lowercase();
        let schema = |path: &TablePath| path.schema.as_deref().unwrap_or_default().to_lowercase();
        let of = self.0.iter().filter(move |(path, _)| {
            same(&path.name, &table.name) && schema(path) == schema(table)
        });
        of.map(|(_, column)| column.as_str())
    }
}

/// Which columns of a result are masked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MaskedResult {
    /// Of each column before the first `*`, whether it is.
    first: Vec<bool>,
    /// The same behind the last `*`.
    last: Vec<bool>,
    /// The names of masked columns, in lower case, where a `*` is.
    of_stars: Option<BTreeSet<String>>,
}

impl MaskedResult {
    /// Whether there is something to mask.
    pub(crate) fn is_some(&self) -> bool {
        let columns = self.first.iter().chain(&self.last);
        columns.into_iter().any(|masked| *masked)
            || self
                .of_stars
                .as_ref()
                .is_some_and(|names| !names.is_empty())
    }

    /// Of each column of a result with these names, whether it is masked. Where the result is not what
    /// the statement made expected, all are.
    pub(crate) fn places(&self, names: &[String]) -> Vec<bool> {
        let fixed = self.first.len() + self.last.len();
        let Some(stars) = names.len().checked_sub(fixed) else {
            return vec![true; names.len()];
        };
        let Some(of_stars) = &self.of_stars else {
            return match stars {
                0 => self.first.clone(),
                _ => vec![true; names.len()],
            };
        };
        let within = names.iter().skip(self.first.len()).take(stars);
        let within = within.map(|name| of_stars.contains(&name.to_lowercase()));
        let first = self.first.iter().copied();
        first
            .chain(within)
            .chain(self.last.iter().copied())
            .collect()
    }
}

/// What the walk found of masked columns.
#[derive(Debug, Default)]
pub(super) struct MaskedUses {
    masks: ColumnMasks,
    /// Whether a column of the result is being walked over, which may be masked.
    in_result: bool,
    /// The masked columns that were met there.
    met: BTreeSet<String>,
    /// One that is used elsewhere.
    elsewhere: Option<String>,
    result: MaskedResult,
}

impl MaskedUses {
    pub(super) fn new(masks: &ColumnMasks) -> Self {
        Self {
            masks: masks.clone(),
            ..Self::default()
        }
    }

    /// A column is read.
    pub(super) fn reads(&mut self, table: &TablePath, column: &str) {
        let column = column.to_lowercase();
        let same = |masked: &&str| masked.to_lowercase() == column;
        let masked = self.masks.of(table).find(same).map(str::to_owned);
        if let Some(masked) = masked {
            self.meets(masked);
        }
    }

    /// Every column is read.
    pub(super) fn reads_all(&mut self, table: &TablePath) {
        let masked: Vec<String> = self.masks.of(table).map(str::to_owned).collect();
        for masked in masked {
            self.meets(masked);
        }
    }

    fn meets(&mut self, column: String) {
        if self.in_result {
            self.met.insert(column.to_lowercase());
        } else {
            self.elsewhere.get_or_insert(column);
        }
    }

    /// What is masked in the result, unless a masked column is used elsewhere.
    pub(super) fn result(&self) -> Result<MaskedResult, RefusedStatement> {
        match &self.elsewhere {
            Some(column) => Err(refused(column)),
            None => Ok(self.result.clone()),
        }
    }
}

fn refused(column: &str) -> RefusedStatement {
    RefusedStatement::new(format!(
        "`{column}` is masked: a query may name it as a column of its result, without `AS`, and \
         otherwise leave it alone"
    ))
}

impl Reader<'_> {
    /// Walks over the columns of the outermost query's result, in which masked ones may be.
    pub(super) fn result(&mut self, select: &Select) -> Walked {
        let mut result = MaskedResult::default();
        let mut between = false;
        let (mut masked_names, mut given_names) = (BTreeSet::new(), BTreeSet::new());
        for item in &select.projection {
            let (is_column, is_star, named) = match item {
                SelectItem::UnnamedExpr(Expr::Identifier(_) | Expr::CompoundIdentifier(_)) => {
                    (true, false, false)
                }
                SelectItem::ExprWithAlias {
                    expr: Expr::Identifier(_) | Expr::CompoundIdentifier(_),
                    alias: _,
                } => (true, false, true),
                SelectItem::Wildcard(_)
                | SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(_),
                    _,
                ) => (true, true, false),
                _ => (false, false, false),
            };
            // Under another name a clause could use it without its being seen.
            self.touched.masked.in_result = is_column && !named;
            let walked = self.select_item(item);
            self.touched.masked.in_result = false;
            walked?;
            let met = std::mem::take(&mut self.touched.masked.met);
            masked_names.extend(met.iter().cloned());
            if let SelectItem::ExprWithAlias { expr: _, alias } = item {
                given_names.insert(self.rules.name(alias)?.to_lowercase());
            }
            if is_star {
                // What stands between two of them has no place that is known beforehand.
                between |= result.last.iter().any(|masked| *masked);
                result.last.clear();
                result.of_stars.get_or_insert_default().extend(met);
            } else if result.of_stars.is_some() {
                result.last.push(!met.is_empty());
            } else {
                result.first.push(!met.is_empty());
            }
        }
        if between {
            return Err(RefusedStatement::new(
                "a masked column stands between two `*`; name the columns",
            ));
        }
        if result.is_some() {
            result_alone(select)?;
            // Which of the two an order would be by, databases do not agree on.
            if let Some(name) = masked_names.intersection(&given_names).next() {
                return Err(RefusedStatement::new(format!(
                    "`{name}` is masked, and another column of the result has its name; choose \
                     another one"
                )));
            }
        }
        self.touched.masked.result = result;
        Ok(())
    }

    /// What orders a result with masked columns is the plain name of another column.
    pub(super) fn ordered_by_columns(&self, order_by: &OrderBy) -> Walked {
        if !self.touched.masked.result.is_some() {
            return Ok(());
        }
        let plain = match &order_by.kind {
            OrderByKind::Expressions(expressions) => expressions.iter().all(|ordered| {
                matches!(
                    ordered.expr,
                    Expr::Identifier(_) | Expr::CompoundIdentifier(_)
                )
            }),
            OrderByKind::All(_) => false,
        };
        if plain {
            return Ok(());
        }
        Err(RefusedStatement::new(
            "a result with masked columns is ordered by the names of other columns only",
        ))
    }
}

/// Fails if clauses compare the rows of a result: that would tell which masked values are equal.
fn result_alone(select: &Select) -> Walked {
    let distinct = match &select.distinct {
        None | Some(Distinct::All) => false,
        Some(Distinct::Distinct | Distinct::On(_)) => true,
    };
    let grouped = match &select.group_by {
        GroupByExpr::Expressions(expressions, modifiers) => {
            !expressions.is_empty() || !modifiers.is_empty()
        }
        GroupByExpr::All(_) => true,
    };
    if distinct || grouped || select.having.is_some() {
        return Err(RefusedStatement::new(
            "a result with masked columns has no `DISTINCT`, `GROUP BY` or `HAVING`",
        ));
    }
    Ok(())
}
