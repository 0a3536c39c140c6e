//! Which resources clients subscribed to. A mounted server is asked once for each client, because
//! the rules judge each of them, and is unsubscribed from once the last client is gone.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::ErrorData;

/// The most subscriptions of all clients together.
pub(super) const MAX_SUBSCRIPTIONS: usize = 10_000;

/// The error past that limit.
pub(super) fn too_many() -> ErrorData {
    ErrorData::invalid_request(
        "too many resources are subscribed to; unsubscribe from some first",
        None,
    )
}

/// The resources one client subscribed to.
pub(super) type SubscribedUris = Arc<Mutex<BTreeSet<String>>>;

/// How many clients want each resource.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<HashMap<String, usize>>);

/// What to do about a client's subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionChange {
    /// The server must be asked.
    Ask,
    /// The server knows already.
    Nothing,
    /// There are too many subscriptions.
    Refuse,
}

impl Subscriptions {
    fn wanted(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more client for a resource.
    pub(super) fn more(&self, uri: &str) -> SubscriptionChange {
        let mut wanted = self.wanted();
        if let Some(count) = wanted.get_mut(uri) {
            *count += 1;
            return SubscriptionChange::Ask;
        }
        if wanted.len() >= MAX_SUBSCRIPTIONS {
            return SubscriptionChange::Refuse;
        }
        wanted.insert(uri.to_owned(), 1);
        SubscriptionChange::Ask
    }

    /// Whether any client wants a resource.
    pub(super) fn is_wanted(&self, uri: &str) -> bool {
        self.wanted().contains_key(uri)
    }

    /// Counts one client less for a resource.
    pub(super) fn fewer(&self, uri: &str) -> SubscriptionChange {
        let mut wanted = self.wanted();
        match wanted.get_mut(uri) {
            None => SubscriptionChange::Nothing,
            Some(count) if *count > 1 => {
                *count -= 1;
                SubscriptionChange::Nothing
            }
            Some(_) => {
                wanted.remove(uri);
                SubscriptionChange::Ask
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_for_each_client_and_after_the_last() {
        let subscriptions = Subscriptions::default();
        assert_eq!(subscriptions.more("a"), SubscriptionChange::Ask);
        assert_eq!(subscriptions.more("a"), SubscriptionChange::Ask);
        assert_eq!(subscriptions.fewer("a"), SubscriptionChange::Nothing);
        assert!(subscriptions.is_wanted("a"));
        assert_eq!(subscriptions.fewer("a"), SubscriptionChange::Ask);
        assert!(!subscriptions.is_wanted("a"));
        assert_eq!(subscriptions.fewer("a"), SubscriptionChange::Nothing);
    }
}
