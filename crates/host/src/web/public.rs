//! What tools reach of the web: its public part and the hosts that the operator named. Tenants share no
//! connection, and none takes all the lookups and readers there are.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use haft_contract::{
    TenantId,
    egress::HostRule,
    ops::{NetOps, World},
};
use haft_egress::{AdmissionScope, Network, OwnHosts, SystemResolver};
use haft_runtime::Limits;
#[cfg(feature = "settings")]
use haft_tools::web::web_fetch::{WebFetchConfig, WebFetchTool};
use tokio::sync::Semaphore;

use super::shared_reading::{MAX_READERS, SharedReading};
#[cfg(feature = "settings")]
use crate::{
    config::{
        Settings,
        web_tools::{http_operations, search_settings},
    },
    error::HostError,
};

/// The most tenants whose connections are kept apart; when there are more, all are made anew.
const MAX_POOLS: usize = 256;

/// The web as a host opens it for workspaces.
pub(crate) struct WebAccess {
    /// Hosts that are not public, as the operator named them.
    named: Vec<HostRule>,
    resolver: SystemResolver,
    /// Places for all readers of documents.
    readers: Arc<Semaphore>,
    limits: Limits,
    pools: Mutex<HashMap<TenantId, TenantAccess>>,
}

/// What a tenant has of its own.
#[derive(Clone)]
struct TenantAccess {
    net: Arc<dyn NetOps>,
    /// What it may take of the places for readers.
    readers: Arc<Semaphore>,
}

impl Default for WebAccess {
    fn default() -> Self {
        Self {
            named: Vec::new(),
            resolver: SystemResolver::default(),
            readers: Arc::new(Semaphore::new(MAX_READERS)),
            limits: Limits::default(),
            pools: Mutex::default(),
        }
    }
}

impl WebAccess {
    /// What the settings of the tools `web_fetch`, `web_search` and `http` say.
    #[cfg(feature = "settings")]
    pub(crate) fn of(settings: &Settings) -> Result<Self, HostError> {
        let mut named = Vec::new();
        let name = <WebFetchTool as haft_contract::Tool>::NAME;
        for (_, tool) in settings.tools.iter().filter(|(_, tool)| tool.kind == name) {
            // What else is wrong with it is said where the tool is built.
            let config: WebFetchConfig =
                serde_json::from_value(tool.config.clone()).unwrap_or_default();
            for text in &config.private_hosts {
                named.push(named_host(text).map_err(|why| {
                    let message = format!("{}: `{text}` in `private_hosts`: {why}", tool.place);
                    HostError::config(
                        message,
                        "write a host and a port, such as `wiki.internal:443`",
                    )
                })?);
            }
        }
        for (place, config) in search_settings(settings) {
            for rule in config.named_hosts() {
                refuse_never_granted(&rule).map_err(|why| {
                    let message = format!("{place}: `url` of a provider: {why}");
                    HostError::config(message, "write where the provider is")
                })?;
                named.push(rule);
            }
        }
        for (tool, operation) in http_operations(settings) {
            if let Some(rule) = operation.private_host() {
                refuse_never_granted(&rule).map_err(|why| {
                    let message = format!("{}: `url` of `{}`: {why}", tool.place, tool.name);
                    HostError::config(message, "write where the API is")
                })?;
                named.push(rule);
            }
        }
        let mut limits = Limits::default();
        settings.limits_set.apply(&mut limits);
        Ok(Self {
            named,
            limits,
            ..Self::default()
        })
    }

    /// Opens the web to the tools of a tenant, and what it brings to the readers.
    pub(crate) fn open_to(&self, tenant: &TenantId, world: &mut World) {
        let access = self.of_tenant(tenant);
        world.net = access.net;
        world.documents = Arc::new(SharedReading {
            inner: Arc::clone(&world.documents),
            own: access.readers,
            all: Arc::clone(&self.readers),
        });
    }

    /// The network for a tenant. Hosts that rules let a tool reach by name must be public: if a
    /// public name resolves to a private address, that is not what was allowed.
    fn of_tenant(&self, tenant: &TenantId) -> TenantAccess {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = pools.get(tenant) {
            return known.clone();
        }
        if pools.len() >= MAX_POOLS {
            pools.clear();
        }
        let scope = AdmissionScope::Public(OwnHosts {
            exact: self.named.clone(),
            ..OwnHosts::default()
        });
        let resolver = Arc::new(self.resolver.share(self.limits.lookups_per_tenant));
        let access = TenantAccess {
            net: Arc::new(Network::new(scope, resolver)),
            readers: Arc::new(Semaphore::new(self.limits.readers_per_tenant)),
        };
        pools.insert(tenant.clone(), access.clone());
        access
    }
}

/// A host that is named with its port.
#[cfg(feature = "settings")]
fn named_host(text: &str) -> Result<HostRule, String> {
    let rule = HostRule::parse(text).map_err(|error| error.to_string())?;
    if rule.host().is_none() || rule.port().is_none() {
        return Err("it must be one host and its port".to_owned());
    }
    refuse_never_granted(&rule)?;
    Ok(rule)
}

#[cfg(feature = "settings")]
fn refuse_never_granted(rule: &HostRule) -> Result<(), String> {
    match haft_egress::never_granted(rule) {
        Some(why) => Err(format!("nothing reaches it: {why}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_share_no_connection() {
        let web = WebAccess::default();
        let (one, two) = (
            TenantId::parse("one").unwrap(),
            TenantId::parse("two").unwrap(),
        );
        let of = |tenant: &TenantId| Arc::as_ptr(&web.of_tenant(tenant).net).cast::<()>();
        assert_eq!(of(&one), of(&one));
        assert_ne!(of(&one), of(&two));
    }

    #[cfg(feature = "settings")]
    #[test]
    fn a_private_host_is_one_host_with_its_port() {
        for right in [
            "wiki.internal:443",
            "127.0.0.1:8080",
            "[::1]:80",
            "localhost:3000",
        ] {
            assert!(named_host(right).is_ok(), "{right}");
        }
        for wrong in [
            "wiki.internal",
            "*.internal:80",
            "169.254.169.254:80",
            "0.0.0.0:80",
            "[::]:80",
            "[::ffff:0.0.0.0]:80",
            "http://a:1",
            "",
        ] {
            assert!(named_host(wrong).is_err(), "{wrong}");
        }
    }
}
