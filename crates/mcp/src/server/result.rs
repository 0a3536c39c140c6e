//! Turns the outcome of a call into a protocol answer.

use std::{borrow::Cow, fmt::Write as _};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use haft_contract::{Content, ErrorKind, Outcome, content::ResourceBody, outcome::Failure};
use rmcp::{
    ErrorData,
    model::{
        AudioContent, CallToolResponse, CallToolResult, ContentBlock, ErrorCode, ImageContent,
        MetaObject, Resource, ResourceContents,
    },
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    approve::{CallReply, ForPerson, WaitingForPerson},
    output,
};
use crate::{client::QuestionKind, foreign, same_result::says_the_same};

/// The key under which results name their call in the record.
pub(super) const CALL_KEY: &str = "dev.haft/call";

/// The key under which a result names the question its call waits for.
const QUESTION_KEY: &str = "dev.haft/question";
const APPROVAL_KEY: &str = "dev.haft/approval";

/// The key under which results say how the call ended.
pub(super) const TERMINAL_KEY: &str = "dev.haft/terminal";

/// What a client accepts as structured content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StructuredContent {
    /// An object or nothing, as before 2026-07-28.
    Object,
    /// Any value.
    Any,
}

/// The answer to `tools/call`. Failures are for the model to read, except for an unknown tool,
/// which the protocol wants as an error.
pub(super) fn of_tool(
    outcome: &Outcome,
    takes: StructuredContent,
) -> Result<CallToolResult, ErrorData> {
    if let Some(failure) = &outcome.error
        && failure.kind == ErrorKind::UnknownTool
        && outcome.tool.is_none()
    {
        return Err(ErrorData::invalid_params(
            failure.to_string(),
            Some(about(outcome)),
        ));
    }
    let mut said = Cow::Borrowed(&outcome.content);
    if let (true, Some(value)) = (said.is_empty(), &outcome.structured)
        && !value.is_null()
    {
        said = Cow::Owned(vec![Content::text(value.to_string())]);
    }
    let structured = structured(outcome, &said, takes);
    let mut content: Vec<ContentBlock> = said.iter().map(|piece| block(piece, outcome)).collect();
    // A foreign tool that failed has said so itself. For others, say it first: agents that do not
    // tell their model whether a call failed also cut the end of long results.
    let said = |failure: &&Failure| failure.kind == ErrorKind::ToolFailed && !content.is_empty();
    if let Some(failure) = outcome.error.as_ref().filter(|failure| !said(failure)) {
        content.insert(0, ContentBlock::text(failure.to_string()));
    }
    if let Some(artifact) = &outcome.facts.artifact {
        content.push(ContentBlock::resource_link(output::link(
            outcome.call,
            artifact.bytes,
        )));
    }
    let mut result = CallToolResult::default();
    result.content = content;
    result.structured_content = structured;
    result.is_error = Some(!outcome.succeeded());
    result.meta = Some(meta(outcome));
    Ok(result)
}

/// The structured content of an answer: only if it says everything that the content says, because
/// some agents show their model nothing else. Never for a failure.
fn structured(outcome: &Outcome, said: &[Content], takes: StructuredContent) -> Option<Value> {
    let value = outcome.structured.as_ref()?;
    let is_taken = match takes {
        StructuredContent::Object => value.is_object(),
        StructuredContent::Any => !value.is_null(),
    };
    let is_whole = outcome.error.is_none() && outcome.facts.artifact.is_none();
    (is_taken && is_whole && says_the_same(value, said)).then(|| value.clone())
}

/// The answer to `tools/call` for a reply.
pub(super) fn of_told(
    told: CallReply,
    takes: StructuredContent,
) -> Result<CallToolResponse, ErrorData> {
    match told {
        CallReply::Ended(outcome) => of_tool(&outcome, takes).map(CallToolResponse::Complete),
        CallReply::InputRequired(asks) => Ok(CallToolResponse::InputRequired(asks)),
        CallReply::Task(task) => Ok(CallToolResponse::Task(task)),
        CallReply::Waits(waits) => Ok(CallToolResponse::Complete(tool_waiting(&waits))),
    }
}

