//! What the server counted in this session: rows that were written, whoever wrote them, triggers that
//! ran, and tables that were opened. `RETURNING` and the number of rows that a statement reports say
//! nothing of what came with it; these do.

use haft_contract::{ErrorKind, ops::OpsError};
use mysql_async::{Conn, prelude::Queryable as _};

use super::failure::failed;

const COUNTS: &str = "SHOW SESSION STATUS WHERE Variable_name IN ('Executed_triggers',
    'Handler_delete', 'Handler_update', 'Handler_write', 'Table_open_cache_hits',
    'Table_open_cache_misses')";

/// How many counters there are.
const NAMES: usize = 6;

/// The counters of a session, or how much they grew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SessionCounts {
    /// Rows that the engines were told to write. One that keeps its values is not written.
    pub(super) written: u64,
    /// Runs of triggers.
    pub(super) triggers: u64,
    /// Tables that were opened, also those that nobody named.
    pub(super) opened: u64,
}

impl SessionCounts {
    /// The counters as they are now.
    pub(super) async fn of(conn: &mut Conn) -> Result<Self, OpsError> {
        let rows: Vec<(String, String)> =
            conn.query(COUNTS).await.map_err(|error| failed(&error))?;
        let mut counts = Self::default();
        let mut seen = 0;
        for (name, count) in &rows {
            let Ok(count) = count.parse::<u64>() else {
                continue;
            };
            seen += 1;
            let sum = match name.as_str() {
                "Executed_triggers" => &mut counts.triggers,
                "Table_open_cache_hits" | "Table_open_cache_misses" => &mut counts.opened,
                _ => &mut counts.written,
            };
            *sum = sum.saturating_add(count);
        }
        if seen == NAMES {
            return Ok(counts);
        }
        // What cannot be seen is not committed.
        Err(OpsError::new(
            ErrorKind::Unavailable,
            "the server does not count what a statement does, so nothing is changed there",
        ))
    }

    /// How much was counted since.
    pub(super) async fn since(self, conn: &mut Conn) -> Result<Self, OpsError> {
        let now = Self::of(conn).await?;
        Ok(Self {
            written: now.written.saturating_sub(self.written),
            triggers: now.triggers.saturating_sub(self.triggers),
            opened: now.opened.saturating_sub(self.opened),
        })
    }
}
