//! JSON-RPC messages, parsed strictly. The envelope is parsed before its content, so that a broken
//! result still fails the request it belongs to, and only that.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};

use crate::upstream::{connection::RequestError, limits::WORDS_CHARS};

/// JSON's whitespace; other blanks are not part of a message.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// A message from a server. Its content is not parsed yet.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// The answer to one of our requests.
    Answer {
        /// The request's id.
        id: u64,
        /// The unparsed result or error.
        answer: AnswerMessage<'a>,
    },
    /// A request from the server.
    Asked {
        /// Its id, to be returned unchanged.
        id: Value,
        /// The requested method.
        method: String,
        /// Its parameters.
        parameters: Value,
    },
    /// A notification.
    Notice {
        /// The notification's method.
        method: String,
        /// Its parameters.
        parameters: Value,
    },
}

/// The unparsed content of an answer.
#[derive(Debug)]
pub(crate) struct AnswerMessage<'a> {
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

/// Why a message was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageFault {
    /// Not a message at all; on a pipe, something a library printed.
    #[error("it is not a JSON object")]
    NotAMessage,
    /// Several messages at once.
    #[error("it is a batch, which the protocol does not have")]
    Batch,
    /// A message that violates the protocol and belongs to no request of ours.
    #[error("{0}")]
    Broken(&'static str),
    /// An answer whose id is not one we use.
    #[error("it answers a request with an id that is not ours")]
    ForeignId,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// A member that is present, even if it is `null`.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

pub(crate) fn read(text: &str) -> Result<Incoming<'_>, MessageFault> {
    let text = text.trim_matches(BLANKS);
    if text.starts_with('[') {
        return Err(MessageFault::Batch);
    }
    if !text.starts_with('{') {
        return Err(MessageFault::NotAMessage);
    }
    let envelope: Envelope<'_> =
        serde_json::from_str(text).map_err(|_| MessageFault::NotAMessage)?;
    if envelope.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(MessageFault::Broken(
            "it does not say `\"jsonrpc\": \"2.0\"`",
        ));
    }
    match envelope.method {
        Some(method) => called(&envelope, method),
        None => answered(&envelope),
    }
}

fn called<'a>(envelope: &Envelope<'a>, method: &RawValue) -> Result<Incoming<'a>, MessageFault> {
    if envelope.result.is_some() || envelope.error.is_some() {
        return Err(MessageFault::Broken(
            "it is a request and an answer at once",
        ));
    }
    let method: String = serde_json::from_str(method.get())
        .map_err(|_| MessageFault::Broken("its method is not a string"))?;
    let parameters = match envelope.params {
        None => json!({}),
        Some(parameters) => match serde_json::from_str(parameters.get()) {
            Ok(parameters @ Value::Object(_)) => parameters,
            Ok(_) | Err(_) => return Err(MessageFault::Broken("its parameters are not an object")),
        },
    };
    let Some(id) = envelope.id else {
        return Ok(Incoming::Notice { method, parameters });
    };
    match serde_json::from_str(id.get()) {
        Ok(id @ (Value::String(_) | Value::Number(_))) => Ok(Incoming::Asked {
            id,
            method,
            parameters,
        }),
        Ok(_) | Err(_) => Err(MessageFault::Broken("its id is not a string or a number")),
    }
}

fn answered<'a>(envelope: &Envelope<'a>) -> Result<Incoming<'a>, MessageFault> {
    if envelope.result.is_none() && envelope.error.is_none() {
        return Err(MessageFault::Broken(
            "it is neither a request nor an answer",
        ));
    }
    // Our ids are whole numbers. `"7"` and `7.0` are not `7`.
    let id = envelope.id.map(RawValue::get).unwrap_or_default();
    let id = id.parse().map_err(|_| MessageFault::ForeignId)?;
    let answer = AnswerMessage {
        result: envelope.result,
        error: envelope.error,
    };
    Ok(Incoming::Answer { id, answer })
}

#[derive(Deserialize)]
struct ErrorBody {
    code: i64,
    message: String,
    #[serde(default)]
    data: Option<Value>,
}

