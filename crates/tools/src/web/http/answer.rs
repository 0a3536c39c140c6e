//! What a server answered, as a result: the text between two lines that say it is a stranger's, without
//! secrets, and whether it was a success. Once a request that changes something was sent, no trouble with
//! its answer makes it look as if nothing had happened.

use std::{fmt::Write as _, time::Duration};

use haft_contract::{
    CallContext, Content, ErrorKind, NoProgress, ToolError,
    erased::ToolReply,
    ops::{DocumentForm, FetchResponse, OpsError, UntrustedDocument},
};
use serde_json::{Value, json};

use super::{operation::HttpOperation, redirect::is_redirect};
use crate::{
    script::redact::SecretForms,
    text::untrusted,
    web::{
        answer::{header, said_plainly},
        media_type::{content_type, document_kind, document_type, other_type},
    },
};

/// The headers that a result shows: what came into being, where it goes on, how often one may ask.
const SHOWN_HEADERS: [&str; 9] = [
    "content-length",
    "content-type",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

/// The longest value of a header that is shown, in characters.
const MAX_SHOWN_HEADER: usize = 1000;

/// The longest that reading an answer as text may take.
const READING_TIME: Duration = Duration::from_secs(6);

/// The text of an answer, and what a reader should know of it.
#[derive(Default)]
struct AnswerText {
    text: String,
    media_type: Option<&'static str>,
    notes: Vec<String>,
}

/// The result of a call.
pub(super) async fn reply(
    cx: &CallContext<NoProgress>,
    operation: &HttpOperation,
    response: &FetchResponse,
    elsewhere: Option<&str>,
    secrets: &SecretForms,
) -> Result<ToolReply, ToolError> {
    let read = text(cx, operation, response).await;
    let mut said = format!("status: {}\n", response.status);
    let named = SHOWN_HEADERS
        .iter()
        .filter_map(|name| Some((name, header(response, name)?)));
    for (name, value) in named {
        // Cut before it is looked at, a secret at the cut would be shown in part.
        let value = secrets.text(value);
        let value: String = value.chars().take(MAX_SHOWN_HEADER).collect();
        let _ = writeln!(said, "{name}: {value}");
    }
    said.push('\n');
    said.push_str(&without_secrets(read.text, secrets));
    let mut whole = untrusted::wrap(&cx.call().to_string(), &said);
    let _ = write!(
        whole,
        "\n[{} answered {}",
        operation.place(),
        response.status
    );
    for note in &read.notes {
        let _ = write!(whole, "; {note}");
    }
    if elsewhere.is_some() {
        whole.push_str("; it names another address, which was not asked");
    }
    whole.push(']');
    let structured = json!({
        "status": response.status,
        "media_type": read.media_type,
        "bytes": response.body.len(),
        "redirect": elsewhere.map(|to| secrets.text(to)),
    });
    if (200..300).contains(&response.status)
        || is_redirect(response.status)
        || response.status == 304
    {
        return Ok(ToolReply {
            content: vec![Content::text(whole)],
            structured,
        });
    }
    Err(refused(operation, response)
        .with_content(Content::text(whole))
        .with_structured(structured))
}

/// The schema of the structured output.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "status": {"type": "integer", "description": "The status of the answer."},
            "media_type": {"type": ["string", "null"], "description": "What the answer is."},
            "bytes": {"type": "integer", "description": "How many bytes it has."},
            "redirect": {"type": ["string", "null"],
                "description": "The address that it names instead. Nothing was asked of it."},
        },
        "required": ["status"],
    })
}

/// What an answer says, if it is text.
async fn text(
    cx: &CallContext<NoProgress>,
    operation: &HttpOperation,
    response: &FetchResponse,
) -> AnswerText {
    if response.body.is_empty() {
        return AnswerText::default();
    }
    let (essence, charset) = content_type(header(response, "content-type").unwrap_or_default());
    let Some(kind) = document_kind(&essence, &response.body) else {
        let (shown, bytes) = (other_type(&essence), response.body.len());
        return AnswerText {
            notes: vec![format!(
                "{bytes} bytes are not shown: they are {shown}, not text"
            )],
            ..AnswerText::default()
        };
    };
    let url = format!("{}://{}/", operation.scheme.as_str(), operation.place());
    let document = UntrustedDocument {
        bytes: &response.body,
        kind,
        charset: charset.as_deref(),
        url: &url,
        form: DocumentForm::Raw,
        within: cx.remaining().min(READING_TIME),
    };
    let media_type = Some(document_type(&essence, kind));
    match cx.documents().read(document).await {
        Ok(read) => {
            let mut notes: Vec<String> = read
                .cut
                .iter()
                .map(|cut| untrusted::in_sentence(cut))
                .collect();
            if read.hidden_characters > 0 {
                let removed = read.hidden_characters;
                notes.push(format!(
                    "{removed} characters that show nothing were removed"
                ));
            }
            AnswerText {
                text: read.text,
                media_type,
                notes,
            }
        }
        Err(error) => AnswerText {
            notes: vec![format!(
                "what it says cannot be shown: {}",
                said_plainly(&error).message()
            )],
            media_type,
            ..AnswerText::default()
        },
    }
}

