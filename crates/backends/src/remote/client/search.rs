//! Search over a remote workspace. Files are searched where they are; only results are sent.

use std::sync::Arc;

use haft_contract::{
    WorkPath,
    future::BoxFuture,
    ops::{FindQuery, FindResults, GrepQuery, GrepResults, OpsError, SearchOps},
};
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use super::{LONG_LIMIT, exchange::RoundTrip, peer::Peer};
use crate::{
    local,
    remote::{
        convert::MalformedMessage,
        wire::{self, Request},
    },
};

/// The largest result.
const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// Search over a remote workspace.
pub(super) struct RemoteSearch {
    peer: Arc<Peer>,
}

impl RemoteSearch {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        Self { peer }
    }

    async fn search<T: DeserializeOwned>(
        &self,
        request: Request,
        cancel: &CancellationToken,
    ) -> Result<T, OpsError> {
        let mut data = Vec::new();
        let ask = RoundTrip::new(request, LONG_LIMIT).result(MAX_RESULT_BYTES);
        ask.unless(cancel, &self.peer, &mut data, &|_| {}).await?;
        Ok(serde_json::from_slice(&data).map_err(|_| MalformedMessage("result"))?)
    }
}

impl SearchOps for RemoteSearch {
    fn grep<'a>(&'a self, query: GrepQuery<'a>) -> BoxFuture<'a, Result<GrepResults, OpsError>> {
        Box::pin(async move {
            let request = Request::Grep((&query).into());
            let results: wire::GrepResults = self.search(request, query.cancel).await?;
            let results = results.into();
            query.tell_page(&results);
            Ok(results)
        })
    }

    fn find<'a>(&'a self, query: FindQuery<'a>) -> BoxFuture<'a, Result<FindResults, OpsError>> {
        Box::pin(async move {
            let request = Request::Find((&query).into());
            let results: wire::FindResults = self.search(request, query.cancel).await?;
            let results = results.into();
            query.tell_page(&results);
            Ok(results)
        })
    }

    /// The patterns are the operator's and the path is text: no request is needed.
    fn withholds(&self, withheld: &[String], path: &WorkPath) -> Result<bool, OpsError> {
        local::withholds(withheld, path)
    }
}
