//! Announces what changed to clients. A burst of changes is announced once.

use std::{collections::BTreeSet, sync::PoisonError, time::Duration};

use rmcp::{
    Peer, RoleServer, model::ResourceUpdatedNotificationParam, service::SubscriptionContext,
};
use tokio::{
    sync::{broadcast, watch},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{caller::ServedCaller, endpoint::Endpoint, subscriptions::SubscribedUris};
use crate::mounts::Change;

/// How long changes are collected before they are announced.
const GATHER: Duration = Duration::from_millis(50);

/// The most changed resources announced individually in one burst. Past it, a change of the
/// resource list is announced instead.
const MAX_RESOURCES: usize = 64;

/// The changes of an endpoint from now on.
pub(super) struct Changes {
    tools: Option<watch::Receiver<u64>>,
    /// Other rules may hide tools or show them.
    rules: Option<watch::Receiver<u64>>,
    mounts: Option<broadcast::Receiver<Change>>,
}

impl Changes {
    pub(super) fn of(endpoint: &Endpoint, served: &ServedCaller) -> Self {
        let workspace = served.workspace.as_ref();
        Self {
            tools: workspace.map(|workspace| workspace.registry().changes()),
            rules: workspace.map(|workspace| workspace.rules().changes()),
            mounts: endpoint
                .mounts_for(&served.caller)
                .map(|mounts| mounts.changes()),
        }
    }

    /// Announces changes to a client that began with `initialize`, until it is gone.
    pub(super) async fn announce(
        mut self,
        peer: Peer<RoleServer>,
        subscribed: SubscribedUris,
        gone: CancellationToken,
    ) {
        loop {
            let burst = tokio::select! {
                burst = self.next() => burst,
                () = gone.cancelled() => return,
            };
            for change in burst {
                let told = match change {
                    Change::Tools => peer.notify_tool_list_changed().await,
                    Change::Prompts => peer.notify_prompt_list_changed().await,
                    Change::Resources => peer.notify_resource_list_changed().await,
                    Change::Resource(uri) => {
                        if !wants(&subscribed, &uri) {
                            continue;
                        }
                        let updated = ResourceUpdatedNotificationParam::new(uri);
                        peer.notify_resource_updated(updated).await
                    }
                };
                if let Err(error) = told {
                    tracing::debug!(%error, "a change could not be announced");
                    return;
                }
            }
        }
    }

    /// Announces changes to a client that listens, until it or its connection is gone. It only
    /// learns about resources that it subscribed to and may see.
    pub(super) async fn tell(
        mut self,
        context: &SubscriptionContext,
        wanted: &BTreeSet<String>,
        gone: &CancellationToken,
    ) {
        let sink = context.sink();
        loop {
            let burst = tokio::select! {
                burst = self.next() => burst,
                () = context.cancelled() => return,
                () = gone.cancelled() => return,
            };
            for change in burst {
                // The sink refuses what the client did not ask for, as intended.
                let told = match change {
                    Change::Tools => sink.notify_tool_list_changed().await,
                    Change::Prompts => sink.notify_prompt_list_changed().await,
                    Change::Resources => sink.notify_resource_list_changed().await,
                    Change::Resource(uri) if !wanted.contains(&uri) => continue,
                    Change::Resource(uri) => sink.notify_resource_updated(uri).await,
                };
                if let Err(error) = told {
                    tracing::debug!(%error, "a change was not announced");
                }
            }
        }
    }

    /// The next burst of changes, without duplicates. Waits forever if nothing can change any more.
    async fn next(&mut self) -> Vec<Change> {
        let mut burst = Burst(Vec::new());
        self.take_one(&mut burst).await;
        let end = Instant::now() + GATHER;
        loop {
            tokio::select! {
                () = sleep_until(end) => return burst.0,
                () = self.take_one(&mut burst) => {}
            }
        }
    }

    async fn take_one(&mut self, burst: &mut Burst) {
        loop {
            let Self {
                tools,
                rules,
                mounts,
            } = self;
            let of_mounts = async {
                match mounts {
                    Some(mounts) => mounts.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                alive = changed(tools) => {
                    if alive {
                        return burst.add(Change::Tools);
                    }
                    self.tools = None;
                }
                alive = changed(rules) => {
                    if alive {
                        return burst.add(Change::Tools);
                    }
                    self.rules = None;
                }
                change = of_mounts => match change {
                    Ok(change) => return burst.add(change),
                    Err(broadcast::error::RecvError::Lagged(_)) => {
                        burst.add(Change::Tools);
                        burst.add(Change::Resources);
                        return burst.add(Change::Prompts);
                    }
                    Err(broadcast::error::RecvError::Closed) => self.mounts = None,
                }
            }
        }
    }
}

/// Waits for a count to change; forever if there is none. Whether it can change again.
async fn changed(count: &mut Option<watch::Receiver<u64>>) -> bool {
    match count {
        Some(count) => count.changed().await.is_ok(),
        None => std::future::pending().await,
    }
}

fn wants(subscribed: &SubscribedUris, uri: &str) -> bool {
    let wanted = subscribed.lock().unwrap_or_else(PoisonError::into_inner);
    wanted.contains(uri)
}

struct Burst(Vec<Change>);

impl Burst {
    fn add(&mut self, change: Change) {
        let change = match change {
            Change::Resource(_) if self.0.len() >= MAX_RESOURCES => Change::Resources,
            change => change,
        };
        if !self.0.contains(&change) {
            self.0.push(change);
        }
    }
}
