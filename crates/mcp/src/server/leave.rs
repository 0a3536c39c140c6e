//! Cleans up after a client that is gone: first ends what waits for it, then unsubscribes from the
//! mounted servers' resources that only it had subscribed to.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use haft_contract::Principal;
use tokio_util::sync::CancellationToken;

use super::{
    caller::ServedCaller,
    endpoint::{Endpoint, SessionScope},
    subscriptions::SubscriptionChange,
};

/// How long unsubscribing may take. A server that was not reached by then sends a useless message
/// now and then, which costs Haft nothing.
const UNSUBSCRIBE_WITHIN: Duration = Duration::from_secs(5);

/// How long the call in progress at that point has to end once cancelled.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);

/// The resources that a client listens to. Dropping it unsubscribes.
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
        // Without a runtime to do this, the end of the process does it.
        if let Ok(handle) = tokio::runtime::Handle::try_current() {
            handle.spawn(async move { unsubscribe(&endpoint, &served, &principal, uris).await });
        }
    }
}

/// Ends everything a client left behind.
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

/// Removes a client's subscriptions, and unsubscribes at the servers from those that nobody else
/// has.
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
            // Somebody may have subscribed while the others were processed.
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
