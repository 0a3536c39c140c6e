//! Reads back what calls did to files and rows, to show and undo it.

use haft_contract::{
    CallEvent, CallId, TenantId, WorkPath,
    event::RecordedEvent,
    host::{ArtifactId, LedgerError, LedgerErrorKind},
    ops::FileVersion,
};
use serde_json::Value;

use crate::{
    reading::{corrupt, failed},
    recorded_call,
    store::{Scope, Store},
};

/// The most change records read at once.
const MAX_CHANGES: usize = 200_000;

/// How many calls are read at a time.
const CALLS_AT_ONCE: usize = 500;

/// What these calls did to files and rows, in order.
pub(crate) async fn changes(
    store: &dyn Store,
    tenant: &TenantId,
    calls: &[CallId],
) -> Result<Vec<RecordedEvent>, LedgerError> {
    let scope = [tenant.as_str()];
    let mut reader = store.reader(Scope::Tenants(&scope)).await.map_err(failed)?;
    let mut found: Vec<((i64, usize), RecordedEvent)> = Vec::new();
    for calls in calls.chunks(CALLS_AT_ONCE) {
        let calls = recorded_call::load_all(&mut *reader, tenant.as_str(), calls).await;
        for call in calls.map_err(failed)? {
            if call.is_damaged {
                // Undoing some of what it did would be worse than undoing nothing.
                return Err(corrupt("a call's events"));
            }
            for (number, entry) in call.events.iter().enumerate() {
                let happened = &entry.event;
                if !KINDS.contains(&happened.kind.as_str()) {
                    continue;
                }
                let change = RecordedEvent {
                    call: call.id,
                    at: happened.at,
                    event: event(&happened.kind, &happened.body)?,
                };
                found.push(((entry.position, number), change));
            }
        }
        if found.len() > MAX_CHANGES {
            return Err(LedgerError::new(
                LedgerErrorKind::LimitExceeded,
                format!("these calls made more than {MAX_CHANGES} changes; name fewer calls"),
            ));
        }
    }
    // By time, because a call's row is written when it ends; by place where the clock stood still.
    found.sort_by_key(|(place, change)| (change.at, *place));
    // A call that was named twice counts once.
    found.dedup_by_key(|(place, _)| *place);
    Ok(found.into_iter().map(|(_, change)| change).collect())
}

/// The kinds of events that say what happened to files and rows.
const KINDS: [&str; 4] = [
    "preimage_kept",
    "file_changed",
    "rows_changed",
    "changes_scanned",
];

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
        "rows_changed" => CallEvent::RowsChanged {
            rows: body.get("rows").and_then(Value::as_u64).unwrap_or(0),
            writes: names(body, "writes")?,
            reads: names(body, "reads")?,
            artifact: artifact(body)?,
            missed: text("missed").map(str::to_owned),
        },
        _ => CallEvent::ChangesScanned {
            files: body.get("files").and_then(Value::as_u64).unwrap_or(0),
            missed: text("missed").map(str::to_owned),
        },
    })
}

fn names(body: &Value, list: &str) -> Result<Vec<String>, LedgerError> {
    let names = body
        .get(list)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let names = names.map(|name| name.as_str().map(str::to_owned));
    let names: Option<Vec<String>> = names.collect();
    names.ok_or_else(|| corrupt("the columns of a change"))
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
