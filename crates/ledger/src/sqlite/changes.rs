//! Reads back what calls did to files, to show and undo it.

use haft_contract::{
    CallEvent, CallId, TenantId, WorkPath,
    event::RecordedEvent,
    host::{ArtifactId, LedgerError, LedgerErrorKind, Timestamp},
    ops::FileVersion,
};
use serde_json::Value;
use sqlx::{QueryBuilder, Sqlite, SqlitePool, sqlite::SqliteRow};
use uuid::Uuid;

use super::read::{column, corrupt, failed};

/// The most change records read at once.
const MAX_CHANGES: usize = 200_000;

/// How many calls one statement names.
const CALLS_A_STATEMENT: usize = 500;

/// What these calls did to files, in order.
pub(crate) async fn changes(
    pool: &SqlitePool,
    tenant: &TenantId,
    calls: &[CallId],
) -> Result<Vec<RecordedEvent>, LedgerError> {
    let mut found: Vec<(i64, RecordedEvent)> = Vec::new();
    for calls in calls.chunks(CALLS_A_STATEMENT) {
        let mut select =
            QueryBuilder::<Sqlite>::new("SELECT sequence, call, at, kind, body FROM event WHERE ");
        select.push("tenant = ").push_bind(tenant.as_str());
        select.push(" AND kind IN ('preimage_kept', 'file_changed', 'changes_scanned')");
        select.push(" AND call IN (");
        let mut ids = select.separated(", ");
        for call in calls {
            ids.push_bind(call.as_uuid().as_bytes().to_vec());
        }
        select
            .push(") LIMIT ")
            .push_bind(i64::try_from(MAX_CHANGES + 1 - found.len()).unwrap_or(0));
        let rows = select.build().fetch_all(pool).await.map_err(failed)?;
        for row in &rows {
            found.push((column(row, "sequence")?, change(row)?));
        }
        if found.len() > MAX_CHANGES {
            return Err(LedgerError::new(
                LedgerErrorKind::LimitExceeded,
                format!("these calls made more than {MAX_CHANGES} changes; name fewer calls"),
            ));
        }
    }
    found.sort_by_key(|(sequence, _)| *sequence);
    // A call that was named twice counts once.
    found.dedup_by_key(|(sequence, _)| *sequence);
    Ok(found.into_iter().map(|(_, happened)| happened).collect())
}

fn change(row: &SqliteRow) -> Result<RecordedEvent, LedgerError> {
    let id: &[u8] = column(row, "call")?;
    let id = Uuid::from_slice(id).map_err(|_| corrupt("a call's id"))?;
    let body: Value = serde_json::from_str(column(row, "body")?)
        .map_err(|_| corrupt("an event's body is not JSON"))?;
    Ok(RecordedEvent {
        call: id.into(),
        at: Timestamp(column(row, "at")?),
        event: event(column(row, "kind")?, &body)?,
    })
}

fn event(kind: &str, body: &Value) -> Result<CallEvent, LedgerError> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let path = || {
        let path = text("path").and_then(|path| WorkPath::relative(path).ok());
        path.ok_or_else(|| corrupt("the path of a change"))
    };
    Ok(match kind {
        "preimage_kept" => CallEvent::PreimageKept {
            path: path()?,
            artifact: artifact(body)?,
            before: text("before").map(FileVersion::new),
            // Absent in records from before modes were kept.
            mode: body
                .get("mode")
                .and_then(Value::as_u64)
                .and_then(|mode| u32::try_from(mode).ok()),
        },
        "file_changed" => CallEvent::FileChanged {
            path: path()?,
            after: text("after").map(FileVersion::new),
            artifact: artifact(body)?,
        },
        _ => CallEvent::ChangesScanned {
            files: body.get("files").and_then(Value::as_u64).unwrap_or(0),
            missed: text("missed").map(str::to_owned),
        },
    })
}

fn artifact(body: &Value) -> Result<Option<ArtifactId>, LedgerError> {
    let stored = match body.get("artifact") {
        None | Some(Value::Null) => return Ok(None),
        Some(stored) => stored,
    };
    let hash = stored.get("hash").and_then(Value::as_str);
    let bytes = stored.get("bytes").and_then(Value::as_u64);
    let id = hash
        .zip(bytes)
        .and_then(|(hash, bytes)| ArtifactId::from_hex(hash, bytes));
    id.map(Some).ok_or_else(|| corrupt("an artifact's name"))
}
