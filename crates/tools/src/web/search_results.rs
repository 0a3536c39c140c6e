//! What a search found, cleaned: results as strangers wrote them become single lines of bounded length,
//! with an address that can be fetched.

use haft_contract::displayed::is_deceptive;
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    address::PageAddress,
    search_providers::{FoundEntry, SearchQuestion},
};
use crate::script::redact::SecretForms;

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

/// The longest snippet, in characters.
const MAX_SNIPPET: usize = 600;

/// The longest date, in characters.
const MAX_DATE: usize = 40;

/// How much of what a provider sent is looked at for one of these, in bytes.
const MAX_RAW: usize = 16 * 1024;

/// The marks with which providers emphasize words of the query.
const EMPHASIS: [&str; 10] = [
    "<strong>",
    "</strong>",
    "<b>",
    "</b>",
    "<em>",
    "</em>",
    "<mark>",
    "</mark>",
    "<span class=\"highlight\">",
    "</span>",
];

/// One result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct SearchResult {
    /// The title of the page.
    pub title: String,
    /// Its address.
    pub url: String,
    /// What the provider shows of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
    /// When it was published or changed, as the provider says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
}

/// Results that can be shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CleanResults {
    pub(super) results: Vec<SearchResult>,
    /// What a reader should know.
    pub(super) notes: Vec<String>,
}

/// The results that were asked for, without those of other domains and those whose address cannot be
/// fetched.
pub(super) fn clean(
    entries: Vec<FoundEntry>,
    question: &SearchQuestion<'_>,
    keys: &SecretForms,
) -> CleanResults {
    let mut clean = CleanResults::default();
    let (mut elsewhere, mut unusable, mut further, mut hidden) = (0, 0, 0, 0);
    for entry in entries {
        let address = entry.url.as_deref().unwrap_or_default();
        let Ok(address) = PageAddress::parse(address.trim()) else {
            unusable += 1;
            continue;
        };
        let is_of = |domains: &[super::search_providers::Domain]| {
            domains.iter().any(|domain| domain.has(&address.host))
        };
        if is_of(&question.blocked) || !(question.allowed.is_empty() || is_of(&question.allowed)) {
            elsewhere += 1;
            continue;
        }
        if clean.results.len() >= question.count {
            further += 1;
            continue;
        }
        let mut line = |text: Option<String>, most| one_line(&text?, most, keys, &mut hidden);
        clean.results.push(SearchResult {
            title: line(entry.title, MAX_TITLE).unwrap_or_else(|| "(no title)".to_owned()),
            snippet: line(entry.snippet, MAX_SNIPPET),
            date: line(entry.date, MAX_DATE).map(day),
            url: keys.text(address.as_str()),
        });
    }
    for (count, why) in [
        (elsewhere, "results of other domains were left out"),
        (
            unusable,
            "results were left out, whose address cannot be fetched",
        ),
        (further, "more results are on this page: raise `count`"),
        (hidden, "characters that show nothing were removed"),
    ] {
        if count > 0 {
            clean.notes.push(format!("{count} {why}"));
        }
    }
    clean
}

/// A text as one line that shows all it has, at most so many characters long; `None` if nothing is left.
fn one_line(text: &str, most: usize, keys: &SecretForms, hidden: &mut usize) -> Option<String> {
    let text = text.get(..text.floor_char_boundary(MAX_RAW))?;
    // Entities first: they may stand for characters that hide.
    let text = plain(text);
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() {
            if !shown.is_empty() && !shown.ends_with(' ') {
                shown.push(' ');
            }
        } else if is_deceptive(c) {
            *hidden += 1;
        } else {
            shown.push(c);
        }
    }
    let shown = keys.text(shown.trim_end());
    let mut short: String = shown.chars().take(most).collect();
    if short.len() < shown.len() {
        short.push('…');
    }
    (!short.is_empty()).then_some(short)
}

/// A text without emphasis and without entities.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    for mark in EMPHASIS {
        text = text.replace(mark, "");
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let named = after.split_once(';');
        let named = named.and_then(|(name, after)| Some((entity(name)?, after)));
        let (c, after) = named.unwrap_or(('&', after));
        plain.push(c);
        rest = after;
    }
    plain.push_str(rest);
    plain
}

/// The longest name of an entity.
const MAX_ENTITY: usize = 8;

