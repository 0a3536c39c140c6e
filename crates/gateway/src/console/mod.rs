//! The console: pages that the server draws from what the API says, for people at a browser.
//!
//! Nothing here reads the record or the runtime: a page calls the functions behind the API's endpoints as
//! the person who is logged in, so it can show no more than they may read. Every page works without
//! scripts; htmx (`assets/`) only refreshes what has changed, and `console.js` adds keys. Whatever agents
//! wrote goes through `text.rs` before it is drawn. Read next: `page.rs`, then `approvals.rs`.

mod approvals;
mod assets;
mod audit;
mod call;
mod calls;
mod chart;
mod form;
mod grants;
mod keys;
mod login;
mod page;
mod policy;
mod question;
mod sessions;
mod text;
mod tools;
mod undo;
mod updates;
mod usage;
mod waterfall;

use axum::{
    Router,
    extract::Request,
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use http::{HeaderName, HeaderValue, StatusCode, header};

use crate::Gateway;

/// What a browser lets a page of ours do: its own files, its own forms, and nothing inline.
const CONTENT_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Where people log in.
const LOGIN: &str = "/login";

/// Says that htmx asks, not a person.
const BY_SCRIPT: HeaderName = HeaderName::from_static("hx-request");

/// Has htmx load a whole page.
const LEAD_TO: HeaderName = HeaderName::from_static("hx-redirect");

/// Every page.
pub(crate) fn routes() -> Router<Gateway> {
    Router::new()
        .merge(login::routes())
        .merge(approvals::routes())
        .merge(grants::routes())
        .merge(calls::routes())
        .merge(call::routes())
        .merge(undo::routes())
        .merge(sessions::routes())
        .merge(policy::routes())
        .merge(tools::routes())
        .merge(usage::routes())
        .merge(audit::routes())
        .merge(keys::routes())
        .merge(updates::routes())
        .merge(assets::routes())
        .layer(middleware::from_fn(confined))
}

/// What every answer of the console says, and how a script learns that nobody is logged in any more: it
/// follows redirects without being told, so it gets an answer that leads the whole page there.
async fn confined(request: Request, next: Next) -> Response {
    let by_script = request.headers().contains_key(BY_SCRIPT);
    let mut answer = next.run(request).await;
    if by_script && leads_to_login(&answer) {
        let login = HeaderValue::from_static(LOGIN);
        answer = (StatusCode::UNAUTHORIZED, [(LEAD_TO, login)]).into_response();
    }
    answer.headers_mut().insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(CONTENT_POLICY),
    );
    answer
}

fn leads_to_login(answer: &Response) -> bool {
    let to = answer.headers().get(header::LOCATION);
    answer.status().is_redirection() && to.is_some_and(|to| to == LOGIN)
}
