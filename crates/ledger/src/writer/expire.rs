//! Removes questions, grants and accepted requests that nobody needs any more: those that lapsed or
//! ended long ago, and the oldest closed questions when there are too many. The record of calls is
//! never touched.

use haft_contract::host::Timestamp;

use crate::{
    options::Retention,
    store::{Connection, Scope, StoreError, values},
};

/// How many closed questions are kept.
const MAX_CLOSED_QUESTIONS: i64 = 100_000;

/// How many rows one start removes, to keep it fast.
const REMOVED_AT_ONCE: i64 = 10_000;

/// Removes old questions, grants and accepted requests. The newest change is kept, because waiters
/// count from it.
pub(crate) async fn expire(
    connection: &mut dyn Connection,
    now: Timestamp,
    retention: Retention,
) -> Result<(), StoreError> {
    let kept_for = i64::try_from(retention.kept_for.as_micros()).unwrap_or(i64::MAX);
    let before = now.0.saturating_sub(kept_for);
    connection.begin().await?;
    connection.act_for(Scope::Every).await?;
    connection
        .execute(
            "DELETE FROM approval WHERE (tenant, id) IN
             (SELECT tenant, id FROM approval WHERE expires_at < ?1
                  AND changed < (SELECT max(changed) FROM approval)
              ORDER BY expires_at LIMIT ?2)",
            values![before, REMOVED_AT_ONCE],
        )
        .await?;
    let kept: i64 = connection
        .number(
            "SELECT count(*) FROM approval WHERE expires_at < ?1",
            &values![now.0],
        )
        .await?;
    if kept > MAX_CLOSED_QUESTIONS {
        connection
            .execute(
                "DELETE FROM approval WHERE (tenant, id) IN
                 (SELECT tenant, id FROM approval WHERE expires_at < ?1
                      AND changed < (SELECT max(changed) FROM approval)
                  ORDER BY expires_at LIMIT ?2)",
                values![now.0, (kept - MAX_CLOSED_QUESTIONS).min(REMOVED_AT_ONCE)],
            )
            .await?;
    }
    connection
        .execute(
            "DELETE FROM grant_rule WHERE (tenant, id) IN
             (SELECT tenant, id FROM grant_rule WHERE until_at < ?1 OR uses_left = 0 LIMIT ?2)",
            values![now.0, REMOVED_AT_ONCE],
        )
        .await?;
    // If the request is sent again later, the id of its call refuses it.
    connection
        .execute(
            "DELETE FROM accepted WHERE (tenant, call) IN
             (SELECT tenant, call FROM accepted WHERE request IS NULL AND at < ?1 LIMIT ?2)",
            values![before, REMOVED_AT_ONCE],
        )
        .await?;
    connection.commit().await
}