impl AnswerMessage<'_> {
    /// Parses the answer: a result, which is an object, or an error, never both.
    pub(crate) fn parse(&self) -> Result<Value, RequestError> {
        let broken = |what: &str| Err(RequestError::Protocol(what.to_owned()));
        match (self.result, self.error) {
            (Some(_), Some(_)) => broken("its answer has both a result and an error"),
            (None, None) => broken("its answer has neither a result nor an error"),
            (Some(result), None) => match serde_json::from_str(result.get()) {
                Ok(result @ Value::Object(_)) => Ok(result),
                Ok(_) => broken("its result is not an object"),
                Err(error) => broken(&format!("its result cannot be read: {error}")),
            },
            (None, Some(error)) => match serde_json::from_str::<ErrorBody>(error.get()) {
                Ok(error) => Err(RequestError::Answered {
                    code: error.code,
                    message: error.message.chars().take(WORDS_CHARS).collect(),
                    data: error.data,
                }),
                Err(_) => broken("its error has no code and message"),
            },
        }
    }
}

/// Parses an error that may lack its id, as HTTP servers send for what they could not parse.
pub(crate) fn read_error(text: &str) -> Option<RequestError> {
    let envelope: Envelope<'_> = serde_json::from_str(text.trim_matches(BLANKS)).ok()?;
    let error = AnswerMessage {
        result: None,
        error: Some(envelope.error?),
    };
    error.parse().err()
}

/// Serializes one of our requests. The parameters are borrowed because they may be large.
pub(crate) fn request(
    id: u64,
    method: &str,
    parameters: &impl Serialize,
) -> Result<String, RequestError> {
    let request = Request {
        jsonrpc: "2.0",
        id,
        method,
        params: parameters,
    };
    serde_json::to_string(&request).map_err(|error| RequestError::NotSent(error.to_string()))
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a P,
}

/// Builds one of our notifications.
pub(crate) fn notification(method: &str, parameters: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": parameters })
}

/// Builds our answer to a server's request.
pub(crate) fn answer(id: &Value, answer: Result<Value, Refusal>) -> Value {
    match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Refusal { code, message }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    }
}

/// Why we refuse a server's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The protocol's code.
    pub(crate) code: i64,
    /// An explanation.
    pub(crate) message: String,
}

impl Refusal {
    /// There is no such method, or nobody who could be asked.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Self {
            code: i64::from(rmcp::model::ErrorCode::METHOD_NOT_FOUND.0),
            message: message.into(),
        }
    }

    /// The parameters are not acceptable.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            code: i64::from(rmcp::model::ErrorCode::INVALID_PARAMS.0),
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result_of(text: &str) -> Result<Value, RequestError> {
        match read(text) {
            Ok(Incoming::Answer { answer, .. }) => answer.parse(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_is_matched_by_the_very_id_we_sent() {
        let id = |id: &str| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            match read(&text) {
                Ok(Incoming::Answer { id, .. }) => Ok(id),
                Ok(other) => panic!("{other:?}"),
                Err(fault) => Err(fault),
            }
        };
        assert_eq!(id("7"), Ok(7));
        for other in ["\"7\"", "7.0", "-7", "null", "7e0", "true", "[7]"] {
            assert_eq!(id(other), Err(MessageFault::ForeignId), "{other}");
        }
    }

    #[test]
    fn an_answer_is_a_result_or_an_error_and_nothing_else() {
        for broken in [
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":null}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":[1]}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":"text"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":"no"}"#,
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":"x","message":"m"}}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{"text":"\ud800"}}"#,
        ] {
            let got = result_of(broken);
            assert!(
                matches!(got, Err(RequestError::Protocol(_))),
                "{broken}: {got:?}"
            );
        }
        assert!(matches!(
            result_of(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}"#),
            Err(RequestError::Answered { code: -1, .. })
        ));
    }

    #[test]
    fn a_result_nested_too_deep_fails_its_own_request() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"a":{deep}}}}}"#);
        assert!(matches!(result_of(&text), Err(RequestError::Protocol(_))));
    }

    #[test]
    fn what_is_no_message_is_told_from_what_is_a_broken_one() {
        let fault = |text: &str| read(text).unwrap_err();
        assert_eq!(fault("Listening on port 3000"), MessageFault::NotAMessage);
        assert_eq!(fault("{ not json"), MessageFault::NotAMessage);
        // Blank to us, but not to JSON: what other parsers reject is rejected.
        let strange = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\u{2028}";
        assert_eq!(fault(strange), MessageFault::NotAMessage);
        assert_eq!(
            fault(r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#),
            MessageFault::Batch
        );
        for broken in [
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","method":7}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":[1]}"#,
        ] {
            assert!(matches!(fault(broken), MessageFault::Broken(_)), "{broken}");
        }
        // Parsers disagree on a repeated member.
        let twice = r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#;
        assert_eq!(fault(twice), MessageFault::NotAMessage);
    }
}
