//! A workspace that is worked in through a connection, and looked at behind its back.

use std::{
    any::Any,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use haft_backends::remote::{
    Account, Connect, ConnectError, Connection, RemoteBackend, RemoteOptions, serve,
};
use haft_contract::{
    future::BoxFuture,
    ops::{BackendId, Operations},
};
use haft_testkit::suite::fixture::BackendFixture;
use tokio::task::JoinHandle;

use crate::suites::LocalFixture;

/// How much a stream of this process holds: little, so that back-pressure is met often.
const STREAM_BYTES: usize = 16 * 1024;

/// Connects to a server that runs as a task of this process.
#[derive(Default)]
pub(crate) struct InProcess {
    serving: Mutex<Vec<JoinHandle<()>>>,
    pub(crate) connected: AtomicUsize,
}

impl InProcess {
    /// Cuts every connection, as when a machine vanishes.
    pub(crate) fn cut(&self) {
        for serving in self.serving.lock().unwrap().drain(..) {
            serving.abort();
        }
    }
}

impl Connect for InProcess {
    fn connect(&self) -> BoxFuture<'_, Result<Connection, ConnectError>> {
        Box::pin(async {
            self.connected.fetch_add(1, Ordering::Relaxed);
            let (near, far) = tokio::io::duplex(STREAM_BYTES);
            let (far_reader, far_writer) = tokio::io::split(far);
            let serving = tokio::spawn(async move {
                let _ = serve(far_reader, far_writer, Account::default()).await;
            });
            self.serving.lock().unwrap().push(serving);
            let (reader, writer) = tokio::io::split(near);
            Ok(Connection {
                reader: Box::new(reader),
                writer: Box::new(writer),
                carrier: Box::new(()),
            })
        })
    }
}

/// A workspace of this machine, through a connection.
pub(crate) struct RemoteFixture {
    pub(crate) place: LocalFixture,
    pub(crate) operations: Operations,
    /// What must live as long as the connection.
    kept: Box<dyn Any>,
}

impl RemoteFixture {
    pub(crate) async fn over_stream() -> Self {
        Self::over(Arc::new(InProcess::default())).await
    }

    pub(crate) async fn over(connect: Arc<dyn Connect>) -> Self {
        let place = LocalFixture::new();
        let root = place.0.root.to_str().unwrap();
        let operations = connect_to(connect, root).await.unwrap();
        Self::with(place, operations, Box::new(()))
    }

    pub(crate) fn with(place: LocalFixture, operations: Operations, kept: Box<dyn Any>) -> Self {
        Self {
            place,
            operations,
            kept,
        }
    }
}

impl RemoteFixture {
    /// What was given to live as long as the connection.
    pub(crate) fn kept<T: 'static>(&self) -> &T {
        self.kept.downcast_ref().unwrap()
    }
}

pub(crate) async fn connect_to(
    connect: Arc<dyn Connect>,
    root: &str,
) -> Result<Operations, ConnectError> {
    let backend = BackendId::new("remote:test");
    RemoteBackend::connect(backend, connect, root, RemoteOptions::default()).await
}

impl BackendFixture for RemoteFixture {
    fn operations(&self) -> Operations {
        self.operations.clone()
    }

    async fn put(&self, path: &str, bytes: &[u8]) {
        self.place.put(path, bytes).await;
    }

    async fn put_directory(&self, path: &str) {
        self.place.put_directory(path).await;
    }

    async fn put_symlink(&self, path: &str, target: &str) {
        self.place.put_symlink(path, target).await;
    }

    async fn put_special(&self, path: &str) {
        self.place.put_special(path).await;
    }

    async fn set_mode(&self, path: &str, mode: u32) {
        self.place.set_mode(path, mode).await;
    }

    async fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        self.place.bytes(path).await
    }

    async fn names(&self, path: &str) -> Vec<String> {
        self.place.names(path).await
    }

    async fn put_outside(&self, name: &str, bytes: &[u8]) -> String {
        self.place.put_outside(name, bytes).await
    }

    async fn outside_bytes(&self, name: &str) -> Option<Vec<u8>> {
        self.place.outside_bytes(name).await
    }
}
