//! Gathers a server's change notifications briefly, so that a flood of them becomes one.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::sync::broadcast;

use crate::{
    mounts::CHANGES_KEPT,
    upstream::{
        connection::ServerChange,
        limits::{CHANGED_RESOURCES, COALESCE, URI_BYTES},
    },
};

/// Gathers changes and announces them.
#[derive(Debug)]
pub(crate) struct Notices {
    gathered: Arc<Mutex<GatheredNotices>>,
    tell: broadcast::Sender<ServerChange>,
}

#[derive(Debug, Default)]
struct GatheredNotices {
    definitions: bool,
    resources: BTreeSet<String>,
    /// Whether an announcement is already scheduled.
    awaited: bool,
}

impl Notices {
    pub(crate) fn new() -> Self {
        Self {
            gathered: Arc::default(),
            tell: broadcast::Sender::new(CHANGES_KEPT),
        }
    }

    /// Changes from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<ServerChange> {
        self.tell.subscribe()
    }

    /// Handles a server notification; one that reports no change is ignored.
    pub(crate) fn take(&self, method: &str, parameters: &Value) {
        match method {
            "notifications/tools/list_changed"
            | "notifications/prompts/list_changed"
            | "notifications/resources/list_changed" => self.definitions(),
            "notifications/resources/updated" => {
                if let Some(uri) = parameters.get("uri").and_then(Value::as_str) {
                    self.resource(uri);
                }
            }
            _ => {}
        }
    }

    /// One of the lists changed, or may have.
    pub(crate) fn definitions(&self) {
        let mut gathered = lock(&self.gathered);
        gathered.definitions = true;
        self.soon(gathered);
    }

    fn resource(&self, uri: &str) {
        let mut gathered = lock(&self.gathered);
        if uri.len() <= URI_BYTES && gathered.resources.len() < CHANGED_RESOURCES {
            gathered.resources.insert(uri.to_owned());
        } else {
            gathered.definitions = true;
        }
        self.soon(gathered);
    }

    /// Schedules an announcement of what is gathered.
    fn soon(&self, mut gathered: MutexGuard<'_, GatheredNotices>) {
        if std::mem::replace(&mut gathered.awaited, true) {
            return;
        }
        drop(gathered);
        let gathered = Arc::clone(&self.gathered);
        let tell = self.tell.clone();
        tokio::spawn(async move {
            tokio::time::sleep(COALESCE).await;
            let GatheredNotices {
                definitions,
                resources,
                ..
            } = std::mem::take(&mut *lock(&gathered));
            if definitions {
                let _ = tell.send(ServerChange::Definitions);
            }
            for uri in resources {
                let _ = tell.send(ServerChange::Resource(uri));
            }
        });
    }
}

fn lock(gathered: &Mutex<GatheredNotices>) -> MutexGuard<'_, GatheredNotices> {
    gathered.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_changes_is_told_once() {
        let notices = Notices::new();
        let mut told = notices.subscribe();
        for _ in 0..100_000 {
            notices.take("notifications/tools/list_changed", &json!({}));
            notices.take("notifications/resources/updated", &json!({ "uri": "a:b" }));
        }
        tokio::time::sleep(2 * COALESCE).await;
        assert_eq!(told.try_recv(), Ok(ServerChange::Definitions));
        assert_eq!(
            told.try_recv(),
            Ok(ServerChange::Resource("a:b".to_owned()))
        );
        assert!(told.try_recv().is_err());
        notices.take("notifications/prompts/list_changed", &json!({}));
        tokio::time::sleep(2 * COALESCE).await;
        assert_eq!(told.try_recv(), Ok(ServerChange::Definitions));
    }
}
