//! The tables whose rows a change means to change: the one it names, its partitions and the tables that
//! inherit from it, or what a view is made of that the server itself writes through.

use haft_contract::ops::OpsError;
use tokio_postgres::Client;

use super::{PostgresSource, failure::failed};
use crate::sql::{ChangeKind, ChangedTable};

/// The named table and what belongs to it. With an `INSTEAD OF` trigger or a rule, what is written for a
/// view is for whoever made them to know: then it has no tables of its own.
const OWN: &str = "WITH RECURSIVE own(oid, kind) AS (
        SELECT c.oid, c.relkind FROM pg_catalog.pg_class AS c
            JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
            WHERE n.nspname::text = $1 AND c.relname::text = $2
        UNION
        SELECT part.oid, part.kind FROM own CROSS JOIN LATERAL (
            SELECT c.oid, c.relkind FROM pg_catalog.pg_rewrite AS r
                JOIN pg_catalog.pg_depend AS d ON d.objid = r.oid
                    AND d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
                    AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
                JOIN pg_catalog.pg_class AS c ON c.oid = d.refobjid
                WHERE own.kind = 'v' AND r.ev_class = own.oid AND r.rulename = '_RETURN'
                    AND c.relkind IN ('r', 'p', 'v', 'f')
            UNION ALL
            SELECT c.oid, c.relkind FROM pg_catalog.pg_inherits AS i
                JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
                WHERE i.inhparent = own.oid
        ) AS part(oid, kind)
    )
    SELECT coalesce(array_agg(oid), ARRAY[]::oid[]), coalesce(bool_or(kind = 'p'), false) FROM own
    WHERE NOT EXISTS (SELECT 1 FROM own AS view WHERE view.kind = 'v' AND (
        EXISTS (SELECT 1 FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = view.oid)
        OR EXISTS (SELECT 1 FROM pg_catalog.pg_rewrite AS r
            WHERE r.ev_class = view.oid AND r.rulename <> '_RETURN')))";

/// What a change may change rows of.
#[derive(Debug)]
pub(super) struct OwnTables {
    pub(super) tables: Vec<u32>,
    /// Whether it may move rows from one partition to another.
    pub(super) moves_rows: bool,
}

impl PostgresSource {
    /// The tables of a change.
    pub(super) async fn own_tables(
        &self,
        client: &Client,
        change: &ChangedTable,
    ) -> Result<OwnTables, OpsError> {
        let schema = change.schema.as_deref().unwrap_or(&self.schema);
        let read = |error: tokio_postgres::Error| failed(&error);
        let row = client.query_one(OWN, &[&schema, &change.table]).await;
        let row = row.map_err(read)?;
        let partitioned: bool = row.try_get(1).map_err(read)?;
        Ok(OwnTables {
            tables: row.try_get(0).map_err(read)?,
            moves_rows: match change.kind {
                ChangeKind::Update(_) => partitioned,
                ChangeKind::Insert | ChangeKind::Delete => false,
            },
        })
    }
}
