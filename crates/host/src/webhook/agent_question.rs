//! An agent's question to a webhook, and which replies are believed. Neither has a field in common with an
//! approval but those that say who and when: a service that answers one as the other answers nothing.

use haft_contract::host::{AgentQuestionAnswer, AgentQuestionRequest, GivenReply, Timestamp};
use serde::{Deserialize, Serialize};

use super::wire::{MAX_NAME_CHARS, VERSION, WirePrincipal, short};

#[derive(Serialize)]
struct WireQuestion<'a> {
    version: u32,
    kind: &'static str,
    id: String,
    call: String,
    question: &'a str,
    options: &'a [String],
    allow_other: bool,
    /// The question as every place shows it, with the sentence that an answer is only text.
    text: String,
    asked_ms: i64,
    expires_ms: i64,
    who: WirePrincipal<'a>,
}

/// A reply as received.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookReply {
    id: String,
    /// Null for no answer.
    reply: Option<String>,
    by: String,
}

/// The body of a question.
pub(super) fn body(request: &AgentQuestionRequest, now: Timestamp) -> Vec<u8> {
    let (asked, principal) = (&request.question, &request.principal);
    let question = WireQuestion {
        version: VERSION,
        kind: "question",
        id: request.id.to_string(),
        call: request.call.to_string(),
        question: asked.text(),
        options: asked.options(),
        allow_other: asked.allows_other(),
        text: asked.lines(principal.agent.as_str()).join("\n"),
        asked_ms: now.0 / 1000,
        expires_ms: request.expires.0 / 1000,
        who: WirePrincipal::of(principal),
    };
    serde_json::to_vec(&question).unwrap_or_default()
}

impl WebhookReply {
    /// The reply to exactly this question, or why it is none.
    pub(super) fn to(
        self,
        request: &AgentQuestionRequest,
    ) -> Result<AgentQuestionAnswer, &'static str> {
        if self.id != request.id.to_string() {
            return Err("it answers another question");
        }
        let reply = match self.reply {
            None => GivenReply::Decline,
            Some(text) => match request.question.meant(&text) {
                Some(meant) => GivenReply::Text(meant),
                None => return Err("it is none of the answers that are offered"),
            },
        };
        let by = format!("{} (webhook)", short(&self.by, MAX_NAME_CHARS));
        Ok(AgentQuestionAnswer::Said { by, reply })
    }
}
