//! Logging in with a one-time code, and logging out.
//!
//! A link with a code may be opened by a program that only looks at it, a preview in a chat. So opening it
//! shows a button, and only the button uses the code up.

use axum::{
    Router,
    extract::{Query, Request, State},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use maud::html;
use serde::Deserialize;

use super::{
    LOGIN,
    form::{ConsoleForm, FormFields},
    page::{PageProblem, bare},
};
use crate::{
    Gateway,
    identify::session::{ConsoleUser, is_of_our_page},
    problem::{Problem, ProblemKind},
};

/// The longest code that is put into a page. Ours are shorter.
const MAX_CODE: usize = 128;

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/", get(home))
        .route(LOGIN, get(show).post(log_in))
        .route("/logout", post(log_out))
}

#[derive(Deserialize)]
struct LoginQuery {
    code: Option<String>,
}

async fn home(_user: ConsoleUser) -> Redirect {
    Redirect::to("/approvals")
}

async fn show(Query(query): Query<LoginQuery>) -> Response {
    let code = query.code.filter(|code| {
        code.len() <= MAX_CODE && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let Some(code) = code else {
        return bare(
            "Log in",
            &html! {
                h1 { "Log in" }
                p { "You log in with a link that works once." }
                h2 { "The first time" }
                p { "The output of " code { "haft serve" } " has the link for the first administrator:" }
                pre { "haft serve" }
                h2 { "Logged out, or new here?" }
                p { "A session ends after 12 hours without a request. An administrator makes a new link on the page " b { "Keys" } "." }
                p.dim { "Programs do not log in: they send an API key, which " code { "haft keys create" } " makes." }
            },
        );
    };
    bare(
        "Log in",
        &html! {
            h1 { "Log in" }
            p { "This link works once, and for 15 minutes." }
            form method="post" action=(LOGIN) {
                input type="hidden" name="code" value=(code);
                button.primary.wide type="submit" autofocus { "Log in" }
            }
        },
    )
}

async fn log_in(State(gateway): State<Gateway>, request: Request) -> Result<Response, PageProblem> {
    if !is_of_our_page(request.headers()) {
        let problem = Problem::new(
            ProblemKind::Forbidden,
            "this did not come from a page of the console",
        );
        return Err(problem.into());
    }
    let fields = FormFields::read(request).await?;
    match gateway.log_in(fields.text("code")).await {
        Ok(session) => Ok(session.welcome()),
        Err(problem) if problem.kind() == ProblemKind::Unauthorized => {
            let mut answer = bare(
                "This link does not work",
                &html! {
                    h1 { "This link does not work" }
                    p { "It was used before, or it is older than 15 minutes." }
                    p { "An administrator makes a new one on the page " b { "Keys" } "." }
                    p { a.button href=(LOGIN) { "How to log in" } }
                },
            );
            *answer.status_mut() = http::StatusCode::UNAUTHORIZED;
            Ok(answer)
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn log_out(State(gateway): State<Gateway>, form: ConsoleForm) -> Response {
    match gateway.log_out(&form.user).await {
        Ok(answer) => answer,
        Err(problem) => PageProblem::from(problem).into_response(),
    }
}
