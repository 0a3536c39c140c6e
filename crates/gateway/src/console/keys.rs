//! API keys of programs, and links by which people log in.
//!
//! The text of a key and a link are on the page that answers the form, and on no other.

use axum::{
    Router,
    extract::{Path, State},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use haft_contract::UserId;
use maud::{Markup, html};

use super::{
    LOGIN,
    form::{ConsoleForm, FormFields},
    page::{ConsoleView, PageHead, PageProblem, draw, nothing, token},
    text::{moment, seen},
};
use crate::{
    Gateway,
    api::keys::{KeyView, NewKey, known_keys, make_key, revoke_key},
    identify::{ADMIN, SCOPES, session::ConsoleUser},
    problem::{Problem, ProblemKind},
};

/// For how long a key may last, in milliseconds and in words.
const DURATIONS: [(&str, &str); 4] = [
    ("86400000", "1 day"),
    ("2592000000", "30 days"),
    ("31536000000", "1 year"),
    ("", "until it is revoked"),
];

/// What a scope lets somebody do.
fn meaning(scope: &str) -> &'static str {
    match scope {
        "call" => "make calls, and read its own",
        "read" => "read everything of the tenant",
        "approve" => "answer questions, take calls back",
        "admin" => "make and revoke keys",
        _ => "for rules about tools",
    }
}

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/keys", get(show).post(make))
        .route("/keys/{id}/revoke", post(revoke))
        .route("/keys/invite", post(invite))
}

async fn show(State(gateway): State<Gateway>, user: ConsoleUser) -> Result<Response, PageProblem> {
    keys_page(&gateway, &user, &html! {}).await
}

async fn keys_page(
    gateway: &Gateway,
    user: &ConsoleUser,
    made: &Markup,
) -> Result<Response, PageProblem> {
    user.who.needs(ADMIN)?;
    let keys = known_keys(gateway, &user.who).await?;
    let body = html! {
        h1 { "Keys" }
        (made)
        @if keys.is_empty() {
            (nothing("No keys yet", &html! {
                p { "A program identifies itself with a key. Give each agent its own, with no more than it needs: " b { "call" } " is enough to work." }
            }))
        } @else {
            ul.cards { @for key in &keys { (card(user, key)) } }
        }
        (form(user))
    };
    draw(
        gateway,
        user,
        PageHead::new("Keys", ConsoleView::Keys),
        body,
    )
    .await
}

fn card(user: &ConsoleUser, key: &KeyView) -> Markup {
    let is_over = key.revoked.is_some();
    html! {
        li.over[is_over] {
            div {
                p { b { (seen(&key.name)) } " " @for scope in &key.scopes { span.tag { (seen(scope)) } " " } }
                p.dim {
                    code { (key.id) }
                    " · " (seen(key.agent.as_deref().unwrap_or("api"))) " for " (seen(&key.user))
                    " · made " (moment(&key.made)) " by " (seen(&key.made_by))
                    @if let Some(expires) = &key.expires { " · ends " (moment(expires)) }
                    @if let Some(revoked) = &key.revoked { " · revoked " (moment(revoked)) }
                    @if !key.workspaces.is_empty() { " · only in " (seen(&key.workspaces.join(", "))) }
                }
            }
            @if !is_over {
                form method="post" action={ "/keys/" (key.id) "/revoke" } {
                    (token(user))
                    button.danger type="submit" { "Revoke" span.off { " " (seen(&key.name)) } }
                }
            }
        }
    }
}

/// The scopes that somebody may pass on.
fn scopes(user: &ConsoleUser, chosen: &[&str]) -> Markup {
    html! {
        fieldset {
            legend { "What it may do" }
            @for scope in SCOPES.iter().filter(|scope| user.who.has(scope)) {
                label.choice {
                    input type="checkbox" name="scope" value=(scope) checked[chosen.contains(scope)];
                    span { b { (scope) } " " span.dim { (meaning(scope)) } }
                }
            }
        }
    }
}

fn form(user: &ConsoleUser) -> Markup {
    html! {
        section {
            h2 { "Make a key for a program" }
            form.stack method="post" action="/keys" {
                (token(user))
                label { "Name" input name="name" required maxlength="80" placeholder="deploy bot"; }
                label { "Agent" input name="agent" placeholder="api" autocapitalize="off"; }
                (scopes(user, &["call"]))
                label { "For"
                    select name="for" {
                        @for (value, words) in DURATIONS { option value=(value) selected[words == "30 days"] { (words) } }
                    }
                }
                div.actions { button.primary type="submit" { "Make a key" } }
            }
        }
        section {
            h2 { "Let a person log in" }
            p.dim { "This makes a link that works once, for 15 minutes. You need one yourself after you have logged out." }
            form.stack method="post" action="/keys/invite" {
                (token(user))
                label { "User" input name="user" required value=(user.who.user()) autocapitalize="off"; }
                (scopes(user, &["call", "read", "approve"]))
                div.actions { button type="submit" { "Make a link" } }
            }
        }
    }
}

async fn invite(
    State(gateway): State<Gateway>,
    form: ConsoleForm,
) -> Result<Response, PageProblem> {
    let user = UserId::parse(form.fields.text("user").trim());
    let user = user.map_err(|error| Problem::new(ProblemKind::BadRequest, error.to_string()))?;
    let name = user.to_string();
    let who = &form.user.who;
    let code = gateway.invite(who, user, form.fields.all("scope")).await?;
    let shown = html! {
        div.told.good role="status" {
            p { "With this link, " b { (seen(&name)) } " logs in once, within 15 minutes. Put the address of this server in front of it:" }
            pre.secret tabindex="0" { (LOGIN) "?code=" (code) }
        }
    };
    keys_page(&gateway, &form.user, &shown).await
}

async fn make(State(gateway): State<Gateway>, form: ConsoleForm) -> Result<Response, PageProblem> {
    let made = make_key(&gateway, &form.user.who, &new_key(&form.fields)?).await?;
    let shown = html! {
        div.told.good role="status" {
            p { b { (seen(&made.about.name)) } " is made. Copy it now: it is not shown again." }
            pre.secret tabindex="0" { (made.key) }
        }
    };
    keys_page(&gateway, &form.user, &shown).await
}

fn new_key(fields: &FormFields) -> Result<NewKey, Problem> {
    let for_ms = fields.filled("for").map(str::parse).transpose();
    Ok(NewKey {
        name: fields.text("name").to_owned(),
        agent: fields.filled("agent").map(|agent| agent.trim().to_owned()),
        user: None,
        scopes: fields.all("scope"),
        workspaces: Vec::new(),
        for_ms: for_ms.map_err(|_| Problem::new(ProblemKind::BadRequest, "`for` is not a time"))?,
    })
}

async fn revoke(
    State(gateway): State<Gateway>,
    Path(id): Path<String>,
    form: ConsoleForm,
) -> Result<Response, PageProblem> {
    revoke_key(&gateway, &form.user.who, &id).await?;
    Ok(Redirect::to("/keys").into_response())
}
