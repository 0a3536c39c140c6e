//! Changes in the stateless era: one long request that the server answers with notifications. It is
//! sent again when it breaks, and when the subscriptions change.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Inner, OutgoingRequest};
use crate::upstream::{
    connection::RequestError,
    limits::{REOPEN, SUBSCRIPTIONS},
    wire::{RequestPurpose, Wire, message::Refusal},
};

/// The wait after the first break; it doubles with each quick further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct SubscribedResources {
    uris: Mutex<BTreeSet<String>>,
    changed: Notify,
}

impl SubscribedResources {
    /// Adds or removes a resource.
    pub(super) fn set(&self, uri: &str, wanted: bool) -> Result<(), RequestError> {
        let mut uris = self.uris.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = if wanted {
            if uris.len() >= SUBSCRIPTIONS {
                let why = format!("more than {SUBSCRIPTIONS} resources are subscribed to");
                return Err(RequestError::NotSent(why));
            }
            uris.insert(uri.to_owned())
        } else {
            uris.remove(uri)
        };
        drop(uris);
        if changed {
            self.changed.notify_one();
        }
        Ok(())
    }

    fn uris(&self) -> Vec<String> {
        let uris = self.uris.lock().unwrap_or_else(PoisonError::into_inner);
        uris.iter().cloned().collect()
    }
}

/// Listens until the session ends.
pub(super) async fn listen<W: Wire>(session: Arc<Inner<W>>) {
    let mut wait = FIRST_WAIT;
    let mut again = false;
    loop {
        let Some(parameters) = wanted(&session) else {
            // Nothing to listen for yet.
            tokio::select! {
                () = session.ended.cancelled() => return,
                () = session.subscribed.changed.notified() => continue,
            }
        };
        if again {
            // Something may have changed while nobody listened.
            session.notices.definitions();
        }
        let began = tokio::time::Instant::now();
        let replaced = CancellationToken::new();
        let sending = OutgoingRequest {
            method: "subscriptions/listen",
            parameters: &parameters,
            purpose: RequestPurpose::Own,
            until: None,
            progress: None,
            client: None,
        };
        let ended = tokio::select! {
            () = session.ended.cancelled() => return,
            // Dropping the request notifies the server.
            () = session.subscribed.changed.notified() => None,
            ended = session.exchange(sending, &replaced) => Some(ended),
        };
        match ended {
            None => {
                again = false;
                continue;
            }
            Some(Err(RequestError::Answered { code, .. })) if code == Refusal::unknown("").code => {
                return;
            }
            Some(Ok(_) | Err(_)) => again = true,
        }
        if began.elapsed() > REOPEN {
            wait = FIRST_WAIT;
        }
        tokio::select! {
            () = session.ended.cancelled() => return,
            () = tokio::time::sleep(wait) => wait = (2 * wait).min(REOPEN),
        }
    }
}

/// What to listen for: the notifications the server supports, and the subscribed resources.
fn wanted<W: Wire>(session: &Inner<W>) -> Option<Value> {
    let mut filter = Map::new();
    for (flag, pointer) in [
        ("toolsListChanged", "/tools/listChanged"),
        ("promptsListChanged", "/prompts/listChanged"),
        ("resourcesListChanged", "/resources/listChanged"),
    ] {
        if session.agreed.offers(pointer) {
            filter.insert(flag.to_owned(), json!(true));
        }
    }
    let uris = session.subscribed.uris();
    if !uris.is_empty() {
        filter.insert("resourceSubscriptions".to_owned(), json!(uris));
    }
    (!filter.is_empty()).then(|| json!({ "notifications": filter }))
}
