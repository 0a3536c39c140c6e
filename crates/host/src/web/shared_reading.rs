//! Reading documents, which every workspace of a host shares: each document is read by a process of its own,
//! and no tenant takes all the places there are.

use std::sync::Arc;

use haft_contract::{
    BoxFuture, ErrorKind,
    ops::{DocumentOps, DocumentText, OpsError, UntrustedDocument},
};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// The most documents that are read at a time, of all tenants.
pub(super) const MAX_READERS: usize = 16;

/// Reads within the share of a tenant.
pub(super) struct SharedReading {
    pub(super) inner: Arc<dyn DocumentOps>,
    /// What the tenant may take of the places.
    pub(super) own: Arc<Semaphore>,
    pub(super) all: Arc<Semaphore>,
}

impl SharedReading {
    async fn read_in_turn(
        &self,
        document: UntrustedDocument<'_>,
    ) -> Result<DocumentText, OpsError> {
        let until = Instant::now() + document.within;
        // The tenant's own place first: who waits for it takes none from others.
        let places = async { Ok((self.own.acquire().await?, self.all.acquire().await?)) };
        let places = timeout_at(until, places).await;
        let places: Result<_, tokio::sync::AcquireError> = places.map_err(|_| {
            let message = "too many documents are being read at a time";
            OpsError::new(ErrorKind::Unavailable, message)
        })?;
        let _places = places
            .map_err(|_| OpsError::new(ErrorKind::Unavailable, "reading documents has ended"))?;
        let within = until.saturating_duration_since(Instant::now());
        self.inner
            .read(UntrustedDocument { within, ..document })
            .await
    }
}

impl DocumentOps for SharedReading {
    fn read<'a>(
        &'a self,
        document: UntrustedDocument<'a>,
    ) -> BoxFuture<'a, Result<DocumentText, OpsError>> {
        Box::pin(self.read_in_turn(document))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use haft_contract::ops::{DocumentForm, DocumentKind};

    use super::*;

    /// Reads for ever, and counts.
    #[derive(Default)]
    struct Endless(AtomicUsize);

    impl DocumentOps for Endless {
        fn read<'a>(
            &'a self,
            _: UntrustedDocument<'a>,
        ) -> BoxFuture<'a, Result<DocumentText, OpsError>> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        }
    }

    fn document() -> UntrustedDocument<'static> {
        UntrustedDocument {
            bytes: b"",
            kind: DocumentKind::Plain,
            charset: None,
            url: "http://a/",
            form: DocumentForm::Text,
            within: Duration::from_millis(200),
        }
    }

    #[tokio::test]
    async fn a_tenant_that_takes_its_places_leaves_those_of_others() {
        let (inner, all) = (Arc::new(Endless::default()), Arc::new(Semaphore::new(3)));
        let of_tenant = || {
            Arc::new(SharedReading {
                inner: Arc::clone(&inner) as Arc<dyn DocumentOps>,
                own: Arc::new(Semaphore::new(2)),
                all: Arc::clone(&all),
            })
        };
        let (one, two) = (of_tenant(), of_tenant());
        let read = |reading: &Arc<SharedReading>| {
            let reading = Arc::clone(reading);
            tokio::spawn(async move { reading.read(document()).await })
        };
        let held: Vec<_> = (0..4).map(|_| read(&one)).collect();
        tokio::task::yield_now().await;
        assert_eq!(inner.0.load(Ordering::SeqCst), 2);
        let other = read(&two);
        tokio::task::yield_now().await;
        assert_eq!(inner.0.load(Ordering::SeqCst), 3);
        let late = held.into_iter().next_back().unwrap().await.unwrap();
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Unavailable);
        other.abort();
    }
}
