//! What the server expects of a statement, without running it.

use haft_contract::ops::{DatabaseQuery, OpsError, StatementEstimate};
use serde_json::Value;

use super::{
    PostgresSource, failure::failed, run::parameters, session::TransactionUse, value::JsonText,
};
use crate::{halt::Halt, sql::SqlReading};

/// How deep the steps of a plan are shown.
const MAX_DEPTH: usize = 12;

/// The most steps that are shown.
const MAX_STEPS: usize = 60;

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
            let explain = format!("EXPLAIN (FORMAT JSON) {}", reading.statement);
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
            Ok(estimate(&text))
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

fn estimate(text: &str) -> StatementEstimate {
    let plan: Value = serde_json::from_str(text).unwrap_or_default();
    let plan = plan.get(0).and_then(|first| first.get("Plan"));
    let number = |key: &str| {
        let number = plan.and_then(|plan| plan.get(key)).and_then(Value::as_f64);
        // A cost has decimals that nobody needs, and none is negative.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the cast saturates"
        )]
        number.map(|number| number.ceil() as u64)
    };
    let mut steps = Vec::new();
    if let Some(plan) = plan {
        describe(plan, 0, &mut steps);
    }
    StatementEstimate {
        cost: number("Total Cost"),
        rows: number("Plan Rows"),
        steps: steps.join("\n"),
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
        let estimate = estimate(text);
        assert_eq!((estimate.cost, estimate.rows), (Some(13), Some(5)));
        assert_eq!(
            estimate.steps,
            "Sort (about 5 rows)\n  Seq Scan on users (about 9 rows)"
        );
        assert_eq!(super::estimate("nonsense"), StatementEstimate::default());
    }
}
