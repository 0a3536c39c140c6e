//! Brave: `GET /res/v1/web/search` with the key in `X-Subscription-Token`, after
//! <https://api-dashboard.search.brave.com/app/documentation/web-search>.

use haft_contract::{ops::FetchResponse, secret::Secret};
use serde::Deserialize;
use serde_json::Value;
use url::form_urlencoded::Serializer;

use super::{
    failure::{FailureKind, SearchFailure},
    question::{MAX_QUERY, SearchQuestion, SearchTimeRange},
    wire::{self, FoundEntry, ProviderAnswer, ProviderRequest},
};

/// The most words of a query.
const MAX_WORDS: usize = 50;

pub(super) fn request(
    path: &str,
    question: &SearchQuestion<'_>,
    key: Option<&Secret>,
) -> Result<ProviderRequest, SearchFailure> {
    let key = wire::header_key(key)?;
    if !fits(question.query) {
        let why = format!("it takes at most {MAX_WORDS} words");
        return Err(SearchFailure::new(FailureKind::BadRequest, why));
    }
    // Without the operators there are fewer results on a page, and not one that is not wanted.
    let with_sites = question.query_with_sites().filter(|query| fits(query));
    let mut query = Serializer::new(String::new());
    query.append_pair("q", with_sites.as_deref().unwrap_or(question.query));
    query.append_pair("count", &question.count.to_string());
    query.append_pair("offset", &question.page.saturating_sub(1).to_string());
    query.append_pair("result_filter", "web");
    query.append_pair("text_decorations", "false");
    if let Some(range) = question.time_range {
        query.append_pair("freshness", freshness(range));
    }
    Ok(ProviderRequest {
        method: "GET",
        target: format!("{path}/res/v1/web/search?{}", query.finish()),
        headers: vec![
            wire::header("accept", "application/json"),
            wire::header("x-subscription-token", key),
        ],
        body: Vec::new(),
    })
}

fn fits(query: &str) -> bool {
    query.chars().count() <= MAX_QUERY && query.split_whitespace().count() <= MAX_WORDS
}

fn freshness(range: SearchTimeRange) -> &'static str {
    match range {
        SearchTimeRange::Day => "pd",
        SearchTimeRange::Week => "pw",
        SearchTimeRange::Month => "pm",
        SearchTimeRange::Year => "py",
    }
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    query: AnsweredQuery,
    web: Option<WebResults>,
}

#[derive(Deserialize, Default)]
struct AnsweredQuery {
    #[serde(default)]
    more_results_available: bool,
}

#[derive(Deserialize)]
struct WebResults {
    #[serde(default)]
    results: Vec<Value>,
}

#[derive(Deserialize)]
struct Entry {
    title: Option<String>,
    url: Option<String>,
    description: Option<String>,
    page_age: Option<String>,
    age: Option<String>,
}

/// What it says when it refuses.
#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorDetail,
}

#[derive(Deserialize)]
struct ErrorDetail {
    code: String,
}

pub(super) fn read(response: &FetchResponse) -> Result<ProviderAnswer, SearchFailure> {
    if let Some(failure) = wire::refused(response) {
        return Err(told_more(response, failure));
    }
    let answer: Answer = wire::json(response)?;
    if answer.kind != "search" {
        let why = "its answer is not one to a search";
        return Err(SearchFailure::new(FailureKind::BadAnswer, why));
    }
    let results = answer.web.map(|web| web.results).unwrap_or_default();
    let entries = wire::entries(results).map(|entry: Entry| FoundEntry {
        title: entry.title,
        url: entry.url,
        snippet: entry.description,
        date: entry.page_age.or(entry.age),
    });
    Ok(ProviderAnswer {
        entries: entries.collect(),
        has_more: answer.query.more_results_available,
        notes: Vec::new(),
    })
}

/// A failure as its codes and headers tell it: it refuses a key with the status for a bad request, and
/// has one status for two limits.
fn told_more(response: &FetchResponse, failure: SearchFailure) -> SearchFailure {
    let status = response.status;
    let code = wire::json(response).map(|answer: ErrorAnswer| answer.error.code);
    match (status, code.as_deref()) {
        (_, Ok("SUBSCRIPTION_TOKEN_INVALID")) => {
            SearchFailure::new(FailureKind::KeyRefused, "it does not accept the key").status(status)
        }
        (_, Ok("OPTION_NOT_IN_PLAN")) => {
            let why = "the plan of the key does not include web search";
            SearchFailure::new(FailureKind::KeyRefused, why).status(status)
        }
        (429, Ok("QUOTA_LIMITED")) => quota(response),
        (429, _) => match longest_empty_window(response) {
            Some((wait, true)) => quota(response).wait(wait),
            Some((wait, false)) if failure.wait_seconds().is_none() => failure.wait(wait),
            _ => failure,
        },
        _ => failure,
    }
}

fn quota(response: &FetchResponse) -> SearchFailure {
    let why = "the searches that the plan includes are used up";
    SearchFailure::new(FailureKind::QuotaUsedUp, why).status(response.status)
}

/// Windows up to this long are about haste, longer ones about what is paid for.
const HASTE_SECONDS: u64 = 60 * 60;

/// Of the limits that leave nothing, the longest time until one is lifted, and whether that is what a
/// plan includes. `X-RateLimit-Remaining: 0, 1000` with `X-RateLimit-Reset: 1, 1419704`.
fn longest_empty_window(response: &FetchResponse) -> Option<(u64, bool)> {
    let numbers = |name: &str| -> Vec<u64> {
        let value = wire::response_header(response, name).unwrap_or_default();
        let numbers = value.split(',').map(|number| number.trim().parse());
        numbers.map_while(Result::ok).collect()
    };
    let (left, reset) = (
        numbers("x-ratelimit-remaining"),
        numbers("x-ratelimit-reset"),
    );
    let empty = left.iter().zip(&reset).filter(|(left, _)| **left == 0);
    let wait = *empty.map(|(_, reset)| reset).max()?;
    let believed = wait.min(wire::MAX_WAIT_SECONDS);
    Some((believed, wait > HASTE_SECONDS))
}
