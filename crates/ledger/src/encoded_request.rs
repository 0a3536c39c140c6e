//! The request that opened a call, on its way to the writer.

use std::borrow::Cow;

use haft_contract::{Arguments, CallRequest, host::Timestamp};
use serde::Serialize;
use serde_json::Value;

use crate::{
    body::Events,
    convert::millis,
    redact::Redactor,
    row,
    write_body::{MAX_BODY_BYTES, clean_body, readable, too_large, write_body},
};

/// What is recorded of a request, encoded where the call is made: one buffer is cheaper to pass to
/// the writer than a copy of all values. May still hold secrets.
#[derive(Debug)]
pub(crate) struct EncodedRequest {
    json: Vec<u8>,
    /// Its arguments are text with an escape, behind which anything can hide.
    has_escapes: bool,
}

/// How many bytes most requests take.
const REQUEST_BYTES: usize = 240;

/// Compared and looked up later, so it stays exactly what the host said.
const KEPT_OF_REQUEST: &[&str] = &["workspace"];

impl EncodedRequest {
    /// Encodes a request.
    pub(crate) fn of(request: &CallRequest) -> Self {
        let (arguments, left_out) = match &request.arguments {
            // RX-14: text too large for a record is not searched for secrets first; that would keep
            // the writer, and everyone waiting for it, busy with what is left out anyway.
            Arguments::Text(text) if text.len() > MAX_BODY_BYTES => (too_large(text), Some(true)),
            Arguments::Text(text) => (row::StoredArguments::Text(text.into()), None),
            Arguments::Value(value) => match readable(value) {
                value @ Cow::Borrowed(_) => (row::StoredArguments::Value(value), None),
                left_out @ Cow::Owned(_) => (row::StoredArguments::Value(left_out), Some(true)),
            },
        };
        let has_escapes = match &arguments {
            row::StoredArguments::Text(text) => text.contains('\\'),
            row::StoredArguments::Value(_) => false,
        };
        // Written out, because this is on the call path. A test compares it with [`row::OpenedRow`].
        let mut json = Vec::with_capacity(REQUEST_BYTES);
        json.extend_from_slice(b"{\"tool\":");
        push_text(&mut json, &request.tool);
        match &arguments {
            row::StoredArguments::Text(text) => {
                json.extend_from_slice(b",\"arguments\":{\"text\":");
                push_text(&mut json, text);
            }
            row::StoredArguments::Value(value) => {
                json.extend_from_slice(b",\"arguments\":{\"value\":");
                push_value(&mut json, value);
            }
        }
        json.extend_from_slice(b"},\"workspace\":");
        push_text(&mut json, request.workspace.as_str());
        if let Some(timeout) = request.timeout {
            json.extend_from_slice(b",\"timeout_ms\":");
            push_other(&mut json, &millis(timeout));
        }
        if left_out.is_some() {
            json.extend_from_slice(b",\"left_out\":true");
        }
        json.push(b'}');
        Self { json, has_escapes }
    }

    /// Adds it to a call's events, without its secrets.
    pub(crate) fn add_to(&self, events: &mut Events, at: Timestamp, redactor: &Redactor) {
        events.push("opened", at, |bytes| self.write(bytes, redactor));
    }

    fn write(&self, bytes: &mut Vec<u8>, redactor: &Redactor) {
        let start = bytes.len();
        bytes.extend_from_slice(&self.json);
        if !self.has_escapes
            && self.json.len() <= MAX_BODY_BYTES
            && !redactor.may_hold_secret(&self.json)
        {
            return;
        }
        let Ok(mut stored) = serde_json::from_slice::<row::OpenedRow<'_>>(&self.json) else {
            clean_body(bytes, start, KEPT_OF_REQUEST, redactor);
            return;
        };
        let clean = match &stored.arguments {
            row::StoredArguments::Text(text) => redactor.json(text),
            row::StoredArguments::Value(_) => None,
        };
        if let Some(clean) = clean {
            stored.arguments = row::StoredArguments::Text(clean.into());
        } else if !clean_body(bytes, start, KEPT_OF_REQUEST, redactor) || stored.left_out.is_some()
        {
            return;
        }
        stored.left_out = Some(true);
        bytes.truncate(start);
        write_body(bytes, KEPT_OF_REQUEST, &stored, redactor);
    }
}

