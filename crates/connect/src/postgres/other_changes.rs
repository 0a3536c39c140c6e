//! What a change did besides the rows that it reports: rows that triggers, rules and cascades changed.
//! Nobody approved those, so they count as rows of the statement unless the operator lists their table.

use haft_contract::{ErrorKind, ops::OpsError};
use tokio_postgres::Client;

use super::{PostgresSource, failure::failed};
use crate::sql::written_table;

/// How many tables an error names.
const MAX_NAMED: usize = 5;

/// The rows changed in this transaction, for each table. What a statement moves from one partition to
/// another is counted as deleted and inserted there, and is one row. The connection ran nothing else.
const CHANGED: &str = "SELECT n.nspname::text, c.relname::text, (sum(s.n_tup_upd)
        + CASE WHEN c.relkind = 'p' THEN greatest(sum(s.n_tup_ins), sum(s.n_tup_del))
            ELSE sum(s.n_tup_ins) + sum(s.n_tup_del) END)::bigint
    FROM pg_catalog.pg_stat_xact_user_tables AS s
    JOIN pg_catalog.pg_class AS c ON c.oid = coalesce(pg_catalog.pg_partition_root(s.relid)::oid, s.relid)
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE s.n_tup_ins + s.n_tup_upd + s.n_tup_del > 0
    GROUP BY n.nspname, c.relname, c.relkind ORDER BY 3 DESC, 1, 2";

impl PostgresSource {
    /// Fails if more rows were changed than the statement reports.
    pub(super) async fn check_other_changes(
        &self,
        client: &Client,
        reported: u64,
    ) -> Result<(), OpsError> {
        // What would happen at the commit happens here, where it is seen.
        let all_now = client.batch_execute("SET CONSTRAINTS ALL IMMEDIATE").await;
        all_now.map_err(|error| failed(&error))?;
        let counts = client.query_one("SHOW track_counts", &[]).await;
        let counts: String = counts
            .and_then(|row| row.try_get(0))
            .map_err(|error| failed(&error))?;
        if counts != "on" {
            return Err(OpsError::new(
                ErrorKind::Unavailable,
                "the server does not count what is changed (`track_counts` is off), so nobody can \
                 see what triggers and cascades change, and nothing was changed",
            ));
        }
        let rows = client.query(CHANGED, &[]).await;
        let rows = rows.map_err(|error| failed(&error))?;
        let mut changed = 0_u64;
        let mut named = Vec::new();
        for row in &rows {
            let read = |error: tokio_postgres::Error| failed(&error);
            let schema: String = row.try_get(0).map_err(read)?;
            let table: String = row.try_get(1).map_err(read)?;
            let count: i64 = row.try_get(2).map_err(read)?;
            let schema = (schema != self.schema).then_some(schema);
            let table = written_table(schema.as_deref(), &table);
            if self.also_changes.contains(&table) {
                continue;
            }
            changed = changed.saturating_add(u64::try_from(count).unwrap_or(0));
            named.push(format!("{count} of `{table}`"));
        }
        if changed <= reported {
            return Ok(());
        }
        let more = named.len().saturating_sub(MAX_NAMED);
        named.truncate(MAX_NAMED);
        if more > 0 {
            named.push(format!("those of {more} more tables"));
        }
        Err(OpsError::new(
            ErrorKind::Conflict,
            format!(
                "with its triggers and cascades the statement would have changed {changed} rows instead \
                 of {reported} ({}), so nothing was changed; the operator can list tables that such \
                 changes may reach under `also_changes`",
                named.join(", ")
            ),
        ))
    }
}
