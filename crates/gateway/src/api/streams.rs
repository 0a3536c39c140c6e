//! The events of a call: as a list, and as a stream that goes on until the call has ended.

use axum::{
    Json,
    extract::{Path, State},
    response::{
        IntoResponse as _, Response,
        sse::{KeepAlive, Sse},
    },
};
use haft_contract::host::StoredCall;
use http::{HeaderMap, HeaderName, HeaderValue, header::ACCEPT};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{calls::visible, page::Page};
use crate::{
    Gateway,
    events::{EventView, call_events, numbered},
    identify::Identified,
    limits::STREAM_BEAT,
    problem::{Problem, ProblemKind},
};

/// Where a reader of a stream left off.
const LAST_EVENT_ID: &str = "last-event-id";

pub(super) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(events))
}

/// What happened in a call.
///
/// With `Accept: text/event-stream`, a stream (server-sent events) that ends when the call has ended. What
/// is on record has an `id`; `Last-Event-ID` goes on behind it, without gap or double, also after this
/// server was started anew. `output` and `progress` have none and are shown once, as they happen.
/// Otherwise a list of what is on record.
#[utoipa::path(
    get,
    path = "/v1/calls/{id}/events",
    tag = "calls",
    params(
        ("id" = String, Path, description = "The call's id"),
        ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last event that was read"),
    ),
    responses(
        (status = 200, description = "The events", content(
            (Page<EventView> = "application/json"),
            (String = "text/event-stream"),
        )),
    ),
)]
async fn events(
    State(gateway): State<Gateway>,
    who: Identified,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let call = visible(&gateway, &who, &id).await?;
    let after = last_event_id(&headers)?;
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    if !accepts.is_some_and(|accept| accept.contains("text/event-stream")) {
        let mut events = recorded(&gateway, &who, &call).await?;
        events.retain(|event| event.id > after);
        return Ok(Json(Page::whole(events)).into_response());
    }
    let place = gateway.streams().take(who.credential_id())?;
    let events = call_events(&gateway, who.tenant().clone(), call.id, after, place);
    let beat = KeepAlive::new().interval(STREAM_BEAT);
    let mut answer = Sse::new(events).keep_alive(beat).into_response();
    // Tells a proxy in front of us to pass on a stream's events at once.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    answer
        .headers_mut()
        .insert(unbuffered, HeaderValue::from_static("no"));
    Ok(answer)
}

/// What is on record of a call.
pub(crate) async fn recorded(
    gateway: &Gateway,
    who: &Identified,
    call: &StoredCall,
) -> Result<Vec<EventView>, Problem> {
    let recorded = gateway.history().events(who.tenant(), call.id).await?;
    Ok(numbered(recorded))
}

fn last_event_id(headers: &HeaderMap) -> Result<u64, Problem> {
    let Some(sent) = headers.get(LAST_EVENT_ID) else {
        return Ok(0);
    };
    let sent = sent.to_str().ok().and_then(|id| id.trim().parse().ok());
    sent.ok_or_else(|| {
        Problem::new(
            ProblemKind::BadRequest,
            "`Last-Event-ID` is not the id of an event",
        )
        .hint("send the `id` of the last event that was read")
    })
}
