//! Running a change: it is committed only if it found as many rows as expected, and if nothing else was
//! written with them.
//!
//! What triggers write is told by the session's counters. What references do (`ON DELETE CASCADE`)
//! happens within the engine and is counted nowhere: `what_follows.rs` refuses that beforehand.

use haft_contract::{
    ErrorKind,
    ops::{DatabaseQuery, KeepRows, OpsError, StatementEnd},
};
use mysql_async::{Conn, prelude::Queryable as _};

use super::{
    MariaDbSource, failure::failed, keep_rows::KeptRows, run::prepare, session::TransactionUse,
    session_counts::SessionCounts,
};
use crate::{
    halt::Halt,
    kept_rows::NOBODY_KEEPS,
    sql::{RefusedStatement, SqlReading},
};

impl MariaDbSource {
    /// Runs a change.
    pub(crate) async fn write(
        &self,
        query: &DatabaseQuery<'_>,
        reading: &SqlReading,
        (expected, keeper): (u64, Option<&mut dyn KeepRows>),
        halt: &Halt,
    ) -> Result<StatementEnd, OpsError> {
        let mut backend = self.begin(TransactionUse::Writes, halt).await?;
        let run = async {
            let conn = backend.conn()?;
            self.check_called(conn, &reading.called).await?;
            let changed = reading.change.as_ref();
            let changed =
                changed.ok_or_else(|| RefusedStatement::new("the statement changes no table"))?;
            let table = self.check_follows(conn, changed).await?;
            let mut kept = match &keeper {
                Some(keeper) => {
                    let wanted = (expected, keeper.limit());
                    let of = (reading, table.as_deref());
                    self.kept_rows(conn, of, wanted).await?
                }
                None => Err(NOBODY_KEEPS.to_owned()),
            };
            let (rows, counts) = change(conn, query, (reading, expected), &mut kept).await?;
            rows.check(expected, counts)?;
            if rows.found == 0 {
                return Ok(None);
            }
            let kept = match kept {
                Ok(kept) => {
                    let changed = (rows, counts.triggers);
                    kept.changed(conn, query.source, changed).await?
                }
                Err(why) => Err(why),
            };
            match (kept, keeper) {
                (Ok(kept), Some(keeper)) => keeper.keep(kept).await.map(|()| None),
                (Ok(_), None) => Ok(None),
                (Err(why), _) => Ok(Some(why)),
            }
        };
        let changed = tokio::select! {
            biased;
            changed = run => changed,
            stop = halt.reached() => Err(stop),
        };
        let not_kept = backend.settle(changed, halt).await?;
        Ok(StatementEnd {
            changed: Some(expected),
            not_kept,
            ..StatementEnd::default()
        })
    }
}

/// What the server says of a change that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChangedRows {
    /// The rows that it found.
    pub(super) found: u64,
    /// Those of them that had other values before.
    pub(super) differing: u64,
    /// Whether it calls functions of which the operator knows what they do.
    calls: bool,
}

impl ChangedRows {
    /// Fails unless it is what was expected, and all that was written.
    fn check(self, expected: u64, counts: SessionCounts) -> Result<(), OpsError> {
        let Self {
            found,
            differing,
            calls,
        } = self;
        // A row that has its new values already counts as written or not, as the server reads rows.
        let is_all = counts.written == found || counts.written == differing;
        let why = if found != expected {
            format!("the statement would have changed {found} rows instead of {expected}")
        } else if !is_all {
            format!(
                "with what its triggers and functions do the statement would have written {} rows \
                 instead of {differing}",
                counts.written
            )
        } else if found != differing && (calls || counts.triggers > 0) {
            format!(
                "{} of the {found} rows have their new values already, and then MariaDB does not tell \
                 what triggers and functions write besides; leave those rows out",
                found.saturating_sub(differing)
            )
        } else {
            return Ok(());
        };
        Err(OpsError::new(
            ErrorKind::Conflict,
            format!("{why}, so nothing was changed"),
        ))
    }
}

