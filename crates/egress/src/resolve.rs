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
    /// What whoever asks may take of the places.
    share: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            share: Arc::new(Semaphore::new(MAX_LOOKUPS)),
        }
    }
}

impl SystemResolver {
    /// The same for one of several who share it: they take at most so many of its places at a time.
    #[must_use]
    pub fn share(&self, most: usize) -> Self {
        Self {
            places: Arc::clone(&self.places),
            share: Arc::new(Semaphore::new(most.min(MAX_LOOKUPS))),
        }
    }

    /// Looks a name up by this in a place of its own.
    async fn look_up<T: Send + 'static>(
        &self,
        ask: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        // One's own first: who waits for it takes no place from others.
        let share = Arc::clone(&self.share).acquire_owned().await;
        let share = share.map_err(io::Error::other)?;
        let place = Arc::clone(&self.places).acquire_owned().await;
        let place = place.map_err(io::Error::other)?;
        let lookup = tokio::task::spawn_blocking(move || {
            let found = ask();
            // Released when the system has answered, even if nobody waits any more.
            drop((place, share));
            found
        });
        lookup.await.map_err(io::Error::other)?
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let name = name.to_owned();
        Box::pin(self.look_up(move || {
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    };

    use super::*;

    #[tokio::test]
    async fn who_asks_for_much_leaves_places_for_others() {
        let all = SystemResolver::default();
        let (one, two) = (all.share(2), all.share(2));
        let (asked, end) = (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(4)));
        let (say, said) = mpsc::channel();
        let slow = |of: &SystemResolver| {
            let (of, asked, end) = (of.clone(), Arc::clone(&asked), Arc::clone(&end));
            let say = say.clone();
            tokio::spawn(async move {
                let ask = move || {
                    asked.fetch_add(1, Ordering::SeqCst);
                    say.send(()).unwrap();
                    end.wait();
                    Ok(())
                };
                of.look_up(ask).await
            })
        };
        // Nobody waits for these any more, and their places are taken all the same.
        for lookup in [slow(&one), slow(&one)] {
            tokio::task::yield_now().await;
            said.recv().unwrap();
            lookup.abort();
        }
        let third = slow(&one);
        tokio::task::yield_now().await;
        let other = slow(&two);
        tokio::task::yield_now().await;
        said.recv().unwrap();
        assert_eq!(
            asked.load(Ordering::SeqCst),
            3,
            "two of one, one of the other"
        );
        third.abort();
        end.wait();
        other.await.unwrap().unwrap();
    }
}
