//! SearXNG: `GET /search?q=…&format=json`, after <https://docs.searxng.org/dev/search_api.html>.
//! It takes no key. JSON has to be switched on in its settings; without that it answers 403.

use haft_contract::ops::FetchResponse;
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::{
    failure::{FailureKind, SearchFailure},
    question::{MAX_PAGE, SearchQuestion, SearchTimeRange},
    wire::{self, FoundEntry, ProviderAnswer, ProviderRequest},
};

pub(super) fn request(path: &str, question: &SearchQuestion<'_>) -> ProviderRequest {
    let with_sites = question.query_with_sites();
    let mut query = Serializer::new(String::new());
    query.append_pair("q", with_sites.as_deref().unwrap_or(question.query));
    query.append_pair("format", "json");
    query.append_pair("pageno", &question.page.to_string());
    if let Some(range) = question.time_range {
        query.append_pair("time_range", time_range(range).as_str());
    }
    ProviderRequest {
        method: "GET",
        target: format!("{path}/search?{}", query.finish()),
        headers: vec![wire::header("accept", "application/json")],
        body: Vec::new(),
    }
}

/// It documents no week; a month has more, and nothing is missing.
fn time_range(range: SearchTimeRange) -> SearchTimeRange {
    match range {
        SearchTimeRange::Week => SearchTimeRange::Month,
        SearchTimeRange::Day | SearchTimeRange::Month | SearchTimeRange::Year => range,
    }
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Value>,
    #[serde(default)]
    unresponsive_engines: Vec<Value>,
}

#[derive(Deserialize)]
struct Entry {
    title: Option<String>,
    url: Option<String>,
    content: Option<String>,
    #[serde(rename = "publishedDate")]
    published_date: Option<String>,
}

pub(super) fn read(
    question: &SearchQuestion<'_>,
    response: &FetchResponse,
) -> Result<ProviderAnswer, SearchFailure> {
    if response.status == 403 {
        let why = "it does not answer in JSON: add `json` to `search.formats` in its settings.yml";
        return Err(SearchFailure::new(FailureKind::NotSetUp, why).status(403));
    }
    if let Some(failure) = wire::refused(response) {
        return Err(failure);
    }
    let answer: Answer = wire::json(response)?;
    // Counted and not named: a name would be words of the server's in a sentence of ours.
    let silent = answer.unresponsive_engines.len();
    if answer.results.is_empty() && silent > 0 {
        // It says success, and nobody searched.
        let why = format!("none of its engines gave results, and {silent} did not answer");
        return Err(SearchFailure::new(
            failure_of(&answer.unresponsive_engines),
            why,
        ));
    }
    let mut notes = Vec::new();
    if silent > 0 {
        notes.push(format!("{silent} of SearXNG's engines did not answer"));
    }
    if question.time_range == Some(SearchTimeRange::Week) {
        notes.push("SearXNG knows no week: these are of the last month".to_owned());
    }
    let entries: Vec<FoundEntry> = wire::entries(answer.results)
        .map(|entry: Entry| FoundEntry {
            title: entry.title,
            url: entry.url,
            snippet: entry.content,
            date: entry.published_date,
        })
        .collect();
    Ok(ProviderAnswer {
        has_more: !entries.is_empty() && question.page < MAX_PAGE,
        entries,
        notes,
    })
}

/// What kept them from answering, as far as it can be told.
fn failure_of(pairs: &[Value]) -> FailureKind {
    let reasons = pairs.iter().filter_map(|pair| pair.get(1)?.as_str());
    let reasons = reasons.map(str::to_ascii_lowercase).collect::<Vec<_>>();
    let any = |word: &str| reasons.iter().any(|reason| reason.contains(word));
    if any("captcha") {
        FailureKind::Challenged
    } else if any("too many requests") {
        FailureKind::RateLimited
    } else {
        FailureKind::ServerError
    }
}
