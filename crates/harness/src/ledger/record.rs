//! How requests and events become the JSON rows of the in-memory ledger, and how rows are chained.
//! The real ledgers have their own stored form.

use haft_contract::{
    Access, Arguments, CallEvent, CallId, CallRequest, Label, Outcome, WorkPath,
    host::{ApprovalAnswer, ArtifactId, Timestamp},
    ops::FileVersion,
};
use serde_json::{Value, json};

/// The body of the row that opens a call.
pub(super) fn opened(request: &CallRequest) -> Value {
    let arguments = match &request.arguments {
        Arguments::Text(text) => Value::String(text.clone()),
        Arguments::Value(value) => value.clone(),
    };
    json!({ "tool": request.tool, "arguments": arguments })
}

/// The body of the row that settles a call left open.
pub(super) fn unknown(call: CallId) -> Value {
    json!({ "call": call.to_string(), "terminal": "unknown" })
}

/// The body of an event.
pub(super) fn body(event: &CallEvent) -> Value {
    match event {
        CallEvent::Opened { .. } | CallEvent::Running | CallEvent::RunEnded => json!({}),
        CallEvent::Resolved { tool } => json!({ "tool": tool.to_string() }),
        CallEvent::Validated { coercions } => json!({ "coercions": coercions }),
        CallEvent::Planned { plan } => json!({
            "tool": plan.tool().to_string(),
            "input": plan.input(),
            "accesses": plan.accesses().iter().map(access).collect::<Vec<_>>(),
            "backend": plan.backend().as_str(),
            "workspace_id": plan.workspace_id().as_str(),
            "workspace": plan.workspace(),
            "tier": plan.tier().as_str(),
            "may_be_repeated": plan.effects().read_only || plan.effects().idempotent,
            "read_from": plan.read_from().iter().map(Label::as_str).collect::<Vec<_>>(),
        }),
        CallEvent::Decided { decision } => json!({
            "verdict": decision.verdict.as_str(),
            "reason": decision.reason,
        }),
        CallEvent::ApprovalAsked {
            id,
            digest,
            expires,
        } => json!({
            "id": id.to_string(),
            "digest": digest.to_string(),
            "expires": expires.0,
        }),
        CallEvent::ApprovalAnswered { answer } => answered(answer),
        CallEvent::Admitted { waited } => {
            json!({ "waited_us": u64::try_from(waited.as_micros()).unwrap_or(u64::MAX) })
        }
        CallEvent::Granted { grant } => json!({
            "id": grant.id.to_string(),
            "rule": grant.rule,
            "scope": grant.scope.as_str(),
        }),
        CallEvent::Started {
            tier,
            approval,
            grants,
            read_from: _,
        } => json!({
            "tier": tier.as_str(),
            "approval": approval.map(|id| id.to_string()),
            "grants": grants.iter().map(ToString::to_string).collect::<Vec<_>>(),
        }),
        CallEvent::Progress(progress) => json!({ "status": progress.status }),
        CallEvent::Output { stream, text } => json!({ "stream": stream.as_str(), "text": text }),
        CallEvent::Item(item) => json!({ "number": item.number, "item": item.value }),
        CallEvent::ProgressNoted(note) => json!({ "message": note.message }),
        CallEvent::PreimageKept {
            path,
            artifact,
            before,
            mode,
        } => json!({
            "path": path.as_str(),
            "artifact": artifact.map(artifact_body),
            "before": before.as_ref().map(FileVersion::as_str),
            "mode": mode,
        }),
        CallEvent::FileChanged {
            path,
            after,
            artifact,
        } => json!({
            "path": path.as_str(),
            "after": after.as_ref().map(FileVersion::as_str),
            "artifact": artifact.map(artifact_body),
        }),
        CallEvent::RowsChanged {
            rows,
            writes,
            reads,
            artifact,
            missed,
        } => json!({
            "rows": rows,
            "writes": writes,
            "reads": reads,
            "artifact": artifact.map(artifact_body),
            "missed": missed,
        }),
        CallEvent::ChangesScanned { files, missed } => {
            json!({ "files": files, "missed": missed })
        }
        CallEvent::Settled { outcome } => settled(outcome),
    }
}

/// The artifact with a call's whole output, if this row names one.
pub(super) fn spilled(body: &Value) -> Option<ArtifactId> {
    artifact_in(body.get("spilled")?)
}

