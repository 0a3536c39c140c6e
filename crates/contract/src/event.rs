//! The facts that leave a call, through one closed enum. Ledger, live streams, terminals and
//! metrics are folds over it.

use std::{sync::Arc, time::Duration};

use crate::{
    call::CallId,
    host::{ApprovalAnswer, ApprovalId, ArtifactId, Decision, Grant, GrantId, Timestamp},
    identity::WorkspaceId,
    label::Labels,
    name::ToolKey,
    ops::{FileVersion, Stream, Tier},
    outcome::Outcome,
    path::WorkPath,
    plan::{PlanDigest, SealedPlan},
    progress::RenderedProgress,
};

/// An event, with the call it belongs to and when it happened.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEvent {
    /// The call.
    pub call: CallId,
    /// When.
    pub at: Timestamp,
    /// What.
    pub event: CallEvent,
}

/// Something that happened to a call, in the order of the path of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    /// The request was taken in.
    Opened {
        /// Where it is to run.
        workspace: WorkspaceId,
    },
    /// Its name leads to a tool.
    Resolved {
        /// The tool.
        tool: ToolKey,
    },
    /// Its input fits the schema.
    Validated {
        /// What was rewritten on the way in.
        coercions: Vec<String>,
    },
    /// What it will do is known.
    Planned {
        /// The sealed plan.
        plan: Arc<SealedPlan>,
    },
    /// Policy has decided.
    Decided {
        /// The decision.
        decision: Decision,
    },
    /// A person is being asked.
    ApprovalAsked {
        /// The question.
        id: ApprovalId,
        /// What the answer binds.
        digest: PlanDigest,
        /// When the question lapses.
        expires: Timestamp,
    },
    /// The person answered, or nobody did.
    ApprovalAnswered {
        /// The answer.
        answer: ApprovalAnswer,
    },
    /// A person allowed calls like this one from now on.
    Granted {
        /// The standing approval.
        grant: Grant,
    },
    /// Locks and a place in the queue are held.
    Admitted {
        /// How long that took.
        waited: Duration,
    },
    /// The intent is recorded (durably, when the call changes something); the effect may begin.
    Started {
        /// How strongly it is confined.
        tier: Tier,
        /// The answer it is started with, which is thereby used up.
        approval: Option<ApprovalId>,
        /// The standing approvals it rests on, of which each is thereby used once.
        grants: Vec<GrantId>,
        /// What the session had read from when the call was judged last. Where it is said, the start
        /// is recorded only if the session has read from nothing else by then. Not kept itself.
        read_from: Option<Labels>,
    },
    /// The tool is being handed its input. Not recorded.
    Running,
    /// How far it has come. Not recorded.
    Progress(RenderedProgress),
    /// Cleaned output as it arrives. Not recorded; what matters of it is in the outcome.
    Output {
        /// Which stream it came from.
        stream: Stream,
        /// The cleaned text.
        text: String,
    },
    /// What a file held before it was changed is kept.
    PreimageKept {
        /// The file.
        path: WorkPath,
        /// Its bytes; absent when the file did not exist.
        artifact: Option<ArtifactId>,
        /// Its version before the change; absent when the file did not exist.
        before: Option<FileVersion>,
        /// Its permission bits; absent when the file did not exist, and in records from before
        /// they were kept.
        mode: Option<u32>,
    },
    /// A file was changed.
    FileChanged {
        /// The file.
        path: WorkPath,
        /// Its version after the change; absent when the file was removed.
        after: Option<FileVersion>,
        /// Its bytes after the change; absent when it was removed or is too large to keep.
        artifact: Option<ArtifactId>,
    },
    /// The workspace was compared with what it was before a command ran.
    ChangesScanned {
        /// How many files were looked at.
        files: u64,
        /// What was not covered and why; absent when everything was.
        missed: Option<String>,
    },
    /// The tool returned, failed, was stopped or panicked. Not recorded.
    RunEnded,
    /// The call has its outcome. Nothing follows.
    Settled {
        /// The outcome.
        outcome: Arc<Outcome>,
    },
}

impl CallEvent {
    /// Whether the ledger keeps it.
    pub fn is_recorded(&self) -> bool {
        match self {
            Self::Opened { .. }
            | Self::Resolved { .. }
            | Self::Validated { .. }
            | Self::Planned { .. }
            | Self::Decided { .. }
            | Self::ApprovalAsked { .. }
            | Self::ApprovalAnswered { .. }
            | Self::Granted { .. }
            | Self::ChangesScanned { .. }
            | Self::Admitted { .. }
            | Self::Started { .. }
            | Self::PreimageKept { .. }
            | Self::FileChanged { .. }
            | Self::Settled { .. } => true,
            Self::Running | Self::Progress(_) | Self::Output { .. } | Self::RunEnded => false,
        }
    }

    /// The word for this event in JSON and in the ledger.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "opened",
            Self::Resolved { .. } => "resolved",
            Self::Validated { .. } => "validated",
            Self::Planned { .. } => "planned",
            Self::Decided { .. } => "decided",
            Self::ApprovalAsked { .. } => "approval_asked",
            Self::ApprovalAnswered { .. } => "approval_answered",
            Self::Granted { .. } => "granted",
            Self::Admitted { .. } => "admitted",
            Self::Started { .. } => "started",
            Self::Running => "running",
            Self::Progress(_) => "progress",
            Self::Output { .. } => "output",
            Self::PreimageKept { .. } => "preimage_kept",
            Self::FileChanged { .. } => "file_changed",
            Self::ChangesScanned { .. } => "changes_scanned",
            Self::RunEnded => "run_ended",
            Self::Settled { .. } => "settled",
        }
    }
}

/// Sees every event of every call as it happens. Must not block; a slow listener keeps its own
/// bounded queue.
pub trait EventSink: Send + Sync {
    /// Takes one event.
    fn happened(&self, happened: &RecordedEvent);
}
