//! Tavily: `POST /search` with the key as a bearer token, after
//! <https://docs.tavily.com/documentation/api-reference/endpoint/search>.

use haft_contract::{ops::FetchResponse, secret::Secret};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    failure::{FailureKind, SearchFailure},
    question::{Domain, MAX_COUNT, SearchQuestion, SearchTimeRange},
    wire::{self, FoundEntry, ProviderAnswer, ProviderRequest},
};

#[derive(Serialize)]
struct Question<'q> {
    query: &'q str,
    search_depth: &'static str,
    max_results: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_range: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    include_domains: Vec<&'q str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    exclude_domains: Vec<&'q str>,
}

pub(super) fn request(
    path: &str,
    question: &SearchQuestion<'_>,
    key: Option<&Secret>,
) -> Result<ProviderRequest, SearchFailure> {
    let key = wire::header_key(key)?;
    let asked = Question {
        query: question.query,
        search_depth: "basic",
        max_results: wanted(question)?,
        time_range: question.time_range.map(SearchTimeRange::as_str),
        include_domains: question.allowed.iter().map(Domain::as_str).collect(),
        exclude_domains: question.blocked.iter().map(Domain::as_str).collect(),
    };
    let body = serde_json::to_vec(&asked).map_err(|_| {
        SearchFailure::new(
            FailureKind::BadRequest,
            "the query cannot be written as JSON",
        )
    })?;
    Ok(ProviderRequest {
        method: "POST",
        target: format!("{path}/search"),
        headers: vec![
            wire::header("accept", "application/json"),
            wire::header("content-type", "application/json"),
            wire::header("authorization", &format!("Bearer {key}")),
        ],
        body,
    })
}

/// How many results are asked for. It has no pages: the first twenty are all there are.
fn wanted(question: &SearchQuestion<'_>) -> Result<usize, SearchFailure> {
    let before = question.page.saturating_sub(1) * question.count;
    if before >= MAX_COUNT {
        let why = format!("it gives the first {MAX_COUNT} results and no more");
        return Err(SearchFailure::new(FailureKind::BadRequest, why));
    }
    Ok((before + question.count).min(MAX_COUNT))
}

#[derive(Deserialize)]
struct Answer {
    results: Vec<Value>,
}

#[derive(Deserialize)]
struct Entry {
    title: Option<String>,
    url: Option<String>,
    content: Option<String>,
    published_date: Option<String>,
}

pub(super) fn read(
    question: &SearchQuestion<'_>,
    response: &FetchResponse,
) -> Result<ProviderAnswer, SearchFailure> {
    match response.status {
        // Its own statuses, for the plan and for what is paid as it goes.
        432 | 433 => {
            let why = "the searches that the plan includes are used up";
            let failure = SearchFailure::new(FailureKind::QuotaUsedUp, why);
            return Err(failure.status(response.status));
        }
        _ => {
            if let Some(failure) = wire::refused(response) {
                return Err(failure);
            }
        }
    }
    let answer: Answer = wire::json(response)?;
    let wanted = wanted(question)?;
    let given = answer.results.len();
    let before = question.page.saturating_sub(1) * question.count;
    let entries = wire::entries(answer.results).map(|entry: Entry| FoundEntry {
        title: entry.title,
        url: entry.url,
        snippet: entry.content,
        date: entry.published_date,
    });
    Ok(ProviderAnswer {
        entries: entries.skip(before).collect(),
        has_more: given >= wanted && wanted < MAX_COUNT,
        notes: Vec::new(),
    })
}
