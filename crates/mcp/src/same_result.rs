//! Whether the content of a result and its structured content say the same.
//!
//! The protocol asks for it and agents rely on it: some show their model the content, others only
//! the structured content. Anything in just one of the two is lost on some of them.

use haft_contract::Content;
use serde_json::Value;

/// Whether a reader of only the structured content misses nothing of the content.
pub(crate) fn says_the_same(structured: &Value, content: &[Content]) -> bool {
    let texts: Option<Vec<&str>> = content.iter().map(Content::as_text).collect();
    texts.is_some_and(|texts| matches(structured, &texts))
}

/// Whether a reader of only the content misses nothing of the structured content.
pub(crate) fn is_in_text(structured: &Value, content: &[Content]) -> bool {
    let mut texts = content.iter().filter_map(Content::as_text);
    texts.any(|text| is_json_of(text, structured)) || says_the_same(structured, content)
}

/// Whether texts match a value: one text that is the value or its JSON; for a list, one text per
/// item; or the texts of an object's only field, because SDKs wrap what is not an object in one
/// (`{"result": "the text"}`).
fn matches(value: &Value, texts: &[&str]) -> bool {
    if let [text] = texts
        && (value.as_str() == Some(text) || is_json_of(text, value))
    {
        return true;
    }
    match value {
        Value::Array(items) => {
            items.len() == texts.len()
                && items
                    .iter()
                    .zip(texts)
                    .all(|(item, text)| item.as_str() == Some(text) || is_json_of(text, item))
        }
        Value::Object(fields) if fields.len() == 1 => match fields.values().next() {
            Some(only @ (Value::String(_) | Value::Array(_))) => matches(only, texts),
            Some(only) => matches!(texts, [text] if is_json_of(text, only)),
            None => false,
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            false
        }
    }
}

fn is_json_of(text: &str, value: &Value) -> bool {
    serde_json::from_str::<Value>(text).is_ok_and(|parsed| parsed == *value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(structured: &Value, texts: &[&str], same: bool, in_text: bool) {
        let content: Vec<Content> = texts.iter().map(|text| Content::text(*text)).collect();
        assert_eq!(
            (
                says_the_same(structured, &content),
                is_in_text(structured, &content)
            ),
            (same, in_text),
            "{structured} {texts:?}"
        );
    }

    #[test]
    fn the_same_is_json_or_what_sdks_wrap() {
        check(&json!({"a": 1}), &["{ \"a\": 1 }"], true, true);
        check(&json!({"content": "a note"}), &["a note"], true, true);
        check(&json!({"result": 3}), &["3"], true, true);
        check(&json!({"result": [1, "b"]}), &["1", "b"], true, true);
        check(&json!([1]), &["[1]"], true, true);
    }

    #[test]
    fn what_is_about_the_text_does_not_say_it() {
        check(&json!({"path": "a", "size": 5}), &["hello"], false, false);
        check(&json!({"exit_code": 0}), &["hello"], false, false);
        check(&json!({"result": [1]}), &["1", "b"], false, false);
        check(&json!({"a": 1}), &[], false, false);
        check(&json!({"a": 1}), &["{\"a\":1}", "and a note"], false, true);
    }

    #[test]
    fn an_image_is_never_in_structured_content() {
        let image = Content::Image {
            data: vec![1],
            media_type: "image/png".to_owned(),
        };
        let content = [Content::text("{\"a\":1}"), image];
        assert!(!says_the_same(&json!({"a": 1}), &content));
        assert!(is_in_text(&json!({"a": 1}), &content));
    }
}
