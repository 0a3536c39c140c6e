//! The tools that may be given to a model, and what each costs to describe.

use axum::{Router, extract::State, response::Response, routing::get};
use maud::html;

use super::{
    page::{ConsoleView, PageHead, PageProblem, draw, nothing},
    text::{address, count, grouped, seen},
};
use crate::{
    Gateway,
    api::tools::{ToolView, given},
    identify::session::ConsoleUser,
};

/// How many bytes of a definition are about one token of a model. An estimate, and shown as one.
const BYTES_A_TOKEN: usize = 4;

pub(super) fn routes() -> Router<Gateway> {
    Router::new().route("/tools", get(show))
}

fn tokens(tool: &ToolView) -> u64 {
    let bytes = tool.definition.to_string().len();
    u64::try_from(bytes / BYTES_A_TOKEN).unwrap_or(u64::MAX)
}

async fn show(State(gateway): State<Gateway>, user: ConsoleUser) -> Result<Response, PageProblem> {
    let tools = given(&gateway, &user.who).await?;
    let all: u64 = tools.iter().map(tokens).sum();
    let body = html! {
        h1 { "Tools" }
        @if tools.is_empty() {
            (nothing("No tools", &html! {
                p { "The rules give this session no tools. " a href="/policy" { "Policy" } " says why." }
            }))
        } @else {
            p { (count(u64::try_from(tools.len()).unwrap_or(0), "tool", "tools")) ". A model that is given all of them reads about " (grouped(all)) " tokens each time." }
            ul.tools {
                @for tool in &tools {
                    li {
                        details {
                            summary {
                                span.tool { (seen(&tool.name)) }
                                span.what { (seen(tool.description.lines().next().unwrap_or_default())) }
                                span.by { (seen(&tool.provider)) }
                                span.took { "~" (grouped(tokens(tool))) " tokens" }
                            }
                            div.lines {
                                @for line in haft_host::screen_text::visible::json(&tool.definition) { div.line { (line) } }
                            }
                            p.links {
                                a href=(address("/calls", &[("tool", &format!("{}/{}", tool.provider, tool.name))])) { "Its calls" } " · "
                                a href=(address("/policy/explain", &[("tool", &tool.name)])) { "Explain a call of it" }
                            }
                        }
                    }
                }
            }
        }
    };
    draw(
        &gateway,
        &user,
        PageHead::new("Tools", ConsoleView::Tools),
        body,
    )
    .await
}