/// What a call did to files, if this row records it.
pub(super) fn change(kind: &str, body: &Value) -> Option<CallEvent> {
    let path = || WorkPath::relative(body.get("path")?.as_str()?).ok();
    let version = |name: &str| body[name].as_str().map(FileVersion::new);
    match kind {
        "preimage_kept" => Some(CallEvent::PreimageKept {
            path: path()?,
            artifact: artifact_in(&body["artifact"]),
            before: version("before"),
            mode: body["mode"]
                .as_u64()
                .and_then(|mode| u32::try_from(mode).ok()),
        }),
        "file_changed" => Some(CallEvent::FileChanged {
            path: path()?,
            after: version("after"),
            artifact: artifact_in(&body["artifact"]),
        }),
        "rows_changed" => Some(CallEvent::RowsChanged {
            rows: body["rows"].as_u64()?,
            writes: names_in(&body["writes"])?,
            reads: names_in(&body["reads"])?,
            artifact: artifact_in(&body["artifact"]),
            missed: body["missed"].as_str().map(str::to_owned),
        }),
        "changes_scanned" => Some(CallEvent::ChangesScanned {
            files: body["files"].as_u64()?,
            missed: body["missed"].as_str().map(str::to_owned),
        }),
        _ => None,
    }
}

fn names_in(stored: &Value) -> Option<Vec<String>> {
    let names = stored.as_array()?.iter();
    names.map(|name| name.as_str().map(str::to_owned)).collect()
}

fn artifact_in(stored: &Value) -> Option<ArtifactId> {
    let (hash, bytes) = (stored.get("hash")?, stored.get("bytes")?);
    ArtifactId::from_hex(hash.as_str()?, bytes.as_u64()?)
}

fn artifact_body(id: ArtifactId) -> Value {
    json!({ "hash": id.hex(), "bytes": id.bytes })
}

/// The hash of a row, which covers the previous row.
pub(super) fn chain(
    previous: &[u8; 32],
    sequence: u64,
    call: CallId,
    at: Timestamp,
    kind: &str,
    body: &Value,
) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous);
    hasher.update(&sequence.to_le_bytes());
    hasher.update(call.as_uuid().as_bytes());
    hasher.update(&at.0.to_le_bytes());
    hasher.update(kind.as_bytes());
    hasher.update(body.to_string().as_bytes());
    *hasher.finalize().as_bytes()
}

fn answered(answer: &ApprovalAnswer) -> Value {
    match answer {
        ApprovalAnswer::Approved { by, digest, grant } => json!({
            "answer": "approved",
            "by": by,
            "digest": digest.to_string(),
            "rules": grant.as_ref().map(|wish| wish.rules.as_slice()),
        }),
        ApprovalAnswer::Refused { by, reason } => {
            json!({ "answer": "refused", "by": by, "reason": reason })
        }
        ApprovalAnswer::Elsewhere => json!({ "answer": "elsewhere" }),
        ApprovalAnswer::NobodyThere { reason } => {
            json!({ "answer": "nobody_there", "reason": reason })
        }
        ApprovalAnswer::Failed { reason } => json!({ "answer": "failed", "reason": reason }),
        ApprovalAnswer::Expired => json!({ "answer": "expired" }),
    }
}

fn settled(outcome: &Outcome) -> Value {
    json!({
        "terminal": outcome.terminal.as_str(),
        "text": outcome.text(),
        "error": outcome.error.as_ref().map(ToString::to_string),
        "exit_code": outcome.facts.exit_code,
        "spilled": outcome.facts.artifact.map(artifact_body),
        "ran_us": u64::try_from(outcome.facts.timings.ran.as_micros()).unwrap_or(u64::MAX),
        "asked_us": u64::try_from(outcome.facts.timings.asked.as_micros()).unwrap_or(u64::MAX),
        "bytes": outcome.facts.artifact.map_or(outcome.text().len() as u64, |whole| whole.bytes),
    })
}

fn access(access: &Access) -> Value {
    let text = match access {
        Access::Path(path) => path.target().to_string(),
        Access::Command(command) => command.command.text(),
        Access::Process(process) => process.text(),
        Access::Host { host, port } => format!("{host}:{port}"),
        Access::Database { source, writes: _ } => source.clone(),
        Access::Message { channel, target } => format!("{channel}:{target}"),
        Access::RemoteTool { provider, tool } => format!("{provider}/{tool}"),
        Access::Custom(custom) => custom.to_string(),
    };
    json!({ "kind": access.kind(), "text": text })
}
