//! What counts as a word when tools are searched: in a text, a name, a query or a schema.
//!
//! Words are in lower case and singular, as far as possible without a dictionary.

use std::borrow::Cow;

use serde_json::Value;

/// Stop words: they say nothing about what a tool is for.
const EMPTY_WORDS: [&str; 22] = [
    "a", "an", "and", "as", "at", "by", "do", "for", "from", "how", "i", "in", "is", "it", "my",
    "of", "on", "or", "that", "the", "to", "with",
];

/// The words of a text.
pub(super) fn words(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    whole_words(text).map(normal)
}

/// The words of a name, also split where its case changes: `listPullRequests` has `list`, `pull`
/// and `request`. The unsplit word is kept too, because `GitHub` is one word.
pub(super) fn name_words(name: &str) -> impl Iterator<Item = Cow<'_, str>> {
    whole_words(name).flat_map(|word| {
        let parts = parts(word);
        let parts = if parts.len() > 1 { parts } else { Vec::new() };
        std::iter::once(normal(word)).chain(parts.into_iter().map(normal))
    })
}

/// The words of a query, each once, without stop words, unless there are no others.
pub(super) fn query_words(query: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in name_words(query) {
        if !found.iter().any(|known| *known == word) {
            found.push(word.into_owned());
        }
    }
    let says = |word: &String| !EMPTY_WORDS.contains(&word.as_str());
    if found.iter().any(says) {
        found.retain(says);
    }
    found
}

/// Calls `tell` with every parameter of a schema and its description, including those nested in
/// objects or lists of objects.
pub(super) fn parameters(schema: &Value, depth: usize, mut tell: impl FnMut(&str, &str)) {
    let mut left = vec![(schema, depth)];
    while let Some((schema, depth)) = left.pop() {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            continue;
        };
        for (name, parameter) in properties {
            let text = parameter.get("description").and_then(Value::as_str);
            tell(name, text.unwrap_or_default());
            if depth > 1 {
                left.push((parameter, depth - 1));
                left.extend(parameter.get("items").map(|items| (items, depth - 1)));
            }
        }
    }
}

fn whole_words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
}

/// The parts of a word in camel case: `HTTPServerError` has `HTTP`, `Server` and `Error`.
fn parts(word: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = word.char_indices().collect();
    let mut parts = Vec::new();
    let mut start = 0;
    for window in chars.windows(2) {
        let [(_, before), (at, here)] = *window else {
            continue;
        };
        let next = word.get(at + here.len_utf8()..).unwrap_or_default();
        let ends_capitals = before.is_uppercase() && next.starts_with(char::is_lowercase);
        if here.is_uppercase() && (!before.is_uppercase() || ends_capitals) {
            parts.extend(word.get(start..at));
            start = at;
        }
    }
    parts.extend(word.get(start..));
    parts
}

/// In lower case, and singular if it is an English plural. Most words already are and are not
/// copied.
fn normal(word: &str) -> Cow<'_, str> {
    let is_lower = word
        .bytes()
        .all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase());
    if is_lower {
        return singular(word);
    }
    let lower = word.to_lowercase();
    Cow::Owned(singular(&lower).into_owned())
}

fn singular(word: &str) -> Cow<'_, str> {
    let short = word.len() < 4;
    let plural = !short && word.ends_with('s');
    if !plural || ["ss", "us", "is"].iter().any(|end| word.ends_with(end)) {
        return Cow::Borrowed(word);
    }
    if let Some(stem) = word.strip_suffix("ies").filter(|stem| stem.len() > 1) {
        return Cow::Owned(format!("{stem}y"));
    }
    let long = ["sses", "xes", "ches", "shes"];
    let ending = if long.iter().any(|end| word.ends_with(end)) {
        "es"
    } else {
        "s"
    };
    Cow::Borrowed(word.strip_suffix(ending).unwrap_or(word))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_name(name: &str) -> Vec<String> {
        name_words(name).map(Cow::into_owned).collect()
    }

    #[test]
    fn a_name_is_split_at_marks_and_where_its_case_changes() {
        assert_eq!(of_name("create_issue-v2"), ["create", "issue", "v2"]);
        assert_eq!(
            of_name("listPullRequests"),
            ["listpullrequest", "list", "pull", "request"]
        );
        assert_eq!(
            of_name("HTTPServer"),
            ["httpserver", "http", "server"],
            "capitals in a row are one word"
        );
    }

    #[test]
    fn a_plural_is_found_by_its_singular_and_the_other_way_round() {
        let found: Vec<_> = words("Queries, processes, issues; status of boxes").collect();
        assert_eq!(found, ["query", "process", "issue", "status", "of", "box"]);
    }

    #[test]
    fn what_somebody_looks_for_is_what_says_something() {
        assert_eq!(
            query_words("how do I create an issue on the GitHub"),
            ["create", "issue", "github", "git", "hub"]
        );
        assert_eq!(query_words("to the"), ["to", "the"]);
    }

    #[test]
    fn parameters_of_parameters_are_told_too_but_not_for_ever() {
        let mut schema = json!({"type": "string"});
        for depth in 0..100 {
            let name = format!("p{depth}");
            schema = json!({"properties": {name: schema}});
        }
        let mut told = Vec::new();
        parameters(&schema, 3, |name, _| told.push(name.to_owned()));
        assert_eq!(told, ["p99", "p98", "p97"]);
        let list = json!({"properties": {"edits": {"items": {"properties": {"old": {
            "description": "the text",
        }}}}}});
        let mut told = Vec::new();
        parameters(&list, 3, |name, text| told.push(format!("{name}: {text}")));
        assert_eq!(told, ["edits: ", "old: the text"]);
    }
}
