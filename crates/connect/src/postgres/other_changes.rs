//! What a change did besides the rows that it reports: rows that triggers, rules and cascades changed,
//! and tables that they emptied. Nobody approved those, so nothing is changed unless the operator lists
//! their table. Which tables are the statement's own is in `own_tables.rs`.

use haft_contract::{ErrorKind, ops::OpsError};
use tokio_postgres::Client;

use super::{PostgresSource, failure::failed, own_tables::OwnTables};
use crate::sql::written_table;

/// How many tables an error names.
const MAX_NAMED: usize = 5;

/// The rows changed in this transaction, for each table, and whether it is one of `$1`. Where rows move
/// between partitions (`$2`), one that is deleted here and inserted there is one row. The connection ran
/// nothing else. A table that lasts as long as the session is nobody's data.
const CHANGED: &str = "SELECT n.nspname::text, c.relname::text, s.relid = ANY($1),
        (sum(s.n_tup_upd) + CASE WHEN $2 AND s.relid = ANY($1)
            THEN greatest(sum(s.n_tup_ins), sum(s.n_tup_del))
            ELSE sum(s.n_tup_ins) + sum(s.n_tup_del) END)::bigint
    FROM pg_catalog.pg_stat_xact_user_tables AS s
    JOIN pg_catalog.pg_class AS c ON c.oid = coalesce(pg_catalog.pg_partition_root(s.relid)::oid, s.relid)
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE s.n_tup_ins + s.n_tup_upd + s.n_tup_del > 0 AND c.relpersistence <> 't'
    GROUP BY n.nspname, c.relname, s.relid = ANY($1) ORDER BY 4 DESC, 1, 2";

/// Tables that this transaction keeps from everybody, as no statement that is taken here does: a trigger
/// emptied them with `TRUNCATE`, which counts no rows and forgets those counted before, or altered,
/// refreshed or dropped them. One that is gone has no name.
const SEIZED: &str = "SELECT DISTINCT n.nspname::text, root.relname::text
    FROM pg_catalog.pg_locks AS l
    LEFT JOIN pg_catalog.pg_class AS c ON c.oid = l.relation
    LEFT JOIN pg_catalog.pg_class AS root
        ON root.oid = coalesce(pg_catalog.pg_partition_root(c.oid)::oid, c.oid)
    LEFT JOIN pg_catalog.pg_namespace AS n ON n.oid = root.relnamespace
    WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.granted
        AND l.mode = 'AccessExclusiveLock'
        AND l.database = (SELECT oid FROM pg_catalog.pg_database
            WHERE datname = pg_catalog.current_database())
        AND (c.oid IS NULL OR c.relpersistence <> 't' AND c.relkind IN ('r', 'p', 'm', 'f'))
    ORDER BY 1, 2";

impl PostgresSource {
    /// Fails if more rows were changed than the statement reports, or any of a table that is not its
    /// own. Says what else was changed where the operator expects that: it is kept nowhere.
    pub(super) async fn check_other_changes(
        &self,
        client: &Client,
        own: &OwnTables,
        reported: u64,
    ) -> Result<Option<String>, OpsError> {
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
        let mut expected = self.check_seized(client).await?;
        let rows = client.query(CHANGED, &[&own.tables, &own.moves_rows]).await;
        let rows = rows.map_err(|error| failed(&error))?;
        let mut changed = 0_u64;
        let mut in_all = 0_u64;
        let mut elsewhere = false;
        let mut named = Vec::new();
        for row in &rows {
            let read = |error: tokio_postgres::Error| failed(&error);
            let is_own: bool = row.try_get(2).map_err(read)?;
            let count: i64 = row.try_get(3).map_err(read)?;
            let count = u64::try_from(count).unwrap_or(0);
            let table = self.table_in(row)?.unwrap_or_default();
            in_all = in_all.saturating_add(count);
            if self.also_changes.contains(&table) {
                expected |= !is_own;
                continue;
            }
            elsewhere |= !is_own;
            changed = changed.saturating_add(count);
            named.push(format!("{count} of `{table}`"));
        }
        let more = named.len().saturating_sub(MAX_NAMED);
        named.truncate(MAX_NAMED);
        if more > 0 {
            named.push(format!("those of {more} more tables"));
        }
        let named = named.join(", ");
        if changed > reported {
            return Err(unexpected(&format!(
                "with its triggers and cascades the statement would have changed {changed} rows instead \
                 of {reported} ({named})"
            )));
        }
        if elsewhere {
            return Err(unexpected(&format!(
                "its triggers, rules or cascades would have changed rows of tables that it does not \
                 name ({named})"
            )));
        }
        expected |= in_all > reported;
        Ok(expected.then(|| "its triggers or cascades changed other rows".to_owned()))
    }

    /// Fails if a table was emptied or altered that the operator does not list. Says whether one was
    /// that is listed.
    async fn check_seized(&self, client: &Client) -> Result<bool, OpsError> {
        let rows = client.query(SEIZED, &[]).await;
        let rows = rows.map_err(|error| failed(&error))?;
        for row in &rows {
            let table = self.table_in(row)?;
            if table
                .as_ref()
                .is_none_or(|table| !self.also_changes.contains(table))
            {
                let table = table.map_or("a table".to_owned(), |table| format!("`{table}`"));
                return Err(unexpected(&format!(
                    "its triggers or rules would have emptied, altered or locked {table} as a whole"
                )));
            }
        }
        Ok(!rows.is_empty())
    }

    /// The table that a row names first, as rules name it.
    fn table_in(&self, row: &tokio_postgres::Row) -> Result<Option<String>, OpsError> {
        let read = |error: tokio_postgres::Error| failed(&error);
        let schema: Option<String> = row.try_get(0).map_err(read)?;
        let table: Option<String> = row.try_get(1).map_err(read)?;
        let schema = schema.filter(|schema| *schema != self.schema);
        Ok(table.map(|table| written_table(schema.as_deref(), &table)))
    }
}

fn unexpected(what: &str) -> OpsError {
    OpsError::new(
        ErrorKind::Conflict,
        format!(
            "{what}, so nothing was changed; the operator can list tables that such changes may reach \
             under `also_changes`"
        ),
    )
}
