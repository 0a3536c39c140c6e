//! What is left to do for a client that is gone: what waits for it is ended first, then mounted
//! servers are told that nobody wants news of what it alone had subscribed to.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft_contract::Principal;
use tokio_util::sync::CancellationToken;

use super::{
    caller::ServedCaller,
    endpoint::{Endpoint, SessionScope},
    subscriptions::SubscriptionChange,
};

/// How long mounted servers have to hear that nobody wants news any more. What they were not told
/// then costs them a message now and then, and Haft nothing.
const UNSUBSCRIBE_WITHIN: Duration = Duration::from_secs(5);

/// How long the call that is under way then has to end by its cancel.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);

/// The resources a client listens to for as long as this lives.
pub(super) struct ResourceListener {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) served: ServedCaller,
    pub(super) principal: Arc<Principal>,
    pub(super) uris: BTreeSet<String>,
}

impl Drop for ResourceListener {
    fn drop(&mut self) {
        let uris = std::mem::take(&mut self.uris).into_iter().collect();
        let (endpoint, principal) = (Arc::clone(&self.endpoint), Arc::clone(&self.principal));
        let served = self.served.clone();
        // Without a runtime to do it, the end of the process does.
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.spawn(async move { unsubscribe(&endpoint, &served, &principal, uris).await });
        }
    }
}

/// Ends what a client left behind.
pub(super) async fn leave(
    endpoint: &Endpoint,
    served: &ServedCaller,
    principal: &Arc<Principal>,
    uris: Vec<String>,
) {
    endpoint.approvals.end(principal);
    match endpoint.sessions {
        SessionScope::OfEndpoint => {}
        SessionScope::OfConnection => endpoint.runtime.end_session(principal).await,
    }
    unsubscribe(endpoint, served, principal, uris).await;
}

/// Takes a client's subscriptions away, and tells the servers of those that nobody else has.
async fn unsubscribe(
    endpoint: &Endpoint,
    served: &ServedCaller,
    principal: &Arc<Principal>,
    mut uris: Vec<String>,
) {
    uris.retain(|uri| endpoint.subscriptions.fewer(uri) == SubscriptionChange::Ask);
    let over = CancellationToken::new();
    let telling = async {
        for uri in uris {
            // While others were told, somebody may have come to want it.
            let is_over = over.is_cancelled() || endpoint.subscriptions.is_wanted(&uri);
            let mounts = endpoint.mounts_for(&served.caller).filter(|_| !is_over);
            let fetch = mounts.and_then(|mounts| mounts.subscription(&uri, false));
            if let Some(fetch) = fetch {
                let request = served.placed(fetch.request(Arc::clone(principal)));
                endpoint.runtime.call_until(request, over.clone()).await;
            }
        }
    };
    let deadline = async {
        tokio::time::sleep(UNSUBSCRIBE_WITHIN).await;
        over.cancel();
        tokio::time::sleep(CANCEL_WITHIN).await;
    };
    tokio::select! {
        () = telling => {}
        () = deadline => {}
    }
}
