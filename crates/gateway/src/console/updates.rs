//! What keeps pages up to date: a stream that says only that something has changed, and the count of
//! questions that every page shows. A page then asks for itself again, as the same person.

use axum::{
    Router,
    extract::State,
    response::{
        Html, IntoResponse as _, Response,
        sse::{KeepAlive, Sse},
    },
    routing::get,
};
use http::{HeaderName, HeaderValue};

use super::page::{PageProblem, badge};
use crate::{
    Gateway,
    api::approvals,
    events::changes_of,
    identify::session::ConsoleUser,
    limits::{MAX_PAGE, STREAM_BEAT},
};

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/feed", get(feed))
        .route("/waiting", get(waiting))
}

async fn feed(State(gateway): State<Gateway>, user: ConsoleUser) -> Result<Response, PageProblem> {
    let place = gateway.streams().take(user.who.credential_id())?;
    let changes = changes_of(&gateway, user.who, place);
    let beat = KeepAlive::new().interval(STREAM_BEAT);
    let mut answer = Sse::new(changes).keep_alive(beat).into_response();
    // Tells a proxy in front of us to pass on a stream's events at once.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    answer
        .headers_mut()
        .insert(unbuffered, HeaderValue::from_static("no"));
    Ok(answer)
}

async fn waiting(
    State(gateway): State<Gateway>,
    user: ConsoleUser,
) -> Result<Html<String>, PageProblem> {
    let open = approvals::pending(&gateway, &user.who, MAX_PAGE).await?;
    Ok(Html(badge(open.len()).into_string()))
}
