//! What follows a change besides the rows that it finds, looked at before it runs: an engine that takes
//! nothing back, columns that the server sets by itself, and rows of other tables that references
//! (`ON DELETE CASCADE`) would change, which the server counts nowhere.

use haft_contract::{ErrorKind, ops::OpsError};
use mysql_async::{Conn, Params, prelude::Queryable as _};

use super::{MariaDbSource, failure::failed, names::identifier, session_counts::SessionCounts};
use crate::sql::{ChangeKind, ChangedTable};

/// The engine that takes changes back and whose rows are counted. Of others with transactions some hand
/// rows on to other servers.
const ENGINE: &str = "InnoDB";

/// How often it is looked which tables are opened with a change.
const LOOKS: usize = 3;

/// What tables of a name are, whatever its case.
const KIND: &str =
    "SELECT TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, ''), COALESCE(CREATE_OPTIONS, '') LIKE '%partitioned%'
    FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND LOWER(TABLE_NAME) = ?";

/// Columns that the server sets by itself when a row changes.
const SET_BY_ITSELF: &str = "SELECT COLUMN_NAME FROM information_schema.COLUMNS
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND EXTRA LIKE '%on update%'";

/// Columns that other tables may refer to: those of an index.
const INDEXED: &str = "SELECT DISTINCT COLUMN_NAME FROM information_schema.STATISTICS
    WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?";

/// What other tables do when a row that they refer to goes, or when these columns of it change.
const FOLLOWERS: &str =
    "SELECT k.TABLE_NAME, k.REFERENCED_COLUMN_NAME, r.DELETE_RULE, r.UPDATE_RULE
    FROM information_schema.KEY_COLUMN_USAGE AS k
    JOIN information_schema.REFERENTIAL_CONSTRAINTS AS r
        ON r.CONSTRAINT_SCHEMA = k.CONSTRAINT_SCHEMA AND r.CONSTRAINT_NAME = k.CONSTRAINT_NAME
        AND r.TABLE_NAME = k.TABLE_NAME
    WHERE k.REFERENCED_TABLE_SCHEMA = ? AND k.REFERENCED_TABLE_NAME = ?";

impl MariaDbSource {
    /// Refuses changes that the server could not take back or whose rows it would not count. Returns the
    /// table's name as the server has it; none if there is no such table, so that the change fails by
    /// itself.
    pub(super) async fn check_follows(
        &self,
        conn: &mut Conn,
        changed: &ChangedTable,
    ) -> Result<Option<String>, OpsError> {
        if changed.schema.is_some() {
            return Err(refused(
                "tables of other databases are not changed here; the operator can make a source of its own"
                    .to_owned(),
            ));
        }
        let Some(table) = self.own_table(conn, &changed.table).await? else {
            return Ok(None);
        };
        if let ChangeKind::Update(columns) = &changed.kind {
            let by_itself = self.names(conn, SET_BY_ITSELF, &table).await?;
            let other = by_itself
                .iter()
                .find(|column| !columns.contains(&column.to_lowercase()));
            if let Some(column) = other {
                return Err(refused(format!(
                    "the server would also set `{column}` (`ON UPDATE CURRENT_TIMESTAMP`), which the \
                     statement does not say; add `{column} = CURRENT_TIMESTAMP`"
                )));
            }
        }
        self.check_followers(conn, &table, &changed.kind).await?;
        self.check_unseen(conn, &table, &changed.kind).await?;
        Ok(Some(table))
    }

