//! What the server expects of a statement, without running it.

use haft_contract::{
    ErrorKind,
    ops::{DatabaseQuery, OpsError, StatementEstimate, TableScan},
};
use mysql_async::{Conn, prelude::Queryable as _};
use serde_json::Value;

use super::{MariaDbSource, failure::failed, run::prepare, session::TransactionUse};
use crate::{
    halt::Halt,
    sql::{ChangedTable, SqlReading},
    whole_number::whole,
};

/// How deep the steps of a plan are shown.
const MAX_DEPTH: usize = 24;

/// The most steps that are shown.
const MAX_STEPS: usize = 60;

/// The most tables that are read as a whole that are named.
const MAX_SCANS: usize = 20;

impl MariaDbSource {
    /// Explains a statement in a transaction that is rolled back.
    pub(crate) async fn explain(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        halt: &Halt,
    ) -> Result<StatementEstimate, OpsError> {
        // The server refuses to explain a change where nothing may be changed.
        let purpose = if reading.writes {
            TransactionUse::Writes
        } else {
            TransactionUse::Reads
        };
        let mut backend = self.begin(purpose, halt).await?;
        let run = async {
            let conn = backend.conn()?;
            self.check_called(conn, &reading.called).await?;
            let explain = format!("EXPLAIN FORMAT=JSON {}", reading.statement);
            let (prepared, parameters) = prepare(conn, &explain, query).await?;
            let told: Option<String> = conn
                .exec_first(&prepared, parameters)
                .await
                .map_err(|error| failed(&error))?;
            let plan: Value = serde_json::from_str(&told.unwrap_or_default()).unwrap_or_default();
            let not_kept = match &reading.change {
                Some(change) => self.why_not_kept(conn, change).await?,
                None => None,
            };
            Ok(StatementEstimate {
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

impl MariaDbSource {
    /// Why rows of a change would not be kept, as far as the catalog tells.
    async fn why_not_kept(
        &self,
        conn: &mut Conn,
        change: &ChangedTable,
    ) -> Result<Option<String>, OpsError> {
        match self.own_table(conn, &change.table).await {
            Ok(Some(table)) => Ok(self.row_table(conn, &table, &change.kind).await?.err()),
            Ok(None) => Ok(None),
            Err(error) if error.kind() == ErrorKind::Denied => Ok(Some(error.message().to_owned())),
            Err(error) => Err(error),
        }
    }
}

fn estimate(plan: &Value) -> StatementEstimate {
    let block = plan.get("query_block");
    let (mut steps, mut scans) = (Vec::new(), Vec::new());
    describe(plan, 0, &mut steps, &mut scans);
    scans.sort_by(|one: &TableScan, other| one.table.cmp(&other.table));
    scans.dedup();
    scans.truncate(MAX_SCANS);
    let cost = block.and_then(|block| block.get("cost"));
    StatementEstimate {
        cost: cost.and_then(Value::as_f64).map(whole),
        not_kept: None,
        rows: block.and_then(|block| rows_of(block, 0)).map(whole),
        steps: steps.join("\n"),
        scans,
    }
}

/// How many rows a part of a plan finds, before grouping and limits: what its tables keep, multiplied.
/// None if it does not say.
fn rows_of(part: &Value, depth: usize) -> Option<f64> {
    if depth > MAX_DEPTH {
        return None;
    }
    if let Some(table) = part.get("table") {
        let rows = table.get("rows").and_then(Value::as_f64)?;
        let kept = table.get("filtered").and_then(Value::as_f64);
        return Some(rows * kept.unwrap_or(100.0) / 100.0);
    }
    if let Some(joined) = part.get("nested_loop").and_then(Value::as_array) {
        let each = joined.iter().map(|part| rows_of(part, depth + 1));
        return each.product();
    }
    if let Some(queries) = part
        .get("union_result")
        .and_then(|union| union.get("query_specifications"))
        .and_then(Value::as_array)
    {
        let each = queries.iter().map(|part| rows_of(part, depth + 1));
        return each.sum();
    }
    // Steps around the tables: sorting, a buffer, a temporary table.
    let object = part.as_object()?;
    let mut below = object.values().filter(|value| value.is_object());
    below.find_map(|value| rows_of(value, depth + 1))
}

/// One line for each table that is read: how, and about how many of its rows.
fn describe(part: &Value, depth: usize, lines: &mut Vec<String>, scans: &mut Vec<TableScan>) {
    if depth > MAX_DEPTH {
        return;
    }
    match part {
        Value::Array(parts) => {
            for part in parts {
                describe(part, depth + 1, lines, scans);
            }
        }
        Value::Object(parts) => {
            if let Some(Value::String(name)) = parts.get("table_name") {
                table(part, name, lines, scans);
            }
            for part in parts.values() {
                describe(part, depth + 1, lines, scans);
            }
        }
        _ => {}
    }
}

fn table(step: &Value, name: &str, lines: &mut Vec<String>, scans: &mut Vec<TableScan>) {
    let text = |key: &str| step.get(key).and_then(Value::as_str);
    let rows = step.get("rows").and_then(Value::as_f64).map(whole);
    let how = text("access_type").unwrap_or("step");
    // `<derived2>` and its like are no tables.
    if how == "ALL" && !name.starts_with('<') {
        scans.push(TableScan {
            table: name.to_owned(),
            rows,
        });
    }
    if lines.len() >= MAX_STEPS {
        return;
    }
    let mut line = format!("{how} on {name}");
    if let Some(index) = text("key") {
        line.push_str(" using ");
        line.push_str(index);
    }
    if let Some(rows) = rows {
        line.push_str(" (about ");
        line.push_str(&rows.to_string());
        line.push_str(" rows)");
    }
    lines.push(line);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_plan_in_a_few_lines() {
        let table = |name: &str, how: &str, rows: u64, kept: u64| json!({"table": {"table_name": name, "access_type": how, "rows": rows, "filtered": kept}});
        let joined = json!({"query_block": {"select_id": 1, "cost": 1.5, "filesort": {"temporary_table": {
            "nested_loop": [table("o", "ALL", 30, 50), table("u", "eq_ref", 1, 100)]}}}});
        let found = estimate(&joined);
        assert_eq!((found.cost, found.rows), (Some(2), Some(15)));
        assert_eq!(
            found.steps,
            "ALL on o (about 30 rows)\neq_ref on u (about 1 rows)"
        );
        assert_eq!(found.scans.len(), 1);
        let union = json!({"query_block": {"union_result": {"query_specifications": [
            {"query_block": {"nested_loop": [table("a", "ALL", 2, 100)]}},
            {"query_block": {"nested_loop": [table("b", "ALL", 3, 100)]}}]}}});
        assert_eq!(estimate(&union).rows, Some(5));
        assert_eq!(estimate(&Value::Null), StatementEstimate::default());
    }
}