/// A text without secrets. In JSON they are looked for as its strings mean them: a server may write
/// `\/` for `/`, or `\u0068` for `h`.
fn without_secrets(text: String, secrets: &SecretForms) -> String {
    let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
        return secrets.text(&by_line(text, secrets));
    };
    let before = value.clone();
    secrets.value(&mut value);
    if value == before {
        secrets.text(&text)
    } else {
        secrets.text(&value.to_string())
    }
}

/// The same where the text as a whole is no JSON that can be read: a value on each line, JSON in the middle of
/// something, or nested too deep.
fn by_line(text: String, secrets: &SecretForms) -> String {
    if !text.contains('\\') {
        return text;
    }
    let lines = text.split_inclusive('\n').map(|line| {
        let plain = without_escapes(line);
        let clean = secrets.text(&plain);
        if clean == plain {
            line.to_owned()
        } else {
            clean
        }
    });
    lines.collect()
}

/// A line with JSON's escapes for single characters undone, as far as they are there.
fn without_escapes(line: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(line.len()), line);
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.strip_prefix('u').and_then(|after| after.get(..4));
        let code = code.and_then(|code| u32::from_str_radix(code, 16).ok());
        match (code.and_then(char::from_u32), after.chars().next()) {
            (Some(c), _) => {
                plain.push(c);
                rest = after.get(5..).unwrap_or_default();
            }
            (None, Some(c @ ('/' | '"' | '\\'))) => {
                plain.push(c);
                rest = after.get(1..).unwrap_or_default();
            }
            (None, _) => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// Why an answer is a failure.
fn refused(operation: &HttpOperation, response: &FetchResponse) -> ToolError {
    let (place, status) = (operation.place(), response.status);
    let changes = operation.effects().is_mutating();
    let mut message = format!("`{place}` answered with status {status}");
    let (kind, hint) = match status {
        401 | 403 => (
            ErrorKind::AccessDenied,
            "calling it again will not help; the operator checks the credentials of this tool",
        ),
        404 | 410 => (
            ErrorKind::NotFound,
            "check the arguments; its answer may say more",
        ),
        429 => (ErrorKind::Unavailable, "wait before calling it again"),
        408 | 500..=599 if changes => {
            message.push_str(", and whether it did what was asked is not known");
            (
                ErrorKind::Lost,
                "look at what is there now before you call it again",
            )
        }
        408 | 500..=599 => (ErrorKind::Unavailable, "try again later"),
        _ => (
            ErrorKind::ToolFailed,
            "its answer says what it does not accept; correct the arguments",
        ),
    };
    // A number, or nothing: a date would be a sentence of the server's.
    let wait = header(response, "retry-after").and_then(|wait| wait.trim().parse::<u32>().ok());
    if let Some(seconds) = wait {
        let _ = write!(message, ", and to come back after {seconds} s");
    }
    ToolError::new(kind, message).hint(hint)
}

/// Why there is no answer, in words without secrets.
pub(super) fn unanswered(
    operation: &HttpOperation,
    error: &OpsError,
    secrets: &SecretForms,
) -> ToolError {
    let plain = said_plainly(error);
    let message = secrets.text(plain.message());
    let maybe_done = matches!(
        error.kind(),
        ErrorKind::Lost | ErrorKind::TimedOut | ErrorKind::LimitExceeded
    );
    if maybe_done && operation.effects().is_mutating() {
        let message = format!("{message}; whether it did what was asked is not known");
        return ToolError::new(ErrorKind::Lost, message)
            .hint("look at what is there now before you call it again");
    }
    let error = ToolError::new(error.kind(), message);
    match error.kind() {
        ErrorKind::Lost => error.hint(
            "the server may have seen the request; call it again if asking twice does no harm",
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::secret::Secret;

    use super::*;

    #[test]
    fn a_secret_is_found_however_json_spells_it() {
        let secret = Secret::new("hunter/2hunter").unwrap();
        let forms = SecretForms::of([&secret]);
        let clean = |text: &str| without_secrets(text.to_owned(), &forms);
        assert_eq!(clean("a hunter/2hunter b"), "a [redacted] b");
        assert_eq!(clean(r#"{"a":"hunter\/2hunter"}"#), r#"{"a":"[redacted]"}"#);
        assert_eq!(clean(r#"["\u0068unter/2hunter"]"#), r#"["[redacted]"]"#);
        // A value on each line, JSON in a text, and JSON that is nested deeper than it is read.
        assert_eq!(
            clean("{\"a\":1}\n{\"a\":\"\\u0068unter\\/2hunter\"}\nb\\n"),
            "{\"a\":1}\n{\"a\":\"[redacted]\"}\nb\\n"
        );
        assert_eq!(clean(r"data: \u0068unter\/2hunter"), "data: [redacted]");
        let deep = |inside: &str| format!("{}{inside}{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(
            clean(&deep(r#""hunter\/2hunter""#)),
            deep(r#""[redacted]""#)
        );
        // What holds none stays as it is, to the byte.
        for text in [
            r#"{ "a" : 1.0, "b": 12345678901234567890123 }"#,
            "{not json",
            r"a \u00e4 \/ \ud800 \u12",
            "",
        ] {
            assert_eq!(clean(text), text);
        }
    }
}
