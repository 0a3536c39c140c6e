//! What all providers have in common: requests and answers as HTTP has them, JSON that may lack
//! anything, and words for statuses.

use haft_contract::{
    ops::FetchResponse,
    secret::{MIN_SECRET_BYTES, Secret},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::{FailureKind, SearchFailure};

/// The longest time that a provider is believed to ask for, in seconds: a month and a day.
pub(super) const MAX_WAIT_SECONDS: u64 = 32 * 24 * 60 * 60;

/// The most entries of an answer that are looked at.
const MAX_ENTRIES: usize = 200;

/// A request to a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::web) struct ProviderRequest {
    pub(in crate::web) method: &'static str,
    /// Path and query.
    pub(in crate::web) target: String,
    pub(in crate::web) headers: Vec<(String, String)>,
    pub(in crate::web) body: Vec<u8>,
}

/// What a provider answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::web) struct ProviderAnswer {
    /// The results as they came.
    pub(in crate::web) entries: Vec<FoundEntry>,
    /// Whether there may be another page.
    pub(in crate::web) has_more: bool,
    /// What a reader should know of it, in words of Haft's own.
    pub(in crate::web) notes: Vec<String>,
}

/// A result as it came: anything may be in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::web) struct FoundEntry {
    pub(in crate::web) title: Option<String>,
    pub(in crate::web) url: Option<String>,
    pub(in crate::web) snippet: Option<String>,
    pub(in crate::web) date: Option<String>,
}

/// The key as a header can have it.
pub(super) fn header_key(key: Option<&Secret>) -> Result<&str, SearchFailure> {
    let key = key.ok_or_else(|| {
        SearchFailure::new(FailureKind::NoKey, "it needs a key and none is configured")
    })?;
    let key = key.reveal().trim();
    if key.len() < MIN_SECRET_BYTES || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        let why = "what is kept as its key is not one: a key is one word of ASCII characters";
        return Err(SearchFailure::new(FailureKind::NoKey, why));
    }
    Ok(key)
}

/// A header.
pub(super) fn header(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// A header of a response.
pub(super) fn response_header<'r>(response: &'r FetchResponse, wanted: &str) -> Option<&'r str> {
    let found = response.headers.iter().find(|(name, _)| name == wanted);
    found.map(|(_, value)| value.as_str())
}

/// The whole body, if it is JSON of this form.
pub(super) fn json<T: DeserializeOwned>(response: &FetchResponse) -> Result<T, SearchFailure> {
    serde_json::from_slice(&response.body).map_err(|_| {
        if is_page(response) {
            let why = "it sent a page instead of results, as servers do that want a person to prove \
                       that they are one";
            return SearchFailure::new(FailureKind::Challenged, why);
        }
        SearchFailure::new(FailureKind::BadAnswer, "its answer cannot be understood")
    })
}

/// Each entry that is of this form. One odd entry spoils no other.
pub(super) fn entries<T: DeserializeOwned>(found: Vec<Value>) -> impl Iterator<Item = T> {
    let found = found.into_iter().take(MAX_ENTRIES);
    found.filter_map(|entry| serde_json::from_value(entry).ok())
}

/// Whether the body is a page for people.
pub(super) fn is_page(response: &FetchResponse) -> bool {
    let named = response_header(response, "content-type").unwrap_or_default();
    named
        .trim_start()
        .to_ascii_lowercase()
        .starts_with("text/html")
        || response.body.trim_ascii_start().starts_with(b"<")
}

/// Why a status that every provider has the same meaning for is no answer; `None` for a success.
pub(super) fn refused(response: &FetchResponse) -> Option<SearchFailure> {
    let status = response.status;
    let (kind, why) = match status {
        200..=299 => return None,
        300..=399 => (
            FailureKind::NotSetUp,
            "it redirects to another address, which is not followed",
        ),
        401 => (FailureKind::KeyRefused, "it does not accept the key"),
        403 if is_page(response) => (
            FailureKind::Challenged,
            "it refuses programs, or wants a person to prove that they are one",
        ),
        403 => (FailureKind::KeyRefused, "the key may not search there"),
        404 | 405 | 410 => (FailureKind::NotSetUp, "there is no search at its address"),
        402 => (
            FailureKind::QuotaUsedUp,
            "what the plan pays for is used up",
        ),
        408 | 504 => (FailureKind::TimedOut, "it did not answer in time itself"),
        429 => (FailureKind::RateLimited, "it is asked too often"),
        400..=499 => (FailureKind::BadRequest, "it does not accept the query"),
        _ => (FailureKind::ServerError, "it failed"),
    };
    let failure = SearchFailure::new(kind, why).status(status);
    let wait = response_header(response, "retry-after").and_then(seconds);
    Some(match (kind, wait) {
        (FailureKind::RateLimited | FailureKind::ServerError, Some(wait)) => failure.wait(wait),
        _ => failure,
    })
}

/// A number of seconds in a header. A date is not understood.
fn seconds(text: &str) -> Option<u64> {
    let seconds = text.trim().parse().ok()?;
    (seconds <= MAX_WAIT_SECONDS).then_some(seconds)
}
