//! The stored form of events, one struct per kind, deliberately separate from the domain types: the
//! record outlives the code that wrote it.
//!
//! The version is with the row (`body.rs`). A reader ignores unknown fields, so a field may be added
//! without a new version; a changed meaning needs one. [`OpenedRow`] is read back into types here,
//! plans and decisions in `recorded.rs`; everything else is read as JSON. `convert.rs` fills these in.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OpenedRow<'a> {
    pub(crate) tool: Cow<'a, str>,
    pub(crate) arguments: StoredArguments<'a>,
    pub(crate) workspace: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) timeout_ms: Option<u64>,
    /// Present if the record does not have all of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StoredArguments<'a> {
    Text(Cow<'a, str>),
    Value(Cow<'a, Value>),
}

/// A request that is still to be run, whole.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WholeRequest<'a> {
    pub(crate) principal: StoredPrincipal,
    #[serde(flatten)]
    pub(crate) opened: OpenedRow<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StoredPrincipal {
    pub(crate) tenant: String,
    pub(crate) user: String,
    pub(crate) agent: String,
    pub(crate) ancestors: Vec<String>,
    pub(crate) session: String,
    pub(crate) session_kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) narrowed_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<String>,
    pub(crate) scopes: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ResolvedRow {
    pub(crate) tool: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct ValidatedRow<'a> {
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) coercions: &'a [String],
}

#[derive(Debug, Serialize)]
pub(crate) struct PlannedRow<'a> {
    pub(crate) tool: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<&'a str>,
    pub(crate) input: Cow<'a, Value>,
    pub(crate) accesses: Vec<StoredAccess<'a>>,
    pub(crate) effects: StoredEffects,
    pub(crate) backend: &'a str,
    pub(crate) workspace_id: &'a str,
    /// The root, for display.
    pub(crate) workspace: &'a str,
    pub(crate) tier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) egress: Option<StoredEgress>,
    pub(crate) deadline_ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) read_from: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) masks: Option<StoredMasks<'a>>,
}

/// What was kept from a call's commands.
#[derive(Debug, Serialize)]
pub(crate) struct StoredMasks<'a> {
    pub(crate) hidden: &'a [String],
    pub(crate) read_only: &'a [String],
}

/// The hosts a call's commands may reach.
#[derive(Debug, Serialize)]
pub(crate) struct StoredEgress {
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
}

#[derive(Debug, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four independent flags, as the contract names them"
)]
pub(crate) struct StoredEffects {
    pub(crate) read_only: bool,
    pub(crate) idempotent: bool,
    pub(crate) destructive: bool,
    pub(crate) open_world: bool,
}

#[derive(Debug, Serialize)]
#[serde(tag = "access", rename_all = "snake_case")]
pub(crate) enum StoredAccess<'a> {
    Read(StoredPath<'a>),
    Write(StoredPath<'a>),
    Shell {
        script: &'a str,
        cwd: &'a str,
        /// Absent in records made before commands said so.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        stays: bool,
    },
    Argv {
        argv: &'a [String],
        cwd: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        stays: bool,
    },
    Process(StoredProcess<'a>),
    Connect {
        host: &'a str,
        port: u16,
    },
    Database {
        source: &'a str,
        writes: bool,
    },
    Message {
        channel: &'a str,
        target: &'a str,
    },
    RemoteTool {
        provider: &'a str,
        tool: &'a str,
    },
    /// A kind of the tool's own. Older programs report a plan with one as unreadable.
    Custom {
        kind: &'a str,
        target: &'a str,
    },
}

/// An action on a process that an earlier call started.
#[derive(Debug, Serialize)]
pub(crate) struct StoredProcess<'a> {
    pub(crate) id: String,
    pub(crate) act: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) typed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<&'static str>,
    /// Rows and columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<(u16, u16)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// The same as separate words, if it was not a script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) argv: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cwd: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<&'static str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StoredPath<'a> {
    pub(crate) scope: &'static str,
    pub(crate) path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resolved: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) protected: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct DecidedRow<'a> {
    #[serde(flatten)]
    pub(crate) decision: StoredDecision<'a>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StoredDecision<'a> {
    pub(crate) verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<StoredRule<'a>>,
    pub(crate) reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) access: Option<&'a str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) withheld: &'a [String],
    pub(crate) policy: &'a str,
    /// The standing approvals that turned *ask* into *allow*.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) grants: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StoredRule<'a> {
    pub(crate) text: &'a str,
    pub(crate) source: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ApprovalAsked {
    pub(crate) id: String,
    pub(crate) digest: String,
    pub(crate) expires_us: i64,
}

