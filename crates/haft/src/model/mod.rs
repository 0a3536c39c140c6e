//! How models call tools and expect their answers, one file per format.
//!
//! A format's file reads a provider's JSON into [`ModelCall`]s and writes a [`ModelAnswer`] back.
//! Reading never fails as a whole: a call that cannot be read is a [`ModelCall`] whose `asked` is a
//! [`ShapeError`], and is answered like any other, so that every call gets an answer.
//!
//! Nothing here validates arguments or knows a tool; the pipeline does that.

pub mod anthropic;
pub mod openai;
pub mod openai_responses;

use std::{fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_contract::{
    Arguments, CallId, Content, ErrorKind, Facts, Outcome, Terminal, content::ResourceBody,
    outcome::Failure,
};
use serde_json::Value;

use crate::Haft;

/// The text of a result without content, because providers refuse empty text.
const NO_OUTPUT: &str = "(no output)";

/// One tool call, as a model made it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The provider's id of the call, which the answer must carry. Some servers send none.
    pub id: Option<String>,
    /// The request, or why it cannot be read.
    pub asked: Result<ModelRequest, ShapeError>,
}

/// What a model asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The tool's name or alias, as the model wrote it.
    pub tool: String,
    /// The arguments as received.
    pub arguments: Arguments,
}

/// The result of a call, and the provider's id for it.
#[derive(Debug, Clone)]
pub struct ModelAnswer {
    id: Option<String>,
    /// How it ended.
    pub outcome: Arc<Outcome>,
}

/// Why a tool call does not have its provider's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeError {
    at: String,
    message: String,
    hint: &'static str,
}

impl ShapeError {
    fn new(at: impl Into<String>, message: impl Into<String>, hint: &'static str) -> Self {
        Self {
            at: at.into(),
            message: message.into(),
            hint,
        }
    }

    /// Where in the call, as a JSON pointer.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// What to do next.
    pub fn hint(&self) -> &str {
        self.hint
    }

    /// The outcome a model reads. There was no request that could have been recorded.
    fn outcome(self) -> Outcome {
        Outcome {
            call: CallId::new(),
            tool: None,
            terminal: Terminal::Failed,
            content: Vec::new(),
            structured: None,
            error: Some(Failure {
                kind: ErrorKind::InvalidInput,
                message: self.message,
                at: Some(self.at),
                hint: Some(self.hint.to_owned()),
            }),
            facts: Facts::default(),
        }
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ShapeError {}

impl ModelAnswer {
    /// A call that ended, to be answered under a provider's id.
    pub fn new(id: Option<String>, outcome: Arc<Outcome>) -> Self {
        Self { id, outcome }
    }

    /// The id the answer carries: the provider's, or Haft's own if there was none.
    pub fn id(&self) -> String {
        match &self.id {
            Some(id) => id.clone(),
            None => self.outcome.call.to_string(),
        }
    }

    /// The content, followed by the failure if there is one. Never empty.
    fn pieces(&self) -> Vec<Content> {
        let mut pieces: Vec<Content> = self.outcome.content.clone();
        pieces.retain(|piece| !piece.is_empty());
        if let Some(failure) = &self.outcome.error {
            pieces.push(Content::Text(failure.to_string()));
        }
        if pieces.is_empty() {
            pieces.push(Content::text(NO_OUTPUT));
        }
        pieces
    }

    /// The content as one text, for formats that carry only text.
    fn text(&self) -> String {
        let pieces = self.pieces();
        let texts: Vec<String> = pieces.iter().map(in_words).collect();
        texts.join("\n")
    }
}

/// Runs the readable calls as one batch, and answers in the order of the calls.
pub(crate) async fn answer(haft: &Haft, calls: Vec<ModelCall>) -> Vec<ModelAnswer> {
    let mut requests = Vec::with_capacity(calls.len());
    let mut places = Vec::with_capacity(calls.len());
    for call in calls {
        let unreadable = match call.asked {
            Ok(asked) => {
                let mut request = haft.request(asked.tool, Value::Null);
                request.arguments = asked.arguments;
                requests.push(request);
                None
            }
            Err(error) => Some(Arc::new(error.outcome())),
        };
        places.push((call.id, unreadable));
    }
    let mut outcomes = haft.runtime().batch(requests).await.into_iter();
    places
        .into_iter()
        // A batch has one outcome for each request, so every call finds its own.
        .filter_map(|(id, unreadable)| {
            let outcome = unreadable.or_else(|| outcomes.next())?;
            Some(ModelAnswer::new(id, outcome))
        })
        .collect()
}

/// A text field of a call, which must be present and not empty.
fn required_text(call: &Value, pointer: &'static str) -> Result<String, ShapeError> {
    match call.pointer(pointer) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(Value::String(_)) => Err(ShapeError::new(
            pointer,
            "the tool call does not name a tool",
            "name one of the tools you were given",
        )),
        Some(_) => Err(ShapeError::new(
            pointer,
            "the name of the tool is not text",
            "name one of the tools you were given",
        )),
        None => Err(ShapeError::new(
            pointer,
            "the tool call has no name",
            "name one of the tools you were given",
        )),
    }
}

/// The provider's id of a call, if it is usable.
fn id_of(call: &Value, key: &str) -> Option<String> {
    match call.get(key) {
        Some(Value::String(id)) if !id.is_empty() => Some(id.clone()),
        Some(_) | None => None,
    }
}

/// Arguments as JSON text or as a value; the pipeline reads absent ones as an empty object.
fn arguments_of(call: &Value, pointer: &str) -> Arguments {
    match call.pointer(pointer) {
        // Some servers send an empty text for a tool without parameters.
        Some(Value::String(text)) if text.trim().is_empty() => Arguments::Value(Value::Null),
        Some(Value::String(text)) => Arguments::Text(text.clone()),
        Some(value) => Arguments::Value(value.clone()),
        None => Arguments::Value(Value::Null),
    }
}

/// A piece of content as text, for formats that carry only text.
fn in_words(piece: &Content) -> String {
    match piece {
        Content::Text(text) => text.clone(),
        Content::Image { data, media_type } => left_out("image", media_type, data),
        Content::Audio { data, media_type } => left_out("audio", media_type, data),
        Content::Document {
            data,
            media_type,
            name,
        } => left_out(&format!("document `{name}`"), media_type, data),
        Content::Resource {
            uri,
            media_type,
            body,
        } => match body {
            ResourceBody::Text(text) => format!("[{uri}]\n{text}"),
            ResourceBody::Bytes(data) => {
                let media_type = media_type.as_deref().unwrap_or("of unknown type");
                left_out(&format!("resource `{uri}`"), media_type, data)
            }
        },
        Content::Link { uri, name, .. } => format!("[{name}: {uri}]"),
    }
}

fn left_out(what: &str, media_type: &str, data: &[u8]) -> String {
    let bytes = data.len();
    format!("[{what} ({media_type}, {bytes} bytes) left out: it cannot be shown here]")
}

fn base64(data: &[u8]) -> String {
    STANDARD.encode(data)
}

fn data_url(media_type: &str, data: &[u8]) -> String {
    format!("data:{media_type};base64,{}", base64(data))
}
