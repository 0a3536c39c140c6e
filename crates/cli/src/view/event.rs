//! An event of a running call as a line of JSON. The last line is the outcome, as the event
//! `settled`.

use haft_contract::{CallEvent, CallId, event::RecordedEvent, progress::RenderedProgress};
use serde::Serialize;
use serde_json::Value;

use super::{outcome::OutcomeView, time};

/// An event while a call runs.
#[derive(Debug, Serialize)]
pub(crate) struct LiveEventView<'a> {
    event: &'static str,
    call: String,
    at: String,
    #[serde(flatten)]
    about: EventDetails<'a>,
}

/// What is told of an event besides its name.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum EventDetails<'a> {
    Nothing {},
    Resolved {
        tool: String,
    },
    Planned {
        deadline_ms: u64,
    },
    Decided {
        verdict: &'static str,
    },
    Output {
        stream: &'static str,
        text: &'a str,
    },
    Item {
        number: u64,
        item: &'a Value,
    },
    Progress {
        step: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        percentage: Option<u8>,
        status: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        remaining_ms: Option<u64>,
        detail: &'a Value,
    },
}

/// Events that a slow reader missed.
#[derive(Debug, Serialize)]
pub(crate) struct MissedView {
    event: &'static str,
    call: String,
    count: u64,
}

/// The outcome as the last event.
#[derive(Debug, Serialize)]
pub(crate) struct SettledView {
    event: &'static str,
    #[serde(flatten)]
    outcome: OutcomeView,
}

impl<'a> LiveEventView<'a> {
    /// The view of an event.
    pub(crate) fn of(happened: &'a RecordedEvent) -> Self {
        Self {
            event: happened.event.kind(),
            call: happened.call.to_string(),
            at: time::rfc3339(happened.at),
            about: about(&happened.event),
        }
    }
}

fn about(event: &CallEvent) -> EventDetails<'_> {
    match event {
        CallEvent::Resolved { tool } => EventDetails::Resolved {
            tool: tool.to_string(),
        },
        CallEvent::Planned { plan } => EventDetails::Planned {
            deadline_ms: millis(plan.deadline()),
        },
        CallEvent::Decided { decision } => EventDetails::Decided {
            verdict: decision.verdict.as_str(),
        },
        CallEvent::Output { stream, text } => EventDetails::Output {
            stream: stream.as_str(),
            text,
        },
        CallEvent::Item(item) => EventDetails::Item {
            number: item.number,
            item: &item.value,
        },
        CallEvent::Progress(progress) => of_progress(progress),
        CallEvent::Opened { .. }
        | CallEvent::Validated { .. }
        | CallEvent::ApprovalAsked { .. }
        | CallEvent::ApprovalAnswered { .. }
        | CallEvent::Granted { .. }
        | CallEvent::Admitted { .. }
        | CallEvent::Started { .. }
        | CallEvent::Running
        | CallEvent::ProgressNoted(_)
        | CallEvent::PreimageKept { .. }
        | CallEvent::FileChanged { .. }
        | CallEvent::RowsChanged { .. }
        | CallEvent::ChangesScanned { .. }
        | CallEvent::RunEnded
        | CallEvent::Settled { .. } => EventDetails::Nothing {},
    }
}

fn of_progress(progress: &RenderedProgress) -> EventDetails<'_> {
    EventDetails::Progress {
        step: progress.step,
        total: progress.total,
        percentage: progress.percentage(),
        status: &progress.status,
        remaining_ms: progress.remaining.map(millis),
        detail: &progress.detail,
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl MissedView {
    /// This many events of a call were missed.
    pub(crate) fn of(count: u64, call: CallId) -> Self {
        Self {
            event: "missed",
            call: call.to_string(),
            count,
        }
    }
}

impl SettledView {
    /// The outcome as an event.
    pub(crate) fn of(outcome: OutcomeView) -> Self {
        Self {
            event: "settled",
            outcome,
        }
    }
}