#[derive(Debug, Serialize)]
pub(crate) struct ApprovalAnswered<'a> {
    #[serde(flatten)]
    pub(crate) answer: StoredAnswer<'a>,
}

#[derive(Debug, Serialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum StoredAnswer<'a> {
    Approved {
        by: &'a str,
        digest: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        rules: Option<&'a [String]>,
    },
    Refused {
        by: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<&'a str>,
    },
    Elsewhere,
    NobodyThere {
        reason: &'a str,
    },
    /// A reader that does not know it shows its name only.
    Failed {
        reason: &'a str,
    },
    Expired,
}

#[derive(Debug, Serialize)]
pub(crate) struct AdmittedRow {
    pub(crate) waited_us: u64,
}

/// How far a call that still runs had got. Added with ADR 0048; a reader that does not know it shows
/// its name only.
#[derive(Debug, Serialize)]
pub(crate) struct ProgressRow<'a> {
    pub(crate) message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remaining_ms: Option<u64>,
    pub(crate) deadline_in_ms: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct GrantedRow<'a> {
    pub(crate) id: String,
    pub(crate) rule: &'a str,
    pub(crate) scope: &'static str,
    pub(crate) bound_to: &'a str,
    /// What it is bound to, for display.
    pub(crate) shown: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) until_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uses: Option<u32>,
    pub(crate) by: &'a str,
}

#[derive(Debug, Serialize)]
pub(crate) struct StartedRow {
    pub(crate) tier: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) approval: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) grants: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct PreimageKept<'a> {
    pub(crate) path: &'a str,
    pub(crate) artifact: Option<StoredArtifact>,
    pub(crate) before: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<u32>,
}

#[derive(Debug, Serialize)]
pub(crate) struct FileChanged<'a> {
    pub(crate) path: &'a str,
    pub(crate) after: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) artifact: Option<StoredArtifact>,
}

#[derive(Debug, Serialize)]
pub(crate) struct RowsChanged<'a> {
    pub(crate) rows: u64,
    pub(crate) writes: &'a [String],
    pub(crate) reads: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) artifact: Option<StoredArtifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ChangesScanned<'a> {
    pub(crate) files: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) missed: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StoredArtifact {
    pub(crate) hash: String,
    pub(crate) bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct SettledRow<'a> {
    pub(crate) terminal: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) content: Vec<StoredContent<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) structured: Option<Cow<'a, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<StoredFailure<'a>>,
    pub(crate) facts: StoredFacts<'a>,
}

/// Bytes of images and documents are not kept in the record, only their descriptions.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum StoredContent<'a> {
    Text {
        text: &'a str,
    },
    Bytes {
        media_type: &'a str,
        bytes: usize,
        blake3: String,
    },
    Link {
        uri: &'a str,
        name: &'a str,
    },
}

#[derive(Debug, Serialize)]
pub(crate) struct StoredFailure<'a> {
    pub(crate) kind: &'static str,
    pub(crate) message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(crate) struct StoredFacts<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) signal: Option<i32>,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) bytes_omitted: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) lines_omitted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) artifact: Option<StoredArtifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<StoredDecision<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) denied_by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exceeded: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) refusals: Vec<StoredRefusal<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backend: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tier: Option<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub(crate) coercions: &'a [String],
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) asked_us: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) queued_us: u64,
    pub(crate) ran_us: u64,
}

/// What the sandbox refused.
#[derive(Debug, Serialize)]
pub(crate) struct StoredRefusal<'a> {
    pub(crate) layer: &'static str,
    pub(crate) what: &'a str,
    pub(crate) why: &'a str,
}

/// Replaces a field that made the body too large for a record.
#[derive(Debug, Serialize)]
pub(crate) struct TooLarge {
    pub(crate) omitted_bytes: usize,
    pub(crate) blake3: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
