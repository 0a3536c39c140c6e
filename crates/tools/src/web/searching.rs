//! Asks search providers in their order. The next one is asked only if the one before it failed in a way
//! that nobody has to set right; what failed is part of the result.

use std::{sync::Arc, time::Duration};

use haft_contract::{
    CallContext, ErrorKind, NoProgress, ToolError,
    ops::{Fetch, FetchResponse, OpsError},
    secret::{ReadSecret, Secret},
};

use super::{
    answer::said_plainly,
    search_providers::{
        FailureKind, ProviderAnswer, ProviderRequest, SearchFailure, SearchProvider, SearchQuestion,
    },
};
use crate::script::redact::SecretForms;

/// The most bytes of an answer.
const MAX_ANSWER: usize = 2 * 1024 * 1024;

/// The longest a provider is waited for.
const MAX_ANSWER_TIME: Duration = Duration::from_secs(15);

/// Time that is left for what follows an answer.
const RESERVE: Duration = Duration::from_millis(500);

/// The longest wait, in seconds, after which the last provider is asked once more.
const MAX_SHORT_WAIT: u64 = 2;

/// A provider that failed, and why.
#[derive(Debug)]
pub(super) struct FailedProvider<'p> {
    pub(super) provider: &'p SearchProvider,
    pub(super) failure: SearchFailure,
}

/// What the first provider that answered gave.
#[derive(Debug)]
pub(super) struct AnsweredSearch<'p> {
    pub(super) provider: &'p SearchProvider,
    pub(super) answer: ProviderAnswer,
    /// Those that were asked before it.
    pub(super) failed: Vec<FailedProvider<'p>>,
    /// The keys that were used, to be kept out of what is shown.
    pub(super) keys: SecretForms,
}

/// Why there are no results.
pub(super) enum NotFound<'p> {
    /// All that were asked failed; the last of them last.
    Failed(Vec<FailedProvider<'p>>),
    /// The call itself may not or need not go on.
    Ended(ToolError),
}

/// Why one provider gave nothing.
enum AskError {
    Failed(SearchFailure),
    Ended(ToolError),
}

impl From<SearchFailure> for AskError {
    fn from(failure: SearchFailure) -> Self {
        Self::Failed(failure)
    }
}

/// Asks one after the other.
pub(super) async fn search<'p>(
    cx: &CallContext<NoProgress>,
    providers: &'p [SearchProvider],
    secrets: Option<&Arc<dyn ReadSecret>>,
    question: &SearchQuestion<'_>,
) -> Result<AnsweredSearch<'p>, NotFound<'p>> {
    let mut failed = Vec::new();
    let mut used = Vec::new();
    for (index, provider) in providers.iter().enumerate() {
        let left = providers.len() - index;
        let asked = async {
            let key = read_key(provider, secrets).await?;
            used.extend(key.clone());
            let is_last = left == 1;
            match ask(cx, provider, key.as_ref(), question, left).await {
                Err(AskError::Failed(failure)) if is_last => {
                    let Some(wait) = short_wait(cx, &failure) else {
                        return Err(AskError::Failed(failure));
                    };
                    tokio::time::sleep(wait).await;
                    ask(cx, provider, key.as_ref(), question, left).await
                }
                other => other,
            }
        };
        let asked = tokio::select! {
            biased;
            () = cx.cancel().cancelled() => {
                let stopped = ToolError::new(ErrorKind::Cancelled, "searching was stopped");
                Err(AskError::Ended(stopped))
            }
            asked = asked => asked,
        };
        match asked {
            Ok(answer) => {
                return Ok(AnsweredSearch {
                    provider,
                    answer,
                    failed,
                    keys: SecretForms::of(&used),
                });
            }
            Err(AskError::Ended(error)) => return Err(NotFound::Ended(error)),
            Err(AskError::Failed(failure)) => {
                let goes_on = failure.kind().asks_the_next();
                failed.push(FailedProvider { provider, failure });
                if !goes_on {
                    break;
                }
            }
        }
    }
    Err(NotFound::Failed(failed))
}

async fn read_key(
    provider: &SearchProvider,
    secrets: Option<&Arc<dyn ReadSecret>>,
) -> Result<Option<Secret>, SearchFailure> {
    let Some(reference) = &provider.key else {
        return Ok(None);
    };
    let none = |why: String| {
        SearchFailure::new(FailureKind::NoKey, format!("its key is not there: {why}"))
    };
    let secrets = secrets.ok_or_else(|| none("nothing here gives keys to tools".to_owned()))?;
    secrets.read(reference).await.map(Some).map_err(none)
}

/// How long to wait before asking once more, if a provider asks for no more than a moment.
fn short_wait(cx: &CallContext<NoProgress>, failure: &SearchFailure) -> Option<Duration> {
    let is_short = |wait: &u64| *wait <= MAX_SHORT_WAIT;
    let wait = failure.wait_seconds().filter(is_short)?;
    let wait = Duration::from_secs(wait.max(1));
    let is_haste = failure.kind() == FailureKind::RateLimited;
    (is_haste && cx.remaining() > wait * 2 + RESERVE).then_some(wait)
}

/// Asks one provider. `left` is how many may still be asked, this one too: all of them share the time.
async fn ask(
    cx: &CallContext<NoProgress>,
    provider: &SearchProvider,
    key: Option<&Secret>,
    question: &SearchQuestion<'_>,
    left: usize,
) -> Result<ProviderAnswer, AskError> {
    let request = provider.request(question, key)?;
    let share = u32::try_from(left).unwrap_or(1).max(1);
    let within = cx.remaining().saturating_sub(RESERVE) / share;
    let within = within.min(MAX_ANSWER_TIME);
    // Not again where the connection was lost: the provider may have seen the request, and counts it.
    let response = fetch(cx, provider, &request, within).await;
    let response = response.map_err(|error| failure_of(error, within))?;
    Ok(provider.read(question, &response)?)
}

async fn fetch(
    cx: &CallContext<NoProgress>,
    provider: &SearchProvider,
    request: &ProviderRequest,
    within: Duration,
) -> Result<FetchResponse, OpsError> {
    let request = Fetch {
        method: request.method,
        scheme: provider.scheme,
        host: &provider.host,
        port: provider.port,
        target: &request.target,
        headers: &request.headers,
        body: &request.body,
        max_bytes: MAX_ANSWER,
        within,
        keep: false,
    };
    cx.net().fetch(request).await
}

/// What a request without an answer means.
fn failure_of(error: OpsError, within: Duration) -> AskError {
    let failure = match error.kind() {
        ErrorKind::TimedOut => {
            let why = format!("it did not answer within {:.1} s", within.as_secs_f64());
            SearchFailure::new(FailureKind::TimedOut, why)
        }
        ErrorKind::Unavailable | ErrorKind::Lost | ErrorKind::Io => {
            let why = format!("it cannot be reached: {}", said_plainly(&error).message());
            SearchFailure::new(FailureKind::Unreachable, why)
        }
        ErrorKind::LimitExceeded => {
            let why = format!("its answer is larger than {} MiB", MAX_ANSWER / 1024 / 1024);
            SearchFailure::new(FailureKind::BadAnswer, why)
        }
        // Refused, or no longer wanted: asking somebody else would be the wrong answer to that.
        _ => return AskError::Ended(said_plainly(&error)),
    };
    AskError::Failed(failure)
}
