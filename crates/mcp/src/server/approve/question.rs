//! A plan as a question that a client's person can answer: one form with one choice. And back: what
//! the client sent, as an answer, or as none.
//!
//! The person sees the whole plan or is not offered *allow*: a client draws the message as it
//! likes, so what is long enough to be cut by one is not approved through one.

use haft_contract::host::ApprovalRequest;
use serde_json::{Value, json};

use crate::{
    client::{Question, QuestionKind},
    foreign,
};

/// The longest message that is put before a person through a client. Longer ones are answered where
/// Haft draws them itself.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024;

/// The most lines of such a message.
pub(super) const MAX_MESSAGE_LINES: usize = 200;

/// The field of the form.
const FIELD: &str = "answer";
const ALLOW: &str = "allow";
const DENY: &str = "deny";
const ELSEWHERE: &str = "elsewhere";

/// What a person said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Yes, to what was shown, once.
    Allow,
    /// No.
    Deny,
    /// Nothing that is an answer: dismissed, another choice, or not what was asked for.
    Nothing,
}

/// How a question can be answered where Haft itself shows it.
pub(super) fn elsewhere(request: &ApprovalRequest) -> String {
    commands(request.id)
}

/// The commands that answer a question.
pub(super) fn commands(id: haft_contract::host::ApprovalId) -> String {
    format!("`haft approve {id}`, `haft deny {id}`, or `haft approvals --watch`")
}

/// A question with what was drawn of it, which is all of it, escaped.
pub(super) fn ask(request: &ApprovalRequest, drawn: &str) -> Question {
    let whole = drawn.len() <= MAX_MESSAGE_BYTES && drawn.lines().count() <= MAX_MESSAGE_LINES;
    let (message, choices, description) = if whole {
        (
            format!(
                "Haft asks you about a call. Allow this one call?\n\nwhy       {}\n{drawn}\n\
                 This is for a person to answer. Elsewhere: {}",
                foreign::shown(&request.decision.reason),
                elsewhere(request)
            ),
            // What is chosen without a look should be harmless, so the refusal stands first.
            [DENY, ALLOW],
            "deny: nothing happens. allow: this one call runs, exactly as shown.",
        )
    } else {
        (
            format!(
                "Haft asks about a call whose plan is too long to be shown whole here, so it cannot \
                 be allowed here. It is shown whole by: {}",
                elsewhere(request)
            ),
            [DENY, ELSEWHERE],
            "deny: nothing happens. elsewhere: it waits for an answer given there.",
        )
    };
    let parameters = json!({
        "mode": "form",
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": {
                FIELD: {
                    "type": "string",
                    "title": "Answer",
                    "description": description,
                    "enum": choices,
                },
            },
            "required": [FIELD],
        },
    });
    Question {
        key: String::new(),
        kind: QuestionKind::Elicit,
        parameters,
    }
}

/// What an answer to such a form says. Only the very word that was offered allows anything.
pub(super) fn read(question: &Question, result: &Value) -> Said {
    match result.get("action").and_then(Value::as_str) {
        Some("decline") => return Said::Deny,
        Some("accept") => {}
        Some(_) | None => return Said::Nothing,
    }
    let choice = result
        .pointer(&format!("/content/{FIELD}"))
        .and_then(Value::as_str);
    let choices = question
        .parameters
        .pointer(&format!("/requestedSchema/properties/{FIELD}/enum"));
    let offered = |word: &str| {
        choices
            .and_then(Value::as_array)
            .is_some_and(|choices| choices.iter().any(|choice| choice == word))
    };
    match choice {
        Some(ALLOW) if offered(ALLOW) => Said::Allow,
        Some(DENY) => Said::Deny,
        Some(_) | None => Said::Nothing,
    }
}
