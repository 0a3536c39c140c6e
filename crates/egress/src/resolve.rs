//! The operating system's resolver. It is asked once per connection; the caller checks its answer.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs as _},
    sync::Arc,
};

use haft_contract::{egress::Resolve, future::BoxFuture};
use tokio::sync::Semaphore;

/// The most lookups of one resolver at a time; each holds a thread until the system answers.
const MAX_LOOKUPS: usize = 16;

/// The resolver of the operating system.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    places: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let places = Arc::clone(&self.places);
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            let name = name.to_owned();
            let lookup = tokio::task::spawn_blocking(move || {
                let found = (name.as_str(), 0).to_socket_addrs();
                // Released when the system has answered, even if nobody waits any more.
                drop(place);
                found.map(|found| found.map(|address| address.ip()).collect())
            });
            lookup.await.map_err(io::Error::other)?
        })
    }
}
