//! What the server expects of a statement, without running it.

use std::collections::BTreeSet;

use haft_contract::ops::{DatabaseQuery, OpsError, StatementEstimate, TableScan};
use serde_json::Value;
use tokio_postgres::Client;

use super::{
    PostgresSource, failure::failed, run::parameters, session::TransactionUse, value::JsonText,
};
use crate::{
    halt::Halt,
    sql::{SqlReading, written_table},
    whole_number::whole,
};

/// How deep the steps of a plan are shown.
const MAX_DEPTH: usize = 12;

/// The most steps that are shown.
const MAX_STEPS: usize = 60;

/// How deep steps are looked at for tables that are read as a whole. A plan nests less than its text may.
const MAX_SCAN_DEPTH: usize = 100;

/// The most tables that are read as a whole of which the size is told.
const MAX_SCANS: usize = 20;

/// How many rows tables have, as the server last counted or guessed; -1 if it never did.
const TABLE_ROWS: &str = "SELECT named.sch, named.tab, c.reltuples::float8
    FROM unnest($1::text[], $2::text[]) AS named(sch, tab)
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = named.sch::name
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = named.tab::name";

impl PostgresSource {
    /// Explains a statement in a transaction that only reads.
    pub(crate) async fn explain(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        halt: &Halt,
    ) -> Result<StatementEstimate, OpsError> {
        let backend = self.begin(TransactionUse::Reads, halt).await?;
        let run = async {
            let client = backend.client()?;
            self.check_called(client, &reading.called).await?;
            let explain = format!("EXPLAIN (FORMAT JSON, VERBOSE) {}", reading.statement);
            let prepared = client.prepare(&explain).await;
            let prepared = prepared.map_err(|error| failed(&error))?;
            let parameters = parameters(query, prepared.params().len())?;
            let parameters: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = parameters
                .iter()
                .map(|parameter| parameter as &(dyn tokio_postgres::types::ToSql + Sync))
                .collect();
            let row = client.query_one(&prepared, &parameters).await;
            let row = row.map_err(|error| failed(&error))?;
            let JsonText(text) = row.try_get(0).map_err(|error| failed(&error))?;
            let plan = read_plan(&text);
            let not_kept = match &reading.change {
                Some(change) => self.row_table(client, change).await?.err(),
                None => None,
            };
            Ok(StatementEstimate {
                scans: self.scans(client, &plan).await?,
                not_kept,
                ..estimate(&plan)
            })
        };
        let estimated = tokio::select! {
            biased;
            estimated = run => estimated,
            stop = halt.reached() => return Err(backend.end(stop).await),
        };
        backend.roll_back().await;
        estimated
    }
}

impl PostgresSource {
    /// The tables that the plan reads as a whole, and how many rows each has: a step tells only how
    /// many it keeps.
    async fn scans(&self, client: &Client, plan: &Value) -> Result<Vec<TableScan>, OpsError> {
        let mut found = BTreeSet::new();
        whole_tables(plan, 0, &mut found);
        let found: Vec<(String, String)> = found.into_iter().take(MAX_SCANS).collect();
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let (schemas, tables): (Vec<String>, Vec<String>) = found.into_iter().unzip();
        let rows = client.query(TABLE_ROWS, &[&schemas, &tables]).await;
        let rows = rows.map_err(|error| failed(&error))?;
        let mut scans = Vec::new();
        for row in &rows {
            let read = |error: tokio_postgres::Error| failed(&error);
            let schema: String = row.try_get(0).map_err(read)?;
            let table: String = row.try_get(1).map_err(read)?;
            let count: f64 = row.try_get(2).map_err(read)?;
            let schema = (schema != self.schema).then_some(schema);
            scans.push(TableScan {
                table: written_table(schema.as_deref(), &table),
                rows: (count >= 0.0).then(|| whole(count)),
            });
        }
        Ok(scans)
    }
}

fn read_plan(text: &str) -> Value {
    let mut explained: Value = serde_json::from_str(text).unwrap_or_default();
    let plan = explained.get_mut(0).and_then(|first| first.get_mut("Plan"));
    plan.map(Value::take).unwrap_or_default()
}

