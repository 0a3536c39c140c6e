//! Search providers: what each is asked, and what its answer means. One file a provider, written after
//! its public documentation. Nothing here connects to anything; `searching.rs` does.

mod brave;
mod failure;
mod question;
mod searxng;
mod settings;
mod tavily;
mod wire;

pub use question::SearchTimeRange;
pub use settings::{ConfiguredProvider, SearchProviderConfig, WebSearchConfig};

pub(super) use failure::{FailureKind, SearchFailure};
pub(super) use question::{Domain, MAX_COUNT, MAX_DOMAINS, MAX_PAGE, MAX_QUERY, SearchQuestion};
pub(super) use settings::{ProviderKind, SearchProvider};
pub(super) use wire::{FoundEntry, ProviderAnswer, ProviderRequest};

use haft_contract::{ops::FetchResponse, secret::Secret};

impl SearchProvider {
    /// The request that asks it.
    pub(super) fn request(
        &self,
        question: &SearchQuestion<'_>,
        key: Option<&Secret>,
    ) -> Result<ProviderRequest, SearchFailure> {
        match self.kind {
            ProviderKind::Brave => brave::request(&self.path, question, key),
            ProviderKind::Searxng => Ok(searxng::request(&self.path, question)),
            ProviderKind::Tavily => tavily::request(&self.path, question, key),
        }
    }

    /// What it answered, or why that is no answer.
    pub(super) fn read(
        &self,
        question: &SearchQuestion<'_>,
        response: &FetchResponse,
    ) -> Result<ProviderAnswer, SearchFailure> {
        match self.kind {
            ProviderKind::Brave => brave::read(response),
            ProviderKind::Searxng => searxng::read(question, response),
            ProviderKind::Tavily => tavily::read(question, response),
        }
    }
}
