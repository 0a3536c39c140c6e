//! Standing approvals: what was allowed from now on, and ending it.

use axum::{
    Router,
    extract::{Path, State},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use maud::{Markup, html};

use super::{
    form::ConsoleForm,
    page::{ConsoleView, PageHead, PageProblem, draw, nothing, token},
    text::{moment, seen},
};
use crate::{
    Gateway,
    api::grants::{GrantView, end, held},
    identify::{APPROVE, session::ConsoleUser},
};

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/grants", get(show))
        .route("/grants/{id}/end", post(end_one))
}

async fn show(State(gateway): State<Gateway>, user: ConsoleUser) -> Result<Response, PageProblem> {
    let held = held(&gateway, &user.who).await?;
    let body = html! {
        h1 { "Standing approvals" }
        @if held.is_empty() {
            (nothing("Nothing is allowed from now on", &html! {
                p { "When you answer a question with " b { "Always…" } ", the rule that you chose is listed here until it ends. You can end it at any time, and the next call is asked about again." }
            }))
        } @else {
            ul.cards { @for grant in &held { (card(&user, grant)) } }
        }
    };
    draw(
        &gateway,
        &user,
        PageHead::new("Standing approvals", ConsoleView::Grants),
        body,
    )
    .await
}

fn card(user: &ConsoleUser, grant: &GrantView) -> Markup {
    html! {
        li {
            div {
                p { code.rule { (seen(&grant.rule)) } }
                p.dim {
                    (grant.scope) " " b { (seen(&grant.bound_to)) }
                    " · for " (seen(&grant.user))
                    " · by " (seen(&grant.made_by)) ", " (moment(&grant.made_at))
                    @match &grant.until {
                        Some(until) => { " · ends " (moment(until)) }
                        None => { " · until somebody ends it" }
                    }
                    @if let Some(uses) = grant.uses_left { " · " (uses) " uses left" }
                    @if let Some(cause) = &grant.cause { " · " a href={ "/calls/" (cause) } { "the call" } }
                }
            }
            @if user.who.has(APPROVE) {
                form method="post" action={ "/grants/" (grant.grant) "/end" } {
                    (token(user))
                    button.danger type="submit" { "End" span.off { " the approval of " (seen(&grant.rule)) } }
                }
            }
        }
    }
}

async fn end_one(
    State(gateway): State<Gateway>,
    Path(id): Path<String>,
    form: ConsoleForm,
) -> Result<Response, PageProblem> {
    end(&gateway, &form.user.who, &id).await?;
    Ok(Redirect::to("/grants").into_response())
}
