//! Keeps what statements change in databases, so that it can be taken back: before the change is
//! committed as an artifact, and after that on record. A tool has no part in it and never sees the
//! rows.

use haft_contract::{
    Access, BoxFuture, CallEvent, ErrorKind,
    host::ArtifactId,
    ops::{
        DatabaseQuery, KeepRows, KeptRowsLimit, OpsError, PutBackRows, RowChange, RowsPutBack,
        StatementEnd, StatementReading, TakeRows, WantedRows, encode_row_change,
    },
};
use serde_json::Value;

use super::Guard;

/// The most bytes of rows that are kept of one statement, however large a file may be: unlike a file,
/// rows are in memory as a whole.
const MAX_KEPT_BYTES: u64 = 32 * 1024 * 1024;

/// Takes the rows of a statement for a tool, and keeps those that it changes.
struct KeptStatement<'g> {
    tool: &'g mut dyn TakeRows,
    keeper: RowKeeper<'g>,
}

/// Keeps what one change did.
struct RowKeeper<'g> {
    guard: &'g Guard,
    kept: Option<KeptChange>,
}

/// A change that was kept and may not have happened yet.
struct KeptChange {
    artifact: ArtifactId,
    rows: usize,
    reading: StatementReading,
}

impl TakeRows for KeptStatement<'_> {
    fn columns(&mut self, names: &[String]) {
        self.tool.columns(names);
    }

    fn rows(&mut self, rows: Vec<Vec<Value>>) -> BoxFuture<'_, WantedRows> {
        self.tool.rows(rows)
    }

    fn keeper(&mut self) -> Option<&mut dyn KeepRows> {
        Some(&mut self.keeper)
    }
}

impl KeepRows for RowKeeper<'_> {
    fn limit(&self) -> KeptRowsLimit {
        let limits = &self.guard.engine.limits;
        KeptRowsLimit {
            rows: limits.preimage_rows,
            bytes: limits.preimage_bytes.min(MAX_KEPT_BYTES),
        }
    }

    fn keep(&mut self, change: RowChange) -> BoxFuture<'_, Result<(), OpsError>> {
        Box::pin(async move {
            let databases = &self.guard.operations().world.databases;
            let reading = databases.read_row_change(&change)?;
            let rows = change.rows.len();
            let artifacts = self.guard.own_artifacts();
            let kept = artifacts.keep_all(vec![encode_row_change(&change)]).await;
            let kept = kept.map_err(|error| {
                OpsError::new(
                    ErrorKind::Unavailable,
                    format!("the rows as they are cannot be kept, so nothing was changed: {error}"),
                )
            })?;
            self.kept = kept.first().map(|artifact| KeptChange {
                artifact: *artifact,
                rows,
                reading,
            });
            Ok(())
        })
    }
}

impl RowKeeper<'_> {
    /// Notes a change that has happened. One of which nobody knows whether it has is noted too: an
    /// undo looks what the rows are.
    fn note(self) {
        let Some(kept) = self.kept else { return };
        let (writes, reads) = columns(&kept.reading);
        self.guard.recording.note(CallEvent::RowsChanged {
            rows: kept.rows as u64,
            writes,
            reads,
            artifact: Some(kept.artifact),
            missed: None,
        });
    }
}

/// What a reading writes, and what it reads besides.
fn columns(reading: &StatementReading) -> (Vec<String>, Vec<String>) {
    let (mut written, mut read) = (Vec::new(), Vec::new());
    for access in &reading.accesses {
        if let Access::Database { source, writes } = access {
            let list = if *writes { &mut written } else { &mut read };
            list.push(source.clone());
        }
    }
    (written, read)
}

/// Whether a failure leaves open if the change happened.
fn may_have_happened(error: &OpsError) -> bool {
    error.kind() == ErrorKind::Lost
}

impl Guard {
    /// Runs a statement that was found in the plan, and keeps what it changes.
    pub(super) async fn run_statement(
        &self,
        query: DatabaseQuery<'_>,
        tool: &mut dyn TakeRows,
    ) -> Result<StatementEnd, OpsError> {
        let databases = &self.operations().world.databases;
        let reading = databases.read_statement(query.source, query.statement)?;
        if !reading.writes {
            return databases.query(query, tool).await;
        }
        let keeper = RowKeeper {
            guard: self,
            kept: None,
        };
        let mut kept = KeptStatement { tool, keeper };
        let ended = databases.query(query, &mut kept).await;
        let keeper = kept.keeper;
        match &ended {
            Ok(_) if keeper.kept.is_some() => keeper.note(),
            Ok(end) => {
                let changed = end.changed.unwrap_or_default();
                let why = end.not_kept.clone();
                self.note_not_kept(changed, &reading, why);
            }
            Err(error) if may_have_happened(error) => keeper.note(),
            Err(_) => {}
        }
        ended
    }

    /// Notes a change that cannot be taken back.
    fn note_not_kept(&self, rows: u64, reading: &StatementReading, why: Option<String>) {
        if rows == 0 {
            return;
        }
        let (writes, _) = columns(reading);
        let missed = why.unwrap_or_else(|| "what was there before was not kept".to_owned());
        self.recording.note(CallEvent::RowsChanged {
            rows,
            writes,
            reads: Vec::new(),
            artifact: None,
            missed: Some(missed),
        });
    }

    /// Takes a change back that was found in the plan, and keeps what that changes.
    pub(super) async fn put_rows_back(
        &self,
        request: PutBackRows<'_>,
    ) -> Result<RowsPutBack, OpsError> {
        let databases = &self.operations().world.databases;
        let mut keeper = RowKeeper {
            guard: self,
            kept: None,
        };
        let reading = databases.read_row_change(request.change)?;
        let put_back = databases.put_back(request, &mut keeper).await;
        match &put_back {
            Ok(_) if keeper.kept.is_some() => keeper.note(),
            Ok(done) if done.not_kept.is_some() => {
                let rows = done.restored.len() as u64;
                self.note_not_kept(rows, &reading, done.not_kept.clone());
            }
            Err(error) if may_have_happened(error) => keeper.note(),
            Ok(_) | Err(_) => {}
        }
        put_back
    }
}