fn estimate(plan: &Value) -> StatementEstimate {
    // What changes rows returns none: how many it changes is what the step below it finds.
    let changes = plan.get("Node Type").and_then(Value::as_str) == Some("ModifyTable");
    let found = match plan.get("Plans") {
        Some(below) if changes => below.get(0).unwrap_or(plan),
        Some(_) | None => plan,
    };
    let number = |step: &Value, key: &str| step.get(key).and_then(Value::as_f64).map(whole);
    let mut steps = Vec::new();
    if plan.is_object() {
        describe(plan, 0, &mut steps);
    }
    StatementEstimate {
        cost: number(plan, "Total Cost"),
        rows: number(found, "Plan Rows"),
        steps: steps.join("\n"),
        scans: Vec::new(),
        not_kept: None,
    }
}

/// Schema and name of the tables that steps read from the first row to the last.
fn whole_tables(step: &Value, depth: usize, found: &mut BTreeSet<(String, String)>) {
    if depth > MAX_SCAN_DEPTH {
        return;
    }
    let text = |key: &str| step.get(key).and_then(Value::as_str);
    if text("Node Type") == Some("Seq Scan")
        && let (Some(schema), Some(table)) = (text("Schema"), text("Relation Name"))
    {
        found.insert((schema.to_owned(), table.to_owned()));
    }
    let below = step.get("Plans").and_then(Value::as_array);
    for step in below.into_iter().flatten() {
        whole_tables(step, depth + 1, found);
    }
}

/// One line for each step: what it does, on what, and how many rows it expects.
fn describe(step: &Value, depth: usize, lines: &mut Vec<String>) {
    if depth > MAX_DEPTH || lines.len() >= MAX_STEPS {
        return;
    }
    let text = |key: &str| step.get(key).and_then(Value::as_str);
    let mut line = format!(
        "{}{}",
        "  ".repeat(depth),
        text("Node Type").unwrap_or("step")
    );
    if let Some(relation) = text("Relation Name") {
        line.push_str(" on ");
        line.push_str(relation);
    }
    if let Some(index) = text("Index Name") {
        line.push_str(" using ");
        line.push_str(index);
    }
    if let Some(rows) = step.get("Plan Rows").and_then(Value::as_f64) {
        line.push_str(" (about ");
        line.push_str(&rows.to_string());
        line.push_str(" rows)");
    }
    lines.push(line);
    let below = step.get("Plans").and_then(Value::as_array);
    for step in below.into_iter().flatten() {
        describe(step, depth + 1, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_in_a_few_lines() {
        let text = r#"[{"Plan": {"Node Type": "Sort", "Total Cost": 12.34, "Plan Rows": 5,
            "Plans": [{"Node Type": "Seq Scan", "Relation Name": "users", "Plan Rows": 9}]}}]"#;
        let estimate = estimate(&read_plan(text));
        assert_eq!((estimate.cost, estimate.rows), (Some(13), Some(5)));
        assert_eq!(
            estimate.steps,
            "Sort (about 5 rows)\n  Seq Scan on users (about 9 rows)"
        );
        let nonsense = super::estimate(&read_plan("nonsense"));
        assert_eq!(nonsense, StatementEstimate::default());
        // A change: its own step returns nothing.
        let text = r#"[{"Plan": {"Node Type": "ModifyTable", "Operation": "Update", "Total Cost": 3.5,
            "Plan Rows": 0, "Relation Name": "users", "Schema": "public", "Plans": [{
            "Node Type": "Seq Scan", "Relation Name": "users", "Schema": "public", "Plan Rows": 9}]}}]"#;
        let plan = read_plan(text);
        assert_eq!(super::estimate(&plan).rows, Some(9));
        let mut found = BTreeSet::new();
        whole_tables(&plan, 0, &mut found);
        assert_eq!(found, [("public".to_owned(), "users".to_owned())].into());
    }
}
