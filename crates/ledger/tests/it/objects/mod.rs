//! Artifacts in a real object storage, which each test starts for itself.

mod keeping;
mod outage;
mod retention;
mod suite;

use std::sync::Arc;

use haft_contract::host::ArtifactId;
use haft_ledger::{ExpiringArtifacts, LedgerOptions, ObjectStorage, StoredLedger};
use haft_testkit::object_server::ObjectServer;

use crate::{artifacts::kept, support::Fixture};

/// A server, and a directory for the record.
pub(crate) struct ObjectFixture {
    pub(crate) server: ObjectServer,
    pub(crate) fixture: Fixture,
}

impl ObjectFixture {
    pub(crate) fn new() -> Self {
        Self {
            server: ObjectServer::start(),
            fixture: Fixture::new(),
        }
    }

    pub(crate) fn storage(&self) -> ObjectStorage {
        let empty = ObjectStorage::new(self.server.address());
        let settings = self.server.settings().into_iter();
        settings.fold(empty, |storage, (name, value)| storage.setting(name, value))
    }

    pub(crate) fn options(&self) -> LedgerOptions {
        LedgerOptions {
            // Tests say when.
            retention: None,
            ..self.fixture.options().artifacts(self.storage())
        }
    }

    pub(crate) async fn open(&self) -> StoredLedger {
        StoredLedger::open(self.options()).await.unwrap().0
    }

    pub(crate) async fn artifacts(&self) -> Arc<dyn ExpiringArtifacts> {
        self.open().await.expiring_artifacts()
    }

    /// Everything that takes up space for artifacts, finished or not.
    pub(crate) fn kept(&self) -> usize {
        self.server.objects("kept/content/").len()
            + self.server.unfinished()
            + kept(&self.fixture).len()
    }
}

/// Where an artifact is.
pub(crate) fn key(id: ArtifactId) -> String {
    format!("kept/content/{id}")
}

pub(crate) async fn keep(artifacts: &Arc<dyn ExpiringArtifacts>, bytes: &[u8]) -> ArtifactId {
    let mut writer = artifacts.create().await.unwrap();
    for part in bytes.chunks(1_000_003) {
        writer.write(part).await.unwrap();
    }
    writer.finish().await.unwrap()
}

/// Bytes that do not repeat within a part.
pub(crate) fn long_content(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    content
}
