//! The facts that leave a call, as one closed enum. Ledger, live streams, terminals and metrics are
//! all folds over it.

use std::{sync::Arc, time::Duration};

use crate::{
    call::{CallId, ModelCallId},
    host::{ApprovalAnswer, ApprovalId, ArtifactId, Decision, Grant, GrantId, Timestamp},
    identity::{Principal, WorkspaceId},
    label::Labels,
    name::ToolKey,
    ops::{FileVersion, Stream, Tier},
    outcome::Outcome,
    path::WorkPath,
    plan::{PlanDigest, SealedPlan},
    progress::{ProgressNote, RenderedProgress},
    streamed::StreamedItem,
};

/// An event, with the call it belongs to and when it happened.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedEvent {
    /// The call.
    pub call: CallId,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub event: CallEvent,
}

/// Who made a call, where it runs, and what the model's provider calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallOrigin {
    /// Who asked.
    pub principal: Arc<Principal>,
    /// Where to run it.
    pub workspace: WorkspaceId,
    /// The model provider's own id, if a model asked.
    pub model_call: Option<ModelCallId>,
}

/// An event, with who made the call.
#[derive(Debug, Clone, PartialEq)]
pub struct ObservedEvent {
    /// Who made the call, and where.
    pub origin: CallOrigin,
    /// The call, what happened, and when.
    pub happened: RecordedEvent,
}

/// Something that happened to a call. Variants are in the order of a call's stages.
#[derive(Debug, Clone, PartialEq)]
pub enum CallEvent {
    /// The request was accepted.
    Opened {
        /// Where to run it.
        workspace: WorkspaceId,
    },
    /// Its name resolved to a tool.
    Resolved {
        /// The tool.
        tool: ToolKey,
    },
    /// Its input fits the schema.
    Validated {
        /// What was rewritten on the way in.
        coercions: Vec<String>,
    },
    /// Its plan is sealed.
    Planned {
        /// The sealed plan.
        plan: Arc<SealedPlan>,
    },
    /// Policy has decided.
    Decided {
        /// The decision.
        decision: Arc<Decision>,
    },
    /// A person is being asked to approve.
    ApprovalAsked {
        /// Which question.
        id: ApprovalId,
        /// What the answer binds.
        digest: PlanDigest,
        /// When the question lapses.
        expires: Timestamp,
    },
    /// The person answered, or nobody did.
    ApprovalAnswered {
        /// The answer. Boxed, because most calls have none and all would hold room for it.
        answer: Box<ApprovalAnswer>,
    },
    /// A person allowed calls like this one from now on.
    Granted {
        /// The standing approval.
        grant: Arc<Grant>,
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
        /// The approval it starts with, which this start uses up.
        approval: Option<ApprovalId>,
        /// The standing approvals it rests on; this start uses each of them once.
        grants: Vec<GrantId>,
        /// What the session had read from when the call was last judged. If set, the start is
        /// recorded only if the session has read from nothing else since. Not stored itself.
        read_from: Option<Labels>,
    },
    /// The tool is about to get its input. Not recorded.
    Running,
    /// A progress report. Not recorded, and boxed, because every event would hold room for it.
    Progress(Box<RenderedProgress>),
    /// Cleaned output as it arrives. Not recorded; the relevant part is in the outcome.
    Output {
        /// Which stream it came from.
        stream: Stream,
        /// The cleaned text.
        text: String,
    },
    /// A part of the result, as soon as the tool has it. Not recorded; what counts is the outcome.
    Item(Box<StreamedItem>),
    /// How far a call has got that has been running for a while, for whoever looks at the record. Once
    /// the call has its outcome, this says nothing that matters.
    ProgressNoted(Box<ProgressNote>),
    /// A file's content before a change was kept.
    PreimageKept {
        /// The file.
        path: WorkPath,
        /// Its bytes; absent when the file did not exist.
        artifact: Option<ArtifactId>,
        /// Its version before the change; absent when the file did not exist.
        before: Option<FileVersion>,
        /// Its permission bits; absent when the file did not exist, and in records older than this
        /// field.
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
    /// Rows of a database were changed.
    RowsChanged {
        /// How many.
        rows: u64,
        /// What taking this back changes, as accesses name it: `crm.orders.status`.
        writes: Vec<String>,
        /// What that reads besides.
        reads: Vec<String>,
        /// The rows before and after, as [`encode_row_change`](crate::ops::encode_row_change) writes
        /// them; absent when they were not kept.
        artifact: Option<ArtifactId>,
        /// Why they were not kept.
        missed: Option<String>,
    },
    /// The workspace was compared with its state before a command ran.
    ChangesScanned {
        /// How many files were compared.
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
    /// Whether the ledger keeps this event.
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
            | Self::ProgressNoted(_)
            | Self::PreimageKept { .. }
            | Self::FileChanged { .. }
            | Self::RowsChanged { .. }
            | Self::Settled { .. } => true,
            Self::Running
            | Self::Progress(_)
            | Self::Output { .. }
            | Self::Item(_)
            | Self::RunEnded => false,
        }
    }

    /// Whether it shows a call at work: it may be left out for a listener that is slow, because the
    /// outcome and the record have what matters of it.
    pub fn is_live(&self) -> bool {
        matches!(
            self,
            Self::Progress(_) | Self::Output { .. } | Self::Item(_)
        )
    }

    /// The name of this event in JSON and in the ledger.
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
            Self::Item(_) => "item",
            Self::ProgressNoted(_) => "progress_noted",
            Self::PreimageKept { .. } => "preimage_kept",
            Self::FileChanged { .. } => "file_changed",
            Self::RowsChanged { .. } => "rows_changed",
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
