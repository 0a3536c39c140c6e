//! Messages of a hostile server: an accepted message has one reading, the same as any other JSON
//! parser's.

use std::fmt;

use haft_testkit::{Fuzz, ParseOutcome};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::Value;

use super::message::{Incoming, answer, notification, read, read_error, request};
use crate::upstream::{connection::RequestError, limits::WORDS_CHARS};

const MESSAGES: [&str; 18] = [
    r#"{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}}"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method","data":{"a":[1.5,null]}}}"#,
    r#"{"jsonrpc":"2.0","id":"7","method":"sampling/createMessage","params":{"messages":[]}}"#,
    r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"m"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":3,"progress":0.5}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
    r#" { "jsonrpc" : "2.0" , "result" : { "content" : [ { "type" : "text" , "text" : "a\u0000\ud83d\ude00" } ] } , "id" : 18446744073709551615 } "#,
    r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#,
    r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}"#,
    r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#,
    r#"{"jsonrpc":"2.0","id":1,"result":{"a":[[[[[[[[]]]]]]]]}}"#,
    r#"{"jsonrpc":"2.0","id":"7","result":{}}"#,
    r#"{"jsonrpc":"2.0","id":7.0,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":-7,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#,
    "Listening on port 3000",
];

const WORDS: [&str; 38] = [
    "\"jsonrpc\":\"2.0\",",
    "\"jsonrpc\":\"1.0\"",
    "\"id\":7,",
    "\"id\":7.0",
    "\"id\":\"7\"",
    "\"id\":null",
    "\"id\":-1",
    "\"\\u0069d\":8,",
    "\"method\":\"x\",",
    "\"method\":7",
    "\"params\":{},",
    "\"params\":[1]",
    "\"result\":{},",
    "\"result\":null",
    "\"error\":{\"code\":1,\"message\":\"m\"},",
    "\"error\":null,",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "\\udc00",
    "null",
    "true",
    "1e400",
    "-0",
    "00",
    "1E2",
    "18446744073709551616",
    " ",
    "\n",
    "\u{feff}",
    "/**/",
];

/// An object's member names, in order and with repetitions.
struct Members(Vec<String>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    members.push(key);
                }
                Ok(Members(members))
            }
        }
        from.deserialize_map(Keys)
    }
}

#[test]
fn an_mcp_message_that_is_taken_has_one_reading() {
    Fuzz::seeds(MESSAGES)
        .words(WORDS)
        .inputs(3_000)
        .run(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Some(error) = read_error(&text) {
                check_error(&error);
            }
            let Ok(message) = read(&text) else {
                return ParseOutcome::Refused;
            };
            let Members(members) = serde_json::from_str(&text).expect("an object");
            for name in ["jsonrpc", "id", "method", "params", "result", "error"] {
                let times = members.iter().filter(|member| *member == name).count();
                assert!(times <= 1, "`{name}` is there {times} times");
            }
            // Nesting deeper than parsers allow is refused only where the value is needed.
            let whole: Option<Value> = serde_json::from_str(&text).ok();
            if let Some(whole) = &whole {
                assert_eq!(whole["jsonrpc"], "2.0");
            }
            match message {
                Incoming::Answer { id, answer } => {
                    assert!(!members.iter().any(|member| member == "method"));
                    let parsed = answer.parse();
                    if let Some(whole) = &whole {
                        assert_eq!(whole["id"].as_u64(), Some(id));
                        match &parsed {
                            Ok(result) => assert_eq!(&whole["result"], result),
                            Err(RequestError::Answered { code, .. }) => {
                                assert_eq!(whole["error"]["code"].as_i64(), Some(*code));
                            }
                            Err(_) => {}
                        }
                    }
                    match parsed {
                        Ok(result) => assert!(result.is_object()),
                        Err(error) => check_error(&error),
                    }
                }
                Incoming::Asked {
                    id,
                    method,
                    parameters,
                } => {
                    called(whole.as_ref(), &method, &parameters);
                    assert!(id.is_string() || id.is_number());
                    if let Some(whole) = &whole {
                        assert_eq!(whole["id"], id);
                    }
                    // The answer carries the id unchanged.
                    assert_eq!(answer(&id, Ok(Value::Null))["id"], id);
                    if let Some(number) = id.as_u64() {
                        sent_again(number, &method, &parameters);
                    }
                }
                Incoming::Notice { method, parameters } => {
                    called(whole.as_ref(), &method, &parameters);
                    let text = notification(&method, &parameters).to_string();
                    match read(&text) {
                        Ok(Incoming::Notice { method: again, .. }) => assert_eq!(again, method),
                        other => panic!("{other:?}"),
                    }
                }
            }
            ParseOutcome::Taken
        });
}

fn called(whole: Option<&Value>, method: &str, parameters: &Value) {
    assert!(parameters.is_object());
    if let Some(whole) = whole {
        assert_eq!(whole["method"].as_str(), Some(method));
        assert!(whole.get("params").is_none_or(|given| given == parameters));
    }
}

/// What we send reads back as the same message.
fn sent_again(id: u64, method: &str, parameters: &Value) {
    let text = request(id, method, parameters).expect("a request");
    match read(&text) {
        Ok(Incoming::Asked {
            id: again_id,
            method: again_method,
            parameters: again,
        }) => {
            assert_eq!(again_id.as_u64(), Some(id));
            assert_eq!((again_method.as_str(), &again), (method, parameters));
        }
        other => panic!("{other:?}"),
    }
}

fn check_error(error: &RequestError) {
    if let RequestError::Answered { message, .. } = error {
        assert!(message.chars().count() <= WORDS_CHARS);
    }
}
