//! Finds what a record once had, according to its high-water mark, and has lost.

use crate::{
    chain::Head,
    high_water::{HighWater, Read},
    open_error::OpenError,
    store::{Connection, StoreError, values},
};

/// A sentence for each tenant whose record ends before its mark, or differs there.
pub(crate) async fn lost(
    connection: &mut dyn Connection,
    mark: &HighWater,
) -> Result<Vec<String>, OpenError> {
    let file = mark.path().display();
    let read = match mark.read() {
        Ok(read) => read,
        Err(error) => {
            return Ok(vec![format!(
                "Haft cannot tell whether the record is complete: `{file}` cannot be read ({error})"
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
    for ((tenant, writer), head) in &marks {
        if let Some(reason) = differs(connection, tenant, writer, head).await? {
            found.push(format!("the record of tenant `{tenant}` {reason}"));
        }
    }
    Ok(found)
}

/// How a writer's chain differs from its mark, as the end of a sentence.
pub(crate) async fn differs(
    connection: &mut dyn Connection,
    tenant: &str,
    writer: &str,
    mark: &Head,
) -> Result<Option<String>, StoreError> {
    let row = connection
        .optional(
            "SELECT c.sequence, c.hash FROM chain c
             WHERE c.tenant = (SELECT id FROM tenant WHERE name = ?1)
                 AND c.writer = (SELECT id FROM writer WHERE name = ?2)
             ORDER BY c.sequence DESC LIMIT 1",
            &values![tenant, writer],
        )
        .await?;
    let (newest, hash) = match &row {
        Some(row) => (row.get::<i64>("sequence")?, row.get::<&[u8]>("hash")?),
        None => (0, [].as_slice()),
    };
    let newest = u64::try_from(newest).unwrap_or(0);
    if newest < mark.sequence {
        return Ok(Some(format!(
            "once had {} rows of writer `{writer}` and has {newest}: it was emptied, or an older copy \
             was put back",
            mark.sequence
        )));
    }
    if newest == mark.sequence {
        let is_the_same = hash == mark.hash;
        return Ok((!is_the_same).then(|| replaced(mark)));
    }
    // The chain has gone on since: the row at the mark must be the one that was marked.
    let at_mark: Option<Vec<u8>> = connection
        .scalar(
            "SELECT r.hash FROM record r
             WHERE r.tenant = (SELECT id FROM tenant WHERE name = ?1)
                 AND r.writer = (SELECT id FROM writer WHERE name = ?2) AND r.sequence = ?3
             ORDER BY r.position DESC LIMIT 1",
            &values![
                tenant,
                writer,
                i64::try_from(mark.sequence).unwrap_or(i64::MAX)
            ],
        )
        .await?;
    let is_the_same = at_mark.is_some_and(|hash| hash == mark.hash);
    Ok((!is_the_same).then(|| replaced(mark)))
}

fn replaced(mark: &Head) -> String {
    format!("was another at row {}: it was replaced", mark.sequence)
}