/// The result of a fetch: the protocol's result is its structured output.
pub(super) fn of_fetch<T: DeserializeOwned>(outcome: &Outcome) -> Result<T, ErrorData> {
    if !outcome.succeeded() {
        return Err(refused(outcome));
    }
    let mut structured = outcome.structured.clone().unwrap_or(Value::Null);
    if let Some(fields) = structured.as_object_mut() {
        // An older server does not say this, and a newer client must be told.
        fields
            .entry("resultType")
            .or_insert_with(|| Value::from("complete"));
    }
    serde_json::from_value(structured).map_err(|error| {
        tracing::warn!(%error, call = %outcome.call, "a mounted server's result is not one");
        ErrorData::internal_error(
            "the mounted server answered with something that is not a result of this request",
            Some(about(outcome)),
        )
    })
}

/// The error for a call that failed after its tool asked something that the client did not declare
/// it can be asked. Only the tool knows whether that is why, so its own message is included.
pub(super) fn lacking(kind: QuestionKind, outcome: &Outcome) -> ErrorData {
    let message = format!(
        "the tool asked `{}`, the client did not say that it can be asked that, and the call \
         failed: {}",
        kind.method(),
        foreign::shown(&outcome.model_text())
    );
    let mut data = about(outcome);
    if let Some(fields) = data.as_object_mut() {
        fields.insert(
            "requiredCapabilities".to_owned(),
            json!({kind.capability(): {}}),
        );
    }
    ErrorData::new(
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
        message,
        Some(data),
    )
}

/// Why a request other than `tools/call` has no result.
pub(super) fn refused(outcome: &Outcome) -> ErrorData {
    let Some(failure) = &outcome.error else {
        let message = format!("the call ended as {}", outcome.terminal);
        return ErrorData::internal_error(message, Some(about(outcome)));
    };
    let code = match failure.kind {
        ErrorKind::NotFound | ErrorKind::UnknownTool => ErrorCode::RESOURCE_NOT_FOUND,
        ErrorKind::InvalidInput => ErrorCode::INVALID_PARAMS,
        _ => ErrorCode::INTERNAL_ERROR,
    };
    ErrorData::new(code, failure.to_string(), Some(about(outcome)))
}

/// Adds the URI to an error about a resource, which the protocol wants named if it does not exist.
pub(super) fn about_resource(mut error: ErrorData, uri: &str) -> ErrorData {
    let missing = [ErrorCode::RESOURCE_NOT_FOUND, ErrorCode::INVALID_PARAMS];
    if missing.contains(&error.code) {
        let data = error.data.get_or_insert_with(|| json!({}));
        if let Some(fields) = data.as_object_mut() {
            fields.insert("uri".to_owned(), json!(uri));
        }
    }
    error
}

/// The answer to `tools/call` for a call that waits for a person while its client should not wait.
pub(super) fn tool_waiting(waits: &WaitingForPerson) -> CallToolResult {
    let mut result = CallToolResult::default();
    result.content = vec![ContentBlock::text(waits.to_string())];
    result.is_error = Some(true);
    let mut meta = MetaObject::new();
    meta.insert(CALL_KEY.to_owned(), json!(waits.call.to_string()));
    meta.insert(
        key_of(waits.about).to_owned(),
        json!(waits.about.to_string()),
    );
    result.meta = Some(meta);
    result
}

/// Why a request other than `tools/call` has no result yet.
pub(super) fn waiting(waits: &WaitingForPerson) -> ErrorData {
    let about = json!({
        CALL_KEY: waits.call.to_string(),
        key_of(waits.about): waits.about.to_string(),
    });
    ErrorData::internal_error(waits.to_string(), Some(about))
}

fn key_of(about: ForPerson) -> &'static str {
    match about {
        ForPerson::Approval(_) => APPROVAL_KEY,
        ForPerson::Question(_) => QUESTION_KEY,
    }
}

fn about(outcome: &Outcome) -> Value {
    json!({
        CALL_KEY: outcome.call.to_string(),
        TERMINAL_KEY: outcome.terminal.as_str(),
    })
}

