//! A fast path for the plainest calls: a `tools/call` of the stateless revision that is
//! self-contained, asks for nothing while it runs, and uses only fields that are known here.
//!
//! These are most of what an agent sends. The SDK would make a service with three tasks for each
//! and parse it twice. Here they are parsed once and answered on the connection's own task. Nothing
//! is decided here: any request that does not have that form, or is wrong in any way, is left to
//! the SDK, which also writes the error. The call itself takes the same path as every call.

use std::borrow::Cow;

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
    request::Parts,
};
use http_body_util::{BodyExt as _, Full};
use rmcp::{
    ErrorData,
    model::{
        CallToolResponse, ClientCapabilities, ErrorCode, Implementation, JsonRpcError,
        JsonRpcResponse, JsonRpcVersion2_0, RequestId, ServerResult,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::HttpAnswer;
use crate::server::{
    caller::ServedCaller,
    endpoint::Endpoint,
    result::{self, StructuredContent},
    shown::names_headers,
    wait::{SilentClient, lacking},
};

/// The revision with self-contained requests.
const REVISION: &str = "2026-07-28";

/// The only method that is handled here.
const METHOD: &str = "tools/call";

/// What a client must accept.
const ACCEPTED: [&str; 2] = ["application/json", "text/event-stream"];

/// A call that this fast path can answer.
pub(super) struct PlainCall {
    id: RequestId,
    name: String,
    arguments: Map<String, Value>,
    capabilities: ClientCapabilities,
    client: Option<Implementation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    id: RequestId,
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Parameters<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters<'a> {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(rename = "_meta", borrow)]
    meta: Meta<'a>,
}

/// A request for progress or logs, or with any other field, is not plain.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta<'a> {
    #[serde(rename = "io.modelcontextprotocol/protocolVersion", borrow)]
    revision: Cow<'a, str>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: ClientCapabilities,
    #[serde(rename = "io.modelcontextprotocol/clientInfo", default)]
    client: Option<Implementation>,
}

impl PlainCall {
    /// Parses a request; `None` if it is not plain in every respect.
    pub(super) fn read(head: &Parts, body: &[u8], served: &ServedCaller) -> Option<Self> {
        let call = Self::written(head, body)?;
        // The parameters of such a tool would have to be compared with headers.
        let tools = served.workspace.as_ref()?.registry().snapshot();
        let tool = tools.get(&call.name);
        let compares = tool.is_some_and(|tool| names_headers(tool.input_schema()));
        (!compares).then_some(call)
    }

    /// Parses a request without looking at the tool.
    fn written(head: &Parts, body: &[u8]) -> Option<Self> {
        let named = plain_head(head)?;
        let message: Message<'_> = serde_json::from_slice(body).ok()?;
        let Parameters {
            name,
            arguments,
            meta,
        } = message.params;
        let says_the_same = message.method == METHOD && meta.revision == REVISION && name == named;
        if message.jsonrpc != "2.0" || !says_the_same {
            return None;
        }
        Some(Self {
            id: message.id,
            name,
            arguments: arguments.unwrap_or_default(),
            capabilities: meta.capabilities,
            client: meta.client,
        })
    }

    /// Makes the call and waits together with its client, until `gone`. Dropping the future cancels
    /// the call.
    pub(super) async fn answer(
        self,
        endpoint: &Endpoint,
        served: &ServedCaller,
        gone: &CancellationToken,
    ) -> HttpAnswer {
        let (id, arguments) = (self.id, Value::Object(self.arguments));
        let call = served.request(self.name, arguments, served.caller.principal());
        let client = SilentClient {
            capabilities: &self.capabilities,
            name: self.client.as_ref().map(|client| client.name.as_str()),
            gone,
        };
        let told = client.call(endpoint, METHOD, call).await;
        let told = told.and_then(|told| match lacking(endpoint, &told) {
            Some(error) => Err(error),
            None => result::of_told(told, StructuredContent::Any),
        });
        answer(id, told)
    }
}

/// The tool that the headers name, if they are well-formed and hold nothing else to compare.
fn plain_head(head: &Parts) -> Option<&str> {
    let headers = &head.headers;
    let is_plain = head.method == Method::POST
        && ACCEPTED.iter().all(|accepted| {
            only(headers, ACCEPT.as_str()).is_some_and(|accepts| accepts.contains(accepted))
        })
        && only(headers, CONTENT_TYPE.as_str()) == Some("application/json")
        && only(headers, "mcp-protocol-version") == Some(REVISION)
        && only(headers, "mcp-method") == Some(METHOD)
        && !headers.contains_key("mcp-session-id")
        && !headers.contains_key("last-event-id")
        && !headers
            .keys()
            .any(|name| name.as_str().starts_with("mcp-param-"));
    // An encoded name is not compared here.
    let letters = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name = only(headers, "mcp-name").filter(|name| name.chars().all(letters))?;
    is_plain.then_some(name)
}

/// A header that occurs exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

/// The HTTP response.
fn answer(id: RequestId, told: Result<CallToolResponse, ErrorData>) -> HttpAnswer {
    let (status, body) = match told {
        Ok(response) => {
            let result = ServerResult::from(response);
            let message = JsonRpcResponse {
                jsonrpc: JsonRpcVersion2_0,
                id,
                result,
            };
            (StatusCode::OK, written(&message))
        }
        Err(error) => {
            let status = status_of(error.code);
            (status, written(&JsonRpcError::new(Some(id), error)))
        }
    };
    let mut answer = Response::new(Full::new(Bytes::from(body)).boxed());
    *answer.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

/// The HTTP status for a protocol error.
fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// A message as JSON. It holds no map with keys other than text, so this can only fail when out of
/// memory.
fn written(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_else(|error| {
        tracing::error!(%error, "an answer could not be written");
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use http::Request;
    use serde_json::json;

    use super::*;

    const HEAD: [(&str, &str); 5] = [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", REVISION),
        ("mcp-method", METHOD),
        ("mcp-name", "echo"),
    ];

    fn body() -> Value {
        json!({ "jsonrpc": "2.0", "id": 1, "method": METHOD, "params": {
            "name": "echo", "arguments": {"a": 1}, "_meta": {
                "io.modelcontextprotocol/protocolVersion": REVISION,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            },
        }})
    }

    fn is_plain(method: &str, headers: &[(&str, &str)], body: &[u8]) -> bool {
        let mut request = Request::builder().method(method).uri("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        PlainCall::written(&head, body).is_some()
    }

    #[test]
    fn a_call_with_nothing_unusual_about_it_is_plain() {
        let body = body().to_string();
        assert!(is_plain("POST", &HEAD, body.as_bytes()));
    }

    #[test]
    fn whatever_is_unusual_about_the_head_is_left_to_the_sdk() {
        let body = body().to_string();
        assert!(!is_plain("PUT", &HEAD, body.as_bytes()));
        for missing in 0..HEAD.len() {
            let mut headers = HEAD.to_vec();
            let (name, value) = headers.remove(missing);
            assert!(!is_plain("POST", &headers, body.as_bytes()), "no {name}");
            headers.extend([(name, value), (name, value)]);
            assert!(!is_plain("POST", &headers, body.as_bytes()), "twice {name}");
        }
        for other in [
            ("accept", "application/json"),
            ("content-type", "text/plain"),
            ("mcp-protocol-version", "2025-11-25"),
            ("mcp-method", "tools/list"),
            ("mcp-name", "other"),
            ("mcp-name", "=?base64?ZWNobw==?="),
        ] {
            let headers: Vec<_> = HEAD
                .iter()
                .map(|it| if it.0 == other.0 { other } else { *it })
                .collect();
            assert!(!is_plain("POST", &headers, body.as_bytes()), "{other:?}");
        }
        for more in ["mcp-session-id", "last-event-id", "mcp-param-a"] {
            let headers = [HEAD.as_slice(), &[(more, "1")]].concat();
            assert!(!is_plain("POST", &headers, body.as_bytes()), "{more}");
        }
    }

    #[test]
    fn whatever_is_unusual_about_the_message_is_left_to_the_sdk() {
        for (at, value) in [
            ("/jsonrpc", json!("1.0")),
            ("/id", json!(null)),
            ("/method", json!("tools/list")),
            ("/params/name", json!("other")),
            ("/params/arguments", json!([1])),
            ("/params/_meta", json!({})),
            ("/params/_meta/progressToken", json!(1)),
            (
                "/params/_meta/io.modelcontextprotocol~1logLevel",
                json!("info"),
            ),
            (
                "/params/_meta/io.modelcontextprotocol~1protocolVersion",
                json!("2025-11-25"),
            ),
            (
                "/params/_meta/io.modelcontextprotocol~1clientCapabilities",
                json!(1),
            ),
            ("/params/requestState", json!("s")),
            ("/params/inputResponses", json!({})),
            ("/extra", json!(1)),
        ] {
            let mut body = body();
            let (parent, key) = at.rsplit_once('/').unwrap();
            let parent = body.pointer_mut(parent).unwrap().as_object_mut().unwrap();
            parent.insert(key.replace("~1", "/"), value);
            assert!(
                !is_plain("POST", &HEAD, body.to_string().as_bytes()),
                "{at}"
            );
        }
        let body = body().to_string();
        let twice = body.replacen("\"method\"", "\"method\":\"tools/call\",\"method\"", 1);
        for broken in [&body[1..], "", "[]", &format!("[{body}]"), &twice] {
            assert!(!is_plain("POST", &HEAD, broken.as_bytes()), "{broken}");
        }
    }
}