/// Adds a value that nests no deeper than can be read back.
fn push_value(json: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => push_text(json, text),
        Value::Null | Value::Bool(_) | Value::Number(_) => push_other(json, value),
        Value::Array(items) => {
            json.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    json.push(b',');
                }
                push_value(json, item);
            }
            json.push(b']');
        }
        Value::Object(fields) => {
            json.push(b'{');
            for (index, (name, field)) in fields.iter().enumerate() {
                if index > 0 {
                    json.push(b',');
                }
                push_text(json, name);
                json.push(b':');
                push_value(json, field);
            }
            json.push(b'}');
        }
    }
}

/// Adds a text. Most have nothing to escape, and are copied whole.
fn push_text(json: &mut Vec<u8>, text: &str) {
    let escaped = |byte: u8| byte < b' ' || byte == b'"' || byte == b'\\';
    // Without an early end, so that many bytes are compared at once.
    if text.bytes().fold(false, |any, byte| any | escaped(byte)) {
        push_other(json, text);
        return;
    }
    json.push(b'"');
    json.extend_from_slice(text.as_bytes());
    json.push(b'"');
}

fn push_other(json: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = json.len();
    // Writing text, numbers and JSON to a `Vec` cannot fail.
    if serde_json::to_writer(&mut *json, value).is_err() {
        json.truncate(start);
        json.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, LazyLock};

    use haft_contract::{AgentId, Principal, SessionId, UserId, WorkspaceId};
    use serde_json::json;

    use super::*;
    use crate::{body, convert};

    /// Shared by all tests: its patterns take a while to compile.
    static REDACTOR: LazyLock<Redactor> =
        LazyLock::new(|| Redactor::new(["open \"sesame\"".to_owned()]));

    fn request(arguments: Arguments) -> CallRequest {
        let principal = Principal::local(
            UserId::parse("ada").expect("an id"),
            AgentId::parse("agent").expect("an id"),
            SessionId::parse("s1").expect("an id"),
        );
        CallRequest::from_arguments("sample", arguments, Arc::new(principal))
    }

    /// What is recorded of a request, as text and read back.
    fn written(request: &CallRequest) -> (String, Value) {
        let mut events = Events::default();
        EncodedRequest::of(request).add_to(&mut events, Timestamp(7), &REDACTOR);
        let (form, bytes) = events.body();
        let mut read = body::events(form.number(), Timestamp(7), &bytes).expect("events");
        let opened = read.pop().expect("it is recorded");
        assert_eq!((opened.kind.as_str(), opened.at), ("opened", Timestamp(7)));
        (opened.body.to_string(), opened.body)
    }

    #[test]
    fn a_request_comes_back_as_it_was() {
        for arguments in [
            Arguments::Value(json!({"text": "a \"b\"\n", "number": 0.1, "list": [1, null]})),
            Arguments::Text("{\"text\": \"a\"}".to_owned()),
            Arguments::Text("{\"text\": \"a\\nb\"}".to_owned()),
            Arguments::Text("no JSON \\".to_owned()),
            // Looked at more closely, and nothing is found.
            Arguments::Value(json!({"about": "tokens and passwords", "number": 0.1})),
        ] {
            let mut request = request(arguments);
            request.timeout = Some(std::time::Duration::from_millis(1500));
            let (text, opened) = written(&request);
            assert!(!text.contains("left_out"), "{text}");
            let principal = Arc::clone(&request.principal);
            let read =
                convert::recorded_request(request.id, principal, &opened).expect("it is whole");
            assert_eq!(read.arguments, request.arguments);
            assert_eq!(read.tool, request.tool);
            assert_eq!(read.workspace, request.workspace);
            assert_eq!(read.timeout, request.timeout);
        }
    }

    #[test]
    fn it_is_written_as_its_stored_form_says() {
        let controls: String = (0_u8..=0x80).map(char::from).collect();
        for text in ["", "plain", "é€𝄞 \u{7f}", "a\"b", "a\\b", "a\nb", &controls] {
            let value = json!({
                text: [text, 1, -2, 0.1, 1e300, u64::MAX, true, null, [], {}, {"a": [], "b": text}],
            });
            let mut request = request(Arguments::Value(value.clone()));
            request.tool = text.to_owned();
            request.timeout = Some(std::time::Duration::from_secs(2));
            for arguments in [Arguments::Value(value), Arguments::Text(text.to_owned())] {
                request.arguments = arguments;
                let stored = row::OpenedRow {
                    tool: (&request.tool).into(),
                    arguments: match &request.arguments {
                        Arguments::Text(text) => row::StoredArguments::Text(text.into()),
                        Arguments::Value(value) => {
                            row::StoredArguments::Value(Cow::Borrowed(value))
                        }
                    },
                    workspace: request.workspace.as_str().into(),
                    timeout_ms: Some(2_000),
                    left_out: None,
                };
                let json = EncodedRequest::of(&request).json;
                let expect = serde_json::to_string(&stored).expect("JSON");
                assert_eq!(String::from_utf8(json).expect("text"), expect);
            }
        }
    }

    #[test]
    fn no_secret_is_written_however_it_arrives() {
        let token = format!("ghp_{}", "a1".repeat(18));
        let arguments = [
            Arguments::Value(json!({"text": format!("use {token}")})),
            Arguments::Value(json!({"deep": [{"api_key": "hunter2 hunter2"}]})),
            Arguments::Value(json!({"text": "say open \"sesame\" now"})),
            Arguments::Value(json!({ token.as_str(): 1 })),
            Arguments::Text(format!("{{\"text\": \"use {token}\"}}")),
            Arguments::Text("{\"pass_word\": \"hunter2 hunter2\"}".to_owned()),
            Arguments::Text("{\"pass\\u0077ord\": \"hunter2 hunter2\"}".to_owned()),
            Arguments::Text("{\"text\": \"say open \\\"sesame\\\" now\"}".to_owned()),
            Arguments::Text(format!("not JSON: {token} \\")),
        ];
        for arguments in arguments {
            let shown = format!("{arguments:?}");
            let (text, opened) = written(&request(arguments));
            for secret in [&*token, "hunter2", "sesame"] {
                assert!(!text.contains(secret), "{shown}: {text}");
            }
            assert_eq!(opened["left_out"], true, "{shown}: {text}");
        }
    }

    #[test]
    fn a_workspace_is_compared_later_and_stays_as_it_is() {
        let mut request = request(Arguments::Value(json!({"text": "password=hunter2hunter2"})));
        request.workspace = WorkspaceId::parse("token:abcdefgh").expect("an id");
        let (text, opened) = written(&request);
        assert!(!text.contains("hunter2"), "{text}");
        assert_eq!(opened["workspace"], "token:abcdefgh");
    }

    #[test]
    fn what_could_not_be_read_back_is_left_out() {
        let mut deep = json!("x");
        for _ in 0..120 {
            deep = json!([deep]);
        }
        let long = Arguments::Text("x".repeat(MAX_BODY_BYTES + 1));
        for arguments in [Arguments::Value(deep), long] {
            let (text, opened) = written(&request(arguments));
            assert!(text.len() < 1_000, "{} bytes", text.len());
            assert_eq!(opened["left_out"], true, "{text}");
        }
    }
}
