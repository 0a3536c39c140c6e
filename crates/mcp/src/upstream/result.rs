//! Converts a mounted server's answers to call results: content of every kind, and every way a
//! request can fail.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use haft_contract::{
    Content, ErrorKind, ToolError, content::ResourceBody, erased::ToolReply, surface::NextStep,
};
use serde_json::Value;

use super::{connection::RequestError, limits::CONTENT_PIECES, uri::Uris};
use crate::{foreign::shown, name::ServerId, same_result::is_in_text};

/// The tool reply for a `tools/call` result. A tool that reports failure fails the call, with
/// everything it said.
pub(super) fn reply(mut result: Value, uris: &Uris) -> Result<ToolReply, ToolError> {
    let pieces = match result.get_mut("content").map(Value::take) {
        Some(Value::Array(pieces)) if pieces.len() <= CONTENT_PIECES => pieces,
        Some(Value::Array(_)) => {
            return Err(broken(&format!(
                "its result has more than {CONTENT_PIECES} pieces"
            )));
        }
        None => Vec::new(),
        Some(_) => return Err(broken("the content of its result is not a list")),
    };
    let mut content = pieces
        .into_iter()
        .map(|piece| content(piece, uris))
        .collect::<Result<Vec<_>, _>>()?;
    let structured = result.get_mut("structuredContent").map(Value::take);
    // A model reads only the content, so what a server says only in structured data is repeated
    // there.
    if let Some(said) = structured.as_ref().filter(|said| !said.is_null())
        && !is_in_text(said, &content)
    {
        content.push(Content::text(said.to_string()));
    }
    match result.get("isError") {
        None | Some(Value::Null | Value::Bool(false)) => Ok(ToolReply {
            content,
            structured: structured.unwrap_or_default(),
        }),
        Some(Value::Bool(true)) => {
            let mut failed = ToolError::new(ErrorKind::ToolFailed, "the tool says that it failed");
            for piece in content {
                failed = failed.with_content(piece);
            }
            Err(match structured {
                Some(structured) => failed.with_structured(structured),
                None => failed,
            })
        }
        Some(_) => Err(broken(
            "its result has an `isError` that is neither true nor false",
        )),
    }
}

fn content(mut piece: Value, uris: &Uris) -> Result<Content, ToolError> {
    let kind = piece
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match kind {
        "text" => Ok(Content::Text(text(&mut piece, "text")?)),
        "image" => Ok(Content::Image {
            data: bytes(&piece, "data")?,
            media_type: text(&mut piece, "mimeType")?,
        }),
        "audio" => Ok(Content::Audio {
            data: bytes(&piece, "data")?,
            media_type: text(&mut piece, "mimeType")?,
        }),
        "resource" => {
            let mut resource = piece
                .get_mut("resource")
                .map(Value::take)
                .unwrap_or_default();
            let body = if resource.get("text").is_some() {
                ResourceBody::Text(text(&mut resource, "text")?)
            } else {
                ResourceBody::Bytes(bytes(&resource, "blob")?)
            };
            Ok(Content::Resource {
                uri: uris.shown(&text(&mut resource, "uri")?),
                media_type: text(&mut resource, "mimeType").ok(),
                body,
            })
        }
        "resource_link" => Ok(Content::Link {
            uri: uris.shown(&text(&mut piece, "uri")?),
            name: text(&mut piece, "name")?,
            media_type: text(&mut piece, "mimeType").ok(),
        }),
        // A model can still read a content kind that does not exist yet.
        _ => Ok(Content::Text(piece.to_string())),
    }
}

fn text(of: &mut Value, key: &str) -> Result<String, ToolError> {
    match of.get_mut(key).map(Value::take) {
        Some(Value::String(text)) => Ok(text),
        Some(_) | None => Err(broken(&format!("a piece of its result has no `{key}`"))),
    }
}

fn bytes(of: &Value, key: &str) -> Result<Vec<u8>, ToolError> {
    let encoded = of.get(key).and_then(Value::as_str);
    let decoded = encoded.and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
    decoded.ok_or_else(|| {
        broken(&format!(
            "the `{key}` of a piece of its result is not base64"
        ))
    })
}

/// The server did something, but its answer is unusable.
fn broken(why: &str) -> ToolError {
    ToolError::new(
        ErrorKind::Lost,
        format!("the server broke the protocol: {why}"),
    )
}

