//! Whether the record is as it was written.

use axum::{Router, extract::State, response::Response, routing::get};
use maud::{Markup, html};

use super::{
    form::ConsoleForm,
    page::{ConsoleView, PageHead, PageProblem, draw, token},
    text::{count, seen},
};
use crate::{
    Gateway,
    api::audit::{VerificationView, verified},
    identify::{READ, session::ConsoleUser},
};

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route("/audit", get(show).post(verify))
}

async fn show(State(gateway): State<Gateway>, user: ConsoleUser) -> Result<Response, PageProblem> {
    user.who.needs(READ)?;
    let body = page(&user, None);
    draw(
        &gateway,
        &user,
        PageHead::new("Audit", ConsoleView::Audit),
        body,
    )
    .await
}

async fn verify(
    State(gateway): State<Gateway>,
    form: ConsoleForm,
) -> Result<Response, PageProblem> {
    let found = verified(&gateway, &form.user.who).await?;
    let body = page(&form.user, Some(&found));
    draw(
        &gateway,
        &form.user,
        PageHead::new("Audit", ConsoleView::Audit),
        body,
    )
    .await
}

fn page(user: &ConsoleUser, found: Option<&VerificationView>) -> Markup {
    html! {
        h1 { "Audit" }
        p { "Every record carries a hash of the one before it. Verifying computes all of them again, so it finds a record that was changed or taken out, an end that was cut off, and an older copy that was put back." }
        @if let Some(found) = found { (result(found)) }
        form method="post" action="/audit" {
            (token(user))
            button.primary type="submit" { @if found.is_some() { "Verify again" } @else { "Verify the record" } }
        }
        p.dim { "For an auditor who does not trust this server, " code { "haft log export" } " writes a copy that can be verified elsewhere." }
    }
}

fn result(found: &VerificationView) -> Markup {
    html! {
        @if found.intact {
            p.told.good role="status" { b { "Intact" } " " (count(found.records.unwrap_or(0), "record is", "records are")) " as written." }
        } @else {
            div.failure role="alert" {
                p { b { "The record is not as it was written." } }
                @if let Some(first) = found.first_bad { p { "The first bad record is number " (first) "." } }
                @if let Some(reason) = &found.reason { p { (seen(reason)) } }
            }
        }
    }
}