fn meta(outcome: &Outcome) -> MetaObject {
    let mut meta = MetaObject::new();
    meta.insert(CALL_KEY.to_owned(), json!(outcome.call.to_string()));
    meta.insert(TERMINAL_KEY.to_owned(), json!(outcome.terminal.as_str()));
    meta
}

fn block(content: &Content, outcome: &Outcome) -> ContentBlock {
    match content {
        Content::Text(text) => ContentBlock::text(text.clone()),
        Content::Image { data, media_type } => {
            ContentBlock::Image(ImageContent::new(STANDARD.encode(data), media_type))
        }
        Content::Audio { data, media_type } => {
            ContentBlock::Audio(AudioContent::new(STANDARD.encode(data), media_type))
        }
        Content::Document {
            data,
            media_type,
            name,
        } => {
            let uri = format!("haft://call/{}/{}", outcome.call, encoded(name));
            let contents = ResourceContents::blob(STANDARD.encode(data), uri);
            ContentBlock::resource(contents.with_mime_type(media_type))
        }
        Content::Resource {
            uri,
            media_type,
            body,
        } => {
            let contents = match body {
                ResourceBody::Text(text) => ResourceContents::TextResourceContents {
                    uri: uri.clone(),
                    mime_type: media_type.clone(),
                    text: text.clone(),
                    meta: None,
                },
                ResourceBody::Bytes(bytes) => ResourceContents::BlobResourceContents {
                    uri: uri.clone(),
                    mime_type: media_type.clone(),
                    blob: STANDARD.encode(bytes),
                    meta: None,
                },
            };
            ContentBlock::resource(contents)
        }
        Content::Link {
            uri,
            name,
            media_type,
        } => {
            let mut link = Resource::new(uri, name);
            link.mime_type.clone_from(media_type);
            ContentBlock::resource_link(link)
        }
    }
}

/// Encodes a name as one segment of a URI.
fn encoded(name: &str) -> String {
    let mut segment = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            segment.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(segment, "%{byte:02X}");
        }
    }
    segment
}

#[cfg(test)]
mod tests {
    use haft_contract::{
        CallId,
        host::ArtifactId,
        outcome::{Facts, Terminal},
    };

    use super::*;

    fn outcome(terminal: Terminal) -> Outcome {
        Outcome {
            call: CallId::new(),
            tool: None,
            terminal,
            content: Vec::new(),
            structured: None,
            error: None,
            facts: Facts::default(),
        }
    }

    fn shown(outcome: &Outcome) -> Value {
        let result = of_tool(outcome, StructuredContent::Any);
        serde_json::to_value(result.unwrap()).unwrap()
    }

    #[test]
    fn a_call_that_lacks_an_answer_says_what_its_tool_said() {
        let mut failed = outcome(Terminal::Failed);
        failed.content = vec![Content::text("the disk is full\u{1b}[31m")];
        let told = lacking(QuestionKind::Sample, &failed);
        assert_eq!(told.code, ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY);
        for part in ["`sampling/createMessage`", "the disk is full\\u{1b}"] {
            assert!(told.message.contains(part), "{}", told.message);
        }
        let data = told.data.unwrap();
        assert_eq!(data["requiredCapabilities"], json!({"sampling": {}}));
    }

    #[test]
    fn content_of_every_kind_passes() {
        let mut outcome = outcome(Terminal::Succeeded);
        let (data, media_type) = (vec![1, 2, 3], "x/y".to_owned());
        outcome.content = vec![
            Content::text("t"),
            Content::Image {
                data: data.clone(),
                media_type: media_type.clone(),
            },
            Content::Audio {
                data: data.clone(),
                media_type: media_type.clone(),
            },
            Content::Document {
                data: data.clone(),
                media_type: media_type.clone(),
                name: "a b/c.pdf".to_owned(),
            },
            Content::Resource {
                uri: "u:1".to_owned(),
                media_type: None,
                body: ResourceBody::Text("r".to_owned()),
            },
            Content::Resource {
                uri: "u:2".to_owned(),
                media_type: Some(media_type.clone()),
                body: ResourceBody::Bytes(data),
            },
            Content::Link {
                uri: "u:3".to_owned(),
                name: "n".to_owned(),
                media_type: None,
            },
        ];
        let call = outcome.call;
        let document = format!("haft://call/{call}/a%20b%2Fc.pdf");
        assert_eq!(
            shown(&outcome)["content"],
            json!([
                {"type": "text", "text": "t"},
                {"type": "image", "data": "AQID", "mimeType": "x/y"},
                {"type": "audio", "data": "AQID", "mimeType": "x/y"},
                {"type": "resource", "resource":
                    {"uri": document, "mimeType": "x/y", "blob": "AQID"}},
                {"type": "resource", "resource": {"uri": "u:1", "text": "r"}},
                {"type": "resource", "resource": {"uri": "u:2", "mimeType": "x/y", "blob": "AQID"}},
                {"type": "resource_link", "uri": "u:3", "name": "n"},
            ])
        );
    }