/// Rewrites the URIs in a result to the form in which they are shown.
pub(super) fn show_uris(result: &mut Value, uris: &Uris) {
    match result {
        Value::Object(object) => {
            for (key, value) in object.iter_mut() {
                match value {
                    Value::String(uri) if key == "uri" => *uri = uris.shown(uri),
                    value => show_uris(value, uris),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| show_uris(item, uris)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Converts a request failure for the model.
pub(super) fn failure(error: RequestError, server: &ServerId) -> ToolError {
    let of = |kind: ErrorKind, message: String| {
        ToolError::new(kind, format!("the MCP server `{server}`: {message}"))
    };
    match error {
        RequestError::Answered { code, message, .. } => {
            let kind = match code {
                -32602 => ErrorKind::InvalidInput,
                -32002 => ErrorKind::NotFound,
                _ => ErrorKind::ToolFailed,
            };
            of(kind, format!("error {code}, {}", shown(&message)))
        }
        RequestError::Outdated(why) => of(
            ErrorKind::Unavailable,
            format!("its definitions have changed, {}", shown(&why)),
        )
        .hint("Haft has asked for the new ones: look at the tool again, then try again"),
        // The request was sent: whether it took effect is unknown.
        RequestError::Lost(why) => of(
            ErrorKind::Lost,
            format!("lost before the answer, {}", shown(&why)),
        )
        .hint("check whether it took effect before you try again"),
        RequestError::Protocol(why) => of(
            ErrorKind::Lost,
            format!("broke the protocol, {}", shown(&why)),
        )
        .hint("check whether it took effect before you try again"),
        RequestError::NotSent(why) => of(ErrorKind::Unavailable, shown(&why)),
        RequestError::Slow(allowed) => {
            let why = format!("no answer within {:.1} s", allowed.as_secs_f64());
            of(ErrorKind::TimedOut, why)
        }
        RequestError::Cancelled => of(ErrorKind::Cancelled, "cancelled".to_owned()),
        RequestError::LoginNeeded => of(
            ErrorKind::Unavailable,
            "it wants somebody to log in".to_owned(),
        )
        .hint(NextStep::LogIn(server.as_str()).text()),
        error @ (RequestError::Busy(_) | RequestError::Down { .. }) => {
            of(ErrorKind::Unavailable, error.to_string()).hint("try again later")
        }
        RequestError::Withheld(why) => of(ErrorKind::Denied, why),
        RequestError::OtherOwner(why) => of(ErrorKind::Denied, why.to_owned())
            .hint("mount the server in a workspace of your own, with your own credential"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::name::ToolNaming;

    fn uris() -> Uris {
        Uris::of(&ServerId::parse("s").unwrap(), ToolNaming::Prefixed)
    }

    #[test]
    fn content_of_every_kind_is_kept() {
        let result = json!({ "content": [
            { "type": "text", "text": "t" },
            { "type": "image", "data": "AQID", "mimeType": "image/png" },
            { "type": "audio", "data": "AQID", "mimeType": "audio/wav" },
            { "type": "resource", "resource": { "uri": "a:1", "text": "r" } },
            { "type": "resource", "resource": { "uri": "a:2", "blob": "AQID", "mimeType": "x/y" } },
            { "type": "resource_link", "uri": "a:3", "name": "n" },
            { "type": "hologram" },
        ], "structuredContent": [1] });
        let reply = reply(result, &uris()).unwrap();
        let (data, media) = (vec![1, 2, 3], |kind: &str| kind.to_owned());
        let kinds = vec![
            Content::text("t"),
            Content::Image {
                data: data.clone(),
                media_type: media("image/png"),
            },
            Content::Audio {
                data: data.clone(),
                media_type: media("audio/wav"),
            },
            Content::Resource {
                uri: "mcp+s:a:1".to_owned(),
                media_type: None,
                body: ResourceBody::Text("r".to_owned()),
            },
            Content::Resource {
                uri: "mcp+s:a:2".to_owned(),
                media_type: Some(media("x/y")),
                body: ResourceBody::Bytes(data),
            },
            Content::Link {
                uri: "mcp+s:a:3".to_owned(),
                name: "n".to_owned(),
                media_type: None,
            },
            Content::text(r#"{"type":"hologram"}"#),
            Content::text("[1]"),
        ];
        assert_eq!(reply.content, kinds);
        assert_eq!(reply.structured, json!([1]));
    }

    #[test]
    fn a_tool_that_says_it_failed_keeps_what_it_said() {
        let result = json!({ "content": [{ "type": "text", "text": "no" }], "isError": true,
            "structuredContent": { "why": 1 } });
        let mut failed = reply(result, &uris()).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::ToolFailed);
        let said = vec![Content::text("no"), Content::text(r#"{"why":1}"#)];
        let kept = (said, Some(json!({ "why": 1 })));
        assert_eq!(failed.take_output(), kept);
    }

    #[test]
    fn mc_09_a_result_that_is_none_is_a_typed_error() {
        let many: Vec<_> = (0..=CONTENT_PIECES)
            .map(|_| json!({ "type": "text", "text": "" }))
            .collect();
        for result in [
            json!({ "content": many }),
            json!({ "content": "text" }),
            json!({ "content": [{ "type": "text" }] }),
            json!({ "content": [{ "type": "image", "data": "!", "mimeType": "image/png" }] }),
            json!({ "content": [{ "type": "resource" }] }),
            json!({ "content": [], "isError": "yes" }),
        ] {
            let error = reply(result.clone(), &uris()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost, "{result}");
        }
    }
}
