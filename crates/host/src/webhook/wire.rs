//! The messages to and from a webhook, and which answers are believed.

use haft_contract::{
    AgentId, Principal,
    host::{ApprovalAnswer, ApprovalRequest, Timestamp},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    question::{self as questions, DrawingContext, RoomForText},
    screen_text::TextLine,
};

/// The version of these shapes.
pub(super) const VERSION: u32 = 1;

/// The longest name of a person who answered.
pub(super) const MAX_NAME_CHARS: usize = 128;
/// The longest reason that is passed on to a model.
const MAX_REASON_CHARS: usize = 2_000;

#[derive(Serialize)]
struct Question<'a> {
    version: u32,
    id: String,
    call: String,
    digest: String,
    summary: String,
    why: &'a str,
    /// The question as a person should see it; absent if it cannot be drawn from its form.
    drawing: Option<WireDrawing>,
    asked_ms: i64,
    expires_ms: i64,
    who: WirePrincipal<'a>,
    form: &'a Value,
}

/// A question as every place draws it, in lines without colours.
#[derive(Serialize)]
struct WireDrawing {
    headline: String,
    who: String,
    effects: Vec<String>,
    reason: String,
    details: Vec<String>,
    /// All but the details as one text, for a place that shows text.
    text: String,
}

#[derive(Serialize)]
pub(super) struct WirePrincipal<'a> {
    tenant: &'a str,
    user: &'a str,
    agent: &'a str,
    ancestors: Vec<&'a str>,
    session: &'a str,
    kind: &'a str,
}

impl<'a> WirePrincipal<'a> {
    pub(super) fn of(principal: &'a Principal) -> Self {
        Self {
            tenant: principal.tenant.as_str(),
            user: principal.user.as_str(),
            agent: principal.agent.as_str(),
            ancestors: principal.ancestors.iter().map(AgentId::as_str).collect(),
            session: principal.session.as_str(),
            kind: principal.session_kind.as_str(),
        }
    }
}

/// An answer as received.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WebhookAnswer {
    id: String,
    digest: String,
    #[serde(rename = "answer")]
    word: AnswerWord,
    by: String,
    #[serde(default)]
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerWord {
    Approve,
    Refuse,
}

/// The body of a question.
pub(super) fn question(request: &ApprovalRequest, now: Timestamp) -> Vec<u8> {
    let drawing = drawing(request);
    let question = Question {
        version: VERSION,
        id: request.id.to_string(),
        call: request.call.to_string(),
        digest: request.digest.to_string(),
        summary: drawing.as_ref().map_or_else(
            || request.plan.tool().to_string(),
            |drawing| drawing.headline.clone(),
        ),
        why: &request.decision.reason,
        drawing,
        asked_ms: now.0 / 1000,
        expires_ms: request.expires.0 / 1000,
        who: WirePrincipal::of(&request.principal),
        form: &request.form,
    };
    serde_json::to_vec(&question).unwrap_or_default()
}

fn drawing(request: &ApprovalRequest) -> Option<WireDrawing> {
    let cx = DrawingContext {
        why: Some(&request.decision.reason),
        home: None,
        room: RoomForText::Enough,
    };
    let drawn = questions::draw(&request.form, request.digest, cx).ok()?;
    let lines = |lines: &[TextLine]| -> Vec<String> {
        let line = |line: &TextLine| line.iter().map(|(_, piece)| piece.as_str()).collect();
        lines.iter().map(line).collect()
    };
    Some(WireDrawing {
        text: drawn.text(),
        headline: drawn.headline.title(),
        effects: lines(&drawn.effects),
        details: lines(&drawn.details),
        who: drawn.headline.who.unwrap_or_default(),
        reason: drawn.reason.unwrap_or_default(),
    })
}

impl WebhookAnswer {
    /// The answer to exactly this question, or why it is not one.
    pub(super) fn to(self, request: &ApprovalRequest) -> Result<ApprovalAnswer, &'static str> {
        if self.id != request.id.to_string() {
            return Err("it answers another question");
        }
        if self.digest != request.digest.to_string() {
            return Err("it answers another plan");
        }
        let by = format!("{} (webhook)", short(&self.by, MAX_NAME_CHARS));
        Ok(match self.word {
            AnswerWord::Approve => request.approve(by),
            AnswerWord::Refuse => {
                let reason = self.reason.map(|reason| short(&reason, MAX_REASON_CHARS));
                request.refuse(by, reason)
            }
        })
    }
}

/// The start of a foreign text, on one line and safe for terminals.
pub(super) fn short(text: &str, most: usize) -> String {
    text.chars()
        .flat_map(char::escape_debug)
        .take(most)
        .collect()
}