/// Runs the statement, and takes what is to be kept of it.
async fn change(
    conn: &mut Conn,
    query: &DatabaseQuery<'_>,
    (reading, expected): (&SqlReading, u64),
    kept: &mut Result<KeptRows<'_>, String>,
) -> Result<(ChangedRows, SessionCounts), OpsError> {
    let calls = !reading.called.listed.is_empty();
    let (prepared, parameters) = prepare(conn, &reading.statement, query).await?;
    // To the server's own grammar what returns no rows is a change.
    if prepared.num_columns() != 0 {
        return Err(RefusedStatement::new("the server takes the statement for a query").into());
    }
    if let (Ok(rows), None) = (&mut *kept, &reading.updated) {
        let telling = conn.prep(rows.telling(&reading.statement)).await;
        match telling {
            Ok(telling) => {
                let before = SessionCounts::of(conn).await?;
                let (found, taken) = rows.run(conn, &telling, parameters).await?;
                if let Err(why) = taken {
                    *kept = Err(why);
                }
                let rows = ChangedRows {
                    found,
                    differing: found,
                    calls,
                };
                return Ok((rows, before.since(conn).await?));
            }
            Err(error) => *kept = Err(unknown(failed(&error))?),
        }
    }
    if let (Ok(rows), Some(updated)) = (&mut *kept, &reading.updated) {
        let found = rows.find(conn, (updated, query), expected).await;
        let found = match found {
            Ok(found) => found,
            Err(error) => Err(unknown(error)?),
        };
        if let Err(why) = found {
            *kept = Err(why);
        }
    }
    let before = SessionCounts::of(conn).await?;
    conn.exec_drop(&prepared, parameters)
        .await
        .map_err(|error| failed(&error))?;
    // The rows that were found: one that had its new values already is one of them.
    let found = conn.affected_rows();
    let differing = match reading.updated {
        Some(_) => differing(&conn.info(), found)?,
        None => found,
    };
    let rows = ChangedRows {
        found,
        differing,
        calls,
    };
    Ok((rows, before.since(conn).await?))
}

/// Why it is not known which rows a change changes, where the change itself may run all the same.
fn unknown(error: OpsError) -> Result<String, OpsError> {
    match error.kind() {
        ErrorKind::AccessDenied | ErrorKind::InvalidInput => Ok(format!(
            "the server does not say which rows it changes: {}",
            error.message()
        )),
        _ => Err(error),
    }
}

/// How many rows of an `UPDATE` had other values: `Rows matched: 3  Changed: 1  Warnings: 0`, whatever
/// the language.
fn differing(said: &str, found: u64) -> Result<u64, OpsError> {
    let numbers = said.split(|c: char| !c.is_ascii_digit());
    let numbers = numbers.filter_map(|digits| digits.parse::<u64>().ok());
    match numbers.collect::<Vec<u64>>().as_slice() {
        [matched, differing, _] if *matched == found => Ok(*differing),
        // What cannot be seen is not committed.
        _ => Err(OpsError::new(
            ErrorKind::Unavailable,
            "the server does not say how many rows it changed, so nothing was changed",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_found_are_told_from_those_that_differed() {
        let german = "Datensätze gefunden: 3  Geändert: 1  Warnungen: 0";
        assert_eq!(differing(german, 3).unwrap(), 1);
        for said in [
            "",
            "Rows matched: 3",
            "Rows matched: 4  Changed: 1  Warnings: 0",
        ] {
            assert!(differing(said, 3).is_err(), "{said}");
        }
    }

    #[test]
    fn what_else_is_written_does_not_hide_behind_rows_that_are_not() {
        let rows = |differing: u64, calls: bool| ChangedRows {
            found: 3,
            differing,
            calls,
        };
        let counts = |written: u64, triggers: u64| SessionCounts {
            written,
            triggers,
            opened: 0,
        };
        for (rows, expected, counts, is_right) in [
            (rows(3, false), 3, counts(3, 0), true),
            (rows(3, true), 3, counts(3, 3), true),
            (rows(1, false), 3, counts(1, 0), true),
            (rows(1, false), 3, counts(3, 0), true),
            (rows(3, false), 4, counts(3, 0), false),
            (rows(3, false), 3, counts(4, 0), false),
            (rows(3, false), 3, counts(0, 0), false),
            (rows(1, false), 3, counts(2, 0), false),
            // A trigger or a function that wrote two rows.
            (rows(1, false), 3, counts(3, 3), false),
            (rows(1, true), 3, counts(3, 0), false),
        ] {
            let checked = rows.check(expected, counts);
            assert_eq!(checked.is_ok(), is_right, "{rows:?} {counts:?}");
        }
    }
}
