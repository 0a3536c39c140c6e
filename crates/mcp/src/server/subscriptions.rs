//! Which resources clients want to hear about. A mounted server is asked for each client that wants
//! one, because each is judged by the rules, and asked for no more once the last of them is gone.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::ErrorData;

/// How many resources all clients together may have subscribed to.
pub(super) const MAX_SUBSCRIPTIONS: usize = 10_000;

/// What a client is told then.
pub(super) fn too_many() -> ErrorData {
    ErrorData::invalid_request(
        "too many resources are subscribed to; unsubscribe from some first",
        None,
    )
}

/// The resources one client wants to hear about.
pub(super) type SubscribedUris = Arc<Mutex<BTreeSet<String>>>;

/// How many clients want each resource.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Mutex<HashMap<String, usize>>);

/// What follows from a client's wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionChange {
    /// The server must be asked.
    Ask,
    /// The server knows already.
    Nothing,
    /// There are too many.
    Refuse,
}

impl Subscriptions {
    fn wanted(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more client wants a resource.
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

    /// One client less wants a resource.
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
