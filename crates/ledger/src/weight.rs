//! Estimates the memory of what waits to be written: close enough to bound the queue, and cheap,
//! because it runs on the call path.

use haft_contract::{Arguments, CallEvent, CallRequest, Content, Outcome, event::RecordedEvent};
use serde_json::Value;

/// What a call takes in addition to its texts: its request, plan, decision and facts.
const CALL_BYTES: usize = 2 * 1024;

/// What an object's field takes in addition to its name and value.
const FIELD_BYTES: usize = 32;

/// What one access in a plan takes, with a path of ordinary length.
const ACCESS_BYTES: usize = 256;

/// The weight of a request, including the fixed cost of a call.
pub(crate) fn request(request: &CallRequest) -> usize {
    let arguments = match &request.arguments {
        Arguments::Text(text) => text.len(),
        Arguments::Value(arguments) => value(arguments),
    };
    CALL_BYTES + request.tool.len() + arguments
}

/// The weight of events.
pub(crate) fn events(events: &[RecordedEvent]) -> usize {
    let held: usize = events.iter().map(|happened| held(&happened.event)).sum();
    size_of_val(events) + held
}

/// What an event holds that may be large. The rest is in [`CALL_BYTES`].
fn held(event: &CallEvent) -> usize {
    match event {
        // Accesses repeat parts of the input: a command is counted twice.
        CallEvent::Planned { plan } => {
            2 * value(plan.input()) + plan.accesses().len() * ACCESS_BYTES
        }
        CallEvent::Settled { outcome } => settled(outcome),
        CallEvent::FileChanged { path, .. } | CallEvent::PreimageKept { path, .. } => {
            path.as_str().len()
        }
        CallEvent::RowsChanged { writes, reads, .. } => {
            writes.iter().chain(reads).map(String::len).sum()
        }
        CallEvent::ProgressNoted(note) => note.message.len(),
        CallEvent::Opened { .. }
        | CallEvent::Resolved { .. }
        | CallEvent::Validated { .. }
        | CallEvent::Decided { .. }
        | CallEvent::ApprovalAsked { .. }
        | CallEvent::ApprovalAnswered { .. }
        | CallEvent::Granted { .. }
        | CallEvent::Admitted { .. }
        | CallEvent::Started { .. }
        | CallEvent::Running
        | CallEvent::Progress(_)
        | CallEvent::Output { .. }
        | CallEvent::Item(_)
        | CallEvent::ChangesScanned { .. }
        | CallEvent::RunEnded => 0,
    }
}

fn settled(outcome: &Outcome) -> usize {
    let content: usize = outcome.content.iter().map(content).sum();
    let structured = outcome.structured.as_ref().map_or(0, value);
    let error = outcome
        .error
        .as_ref()
        .map_or(0, |error| error.message.len());
    content + structured + error
}

fn content(content: &Content) -> usize {
    // Includes names and types: a mounted server writes them, and they may be of any length.
    let held = match content {
        Content::Text(text) => text.len(),
        Content::Image { data, media_type } | Content::Audio { data, media_type } => {
            data.len() + media_type.len()
        }
        Content::Document {
            data,
            media_type,
            name,
        } => data.len() + media_type.len() + name.len(),
        Content::Resource {
            uri,
            media_type,
            body,
        } => uri.len() + media_type.as_ref().map_or(0, String::len) + body.as_bytes().len(),
        Content::Link {
            uri,
            name,
            media_type,
        } => uri.len() + name.len() + media_type.as_ref().map_or(0, String::len),
    };
    size_of::<Content>() + held
}

fn value(of: &Value) -> usize {
    let held = match of {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(value).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| FIELD_BYTES + name.len() + value(field))
            .sum(),
    };
    size_of::<Value>() + held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_mounted_server_calls_its_things_counts() {
        let long = "x".repeat(100_000);
        let link = Content::Link {
            uri: "a".to_owned(),
            name: long.clone(),
            media_type: Some(long.clone()),
        };
        assert!(content(&link) > 200_000);
        let resource = Content::Resource {
            uri: long,
            media_type: None,
            body: haft_contract::content::ResourceBody::Bytes(vec![0; 50_000]),
        };
        assert!(content(&resource) > 150_000);
    }
}
