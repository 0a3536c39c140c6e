//! What the events of a row have used: tools, and approvals to start with them. Read without the rest
//! of the events, which is most of a body.

use haft_contract::{ProviderId, host::Timestamp};
use serde::Deserialize;
use serde_json::Value;

use crate::body;

/// What one event says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// The call was made in this workspace.
    Workspace(String),
    /// The call is of this tool.
    Tool(String),
    /// It was started, with an approval if it needed one.
    Started { approval: Option<String> },
}

/// The fields that are looked at. A body has many more, which are skipped.
#[derive(Deserialize)]
struct Fields<'a> {
    workspace: Option<&'a str>,
    tool: Option<&'a str>,
    approval: Option<&'a str>,
}

/// What the events of a row have used, in order. Nothing if its body cannot be understood: the chain
/// covers it, so it was written that way.
pub(crate) fn of(form: i64, at: Timestamp, bytes: &[u8]) -> Vec<Use> {
    let Some(text) = body::text(form, bytes) else {
        return Vec::new();
    };
    let events: Result<Vec<(&str, i64, Fields<'_>)>, _> = serde_json::from_slice(&text);
    if let Ok(events) = events {
        let used = |(kind, _, fields): &(&str, i64, Fields<'_>)| used(kind, fields);
        return events.iter().filter_map(used).collect();
    }
    // These fields are spelt or shaped in another way somewhere.
    let events = body::events(form, at, bytes).unwrap_or_default();
    let used = |event: &body::BodyEvent| {
        let field = |name| event.body.get(name).and_then(Value::as_str);
        let fields = Fields {
            workspace: field("workspace"),
            tool: field("tool"),
            approval: field("approval"),
        };
        used(&event.kind, &fields)
    };
    events.iter().filter_map(used).collect()
}

/// The provider of a tool, unless it is the built-in one.
pub(crate) fn provider_of(tool: Option<&str>) -> Option<&str> {
    let (provider, _) = tool?.split_once('/')?;
    (provider != ProviderId::builtin().as_str()).then_some(provider)
}

fn used(kind: &str, fields: &Fields<'_>) -> Option<Use> {
    match kind {
        "opened" => fields
            .workspace
            .map(|workspace| Use::Workspace(workspace.to_owned())),
        "resolved" | "planned" => fields.tool.map(|tool| Use::Tool(tool.to_owned())),
        "started" => Some(Use::Started {
            approval: fields.approval.map(str::to_owned),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the other events are, what was used is read.
    #[test]
    fn what_was_used_is_read_from_bodies_of_any_shape() {
        let expect = [
            Use::Tool("mcp/a".to_owned()),
            Use::Started {
                approval: Some("x".to_owned()),
            },
        ];
        for other in [
            "{}",
            r#"{"tool": "builtin/bash", "content": [1, {"a": "b"}]}"#,
            r#"{"tool": {"of": "another shape"}}"#,
            r#"{"tool": "a", "tool": "b"}"#,
            "[]",
            "null",
            "7",
        ] {
            let body = format!(
                r#"[["resolved",0,{{"tool":"mcp\u002fa"}}],["opened",1,{other}],["started",2,{{"approval":"x"}}]]"#
            );
            assert_eq!(of(1, Timestamp(0), body.as_bytes()), expect, "{other}");
        }
        assert_eq!(of(1, Timestamp(0), b"["), []);
        assert_eq!(of(9, Timestamp(0), b"[]"), []);
    }
}
