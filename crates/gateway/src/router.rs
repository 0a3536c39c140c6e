//! Everything that is served, and what holds for every request: which names it may call us by, and what
//! every answer says.

use axum::{
    Router,
    extract::{Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{any, get},
};
use http::{HeaderValue, StatusCode, header, uri::Authority};

use crate::{
    Gateway, api, console, mcp, openapi,
    problem::{Problem, ProblemKind},
    request_rates::{LeftOfRate, RateLeft},
};

/// Everything that is served.
pub(crate) fn router(gateway: Gateway) -> Router {
    let (api, document) = api::endpoints().split_for_parts();
    let document = openapi::finish(document);
    let document = serde_json::to_string(&document).unwrap_or_default();
    let json = [(header::CONTENT_TYPE, "application/json")];
    api.route(
        "/openapi.json",
        get(move || async move { (json, document).into_response() }),
    )
    .route("/mcp", any(mcp::answer))
    .route("/healthz", get(|| async { "ok\n" }))
    .route("/readyz", get(ready))
    .merge(console::routes())
    .fallback(async || Problem::not_found("page").hint("`/openapi.json` lists what there is"))
    .method_not_allowed_fallback(async || {
        Problem::new(
            ProblemKind::MethodNotAllowed,
            "this page does not know that method",
        )
        .hint("`/openapi.json` lists what there is")
    })
    .layer(middleware::from_fn_with_state(gateway.clone(), guarded))
    .with_state(gateway)
}

/// Whether calls would be taken: the record answers and nothing is ending.
async fn ready(State(gateway): State<Gateway>) -> Result<&'static str, Problem> {
    if gateway.ending().is_cancelled() {
        return Err(Problem::new(
            ProblemKind::Unavailable,
            "the server is ending",
        ));
    }
    gateway.write_queued().await?;
    Ok("ready\n")
}

/// What holds for every request: it addresses us by a name that is ours, so that no web page reaches
/// this server by a name of its own; and what every answer says.
async fn guarded(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    if !addresses_us(&gateway, &request) {
        return Problem::new(
            ProblemKind::Forbidden,
            "this server is not known by that name",
        )
        .hint("start it with `--name HOST` for each name people use")
        .into_response();
    }
    let (mut parts, body) = request.into_parts();
    let left = LeftOfRate::default();
    parts.extensions.insert(left.clone());
    let mut answer = next.run(Request::from_parts(parts, body)).await;
    let headers = answer.headers_mut();
    for (name, value) in left.take().map(RateLeft::headers).unwrap_or_default() {
        headers.insert(name, value);
    }
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if answer.status() == StatusCode::OK && answer.headers().get(header::CONTENT_TYPE).is_none() {
        tracing::debug!("an answer has no content type");
    }
    answer
}

fn addresses_us(gateway: &Gateway, request: &Request) -> bool {
    let ours = |authority: &Authority| {
        let host = authority
            .host()
            .trim_matches(['[', ']'])
            .to_ascii_lowercase();
        ["localhost", "127.0.0.1", "::1"].contains(&host.as_str())
            || gateway.names().contains(&host)
    };
    let mut named = request.headers().get_all(header::HOST).iter();
    let (Some(host), None) = (named.next(), named.next()) else {
        return false;
    };
    let host = host
        .to_str()
        .ok()
        .and_then(|host| host.parse::<Authority>().ok());
    let in_line = request.uri().authority();
    host.as_ref().is_some_and(ours) && in_line.is_none_or(ours)
}