    #[test]
    fn what_went_wrong_is_for_the_model_to_read() {
        let mut outcome = outcome(Terminal::Denied);
        outcome.error = Some(Failure {
            kind: ErrorKind::Denied,
            message: "no".to_owned(),
            at: None,
            hint: Some("ask".to_owned()),
        });
        let shown = shown(&outcome);
        assert_eq!(shown["isError"], json!(true));
        assert_eq!(shown["_meta"][TERMINAL_KEY], json!("denied"));
        let text = shown["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("no") && text.contains("hint: ask"), "{text}");
    }

    #[test]
    fn a_tool_that_is_not_there_is_an_error_of_the_protocol() {
        let mut outcome = outcome(Terminal::Failed);
        outcome.error = Some(Failure {
            kind: ErrorKind::UnknownTool,
            message: "there is no tool `raed`".to_owned(),
            at: None,
            hint: Some("did you mean `read`?".to_owned()),
        });
        let error = of_tool(&outcome, StructuredContent::Any).unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
        assert!(error.message.contains("did you mean `read`?"));
    }

    #[test]
    fn output_that_was_left_out_is_linked() {
        let mut outcome = outcome(Terminal::Succeeded);
        outcome.content = vec![Content::text("head")];
        outcome.facts.artifact = Some(ArtifactId {
            hash: [0; 32],
            bytes: 77,
        });
        let link = &shown(&outcome)["content"][1];
        assert_eq!(link["type"], json!("resource_link"));
        assert_eq!(
            link["uri"],
            json!(format!("haft://output/{}", outcome.call))
        );
        assert_eq!(link["size"], json!(77));
    }

    #[test]
    fn structured_content_is_sent_where_it_says_all_that_the_text_says() {
        let mut data = outcome(Terminal::Succeeded);
        data.structured = Some(json!({"a": 1}));
        data.content = vec![Content::text("{\"a\":1}")];
        assert_eq!(shown(&data)["structuredContent"], json!({"a": 1}));

        let mut about = outcome(Terminal::Succeeded);
        about.structured = Some(json!({"path": "a", "size": 5}));
        about.content = vec![Content::text("hello")];
        assert_eq!(shown(&about).get("structuredContent"), None);

        let mut cut = data.clone();
        cut.facts.artifact = Some(ArtifactId {
            hash: [0; 32],
            bytes: 77,
        });
        assert_eq!(shown(&cut).get("structuredContent"), None);
    }

    #[test]
    fn structured_output_alone_is_also_sent_as_text() {
        let mut outcome = outcome(Terminal::Succeeded);
        outcome.structured = Some(json!({"a": 1}));
        let shown = shown(&outcome);
        assert_eq!(shown["structuredContent"], json!({"a": 1}));
        assert_eq!(shown["content"][0]["text"], json!("{\"a\":1}"));
    }

    #[test]
    fn a_client_of_before_gets_objects_alone() {
        let mut list = outcome(Terminal::Succeeded);
        list.structured = Some(json!([1]));
        list.content = vec![Content::text("[1]")];
        assert_eq!(shown(&list)["structuredContent"], json!([1]));
        let before = of_tool(&list, StructuredContent::Object).unwrap();
        assert_eq!(before.structured_content, None);
    }
}