fn entity(name: &str) -> Option<char> {
    if name.len() > MAX_ENTITY {
        return None;
    }
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        "nbsp" => Some(' '),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

/// The day of a time such as `2026-01-02T03:04:05`; anything else as it is.
fn day(date: String) -> String {
    let is_day = |day: &str| {
        day.char_indices().all(|(at, c)| match at {
            4 | 7 => c == '-',
            _ => c.is_ascii_digit(),
        })
    };
    match (date.get(..10), date.as_bytes().get(10)) {
        (Some(day), Some(b'T' | b' ')) if is_day(day) => day.to_owned(),
        _ => date,
    }
}

#[cfg(test)]
mod tests {
    use haft_contract::secret::Secret;

    use super::*;
    use crate::web::search_providers::Domain;

    fn question(count: usize, allowed: &[&str], blocked: &[&str]) -> SearchQuestion<'static> {
        let domains = |names: &[&str]| {
            let parse = |name: &&str| Domain::parse(name, "/").unwrap();
            names.iter().map(parse).collect::<Vec<_>>()
        };
        SearchQuestion {
            query: "q",
            count,
            page: 1,
            time_range: None,
            allowed: domains(allowed),
            blocked: domains(blocked),
        }
    }

    fn entry(url: &str) -> FoundEntry {
        FoundEntry {
            title: Some("T".to_owned()),
            url: Some(url.to_owned()),
            ..FoundEntry::default()
        }
    }

    fn line(text: &str) -> String {
        one_line(text, 60, &SecretForms::default(), &mut 0).unwrap_or_default()
    }

    #[test]
    fn what_strangers_wrote_is_one_line_that_shows_all_it_has() {
        assert_eq!(
            line("<strong>Vec</strong>&lt;T&gt; &amp;amp;"),
            "Vec<T> &amp;"
        );
        assert_eq!(line(" a\n\n1. b\r\n\u{2028}c\u{85}d "), "a 1. b c d");
        assert_eq!(line("a&#x200b;b&#8238;c\u{e0041}"), "abc");
        assert_eq!(line("a&#10;[x]&#xd;b&#0;c"), "a [x] b c");
        assert_eq!(
            line("a & b; &#xZZ; &#x110000; &"),
            "a & b; &#xZZ; &#x110000; &"
        );
        assert_eq!(line("\u{200b}"), "");
        assert_eq!(line(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
        assert_eq!(day("2026-01-02T03:04:05".to_owned()), "2026-01-02");
        assert_eq!(day("2 days ago, or so".to_owned()), "2 days ago, or so");
    }

    #[test]
    fn a_key_that_comes_back_is_not_shown() {
        let key = Secret::new("hunter2hunter3").unwrap();
        let keys = SecretForms::of([&key]);
        let found = vec![FoundEntry {
            title: Some("is it hunter2<b>hunter3</b>?".to_owned()),
            url: Some("https://a.example/?k=hunter2hunter3".to_owned()),
            snippet: Some("hunter2&#104;unter3".to_owned()),
            date: None,
        }];
        let clean = clean(found, &question(5, &[], &[]), &keys);
        let shown = format!("{clean:?}");
        assert!(!shown.contains("hunter3"), "{shown}");
        assert_eq!(shown.matches("[redacted]").count(), 3, "{shown}");
    }

    #[test]
    fn only_results_that_were_asked_for_are_shown_and_the_others_counted() {
        let found = [
            "https://a.docs.rs/1",
            "https://docs.rs/2",
            "https://docs.rs.evil.net/",
            "https://bad.docs.rs/",
            "javascript:alert(1)",
            "https://docs.rs@evil.net/",
            "http://docs.rs/3",
        ];
        let found = found.into_iter().map(entry).collect();
        let clean = clean(
            found,
            &question(2, &["docs.rs"], &["bad.docs.rs"]),
            &SecretForms::default(),
        );
        let urls: Vec<_> = clean.results.iter().map(|one| one.url.as_str()).collect();
        assert_eq!(urls, ["https://a.docs.rs/1", "https://docs.rs/2"]);
        assert_eq!(
            clean.notes,
            [
                "2 results of other domains were left out",
                "2 results were left out, whose address cannot be fetched",
                "1 more results are on this page: raise `count`",
            ]
        );
    }
}
