//! Finds what a record once had, according to its high-water mark, and has lost.

use sqlx::{Row as _, SqliteConnection};

use super::connect::OpenError;
use crate::{
    chain::Head,
    high_water::{HighWater, Read},
};

/// A sentence for each tenant whose record ends before its mark, or differs there.
pub(crate) async fn lost(
    connection: &mut SqliteConnection,
    mark: &HighWater,
) -> Result<Vec<String>, OpenError> {
    let file = mark.path().display();
    let read = match mark.read() {
        Ok(read) => read,
        Err(error) => {
            return Ok(vec![format!(
                "whether the record is whole cannot be told: `{file}` cannot be read ({error})"
            )]);
        }
    };
    let marks = match read {
        Read::Marks(marks) => marks,
        Read::Foreign => {
            return Ok(vec![format!(
                "the record that was here is gone or was replaced: `{file}` was not signed by this one"
            )]);
        }
    };
    let mut found = Vec::new();
    for (tenant, head) in &marks {
        if let Some(reason) = differs(connection, tenant, head).await? {
            found.push(format!("the record of tenant `{tenant}` {reason}"));
        }
    }
    Ok(found)
}

/// How a tenant's record differs from its mark, as the end of a sentence.
pub(super) async fn differs(
    connection: &mut SqliteConnection,
    tenant: &str,
    mark: &Head,
) -> Result<Option<String>, sqlx::Error> {
    let sequence = i64::try_from(mark.sequence).unwrap_or(i64::MAX);
    let row = sqlx::query("SELECT hash FROM event WHERE tenant = ?1 AND sequence = ?2")
        .bind(tenant)
        .bind(sequence)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(row) = row else {
        let newest: Option<i64> =
            sqlx::query_scalar("SELECT max(sequence) FROM event WHERE tenant = ?1")
                .bind(tenant)
                .fetch_one(connection)
                .await?;
        let newest = newest.unwrap_or(0);
        let sequence = mark.sequence;
        return Ok(Some(format!(
            "once had {sequence} entries and has {newest}: it was emptied, or an older copy was put back"
        )));
    };
    let hash: &[u8] = row.try_get("hash")?;
    Ok((hash != mark.hash)
        .then(|| format!("was another at entry {}: it was replaced", mark.sequence)))
}