    /// The table of this name, if its rows can be changed, counted and taken back.
    pub(super) async fn own_table(
        &self,
        conn: &mut Conn,
        name: &str,
    ) -> Result<Option<String>, OpsError> {
        let found: Result<Vec<(String, String, String, bool)>, _> =
            conn.exec(KIND, self.of(&name.to_lowercase())).await;
        let mut found = found.map_err(|error| failed(&error))?;
        if found.len() > 1 {
            return Err(refused(format!(
                "there are several `{name}` whose names differ in case alone"
            )));
        }
        let Some((table, kind, engine, is_partitioned)) = found.pop() else {
            return Ok(None);
        };
        let why = if kind != "BASE TABLE" {
            "is a view, a sequence or a table with a history, and those are not changed here"
                .to_owned()
        } else if engine != ENGINE {
            format!(
                "is kept by the engine {engine}; only tables of {ENGINE} are changed here, of which a \
                 change can be counted and taken back"
            )
        } else if is_partitioned {
            "is partitioned, and the server counts its rows in several ways, so it is not changed here"
                .to_owned()
        } else {
            return Ok(Some(table));
        };
        Err(refused(format!("`{table}` {why}")))
    }

    /// Refuses a change after which rows that refer to these would change, as far as the role sees it.
    async fn check_followers(
        &self,
        conn: &mut Conn,
        table: &str,
        kind: &ChangeKind,
    ) -> Result<(), OpsError> {
        let followers: Vec<(String, String, String, String)> = conn
            .exec(FOLLOWERS, self.of(table))
            .await
            .map_err(|error| failed(&error))?;
        let follows = |rule: &str| !matches!(rule, "RESTRICT" | "NO ACTION");
        let follower = followers
            .iter()
            .find(|(_, column, deleted, updated)| match kind {
                ChangeKind::Insert => false,
                ChangeKind::Delete => follows(deleted),
                ChangeKind::Update(columns) => {
                    columns.contains(&column.to_lowercase()) && follows(updated)
                }
            });
        match follower {
            None => Ok(()),
            Some((follower, ..)) => Err(refused(format!(
                "rows of `{follower}` refer to rows of `{table}` and would change with them, and MariaDB \
                 does not count those; change the rows that refer to these first"
            ))),
        }
    }

    /// Refuses a change with which the server opens more tables than the one that is named: those whose
    /// rows references would change, and those that triggers use. It does so whether or not the role
    /// may see them, and also where no row is found.
    async fn check_unseen(
        &self,
        conn: &mut Conn,
        table: &str,
        kind: &ChangeKind,
    ) -> Result<(), OpsError> {
        let target = format!("{}.{}", identifier(&self.database), identifier(table));
        let finds_nothing = match kind {
            ChangeKind::Insert => return Ok(()),
            ChangeKind::Delete => format!("DELETE FROM {target} WHERE 1 = 0"),
            ChangeKind::Update(columns) => {
                let indexed = self.names(conn, INDEXED, table).await?;
                let mut referable = indexed
                    .iter()
                    .filter(|column| columns.contains(&column.to_lowercase()));
                let Some(column) = referable.next() else {
                    return Ok(());
                };
                // The value is never worked out.
                format!(
                    "UPDATE {target} SET {} = NULL WHERE 1 = 0",
                    identifier(column)
                )
            }
        };
        // The first time the server may also open tables of its own, for what it knows of this one.
        for _ in 0..LOOKS {
            let before = SessionCounts::of(conn).await?;
            let run = conn.query_drop(&finds_nothing).await;
            run.map_err(|error| failed(&error))?;
            if before.since(conn).await?.opened <= 1 {
                return Ok(());
            }
        }
        Err(refused(format!(
            "triggers of `{table}`, or rows of tables that Haft's role does not see, would act on other \
             tables with this change, and MariaDB does not count all of that"
        )))
    }

    async fn names(
        &self,
        conn: &mut Conn,
        question: &str,
        table: &str,
    ) -> Result<Vec<String>, OpsError> {
        let names = conn.exec(question, self.of(table)).await;
        names.map_err(|error| failed(&error))
    }

    /// The database and a table in it, as what the catalog is asked with.
    pub(super) fn of(&self, table: &str) -> Params {
        Params::Positional(vec![self.database.as_str().into(), table.into()])
    }
}

fn refused(why: String) -> OpsError {
    OpsError::new(ErrorKind::Denied, why)
}
