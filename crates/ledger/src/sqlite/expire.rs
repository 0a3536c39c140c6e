//! Removes questions, grants and accepted requests that nobody needs any more: those that lapsed or
//! ended long ago, and the oldest closed questions when there are too many. The record of calls is
//! never touched.

use haft_contract::host::Timestamp;
use sqlx::{Connection as _, SqliteConnection};

use crate::options::Retention;

/// How many closed questions are kept.
const MAX_CLOSED_QUESTIONS: i64 = 100_000;

/// How many rows one start removes, to keep it fast.
const REMOVED_AT_ONCE: i64 = 10_000;

/// Removes old questions, grants and accepted requests. The newest change is kept, because waiters
/// count from it.
pub(crate) async fn expire(
    connection: &mut SqliteConnection,
    now: Timestamp,
    retention: Retention,
) -> Result<(), sqlx::Error> {
    let kept_for = i64::try_from(retention.kept_for.as_micros()).unwrap_or(i64::MAX);
    let before = now.0.saturating_sub(kept_for);
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query(
        "DELETE FROM approval WHERE rowid IN
             (SELECT rowid FROM approval WHERE expires_at < ?1
                  AND changed < (SELECT max(changed) FROM approval)
              ORDER BY expires_at LIMIT ?2)",
    )
    .bind(before)
    .bind(REMOVED_AT_ONCE)
    .execute(&mut *transaction)
    .await?;
    let kept: i64 = sqlx::query_scalar("SELECT count(*) FROM approval WHERE expires_at < ?1")
        .bind(now.0)
        .fetch_one(&mut *transaction)
        .await?;
    if kept > MAX_CLOSED_QUESTIONS {
        sqlx::query(
            "DELETE FROM approval WHERE rowid IN
                 (SELECT rowid FROM approval WHERE expires_at < ?1
                      AND changed < (SELECT max(changed) FROM approval)
                  ORDER BY expires_at LIMIT ?2)",
        )
        .bind(now.0)
        .bind((kept - MAX_CLOSED_QUESTIONS).min(REMOVED_AT_ONCE))
        .execute(&mut *transaction)
        .await?;
    }
    sqlx::query(
        "DELETE FROM grant_rule WHERE rowid IN
             (SELECT rowid FROM grant_rule WHERE until_at < ?1 OR uses_left = 0 LIMIT ?2)",
    )
    .bind(now.0)
    .bind(REMOVED_AT_ONCE)
    .execute(&mut *transaction)
    .await?;
    // If the request is sent again later, the id of its call refuses it.
    sqlx::query(
        "DELETE FROM accepted WHERE (tenant, call) IN
             (SELECT tenant, call FROM accepted WHERE request IS NULL AND at < ?1 LIMIT ?2)",
    )
    .bind(before)
    .bind(REMOVED_AT_ONCE)
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await
}
