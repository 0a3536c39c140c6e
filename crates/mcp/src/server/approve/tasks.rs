//! A waiting call as a task of the extension `io.modelcontextprotocol/tasks`. The id of the task is
//! the id of the call, so that a person can find in the record what a client polls for.
//!
//! By the time a client gets a task, the question its call waits for is on record: the runtime
//! records it before anybody is asked.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallId, Outcome,
    host::{Clock as _, Timestamp},
    outcome::Terminal,
};
use haft_runtime::SystemClock;
use rmcp::model::{DetailedTask, JsonObject, Task, TaskPayload, TaskStatus};
use serde_json::Value;
use tokio::time::Instant;

use super::{serve_wait::OngoingCall, wire};
use crate::{
    client::ClientAbilities,
    server::result::{self, StructuredContent},
};

/// How often a client should poll.
const POLL: Duration = Duration::from_secs(2);

/// The task as first returned.
pub(super) fn seed(ongoing: &OngoingCall, until: Instant) -> Task {
    describe(ongoing, TaskStatus::Working, until)
}

/// The current state of the task.
pub(super) fn detail(
    ongoing: &mut OngoingCall,
    abilities: ClientAbilities,
    until: Instant,
) -> DetailedTask {
    let ended = ongoing.look();
    let payload = match &ended {
        Some(outcome) => payload_of(outcome),
        None => match wire::requests(ongoing, abilities) {
            inputs if inputs.is_empty() => TaskPayload::Working,
            input_requests => TaskPayload::InputRequired { input_requests },
        },
    };
    DetailedTask::new(describe(ongoing, payload.status(), until), payload)
}

/// Delivers answers to a task. Those that nothing waits for are dropped.
pub(super) fn update(
    ongoing: &mut OngoingCall,
    answers: impl IntoIterator<Item = (String, Value)>,
) {
    ongoing.look();
    for (key, answer) in answers {
        ongoing.answer(&key, &Ok(answer));
    }
}

fn payload_of(outcome: &Arc<Outcome>) -> TaskPayload {
    if outcome.terminal == Terminal::Cancelled {
        return TaskPayload::Cancelled;
    }
    match result::of_tool(outcome, StructuredContent::Any) {
        Ok(result) => TaskPayload::Completed {
            result: object(&result),
        },
        Err(error) => TaskPayload::Failed {
            error: object(&error),
        },
    }
}

fn object(value: &impl serde::Serialize) -> JsonObject {
    match serde_json::to_value(value) {
        Ok(Value::Object(object)) => object,
        // The protocol's results and errors are always objects.
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

fn describe(ongoing: &OngoingCall, status: TaskStatus, until: Instant) -> Task {
    let call = ongoing.live().id();
    let made = made_at(call);
    let now = SystemClock.now();
    let left = until.saturating_duration_since(Instant::now());
    let lives = now.since(made) + left;
    let task = Task::new(call.to_string(), status, rfc3339(made), rfc3339(now))
        .with_ttl_ms(u64::try_from(lives.as_millis()).unwrap_or(u64::MAX))
        .with_poll_interval_ms(u64::try_from(POLL.as_millis()).unwrap_or(u64::MAX));
    match ongoing.for_person() {
        Some((id, _)) if !status.is_terminal() => {
            let commands = id.commands();
            task.with_status_message(format!("waits for a person: {commands}"))
        }
        Some(_) | None => task,
    }
}

/// When a call was made, taken from its id.
fn made_at(call: CallId) -> Timestamp {
    let Some(made) = call.as_uuid().get_timestamp() else {
        return SystemClock.now();
    };
    let (seconds, nanoseconds) = made.to_unix();
    let since = Duration::new(seconds, nanoseconds);
    Timestamp(0).after(since)
}

fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0).map_or_else(|_| at.0.to_string(), |at| at.to_string())
}
